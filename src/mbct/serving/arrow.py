"""From an Arrow table to the columns that a model scores; texts are looked up by Arrow itself where that pays."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from mbct.errors import DataError
from mbct.model.bins import Feature, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.serving.columns import Coded, Encoded


class ArrowColumns:
    """Takes a model's columns out of tables. Made before pyarrow is known to be there; safe to share."""

    def __init__(self, model: CalibrationEnsemble) -> None:
        self._readers = [_Reader(feature) for feature in model.bins]

    def of(self, table: Any, text_length: int | None = None) -> list[Any]:
        """The columns of a pyarrow table or record batch in the model's order; ``text_length`` limits their texts."""
        import pyarrow as pa

        columns: list[Any] = []
        names = table.schema.names
        for reader in self._readers:
            if reader.name not in names:
                raise DataError(f"column {reader.name!r} is missing; the table has {names}")
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

    def read(self, column: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        feature = self._feature
        if isinstance(feature, NumberBins) or pa.types.is_null(column.type):
            return _floats(column)
        # Arrow hashes every known text on each call: worth it where there are at least as many rows.
        many = feature.n_values <= len(column)
        if many and pa.types.is_string(column.type) and (known := self._text_of_code) is not None:
            found = pc.index_in(column, value_set=known)
            return Coded(pc.fill_null(found, feature.unseen).to_numpy(zero_copy_only=False))
        return _dictionary(column)

    @cached_property
    def _text_of_code(self) -> Any:
        """The known texts in the order of their codes; null comes next, as the code of missing values does.

        None where one of them is no Unicode (half of a surrogate pair), which Arrow cannot hold.
        """
        import pyarrow as pa

        known = () if isinstance(self._feature, NumberBins) else self._feature.values
        try:
            return pa.array([*known, None], pa.string())
        except UnicodeEncodeError:
            return None


def _floats(column: Any) -> Any:
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
