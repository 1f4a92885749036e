"""Simulated rows for the speed benchmark: a prediction, a label and seven features, two of them text.

"independent": skewed keys that know nothing of each other, so that nearly every row is a cell of its own;
"correlated": seven views of one skewed segment, as site, domain and category are of one placement, which shrink into
few cells.
"""

from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 1_000_000
N_FEATURES = 7
FEATURES = tuple(f"key{j}" for j in range(N_FEATURES))
TEXT = frozenset(FEATURES[:2])
_KEYS = 60
_SEGMENTS = 400
_VIEWS = ((7, 40), (11, 12), (13, 25), (17, 8), (19, 60), (23, 5), (29, 100))


def rows(n_rows: int, kind: str, seed: int) -> dict[str, np.ndarray]:
    """Columns ``p``, ``y`` and the features; the same seed gives the same rows."""
    rng = np.random.default_rng(seed)
    if kind == "independent":
        keys = [(_KEYS * rng.random(n_rows, dtype=np.float32) ** 2.5).astype(np.int16) for _ in FEATURES]
    else:
        segment = (_SEGMENTS * rng.random(n_rows) ** 3).astype(np.int32)
        keys = [((segment * prime) % size).astype(np.int16) for prime, size in _VIEWS]
    log_odds = rng.normal(-2.0, 1.0, n_rows)
    true = log_odds + bias(keys)
    columns: dict[str, np.ndarray] = {"p": np.round(_sigmoid(log_odds), 5)}
    columns["y"] = (rng.random(n_rows) < _sigmoid(true)).astype(np.int8)
    for name, key in zip(FEATURES, keys, strict=True):
        columns[name] = texts(name)[key] if name in TEXT else key
    return columns


def frame(n_rows: int, kind: str, seed: int) -> Any:
    """The features and the prediction as a pandas frame, and the labels."""
    import pandas as pd

    table = pd.DataFrame(rows(n_rows, kind, seed))
    label = table.pop("y").to_numpy(np.float64)
    return table, label


def parquet(folder: Path, n_rows: int, kind: str) -> Path:
    """A file of so many rows, written chunk by chunk and kept for the next run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"speed-{kind}-{n_rows}.parquet"
    if path.exists():
        return path
    unfinished = path.with_suffix(".part")
    writer = None
    for number, begin in enumerate(range(0, n_rows, CHUNK)):
        table = pa.table(rows(min(CHUNK, n_rows - begin), kind, seed=number))
        writer = writer or pq.ParquetWriter(unfinished, table.schema, compression="zstd")
        writer.write_table(table)
    if writer is not None:
        writer.close()
    return unfinished.rename(path)


def bias(keys: list[np.ndarray]) -> np.ndarray:
    """What the prediction does not know: effects of single keys and of pairs, the same whatever the seed."""
    rng = np.random.default_rng(99)
    shift = np.zeros(len(keys[0]))
    for key in keys[:4]:
        shift += rng.normal(0.0, 0.25, 128)[key]
    for left, right in ((0, 4), (1, 2), (3, 5)):
        shift += rng.normal(0.0, 0.4, 128)[keys[left]] * rng.normal(0.0, 1.0, 128)[keys[right]]
    return shift


def keys_of(table: Any) -> list[np.ndarray]:
    """The keys behind the features of a frame."""
    return [
        table[name].str[-3:].astype(int).to_numpy() if name in TEXT else table[name].to_numpy() for name in FEATURES
    ]


def texts(name: str) -> np.ndarray:
    """Values of a text feature."""
    return np.array([f"{name}-value-{i:03d}" for i in range(128)], dtype=object)


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-z)))
