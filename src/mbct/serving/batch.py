"""Many rows at once: dicts, columns or Arrow in, calibrated probabilities out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from mbct.errors import DataError
from mbct.model.bins import CodeMatrix
from mbct.model.class_model import ClassModel
from mbct.model.ensemble import CalibrationEnsemble
from mbct.serving.columns import arrow_columns, encode_column, probability_column
from mbct.validation import FloatArray, as_probabilities


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
