"""Recalibration between retrains: a few numbers on top of a frozen model, learned from outcomes as they arrive."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mbct.errors import ParameterError
from mbct.stats.online_platt import LogOddsShift, OnlinePlatt
from mbct.stats.probabilities import logit, sigmoid
from mbct.validation import FloatArray, as_binary_labels, as_column, as_probabilities, same_length


class OnlineCalibrator:
    """Online Platt scaling of a frozen model's probabilities: intercept, slope and offsets of segments.

    Outcomes move intercept and slope of the log-odds by Newton steps with forgetting. How fast to forget, and whether
    to move at all, is weighted by how well each choice has predicted the outcomes that came after it; a segment gets an
    offset of its own, shrunk by how few outcomes it has. Without evidence it is the identity.

    Parameters
    ----------
    segments : int, default=0
        Number of segments with an offset, the first that are met. 0 for none.
    max_shift : float, default=0.7
        The most that log-odds may be moved; 0.7 doubles or halves the odds.
    calibeating : bool, default=False
        Also correct each range of probability by its mean error so far (Foster and Hart). It follows curves that a
        line cannot, and costs more noise where there are none.

    Attributes
    ----------
    enabled : bool
        False returns probabilities as they came, and goes on learning.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> online = OnlineCalibrator()
    >>> for day in range(30):
    ...     q = rng.choice([0.1, 0.3], 1000)
    ...     online = online.partial_fit(q, rng.random(1000) < 1.3 * q)
    >>> online.calibrate([0.1, 0.3]).round(2).tolist()
    [0.13, 0.39]
    """

    def __init__(self, *, segments: int = 0, max_shift: float = 0.7, calibeating: bool = False) -> None:
        if segments < 0:
            raise ParameterError(f"segments={segments!r} must be at least 0")
        if not 0.0 < max_shift <= 5.0:
            raise ParameterError(f"max_shift={max_shift!r} must be above 0 and at most 5")
        self.enabled = True
        self._calibeating = calibeating
        self._names: dict[str, int] = {}
        self._state = OnlinePlatt.of(segments, max_shift)
        self._shift = self._state.shift()

    def partial_fit(self, y_prob: Any, y_true: Any, segment: Sequence[str] | None = None) -> Self:
        """Learn from a batch of outcomes, such as those of a minute or a day.

        Parameters
        ----------
        y_prob : array-like of shape (n_outcomes,)
            The frozen model's probabilities, as they were before this layer.
        y_true : array-like of shape (n_outcomes,)
            Outcomes, 0 or 1.
        segment : sequence of str or None, default=None
            The segment of each outcome.

        Returns
        -------
        self : OnlineCalibrator
            The same object.
        """
        q, y = as_probabilities(y_prob), as_binary_labels(y_true)
        same_length(len(q), y_true=y)
        if segment is not None:
            same_length(len(q), segment=as_column(segment, "segment"))
        self.add(q, y, segment)
        self.advance()
        return self

    def calibrate(self, y_prob: Any, segment: Sequence[str | None] | None = None) -> FloatArray:
        """Probabilities after the layer.

        Parameters
        ----------
        y_prob : array-like of shape (n_rows,)
            The frozen model's probabilities.
        segment : sequence of str or None, default=None
            The segment of each row; one without an offset gets none.

        Returns
        -------
        calibrated : ndarray of shape (n_rows,)
            In the order of the rows.
        """
        q = as_probabilities(y_prob)
        return self.apply(q, segment)

    def apply(self, q: FloatArray, segment: Sequence[str | None] | None = None) -> FloatArray:
        """:meth:`calibrate` on probabilities that were checked before; may run in a thread."""
        if not self.enabled:
            return q
        z = logit(q)
        moved = self._shift.apply(z, self._positions(segment, len(q)))
        return np.where(moved == z, q, sigmoid(moved))

    def add(self, y_prob: FloatArray, y_true: FloatArray, segment: Sequence[str | None] | None = None) -> None:
        """Collect outcomes for the next :meth:`advance`; however they are divided into calls, the sums are the same."""
        for name in () if segment is None else dict.fromkeys(segment):
            if name is not None and name not in self._names and len(self._names) < self._state.n_segments:
                self._names[str(name)] = len(self._names)
        self._state.add(logit(y_prob), y_true, self._positions(segment, len(y_prob)))

    def advance(self) -> None:
        """Learn from what was collected."""
        self._state.advance()
        self._shift = self._state.shift(calibeating=self._calibeating)

    def renew(self) -> None:
        """Begin anew for another model; which forgetting was good, and the segments, are remembered."""
        self._state = self._state.renewed()
        self._shift = self._state.shift()

    @property
    def shift(self) -> LogOddsShift:
        """Intercept, slope and offsets in use; replaced, never changed."""
        return self._shift

    @property
    def offsets(self) -> Mapping[str, float]:
        """What each segment adds to the log-odds."""
        return {name: float(self._shift.offsets[position]) for name, position in self._names.items()}

    def to_dict(self) -> dict[str, Any]:
        """The state as plain JSON; :meth:`restore` takes it up exactly."""
        return {"enabled": self.enabled, "segments": list(self._names), "platt": self._state.to_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state of a calibrator with the same parameters.

        Parameters
        ----------
        state : dict
            What :meth:`to_dict` gave.
        """
        platt = OnlinePlatt.from_dict(state["platt"])
        if (platt.n_segments, platt.max_shift) != (self._state.n_segments, self._state.max_shift):
            raise ParameterError(
                "the saved online layer has another number of segments or another max_shift: keep them"
            )
        self._state, self.enabled = platt, bool(state["enabled"])
        self._names = {name: position for position, name in enumerate(state["segments"])}
        self._shift = platt.shift(calibeating=self._calibeating)

    def _positions(self, segment: Sequence[str | None] | None, n_rows: int) -> npt.NDArray[np.intp]:
        if segment is None or not self._names:
            return np.full(n_rows, -1)
        return np.array([-1 if name is None else self._names.get(name, -1) for name in segment], dtype=np.intp)
