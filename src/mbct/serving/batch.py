"""Many rows at once: dicts, columns or Arrow in, calibrated probabilities out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.binning.features import Bins, CategoryBins, NumberBins
from mbct.binning.keys import category_key
from mbct.boosting.masks import LeafMasks, compile_masks
from mbct.boosting.model import CalibrationEnsemble
from mbct.cells.group import CodeMatrix
from mbct.errors import DataError
from mbct.serving.values import as_float
from mbct.validation import FloatArray, as_probabilities


class Scored(NamedTuple):
    """A scored batch."""

    score: FloatArray
    calibrated: FloatArray
    codes: CodeMatrix
    unseen: Counter[str]
    """Number of unseen values of each feature that has any."""


class BatchScorer:
    """Compiled once from a frozen ensemble; safe to share between threads."""

    def __init__(self, model: CalibrationEnsemble, *, masks: LeafMasks | None = None) -> None:
        self._model = model
        self._masks = masks or compile_masks(model)
        self._encoders = [_ColumnEncoder(feature) for feature in model.bins]

    def score_rows(self, rows: Sequence[Mapping[str, Any]]) -> FloatArray:
        """Calibrated probabilities of rows given as dicts."""
        names = self._model.bins.names
        try:
            columns = [list(map(itemgetter(name), rows)) for name in names]
        except KeyError as error:
            missing = error.args[0]
            row = next(i for i, candidate in enumerate(rows) if missing not in candidate)
            raise DataError(f"row {row} has no {missing!r}; it needs {list(names)}, None where missing") from error
        return self.score_columns(columns).calibrated

    def score_mapping(self, columns: Mapping[str, Iterable[Any]]) -> FloatArray:
        """Calibrated probabilities of columns by name."""
        return self.score_columns([_named(columns, name) for name in self._model.bins.names]).calibrated

    def score_arrow(self, table: Any) -> FloatArray:
        """Calibrated probabilities of a pyarrow table or record batch."""
        return self.score_columns(arrow_columns(table, self._model)).calibrated

    def score_columns(self, columns: Sequence[Any]) -> Scored:
        """Score columns in the model's order, the prediction first: lists, numpy arrays or (from Arrow) codes."""
        model = self._model
        score = as_probabilities(_probability_column(columns[0], model.score), model.score)
        codes = np.empty((len(score), len(model.bins)), model.bins.code_type)
        unseen: Counter[str] = Counter()
        for j, (feature, encode) in enumerate(zip(model.bins, self._encoders, strict=True)):
            column = score if j == 0 else columns[j]
            if len(column) != len(score):
                raise DataError(f"{feature.name} has {len(column):,} rows where {model.score} has {len(score):,}")
            codes[:, j] = encode(column)
            if not feature.ordered and (found := int(np.count_nonzero(codes[:, j] == feature.unseen))):
                unseen[feature.name] = found
        if not model.trees:
            return Scored(score, score, codes, unseen)
        total = model.total_step(codes) if self._masks is None else self._masks.total_step(codes)
        return Scored(score, model.apply_steps(score, total), codes, unseen)


class _ColumnEncoder:
    """Codes of a column, by the fastest way that its types allow."""

    def __init__(self, feature: Bins) -> None:
        self._feature = feature
        if isinstance(feature, CategoryBins):
            integers = {int(k): code for k, code in feature.code_of.items() if k is not None and _is_integer(k)}
            self._code_of_text = _Codes(feature.code_of, feature.unseen)
            self._code_of_integer = _Codes({**integers, None: feature.missing}, feature.unseen)

    def __call__(self, column: Any) -> npt.NDArray[Any]:
        feature = self._feature
        if isinstance(column, Encoded):
            return self(column.values)[column.position]
        if isinstance(feature, NumberBins):
            return feature.encode(_floats(column))
        values = column.tolist() if isinstance(column, np.ndarray) else column
        types = set(map(type, values))
        types.discard(type(None))
        if types <= {str}:
            return self._code_of_text.of_all(values)
        if types == {int}:
            return self._code_of_integer.of_all(values)
        return feature.encode(values)


class _Codes(dict[Any, int]):
    """Codes by value; what is absent is unseen. Looking up a whole column runs in C but for the absent ones."""

    def __init__(self, codes: Mapping[Any, int], unseen: int) -> None:
        super().__init__(codes)
        self._unseen = unseen

    def __missing__(self, key: Any) -> int:
        return self._unseen

    def of_all(self, values: Sequence[Any]) -> npt.NDArray[np.intp]:
        return np.fromiter(map(self.__getitem__, values), np.intp, len(values))


@dataclass(frozen=True, eq=False)
class Encoded:
    """A dictionary-encoded column: distinct values and each row's position among them."""

    values: Any
    position: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.position)


def arrow_columns(table: Any, model: CalibrationEnsemble) -> list[Any]:
    """The model's columns of a pyarrow table or record batch, in its order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns: list[Any] = []
    for feature in model.bins:
        if feature.name not in table.schema.names:
            raise DataError(f"column {feature.name!r} is missing; the table has {table.schema.names}")
        column = table.column(feature.name)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(feature, NumberBins) or pa.types.is_null(column.type):
            columns.append(_arrow_floats(column))
            continue
        if not pa.types.is_dictionary(column.type):
            column = pc.dictionary_encode(column, null_encoding="encode")
        values = [*column.dictionary.to_pylist(), None]
        position = pc.fill_null(column.indices.cast(pa.int64()), len(values) - 1)
        columns.append(Encoded(values, position.to_numpy(zero_copy_only=False)))
    return columns


def _arrow_floats(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        target = column.cast(pa.float64(), safe=False) if not pa.types.is_boolean(column.type) else column
        return target.to_numpy(zero_copy_only=False).astype(np.float64)
    return column.to_pylist()


def _floats(column: Any) -> FloatArray:
    if isinstance(column, np.ndarray) and column.dtype.kind in "iufb":
        return column.astype(np.float64, copy=False)
    try:
        return np.array(column, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([as_float(value) for value in column], dtype=np.float64)


def _probability_column(column: Any, name: str) -> Any:
    if isinstance(column, np.ndarray):
        return column
    if set(map(type, column)) <= {float}:
        return np.array(column, dtype=np.float64)
    for row, value in enumerate(column):
        if value is None or isinstance(value, str | bytes):
            raise DataError(f"{name} must be a probability, got {value!r} in row {row}; pass numbers between 0 and 1")
    return np.array([as_float(value) for value in column], dtype=np.float64)


def _named(columns: Mapping[str, Iterable[Any]], name: str) -> Any:
    if name not in columns:
        raise DataError(f"column {name!r} is missing; the data has {list(columns)}")
    column = columns[name]
    return column if isinstance(column, list | np.ndarray) else list(column)


def _is_integer(key: str) -> bool:
    """Whether a category's text is what an integer would become: '7' is, '07' is not."""
    try:
        return category_key(int(key)) == key
    except ValueError:
        return False
