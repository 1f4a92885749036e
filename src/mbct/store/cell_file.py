"""The files of a store: cells as Parquet (a column for each feature's codes and for each sum), bins as JSON."""

import hashlib
import io
import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError, ModelFileError
from mbct.lazy import optional
from mbct.model.bins import CodeMatrix, FeatureBins
from mbct.model.file_check import read_bins
from mbct.store.manifest import Batch
from mbct.training.cells import Cells, Sums, build_cells
from mbct.validation import FloatArray

_KEY = b"mbct"
_FORMAT = 2
_BINS_FORMAT = "mbct-bins"
_ROUNDING = 1e-9
_OFF_THE_TIE = 1e-11
_LARGEST_LOGIT = 21.0  # Log-odds of a prediction, which is held inside [1e-9, 1 − 1e-9]


def cells_of_rows(codes: CodeMatrix, y_prob: FloatArray, y_true: FloatArray, bins: FeatureBins) -> Cells:
    """Cells of rows, to be appended.

    Parameters
    ----------
    codes, y_prob, y_true, bins : ndarray, ndarray, ndarray, FeatureBins
        Codes, predictions and labels of the rows, and the bins that made the codes.

    Returns
    -------
    cells : Cells
        One for each distinct set of codes.
    """
    return build_cells(codes, y_prob, y_true, None, bins, level="cell")


def to_parquet(parts: Sequence[Cells]) -> bytes:
    """The file's bytes; the same cells give the same bytes.

    Each part is one batch. A file of several keeps them apart in the column ``batch``, so that one can be replaced.
    """
    pa, pq = _import_pyarrow()
    first = parts[0]
    columns: dict[str, Any] = {"batch": np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts])}
    columns |= {f"code_{j}": np.concatenate([part.codes[:, j] for part in parts]) for j in range(first.codes.shape[1])}
    columns |= {f.name: np.concatenate([getattr(part.sums, f.name) for part in parts]) for f in fields(Sums)}
    header = {
        "format": _FORMAT,
        "fingerprint": first.fingerprint,
        "n_codes": list(first.n_codes),
        "one_score": first.one_score,
        "batches": len(parts),
    }
    table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(header, sort_keys=True)})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def entry_of(ids: tuple[str, ...], digests: tuple[str, ...], day: str, parts: Sequence[Cells], content: bytes) -> Batch:
    """How a manifest names a file of batches; the file's name is new."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", ids[0])[:40].strip(".-") or "batch"
    return Batch(
        ids,
        digests,
        day,
        f"cells/{day}/{readable}-{uuid.uuid4().hex[:12]}.parquet",
        hashlib.sha256(content).hexdigest(),
        len(content),
        parts[0].fingerprint,
        parts[0].one_score,
        sum(len(part) for part in parts),
        sum(float(np.asarray(part.total.count)) for part in parts),
        sum(float(np.asarray(part.total.label)) for part in parts),
    )


def from_parquet(content: bytes, bins: FeatureBins, name: str) -> list[Cells]:
    """Undo :func:`to_parquet`; a foreign file, and cells that the bins cannot have made, are named and refused."""
    pa, pq = _import_pyarrow()
    try:
        table = pq.read_table(io.BytesIO(content))
        header = json.loads((table.schema.metadata or {})[_KEY])
        if header["format"] != _FORMAT:
            raise ModelFileError(f"{name} has format {header['format']}, this mbct reads {_FORMAT}: upgrade mbct")
        if header["fingerprint"] != bins.fingerprint or tuple(header["n_codes"]) != bins.n_codes:
            raise ModelFileError(f"{name} was coded with bins {header['fingerprint']}, not with {bins.fingerprint}")
        codes = np.column_stack([table[f"code_{j}"].to_numpy() for j in range(len(bins))])
        sums = Sums(*(np.asarray(table[f.name].to_numpy(), dtype=np.float64) for f in fields(Sums)))
        batch = table["batch"].to_numpy()
        n_batches, one_score = int(header["batches"]), bool(header["one_score"])
    except (pa.ArrowException, KeyError, ValueError, TypeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{name} is truncated or no file of cells: {type(error).__name__} {error}") from error
    if (fault := fault_of(codes, sums, bins)) is not None:
        raise ModelFileError(f"{name} is damaged: {fault}; restore it")
    codes = codes.astype(bins.code_type)
    everything = Cells(codes, sums, bins.n_codes, bins.fingerprint, one_score)
    return [everything.select((batch == number) & (sums.count > 0.0)) for number in range(n_batches)]


def fault_of(codes: npt.NDArray[Any], sums: Sums, bins: FeatureBins) -> str | None:
    """What no aggregation with these bins can have made: codes that do not exist, sums that contradict each other."""
    if codes.dtype.kind not in "iu" or codes.shape != (len(sums), len(bins)):
        return f"codes of type {codes.dtype} and shape {codes.shape} for {len(sums)} cells of {len(bins)} features"
    for feature, column in zip(bins, codes.T, strict=True):
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) < feature.n_codes:
            return f"feature {feature.name!r} has codes {column.min()} to {column.max()} of {feature.n_codes}"
    upper = sums.count * (1.0 + _ROUNDING)
    limits = {
        "count": (sums.count, np.full(len(sums), np.finfo(np.float64).max)),
        "label": (sums.label, upper),
        "pred": (sums.pred, upper),
        "pred2": (sums.pred2, upper),
        "pred_label": (sums.pred_label, upper),
        "logit": (np.abs(sums.logit), upper * _LARGEST_LOGIT),
    }
    for name, (values, most) in limits.items():
        wrong = ~((values >= 0.0) & (values <= most))  # NaN is wrong too
        if wrong.any():
            cell = int(wrong.argmax())
            return f"cell {cell} has {name} {getattr(sums, name)[cell]:g} with count {sums.count[cell]:g}"
    return None


def require_storable(cells: Cells, bins: FeatureBins, batch: str) -> None:
    """Raise where cells cannot be stored as ``batch``."""
    if not batch:
        raise DataError("batch must be a name that tells the rows apart, such as '2024-05-01T13'")
    if cells.fingerprint != bins.fingerprint:
        raise DataError(f"the cells were coded with bins {cells.fingerprint}, not with {bins.fingerprint}")
    if (fault := fault_of(cells.codes, cells.sums, bins)) is not None:
        raise DataError(f"the cells of batch {batch!r} cannot be stored: {fault}")


def digest_of(cells: Cells) -> str:
    """Digest of the content of cells, whatever their order and the last digits of their sums.

    Engines add in different orders, so sums agree to about 14 digits: whole numbers are taken as they are, others to
    six significant digits.
    """
    count, label, pred = (_six_digits(values) for values in (cells.sums.count, cells.sums.label, cells.sums.pred))
    codes = cells.codes.astype(np.int64)
    order = np.lexsort((pred, label, count, *codes.T[::-1]))
    digest = hashlib.sha256(cells.fingerprint.encode())
    for values in (codes, count, label, pred):
        digest.update(np.ascontiguousarray(values[order]).tobytes())
    return digest.hexdigest()[:32]


def _six_digits(values: FloatArray) -> FloatArray:
    """Whole numbers as they are, others to six significant digits, those near a tie away from zero.

    >>> _six_digits(np.array([12345678.0, 0.1234565, 0.0])).round(9).tolist()
    [12345678.0, 0.123457, 0.0]
    """
    nearest = np.rint(values)
    whole = np.abs(values - nearest) <= _ROUNDING * np.maximum(1.0, np.abs(values))
    scale = 10.0 ** (5.0 - np.floor(np.log10(np.where(whole, 1.0, np.abs(values)))))
    return np.where(whole, nearest, np.rint(values * scale * (1.0 + _OFF_THE_TIE)) / scale)


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
        return read_bins(document["features"])
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{name} is truncated or no file of bins: {type(error).__name__} {error}") from error


def _import_pyarrow() -> tuple[Any, Any]:
    pa = optional("a store of cells needs pyarrow: pip install 'mbct[store]'", "pyarrow", "pyarrow.parquet")
    return pa, pa.parquet
