"""From a column of raw values, of Python or of Arrow, to its codes, by the fastest way that its types allow."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError
from mbct.model.bins import Feature, FeatureBins, NumberBins, packed
from mbct.model.encoding import as_float
from mbct.validation import FloatArray

Codes = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Encoded:
    """A dictionary-encoded column: distinct values and each row's position among them."""

    values: Sequence[Any]
    position: Codes

    def __len__(self) -> int:
        return len(self.position)


def encode_column(feature: Feature, column: Any) -> Codes:
    """Codes of a list, a numpy array or an :class:`Encoded` column."""
    if isinstance(column, Encoded):
        return np.take(encode_column(feature, column.values), column.position)
    if isinstance(feature, NumberBins):
        return feature.encode(_floats(column))
    return feature.encode(column.tolist() if isinstance(column, np.ndarray) else column)


def probability_column(column: Any, name: str) -> Any:
    """Predictions as numbers, still to be checked; what cannot be one is named."""
    if isinstance(column, np.ndarray):
        return column
    try:
        return packed("d", column, np.empty(len(column)))
    except (struct.error, OverflowError):
        pass
    for row, value in enumerate(column):
        if value is None or isinstance(value, str | bytes):
            raise DataError(f"{name} must be a probability, got {value!r} in row {row}; pass numbers between 0 and 1")
    return np.array([as_float(value) for value in column], dtype=np.float64)


def _floats(column: Any) -> FloatArray:
    if isinstance(column, np.ndarray) and column.dtype.kind in "iufb":
        return np.ascontiguousarray(column, dtype=np.float64)
    try:
        return packed("d", column, np.empty(len(column)))
    except (struct.error, OverflowError):
        pass
    try:
        return np.array(column, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([as_float(value) for value in column], dtype=np.float64)


def check_schema(bins: FeatureBins, schema: Any, ids_column: str | None = None) -> list[int]:
    """Positions of the Arrow columns that ``bins`` (and ``ids_column``) need; raises where one has another type."""
    import pyarrow as pa

    names = schema.names
    needed = [(feature.name, _takes_numbers if isinstance(feature, NumberBins) else _takes_any) for feature in bins]
    wanted = []
    for name, takes in [*needed, *([] if ids_column is None else [(ids_column, _is_text)])]:
        if name not in names:
            purpose = " for ids" if name == ids_column else ""
            raise DataError(f"column {name!r}{purpose} is missing; the table has {names}")
        if names.count(name) > 1:
            raise DataError(f"column {name!r} is there {names.count(name)} times")
        kind = schema.field(name).type
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not takes(plain) or (plain is not kind and pa.types.is_null(plain)):
            raise DataError(f"column {name!r} has the Arrow type {kind}, which it cannot have")
        wanted.append(names.index(name))
    return sorted(set(wanted))


def arrow_columns(bins: FeatureBins, table: Any, text_length: int | None = None) -> list[Any]:
    """The columns of a pyarrow table or record batch in the order of ``bins``; ``text_length`` limits their texts."""
    import pyarrow as pa

    check_schema(bins, table.schema)
    columns: list[Any] = []
    for feature in bins:
        column = table.column(feature.name)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(feature, NumberBins) or pa.types.is_null(column.type):
            columns.append(_arrow_floats(column))
            continue
        encoded = _dictionary(column)
        texts = [value for value in encoded.values if isinstance(value, str | bytes)]
        if text_length is not None and (longest := max(map(len, texts), default=0)) > text_length:
            raise DataError(f"a value of {feature.name} has {longest:,} characters, at most {text_length:,} are taken")
        columns.append(encoded)
    return columns


def _takes_numbers(kind: Any) -> bool:
    """Whether values of an Arrow type can be those of a number; nothing nested can be those of any feature."""
    import pyarrow.types as types

    numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    return bool(numeric or types.is_null(kind))


def _takes_any(kind: Any) -> bool:
    import pyarrow.types as types

    temporal = types.is_date(kind) or types.is_timestamp(kind)
    binary = types.is_binary(kind) or types.is_large_binary(kind)
    return bool(_takes_numbers(kind) or temporal or binary or _is_text(kind))


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _arrow_floats(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_integer(kind) or (pa.types.is_floating(kind) and not pa.types.is_float64(kind)):
        column = column.cast(pa.float64(), safe=False)
    elif not pa.types.is_floating(kind) and not pa.types.is_boolean(kind):
        return column.to_pylist()
    return column.to_numpy(zero_copy_only=False).astype(np.float64)


def _dictionary(column: Any) -> Encoded:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column, null_encoding="encode")
    values, indices = [*column.dictionary.to_pylist(), None], column.indices
    if indices.null_count:
        indices = pc.fill_null(indices.cast(pa.int64()), len(values) - 1)
    return Encoded(values, indices.to_numpy(zero_copy_only=False))
