"""Methods that look at the score alone: fitted, they are a frozen map from probability to probability."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import TrainingData
from mbct.engines.columns import Columns
from mbct.validation import FloatArray


@dataclass(frozen=True)
class ScoreMap:
    """A fitted map p → calibrated p: plain numbers and arrays, JSON both ways."""

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; floats keep every bit."""
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Undo :meth:`to_dict`."""
        values = {f.name: state[f.name] for f in fields(cls)}
        return cls(**{k: np.asarray(v, dtype=np.float64) if isinstance(v, list) else v for k, v in values.items()})


class ScoreCalibrator(Calibrator):
    """A calibrator whose fitted state is one :class:`ScoreMap`, kept as ``map_``."""

    map_type: type[ScoreMap]
    map_: ScoreMap

    def fit_map(self, y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> ScoreMap:
        """Fit the map; arrays are checked, weights may be zero."""
        raise NotImplementedError

    def _fit(self, data: TrainingData) -> None:
        counted = data.weight > 0
        self.map_ = self.fit_map(data.y_prob[counted], data.y_true[counted], data.weight[counted])

    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:  # noqa: ARG002
        return self.map_(y_prob)

    def _state(self) -> dict[str, Any]:
        return self.map_.to_dict()

    def _restore(self, state: dict[str, Any]) -> None:
        self.map_ = self.map_type.from_dict(state)
