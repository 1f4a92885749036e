"""The frozen model of many classes: a linear map of the scores' logarithms, and trees that move each class."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from mbct.model.bins import CodeMatrix, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file_check import fault, number, numbers, read_list, read_object
from mbct.stats.probabilities import EPSILON, log_scores, softmax
from mbct.validation import FloatArray

LOG_RANGE = 16.0
"""Inverse temperatures lie between e⁻¹⁶ and e¹⁶."""
LOWEST_FLOOR = 1e-300
_LARGEST = 1e12


@dataclass(frozen=True, eq=False)
class ClassScaling:
    """W·x + b, x = ln((1 − u)·softmax(a·ln p) + u/K), p one score for each class, held at or above ``floor``."""

    weights: FloatArray
    """W, of shape (K, K)."""
    intercept: FloatArray
    """b, of shape (K,)."""
    inverse_temperature: float = 1.0
    """a."""
    uniform: float = 0.0
    """u."""
    floor: float = EPSILON

    @classmethod
    def identity(cls, n_classes: int, **tempered: float) -> Self:
        """The scores as they are, or only tempered."""
        return cls(np.eye(n_classes), np.zeros(n_classes), **tempered)

    def with_coefficients(self, beta: FloatArray) -> Self:
        """The same tempering before W and b, the columns of ``beta``."""
        return replace(self, weights=np.ascontiguousarray(beta[:, :-1]), intercept=beta[:, -1].copy())

    def tempered(self, probabilities: FloatArray) -> FloatArray:
        """The logarithms x."""
        scaled = softmax(self.inverse_temperature * log_scores(probabilities, self.floor))
        mixed = (1.0 - self.uniform) * scaled + self.uniform / probabilities.shape[1]
        return np.asarray(np.log(mixed), dtype=np.float64)

    def __call__(self, probabilities: FloatArray) -> FloatArray:
        """Log-weights of the classes, shape (n, K)."""
        x = self.tempered(probabilities)
        z = np.tile(self.intercept, (len(x), 1))
        # Class by class instead of one product of matrices: a row's result does not depend on its neighbours.
        for k in range(len(self.intercept)):
            z += x[:, k : k + 1] * self.weights[:, k]
        return z

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; floats keep every bit."""
        arrays = {"weights": self.weights.tolist(), "intercept": self.intercept.tolist()}
        return {**arrays, "inverse_temperature": self.inverse_temperature, "uniform": self.uniform, "floor": self.floor}

    @classmethod
    def from_dict(cls, state: dict[str, Any], n_classes: int) -> Self:
        """Undo :meth:`to_dict`; a state without a temperature has none, an error where no logarithm would be finite."""
        read_object(state, "state", ("weights", "intercept"))
        rows = read_list(state["weights"], "state.weights", n_classes, least=n_classes)
        *weights, intercept = (
            numbers(row, "state.weights and intercept", n_classes, -_LARGEST, _LARGEST)
            for row in (*rows, state["intercept"])
        )
        most = float(np.exp(LOG_RANGE))
        inverse = number(state.get("inverse_temperature", 1.0), "state.inverse_temperature", 0.0, most)
        uniform = number(state.get("uniform", 0.0), "state.uniform", 0.0, 1.0)
        if inverse > 1.0 and uniform == 0.0:
            raise fault("state.uniform", uniform, "a share above 0 where the inverse temperature is above 1")
        floor = number(state.get("floor", EPSILON), "state.floor", LOWEST_FLOOR, EPSILON)
        return cls(np.stack(weights), intercept, inverse, uniform, floor)


@dataclass(frozen=True, eq=False)
class ClassModel:
    """softmax(z), z the ``scaling`` of the scores plus, for each class, the summed leaf values of its trees.

    What exports and the service need of a calibrator of many classes.
    """

    scores: tuple[str, ...]
    """Columns of the scores."""
    classes: tuple[str, ...]
    """Class of each, as text."""
    scaling: ClassScaling
    ensembles: tuple[CalibrationEnsemble, ...] = ()
    """The trees of each class, over bins of the scores first; none where the scores alone decide."""

    @cached_property
    def bins(self) -> FeatureBins:
        """The columns that the model looks at, scores first."""
        if self.ensembles:
            return self.ensembles[0].bins
        return FeatureBins(tuple(NumberBins(name, ()) for name in self.scores))

    def calibrate_codes(self, codes: CodeMatrix, probabilities: FloatArray) -> FloatArray:
        """Probabilities of all classes of coded rows."""
        z = self.scaling(probabilities)
        for k, ensemble in enumerate(self.ensembles):
            z[:, k] += ensemble.tree_total(codes)
        return softmax(z)
