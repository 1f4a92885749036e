"""Single rows in process: a dict in, a float out, in a few microseconds."""

from array import array
from collections.abc import Mapping, Sequence
from operator import itemgetter
from threading import local
from typing import Any

import numpy as np

from mbct.errors import DataError
from mbct.model.bins import CodeMatrix, CountUnseen, code_offsets
from mbct.model.encoding import as_probability
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.row import calibrate_row, row_trees


class RowScorer:
    """Scores single rows; compiled once from a frozen ensemble, safe to share between threads.

    ``score_row({"score": 0.2, "carrier": "UA", …})`` equals the batch prediction to 1e-12, missing (None) and unseen
    values included.

    Parameters
    ----------
    model : CalibrationEnsemble
        As :func:`mbct.load_ensemble` gives.
    count_unseen : callable or None, default=None
        Called with the feature's name for each value that training did not see.
    """

    def __init__(self, model: CalibrationEnsemble, *, count_unseen: CountUnseen | None = None) -> None:
        self._model = model
        self._score = model.score_column
        self._identity = not model.trees
        self._trees = row_trees(model)
        first_rows = code_offsets(model.bins.n_codes)[:-1].tolist()
        self._code_type = model.bins.code_type
        self._first_rows = np.array(first_rows, dtype=np.int64)
        made = [
            feature.value_encoder(first, count_unseen) for feature, first in zip(model.bins, first_rows, strict=True)
        ]
        self._encode_score = made[0]
        self._columns = list(enumerate(made[1:], start=1))
        # The getter of one name alone would give no tuple.
        self._values_of = itemgetter(*model.bins.names, *model.bins.names[:1])
        self._buffers = _Buffers(len(made))
        self.score_values([0.5] + [None] * len(self._columns))

    def score_row(self, row: Mapping[str, Any]) -> float:
        """Calibrated probability of a row.

        Parameters
        ----------
        row : mapping
            The prediction and every feature by name, None where missing.

        Returns
        -------
        float
            Calibrated probability.
        """
        try:
            values = self._values_of(row)
        except KeyError as error:
            raise DataError(
                f"the row has no {error.args[0]!r}; it needs {list(self._model.bins.names)}, None where missing"
            ) from error
        return self.score_values(values)

    def score_values(self, values: Sequence[Any]) -> float:
        """Calibrated probability of a row's values.

        Parameters
        ----------
        values : sequence
            The prediction, then every feature in the model's order, None where missing.

        Returns
        -------
        float
            Calibrated probability.
        """
        buffers = self._buffers
        codes = buffers.writable
        score = as_probability(values[0], self._score)
        codes[0] = self._encode_score(score)
        for j, encode in self._columns:
            codes[j] = encode(values[j])
        return self._calibrate(score, buffers.codes)

    def last_codes(self) -> CodeMatrix:
        """Codes of the row that this thread scored last, of shape (1, n_features), in the model's order."""
        return (self._buffers.codes - self._first_rows).astype(self._code_type).reshape(1, -1)

    def _calibrate(self, score: float, codes: np.ndarray[Any, Any]) -> float:
        if self._identity:
            return score
        if self._trees is None:
            return float(self._model.calibrate_codes(self.last_codes(), np.array([score]))[0])
        return calibrate_row(codes, score, *self._trees)


class _Buffers(local):
    """A row of codes for each thread: filled through an ``array``, which takes half the time of numpy's indexing."""

    def __init__(self, n_features: int) -> None:
        self.writable = array("q", [0] * n_features)
        self.codes = np.frombuffer(self.writable, np.int64)
