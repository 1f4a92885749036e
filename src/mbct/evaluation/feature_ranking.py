"""Feature advice: which columns carry miscalibration, judged on rows that were left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mbct.calibrators.inputs import training_data
from mbct.calibrators.mbct import MBCTCalibrator
from mbct.data.memory import Categorical
from mbct.progress import progress
from mbct.training.feature_gain import feature_gains

_SURE = 2.0
"""Standard errors that a gain must exceed to count."""


@dataclass(frozen=True)
class RankedFeature:
    """One column: the fall of the mean held-out log loss that it brings beside the score, and its standard error."""

    column: str
    gain: float
    standard_error: float

    @property
    def helps(self) -> bool:
        """Whether the gain exceeds two standard errors."""
        return self.gain > _SURE * self.standard_error


@dataclass(frozen=True)
class FeatureRanking:
    """Columns by falling gain, and what the score's own curve gains without any of them."""

    score: RankedFeature
    columns: tuple[RankedFeature, ...]

    def best(self, most: int | None = None) -> list[str]:
        """Names of the columns that help, at most so many: the paper took seven."""
        return [advice.column for advice in self.columns if advice.helps][:most]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"score": vars(self.score), "columns": [{**vars(a), "helps": a.helps} for a in self.columns]}

    def __str__(self) -> str:
        width = max(len(advice.column) for advice in (self.score, *self.columns))
        lines = [f"{'column':{width}}  gain ×1e5  standard error ×1e5"]
        lines += [_line(self.score, width) + "  the score's own curve, over the base"]
        lines += [_line(a, width) + ("  helps" if a.helps else "") for a in self.columns]
        return "\n".join(lines)


def _line(advice: RankedFeature, width: int) -> str:
    return f"{advice.column:{width}}  {1e5 * advice.gain:9.2f}  {1e5 * advice.standard_error:19.2f}"


def rank_features(
    X: Any,
    y: Any = None,
    *,
    score_column: str | int | None = None,
    features: Sequence[str | int] | None = None,
    sample_weight: Any = None,
    y_prob: Any = None,
    categorical: Categorical = "auto",
    random_state: int = 0,
    n_threads: int | None = None,
) -> FeatureRanking:
    """Judge every column by itself: what it gains beside the score on rows that were left out of growth.

    Many columns may tell the same story, and some tell theirs only together: take the columns that help as a start,
    not as the last word.
    """
    data = training_data(X, y, sample_weight, y_prob, score_column)
    calibrator = MBCTCalibrator(
        score_column=data.score,
        features=features,
        categorical=categorical,
        random_state=random_state,
        n_threads=n_threads,
    )
    config = calibrator.config()
    bins, cells = calibrator.binned_cells(data, config)
    ordered = tuple(feature.ordered for feature in bins)
    with progress("judging columns", len(bins)) as advance:
        found = feature_gains(cells, ordered, config.n_threads, random_state, advance)
    advice = [
        RankedFeature(name, gain.value, gain.standard_error) for name, gain in zip(bins.names, found, strict=True)
    ]
    return FeatureRanking(advice[0], tuple(sorted(advice[1:], key=lambda a: (-a.gain, a.column))))
