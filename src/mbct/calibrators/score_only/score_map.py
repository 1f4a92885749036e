"""Methods that look at the score alone: fitted, they are a frozen map from probability to probability."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import TrainingData
from mbct.calibrators.score_only.counts import ScoreCounts
from mbct.data.columns import Columns
from mbct.model.file_check import MOST_CODES, fault, number, numbers, read_list, read_object
from mbct.validation import FloatArray

LARGEST_NUMBER = 1e12
"""In a saved map: far beyond any fit, and products with log-odds are finite."""


@dataclass(frozen=True)
class ScoreMap(ABC):
    """A fitted map p → calibrated p: plain numbers and arrays, JSON both ways."""

    expected: ClassVar[str] = "numbers"
    """What a saved map must hold, in words."""

    @abstractmethod
    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; floats keep every bit."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Undo :meth:`to_dict`; an error where types, lengths or ranges make no sense."""
        content = read_object(state, "state", [f.name for f in fields(cls)])
        return cls(**{f.name: _read(content[f.name], f.type, f"state.{f.name}") for f in fields(cls)}).checked()

    def is_sound(self) -> bool:
        """Whether the values fit together, so that every score gets a probability."""
        return True

    def checked(self) -> Self:
        """The map, or an error where it is not sound."""
        if not self.is_sound():
            raise fault("state", self.to_dict(), self.expected)
        return self


def _read(content: Any, kind: Any, place: str) -> Any:
    if kind is float:
        return number(content, place, -LARGEST_NUMBER, LARGEST_NUMBER)
    length = len(read_list(content, place, MOST_CODES))
    return numbers(content, place, length, -LARGEST_NUMBER, LARGEST_NUMBER)


def rises(values: FloatArray) -> bool:
    """Whether each value is above the one before."""
    return bool(np.all(np.diff(values) > 0.0))


def are_rates(values: FloatArray) -> bool:
    """Whether every value lies in [0, 1]."""
    return bool(np.all((values >= 0.0) & (values <= 1.0)))


def is_step_function(edges: FloatArray, values: FloatArray) -> bool:
    """Whether edges rise and part [0, 1] into as many bins as there are rates."""
    return len(values) == len(edges) + 1 and rises(edges) and are_rates(values)


class ScoreCalibrator(Calibrator):
    """A calibrator whose fitted state is one :class:`ScoreMap`, ``map_``, from prediction to calibrated probability."""

    map_type: ClassVar[type[ScoreMap]]
    map_: ScoreMap

    def __init__(self, score_column: str | int | None = None):
        self.score_column = score_column

    @abstractmethod
    def fit_map(self, counts: ScoreCounts) -> ScoreMap:
        """Fit the map, of the type ``map_type``, to rows summed by score."""

    def _fit(self, data: TrainingData) -> None:
        self.map_ = self.fit_map(ScoreCounts.of_rows(data.y_prob, data.y_true, data.weight))

    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:  # noqa: ARG002 - the score alone decides
        return self.map_(y_prob)

    def _state(self) -> dict[str, Any]:
        return self.map_.to_dict()

    def _restore(self, state: dict[str, Any]) -> None:
        self.map_ = self.map_type.from_dict(state)


@dataclass(frozen=True)
class StepMap(ScoreMap):
    """One value for each bin; an edge belongs to the bin below it.

    >>> StepMap(np.array([0.5]), np.array([0.1, 0.8]))(np.array([0.0, 0.5, 0.6])).tolist()
    [0.1, 0.1, 0.8]
    """

    expected = "edges that rise and one value from 0 to 1 more than edges"
    edges: FloatArray
    values: FloatArray

    def is_sound(self) -> bool:
        """Whether there is a rate for each bin."""
        return is_step_function(self.edges, self.values)

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        return self.values[np.searchsorted(self.edges, y_prob, side="left")]


@dataclass(frozen=True)
class LinearMap(ScoreMap):
    """Straight lines between knots, constant beyond the outermost; never falls where the values do not.

    >>> LinearMap(np.array([0.2, 0.4]), np.array([0.1, 0.2]))(np.array([0.0, 0.3, 1.0])).round(6).tolist()
    [0.1, 0.15, 0.2]
    """

    expected = "knots that rise and as many values from 0 to 1"
    knots: FloatArray
    values: FloatArray

    def is_sound(self) -> bool:
        """Whether there is a rate for each knot."""
        return 0 < len(self.knots) == len(self.values) and rises(self.knots) and are_rates(self.values)

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        if len(self.knots) == 1:
            return np.full(len(y_prob), self.values[0])
        left = np.clip(np.searchsorted(self.knots, y_prob, side="right") - 1, 0, len(self.knots) - 2)
        x0, x1 = self.knots[left], self.knots[left + 1]
        v0, v1 = self.values[left], self.values[left + 1]
        # The share of the way is taken first: a slope over a gap of 1e-300 would overflow.
        share = (np.clip(y_prob, x0, x1) - x0) / (x1 - x0)
        # Rounding must not carry the line past its end, or the map would fall at a knot.
        return np.minimum(v0 + share * (v1 - v0), np.maximum(v0, v1))


@dataclass(frozen=True)
class IdentityMap(ScoreMap):
    """p."""

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """The probabilities as they came."""
        return y_prob


class IdentityCalibrator(ScoreCalibrator):
    """Leaves every score as it is; labels that are all equal are allowed, as nothing is learned from them.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.

    Attributes
    ----------
    map_ : IdentityMap
        p → p.
    """

    method = "identity"
    map_type = IdentityMap
    accepts_one_class = True
    monotone = True
    strict = True

    def fit_map(self, counts: ScoreCounts) -> IdentityMap:  # noqa: ARG002 - every method takes it
        """Nothing to fit."""
        return IdentityMap()
