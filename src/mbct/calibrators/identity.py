"""The identity: the base as it is, the yardstick of every comparison."""

from dataclasses import dataclass

from mbct.calibrators.score_counts import ScoreCounts
from mbct.calibrators.score_map import ScoreCalibrator, ScoreMap
from mbct.validation import FloatArray


@dataclass(frozen=True)
class IdentityMap(ScoreMap):
    """p."""

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """The probabilities as they came."""
        return y_prob


class IdentityCalibrator(ScoreCalibrator):
    """Leaves every score as it is; labels that are all equal are allowed, as nothing is learned from them."""

    method = "identity"
    map_type = IdentityMap
    accepts_one_class = True
    monotone = True
    strict = True

    def __init__(self, score: str | int | None = None):
        self.score = score

    def fit_map(self, counts: ScoreCounts) -> IdentityMap:  # noqa: ARG002 - every method takes it
        """Nothing to fit."""
        return IdentityMap()
