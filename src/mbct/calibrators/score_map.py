"""Methods that look at the score alone: fitted, they are a frozen map from probability to probability."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import TrainingData
from mbct.calibrators.score_counts import ScoreCounts
from mbct.engines.columns import Columns
from mbct.validation import FloatArray


@dataclass(frozen=True)
class ScoreMap(ABC):
    """A fitted map p → calibrated p: plain numbers and arrays, JSON both ways."""

    @abstractmethod
    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; floats keep every bit."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Undo :meth:`to_dict`."""
        values = {f.name: state[f.name] for f in fields(cls)}
        return cls(**{k: np.asarray(v, dtype=np.float64) if isinstance(v, list) else v for k, v in values.items()})


class ScoreCalibrator(Calibrator):
    """A calibrator whose fitted state is one :class:`ScoreMap`, kept as ``map_``."""

    map_type: ClassVar[type[ScoreMap]]
    map_: ScoreMap

    @abstractmethod
    def fit_map(self, counts: ScoreCounts) -> ScoreMap:
        """Fit the map to rows summed by score."""

    def _fit(self, data: TrainingData) -> None:
        self.map_ = self.fit_map(ScoreCounts.of_rows(data.y_prob, data.y_true, data.weight))

    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:  # noqa: ARG002 - the score alone decides
        return self.map_(y_prob)

    def _state(self) -> dict[str, Any]:
        return self.map_.to_dict()

    def _restore(self, state: dict[str, Any]) -> None:
        self.map_ = self.map_type.from_dict(state)
