"""From a column of raw values, of Python or of Arrow, to its codes, by the fastest way that its types allow."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError
from mbct.model.bins import Feature, FeatureBins, NumberBins, interval_codes, packed
from mbct.model.encoding import as_float
from mbct.validation import FloatArray

Codes = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Encoded:
    """A dictionary-encoded column: distinct values and each row's position among them."""

    values: Sequence[Any]
    position: npt.NDArray[np.integer[Any]]

    def __len__(self) -> int:
        return len(self.position)


@dataclass(frozen=True, eq=False)
class Coded:
    """A column whose codes are known already."""

    codes: npt.NDArray[np.integer[Any]]

    def __len__(self) -> int:
        return len(self.codes)


class ColumnEncoder:
    """Codes of columns of one feature: lists, numpy arrays, :class:`Encoded` or :class:`Coded`."""

    def __init__(self, feature: Feature) -> None:
        self._feature = feature
        self._edges = np.array(feature.edges if isinstance(feature, NumberBins) else (), dtype=np.float64)

    def __call__(self, column: Any) -> Codes:
        """Codes of a column."""
        if isinstance(column, Coded):
            return column.codes
        if isinstance(column, Encoded):
            return np.take(self(column.values), column.position)
        if isinstance(self._feature, NumberBins):
            return interval_codes(_floats(column), self._edges)
        return self._feature.encode(column.tolist() if isinstance(column, np.ndarray) else column)


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


class ArrowColumns:
    """Takes a model's columns out of tables. Made before pyarrow is known to be there; safe to share."""

    def __init__(self, bins: FeatureBins) -> None:
        self._readers = [_Reader(feature) for feature in bins]

    def check_schema(self, schema: Any, ids_column: str | None = None) -> list[int]:
        """Positions of the columns that the model (and ``ids_column``) needs; raises where one has another type."""
        import pyarrow as pa

        names = schema.names
        wanted = []
        for name, allowed in [*((reader.name, reader.takes) for reader in self._readers), (ids_column, _is_text)]:
            if name is None:
                continue
            if name not in names:
                purpose = " for ids" if name == ids_column else ""
                raise DataError(f"column {name!r}{purpose} is missing; the table has {names}")
            if names.count(name) > 1:
                raise DataError(f"column {name!r} is there {names.count(name)} times")
            kind = schema.field(name).type
            plain = kind.value_type if pa.types.is_dictionary(kind) else kind
            if not allowed(plain) or (plain is not kind and pa.types.is_null(plain)):
                raise DataError(f"column {name!r} has the Arrow type {kind}, which it cannot have")
            wanted.append(names.index(name))
        return sorted(set(wanted))

    def of(self, table: Any, text_length: int | None = None) -> list[Any]:
        """The columns of a pyarrow table or record batch in the model's order; ``text_length`` limits their texts."""
        import pyarrow as pa

        self.check_schema(table.schema)
        columns: list[Any] = []
        for reader in self._readers:
            column = table.column(reader.name)
            column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            read = reader.read(column)
            if text_length is not None and (longest := _longest_text(column, read, text_length)) > text_length:
                raise DataError(
                    f"a value of {reader.name} has {longest:,} characters, at most {text_length:,} are taken"
                )
            columns.append(read)
        return columns


class _Reader:
    """Reads the column of one feature."""

    def __init__(self, feature: Feature) -> None:
        self.name, self._feature = feature.name, feature

    def takes(self, kind: Any) -> bool:
        """Whether values of an Arrow type can be values of the feature; nothing nested ever can."""
        import pyarrow.types as types

        numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
        if isinstance(self._feature, NumberBins):
            return bool(numeric or types.is_null(kind))
        temporal = types.is_date(kind) or types.is_timestamp(kind)
        binary = types.is_binary(kind) or types.is_large_binary(kind)
        return bool(numeric or types.is_null(kind) or temporal or binary or _is_text(kind))

    def read(self, column: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        feature = self._feature
        if isinstance(feature, NumberBins) or pa.types.is_null(column.type):
            return _arrow_floats(column)
        # Arrow hashes every known text on each call: worth it where there are at least as many rows.
        many = feature.n_values <= len(column)
        by_text = feature.value_type in ("string", "boolean")
        if many and by_text and pa.types.is_string(column.type) and (known := self._known_texts) is not None:
            found = pc.fill_null(pc.index_in(column, value_set=known), len(known))
            return Coded(self._codes_of_texts[found.to_numpy(zero_copy_only=False)])
        return _dictionary(column)

    @cached_property
    def _known_texts(self) -> Any:
        """The known texts in all their spellings, and null, in the order of ``code_of``.

        None where one of them is no Unicode (half of a surrogate pair), which Arrow cannot hold.
        """
        import pyarrow as pa

        known = () if isinstance(self._feature, NumberBins) else self._feature.code_of
        try:
            return pa.array(list(known), pa.string())
        except UnicodeEncodeError:
            return None

    @cached_property
    def _codes_of_texts(self) -> Any:
        """The codes of ``_known_texts``, and that of an unseen value."""
        known = {} if isinstance(self._feature, NumberBins) else self._feature.code_of
        return np.array([*known.values(), self._feature.unseen])


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


def _longest_text(column: Any, read: Any, most: int) -> int:
    """Characters of the longest text, or bytes where those are no more than ``most``: they are known at once."""
    import pyarrow.compute as pc

    if isinstance(read, Coded):
        n_bytes = _most_bytes(column)
        return n_bytes if n_bytes <= most else int(pc.max(pc.utf8_length(column)).as_py())
    values: Iterable[Any] = read.values if isinstance(read, Encoded) else () if isinstance(read, np.ndarray) else read
    return max(map(len, [value for value in values if isinstance(value, str | bytes)]), default=0)


def _most_bytes(column: Any) -> int:
    """Bytes of the longest text of a string column, from the offsets where each of them begins and ends."""
    if not len(column):
        return 0
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset)
    return int((offsets[1:] - offsets[:-1]).max(initial=0))
