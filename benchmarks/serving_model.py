"""A model, its rows and the requests made of them, for the benchmark of the service."""

import msgspec
import numpy as np

from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.tree import CalibrationTree


def distilled_model(n_trees: int, n_leaves: int, seed: int = 0) -> CalibrationEnsemble:
    """A model of the size that distillation gives: 8 features, half of them numbers of 128 bins."""
    rng = np.random.default_rng(seed)
    features: list[NumberBins | CategoryBins] = [
        NumberBins("score", tuple((np.sort(rng.choice(np.arange(1, 1000), 127, False)) / 1000.0).tolist()))
    ]
    for j in range(7):
        if j % 2:
            features.append(CategoryBins(f"category_{j}", tuple(f"value-{i}" for i in range(200))))
        else:
            features.append(NumberBins(f"number_{j}", tuple(np.sort(rng.normal(size=127)).tolist())))
    bins = FeatureBins(tuple(features))
    return CalibrationEnsemble("score", "odds", bins, tuple(_tree(rng, bins, n_leaves) for _ in range(n_trees)))


def _tree(rng: np.random.Generator, bins: FeatureBins, n_leaves: int) -> CalibrationTree:
    feature, start, tables, leaves, filled = [-1], [0], [], [0], 0
    while len(leaves) < n_leaves:
        node = leaves.pop(int(rng.integers(len(leaves))))
        chosen = int(rng.integers(len(bins)))
        n_codes, first = bins[chosen].n_codes, len(feature)
        if bins[chosen].ordered:
            table = first + (np.arange(n_codes) >= rng.integers(1, n_codes - 2))
        else:
            table = first + rng.integers(0, 2, n_codes)
        feature[node], start[node] = chosen, filled
        tables.append(table)
        filled += n_codes
        feature += [-1, -1]
        start += [0, 0]
        leaves += [first, first + 1]
    n = len(feature)
    return CalibrationTree(
        np.array(feature, np.int32),
        np.array(start, np.int64),
        np.concatenate(tables).astype(np.int32),
        rng.normal(0.0, 0.1, n).round(9),
        np.full(n, 100.0),
        np.full(n, 30.0),
        np.full(n, 31.0),
    )


def random_rows(model: CalibrationEnsemble, n_rows: int, seed: int = 1) -> list[dict[str, float | str]]:
    """Rows with a few unseen values."""
    rng = np.random.default_rng(seed)
    rows = []
    for score in rng.beta(0.6, 2.0, n_rows).tolist():
        row: dict[str, float | str] = {"score": score}
        for feature in model.bins.features[1:]:
            row[feature.name] = float(rng.normal()) if feature.ordered else f"value-{rng.integers(205)}"
        rows.append(row)
    return rows


def bodies(rows: list[dict[str, float | str]]) -> dict[str, tuple[bytes, str, int]]:
    """Requests to be measured: body, content type, rows."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    made = {
        "one row, JSON": (msgspec.json.encode({"rows": rows[:1]}), "application/json", 1),
        "1,000 rows, JSON rows": (msgspec.json.encode({"rows": rows}), "application/json", len(rows)),
        "1,000 rows, JSON columns": (msgspec.json.encode({"columns": columns}), "application/json", len(rows)),
        "1,000 rows, MessagePack": (msgspec.msgpack.encode({"columns": columns}), "application/msgpack", len(rows)),
    }
    try:
        import pyarrow as pa
    except ImportError:
        return made
    table = pa.table(columns)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    made["1,000 rows, Arrow"] = (out.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream", len(rows))
    return made
