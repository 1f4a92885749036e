"""Feature ranking: which columns carry miscalibration, evaluated on held-out rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mbct.calibrators.inputs import (
    binned_cells,
    describe_time_features,
    prepared_rows,
    refuse_other_roles,
    training_data,
    warn,
)
from mbct.data.columns import Categorical
from mbct.evaluation.metrics.results import Table
from mbct.notebook import html_table
from mbct.progress import progress
from mbct.text import table_lines
from mbct.training.evidence import FEATURE_RANKED
from mbct.training.feature_gains import feature_gains
from mbct.training.folds import BlockColumns, BlockSize
from mbct.training.trainer import PRESETS
from mbct.validation import thread_count

_HEADER = ("column", "gain ×1e5", "standard error ×1e5", "")


@dataclass(frozen=True)
class RankedFeature:
    """One column: the fall of the mean held-out log loss that it brings beside the score, and its standard error."""

    column: str
    gain: float
    standard_error: float

    @property
    def helps(self) -> bool:
        """Whether the gain exceeds two standard errors."""
        return self.gain > FEATURE_RANKED * self.standard_error


@dataclass(frozen=True)
class FeatureRanking:
    """Columns by falling gain, and what recalibrating the score alone gains.

    Attributes
    ----------
    score : RankedFeature
        The gain of recalibrating the score alone.
    columns : tuple of RankedFeature
        Every column with its gain beside the score and the standard error of it.
    excluded : tuple of str
        Columns that identify the time: they are not evaluated, and no model is fitted by them.
    """

    score: RankedFeature
    columns: tuple[RankedFeature, ...]
    excluded: tuple[str, ...] = ()

    def best(self, most: int | None = None) -> list[str]:
        """Names of the columns that help, by falling gain.

        Parameters
        ----------
        most : int or None, default=None
            At most so many (the paper took seven); None for all.

        Returns
        -------
        list of str
            Columns whose gain is significant.
        """
        return [advice.column for advice in self.columns if advice.helps][:most]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        columns = [{**vars(a), "helps": a.helps} for a in self.columns]
        return {"score": vars(self.score), "columns": columns, "identify_time": list(self.excluded)}

    def to_frame(self) -> Any:
        """A pandas data frame with one row for each column by falling gain, the score first."""
        ranked = (self.score, *self.columns)
        names = ("column", "gain", "standard_error", "helps")
        return Table(tuple((name, tuple(getattr(a, name) for a in ranked)) for name in names)).to_pandas()

    def __str__(self) -> str:
        return "\n".join([*table_lines(_HEADER, self._rows(), left=("column", "")), *self._notes()])

    def _repr_html_(self) -> str:
        return html_table("Gain of each column beside the score", _HEADER, self._rows(), *self._notes())

    def _rows(self) -> list[tuple[str, ...]]:
        remarks = ["recalibrating the score alone", *("helps" if a.helps else "" for a in self.columns)]
        return [
            (a.column, f"{1e5 * a.gain:.2f}", f"{1e5 * a.standard_error:.2f}", remark)
            for a, remark in zip((self.score, *self.columns), remarks, strict=True)
        ]

    def _notes(self) -> list[str]:
        listed = ", ".join(self.excluded)
        return [f"not evaluated, because their values identify the time: {listed}"] if self.excluded else []


def rank_features(
    X: Any,
    y: Any = None,
    *,
    score_column: str | int | None = None,
    features: Sequence[str | int] | None = None,
    sample_weight: Any = None,
    y_prob: Any = None,
    categorical: Categorical = "auto",
    time: Any = None,
    groups: Any = None,
    block: BlockSize = "day",
    positive: Any = None,
    random_state: int = 0,
    n_threads: int | None = None,
) -> FeatureRanking:
    """Evaluate every column by itself: what it gains beside the score on held-out rows.

    Several columns may carry the same information, and some help only together: take the columns that help
    (``ranking.best()``) as a start, not as the last word.

    Parameters
    ----------
    X, y, sample_weight, y_prob : as in :meth:`mbct.MBCTCalibrator.fit`
        Labelled rows.
    score_column, categorical, positive, n_threads : as in :class:`mbct.MBCTCalibrator`
        Column of the prediction, columns to code by value, the positive class, and threads.
    features : list of str or int, or None, default=None
        Columns to evaluate; None takes all but the score.
    time, groups, block : as in :func:`mbct.compare`
        Which rows belong together: they are held out together, and standard errors are those of whole blocks. Columns
        that identify the time are left out, as in a fit, unless ``features`` names them.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    ranking : FeatureRanking
        Gains with their standard errors, with ``to_dict``, ``to_frame`` and a table when printed.
    """
    blocks = BlockColumns(time, groups, block)
    data = training_data(X, y, sample_weight, y_prob, score_column, positive=positive, blocks=blocks)
    refuse_other_roles(features, y=y, sample_weight=sample_weight, time=time, groups=groups)
    data = prepared_rows(data, features, stacklevel=2)
    bins, cells = binned_cells(data, features, categorical, PRESETS["default"])
    options = replace(blocks.options, keep_all=features is not None)
    ordered = tuple(feature.ordered for feature in bins)
    with progress("evaluating columns", len(bins)) as advance:
        found = feature_gains(cells, ordered, thread_count(n_threads), random_state, advance, options)
    score, *advice = (RankedFeature(bins.names[j], gain.value, gain.standard_error) for j, gain in found.gains.items())
    ranked = tuple(sorted(advice, key=lambda a: (-a.gain, a.column)))
    identifying = tuple(bins.names[j] for j in found.identifying_time)
    if features is None:
        return FeatureRanking(score, ranked, identifying)
    warn(describe_time_features(identifying, kept=True), stacklevel=2)
    return FeatureRanking(score, ranked)
