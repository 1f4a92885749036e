"""The files of a store: cells as Parquet (a column for each feature's codes and for each sum), bins as JSON."""

import io
import json
from dataclasses import fields
from typing import Any

import numpy as np

from mbct.errors import MissingDependencyError, ModelFileError
from mbct.model.bins import FeatureBins
from mbct.stats.sums import Sums
from mbct.training.cells import Cells

_KEY = b"mbct"
_FORMAT = 1
_BINS_FORMAT = "mbct-bins"


def to_parquet(cells: Cells) -> bytes:
    """The file's bytes; the same cells give the same bytes."""
    pa, pq = _import_pyarrow()
    columns: dict[str, Any] = {f"code_{j}": cells.codes[:, j] for j in range(cells.codes.shape[1])}
    columns |= {f.name: getattr(cells.sums, f.name) for f in fields(cells.sums)}
    header = {
        "format": _FORMAT,
        "fingerprint": cells.fingerprint,
        "n_codes": list(cells.n_codes),
        "one_score": cells.one_score,
    }
    table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(header, sort_keys=True)})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def from_parquet(content: bytes, bins: FeatureBins, name: str) -> Cells:
    """Undo :func:`to_parquet`; a foreign file is named and refused."""
    pa, pq = _import_pyarrow()
    try:
        table = pq.read_table(io.BytesIO(content))
        header = json.loads((table.schema.metadata or {})[_KEY])
        if header["format"] > _FORMAT:
            raise ModelFileError(f"{name} has format {header['format']}, newer than {_FORMAT}: upgrade mbct to read it")
        codes = np.empty((table.num_rows, len(bins)), dtype=bins.code_type)
        for j in range(len(bins)):
            codes[:, j] = table[f"code_{j}"].to_numpy()
        sums = Sums(*(np.asarray(table[f.name].to_numpy(), dtype=np.float64) for f in fields(Sums)))
        cells = Cells(codes, sums, tuple(header["n_codes"]), header["fingerprint"], header["one_score"])
    except (pa.ArrowException, KeyError, ValueError, TypeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{name} is truncated or no file of cells: {type(error).__name__} {error}") from error
    if cells.fingerprint != bins.fingerprint or cells.n_codes != bins.n_codes:
        raise ModelFileError(f"{name} was coded with bins {cells.fingerprint}, not with {bins.fingerprint}")
    return cells


def bins_to_json(bins: FeatureBins) -> bytes:
    """Bins as a file."""
    content = {"format": _BINS_FORMAT, "features": bins.to_list()}
    return (json.dumps(content, ensure_ascii=False, sort_keys=True) + "\n").encode()


def bins_from_json(content: bytes, name: str) -> FeatureBins:
    """Undo :func:`bins_to_json`; a foreign file is named and refused."""
    try:
        document = json.loads(content)
        if document["format"] != _BINS_FORMAT:
            raise KeyError("format")
        return FeatureBins.from_list(document["features"])
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{name} is truncated or no file of bins: {type(error).__name__} {error}") from error


def _import_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingDependencyError("a store of cells needs pyarrow: pip install 'mbct[store]'") from error
    return pa, pq
