"""Many rows at once: dicts, columns or Arrow in, calibrated probabilities out.

Raw values, of Python or of Arrow, become codes by the fastest way that the types of their column allow.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError
from mbct.model.bins import CodeMatrix, Feature, FeatureBins, NumberBins, packed
from mbct.model.class_model import ClassModel
from mbct.model.encoding import as_float
from mbct.model.ensemble import CalibrationEnsemble
from mbct.validation import FloatArray, as_probabilities

Codes = npt.NDArray[np.integer[Any]]
_OF_NUMBERS = ("integer", "floating", "boolean", "decimal", "null")
_OF_TEXTS = ("string", "large_string", "string_view")
_OF_CATEGORIES = (*_OF_NUMBERS, *_OF_TEXTS, "date", "timestamp", "binary", "large_binary")
"""Arrow types whose values can be those of a feature; nothing nested can."""


class ScoredBatch(NamedTuple):
    """A scored batch."""

    score: FloatArray
    """Of many classes the likeliest one's."""
    calibrated: FloatArray
    """Of many classes a column for each."""
    codes: CodeMatrix
    unseen: Counter[str]
    """Number of unseen values of each feature that has any."""
    frozen: FloatArray | None = None
    """The model's own probability, where the online layer has changed it."""


class BatchScorer:
    """Scores many rows; compiled once from a frozen ensemble, safe to share between threads.

    Parameters
    ----------
    model : CalibrationEnsemble or ClassModel
        As :func:`mbct.load_ensemble` gives, or of many classes.
    """

    def __init__(self, model: CalibrationEnsemble | ClassModel) -> None:
        self._model = model
        self._scores = model.scores if isinstance(model, ClassModel) else (model.score_column,)
        self._code_type = model.bins.code_type

    def score_rows(self, rows: Sequence[Mapping[str, Any]]) -> FloatArray:
        """Calibrated probabilities of rows.

        Parameters
        ----------
        rows : sequence of dict
            The prediction and every feature by name, None where missing.

        Returns
        -------
        ndarray of shape (n_rows,)
            Calibrated probabilities.
        """
        names = self._model.bins.names
        try:
            columns = [list(map(itemgetter(name), rows)) for name in names]
        except KeyError as error:
            missing = error.args[0]
            row = next(i for i, candidate in enumerate(rows) if missing not in candidate)
            raise DataError(f"row {row} has no {missing!r}; it needs {list(names)}, None where missing") from error
        return self.score_columns(columns).calibrated

    def score_mapping(self, columns: Mapping[str, Iterable[Any]]) -> FloatArray:
        """Calibrated probabilities of columns by name.

        Parameters
        ----------
        columns : mapping of str to array
            The prediction and every feature; others are ignored.

        Returns
        -------
        ndarray of shape (n_rows,)
            Calibrated probabilities.
        """
        return self.score_columns([_named(columns, name) for name in self._model.bins.names]).calibrated

    def score_arrow(self, table: Any) -> FloatArray:
        """Calibrated probabilities of an Arrow table.

        Parameters
        ----------
        table : pyarrow.Table or pyarrow.RecordBatch
            The prediction and every feature by name; others are ignored.

        Returns
        -------
        ndarray of shape (n_rows,)
            Calibrated probabilities.
        """
        return self.score_columns(arrow_columns(self._model.bins, table)).calibrated

    def score_columns(self, columns: Sequence[Any]) -> ScoredBatch:
        """Score columns in the model's order.

        Parameters
        ----------
        columns : sequence of list, ndarray or dictionary array
            The predictions, then every feature.

        Returns
        -------
        ScoredBatch
            Codes, predictions and calibrated probabilities.
        """
        model = self._model
        scores = [
            as_probabilities(probability_column(column, name), name)
            for column, name in zip(columns, self._scores, strict=False)
        ]
        score = scores[0]
        codes = np.empty((len(score), len(model.bins)), self._code_type)
        unseen: Counter[str] = Counter()
        for j, feature in enumerate(model.bins):
            column = scores[j] if j < len(scores) else columns[j]
            if len(column) != len(score):
                raise DataError(f"{feature.name} has {len(column):,} rows where {self._scores[0]} has {len(score):,}")
            codes[:, j] = encode_column(feature, column)
            if not feature.ordered and (found := int(np.count_nonzero(codes[:, j] == feature.unseen))):
                unseen[feature.name] = found
        if isinstance(model, ClassModel):
            p = np.column_stack(scores)
            return ScoredBatch(p.max(axis=1), model.calibrate_codes(codes, p), codes, unseen)
        if not model.trees:
            return ScoredBatch(score, score, codes, unseen)
        return ScoredBatch(score, model.apply_total(score, model.compiled_total(codes)), codes, unseen)


def _named(columns: Mapping[str, Iterable[Any]], name: str) -> Any:
    if name not in columns:
        raise DataError(f"column {name!r} is missing; the data has {list(columns)}")
    column = columns[name]
    return column if isinstance(column, list | np.ndarray) else list(column)


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
    if (found := _packed(column)) is not None:
        return found
    for row, value in enumerate(column):
        if value is None or isinstance(value, str | bytes):
            raise DataError(f"{name} must be a probability, got {value!r} in row {row}; pass numbers between 0 and 1")
    return np.array([as_float(value) for value in column], dtype=np.float64)


def _floats(column: Any) -> FloatArray:
    if isinstance(column, np.ndarray) and column.dtype.kind in "iufb":
        return np.ascontiguousarray(column, dtype=np.float64)
    if (found := _packed(column)) is not None:
        return found
    try:
        return np.array(column, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([as_float(value) for value in column], dtype=np.float64)


def _packed(column: Any) -> FloatArray | None:
    """A list of floats as an array; None where some values are none."""
    try:
        return packed("d", column, np.empty(len(column)))
    except (struct.error, OverflowError):
        return None


def check_schema(bins: FeatureBins, schema: Any, ids_column: str | None = None) -> list[int]:
    """Positions of the Arrow columns that ``bins`` (and ``ids_column``) need; raises where one has another type."""
    import pyarrow as pa

    names = schema.names
    needed = [(feature.name, _OF_NUMBERS if isinstance(feature, NumberBins) else _OF_CATEGORIES) for feature in bins]
    wanted = []
    for name, types in [*needed, *([] if ids_column is None else [(ids_column, _OF_TEXTS)])]:
        if name not in names:
            purpose = " for ids" if name == ids_column else ""
            raise DataError(f"column {name!r}{purpose} is missing; the table has {names}")
        if names.count(name) > 1:
            raise DataError(f"column {name!r} is there {names.count(name)} times")
        kind = schema.field(name).type
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        taken = any(getattr(pa.types, f"is_{each}")(plain) for each in types)
        if not taken or (plain is not kind and pa.types.is_null(plain)):
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
