"""What ``fit`` and ``predict`` were given, checked once and turned into arrays, and what the trees of MBCT grow on.

A warning says where rows look wrong: columns that are no features, leaks, rows that belong together, swapped labels.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import DataConversionWarning

from mbct.data.blocks import number_blocks
from mbct.data.checks import find_dates, find_dependence, find_earlier_runs, find_identifiers, find_leaks
from mbct.data.columns import Categorical, Columns, encode, fit_bins, read_columns
from mbct.errors import DataError, MBCTWarning, ParameterError
from mbct.model.bins import FeatureBins
from mbct.stats.probabilities import auc_of_rows
from mbct.training.cells import Cells, Level, build_cells
from mbct.training.folds import BlockColumns, BlockNumbers
from mbct.validation import (
    ClassLabels,
    FloatArray,
    as_column,
    as_probabilities,
    as_weights,
    binary_classes,
    same_length,
)

if TYPE_CHECKING:
    from mbct.training.trainer import Preset

Features = Sequence[str | int] | None
"""Columns that the trees may split by; None for all but the score."""
FEWEST = 10  # Rows of the rarer class below which nothing can be told
_WRONG_WAY = 4.0  # Standard errors by which an AUC must lie below one half
MOST_ROWS = 200_000  # Rows that are looked at


@dataclass(frozen=True)
class TrainingData:
    """Rows to fit on: the columns (label taken out), the prediction, the label and the weight of each.

    ``block`` numbers the block of each row, as ``blocks`` say, where rows belong together.
    """

    columns: Columns
    score: str
    y_prob: FloatArray
    y_true: FloatArray
    weight: FloatArray
    labels: ClassLabels = field(default_factory=ClassLabels)
    block: BlockNumbers | None = None
    blocks: BlockColumns | None = None

    def counted(self) -> "TrainingData":
        """The rows whose weight is not zero: a row of weight 0 leaves no trace."""
        counted = self.weight > 0
        return self if counted.all() else self.take(np.flatnonzero(counted))

    def take(self, rows: npt.NDArray[np.intp]) -> "TrainingData":
        """The rows whose numbers are given."""
        return replace(
            self,
            columns=self.columns.take(rows),
            y_prob=self.y_prob[rows],
            y_true=self.y_true[rows],
            weight=self.weight[rows],
            block=None if self.block is None else self.block[rows],
        )


def training_data(
    X: Any,
    y: Any,
    sample_weight: Any,
    y_prob: Any,
    score_column: str | int | None,
    *,
    one_class: bool = False,
    positive: Any = None,
    blocks: BlockColumns | None = None,
    trials: Any = None,
) -> TrainingData:
    """Check and align everything ``fit`` received.

    ``y`` may name the label column of ``X`` and ``sample_weight`` the weight column; ``y_prob`` stands for a
    score that is no column. ``one_class`` allows labels that are all equal; ``positive`` names the positive class.
    Labels that are fractions, or counts out of ``trials``, become a positive and a negative row with their shares of
    the weight.
    """
    columns, labels, label_name = take_labels(read_columns(X), y)
    columns, weight = take_weights(columns, sample_weight)
    columns, block = take_blocks(columns, blocks)
    same_length(columns.n_rows, y=labels)
    if trials is not None:
        columns, labels, weight = _out_of_trials(columns, labels, label_name, weight, trials)
    if trials is not None or _are_fractions(labels[weight > 0]):
        score_name, probability = scores(columns, score_column, y_prob)
        rows = TrainingData(columns, score_name, probability, labels, weight, ClassLabels(), block, blocks)
        return _split_soft(rows, label_name, one_class=one_class)
    found = binary_classes(labels[weight > 0], label_name, positive, one_class=one_class)
    score_name, probability = scores(columns, score_column, y_prob)
    # A row of weight 0 may have any label: it leaves no trace.
    y_true = np.zeros(len(labels))
    y_true[weight > 0] = found.encode(labels[weight > 0], label_name)
    return TrainingData(columns, score_name, probability, y_true, weight, found, block, blocks)


def _are_fractions(labels: npt.NDArray[Any]) -> bool:
    """Whether labels are probabilities: numbers in [0, 1], some of them strictly inside."""
    if labels.dtype.kind != "f" or not len(labels):
        return False
    return bool(np.all((labels >= 0.0) & (labels <= 1.0)) and np.any((labels > 0.0) & (labels < 1.0)))


def _out_of_trials(
    columns: Columns, labels: npt.NDArray[Any], name: str, weight: FloatArray, trials: Any
) -> tuple[Columns, FloatArray, FloatArray]:
    """Columns without the trials, the fraction of positives, and the weight of each row times its trials."""
    if isinstance(trials, str):
        given = as_weights(columns.numpy(trials), columns.n_rows, f"trials column {trials!r}")
        columns = columns.without(trials)
    else:
        given = as_weights(trials, columns.n_rows, "trials")
    if labels.dtype.kind not in "iufb":
        raise DataError(f"{name} must hold counts of positives where trials are given, got {labels[0]!r}")
    counts = labels.astype(np.float64)
    outside = ~((counts >= 0.0) & (counts <= given))
    if outside.any():
        row = int(outside.argmax())
        raise DataError(
            f"{name} is {counts[row]:g} of {given[row]:g} trials in row {row}: it must lie between 0 and them"
        )
    return columns, counts / np.where(given > 0, given, 1.0), weight * given


def _split_soft(rows: TrainingData, name: str, *, one_class: bool) -> TrainingData:
    """Each row as a positive and a negative one, with the shares of its weight that its label says."""
    share = np.where(rows.weight > 0, rows.y_true, 0.0)
    weight = np.concatenate([rows.weight * share, rows.weight * (1.0 - share)])
    both = rows.take(np.tile(np.arange(len(share)), 2))
    both = replace(both, y_true=np.repeat([1.0, 0.0], len(share)), weight=weight).counted()
    if not one_class and len(np.unique(both.y_true)) < 2:
        raise DataError(f"{name} is the same in every row: both classes are needed to see a bias; widen the sample")
    return both


def take_labels(columns: Columns, y: Any) -> tuple[Columns, npt.NDArray[Any], str]:
    """Columns without the label, the label, and what to call it in messages; ``y`` may name a column."""
    if y is None:
        raise DataError("requires y to be passed, but the target y is None: pass the labels, or their column's name")
    if isinstance(y, str):
        return columns.without(y), as_column(columns.numpy(y), f"label column {y!r}"), f"label column {y!r}"
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning, stacklevel=4)
    return columns, as_column(y, "y"), "y"


def take_weights(columns: Columns, sample_weight: Any) -> tuple[Columns, FloatArray]:
    """Columns without the weight, and the weight of each row; ``sample_weight`` may name a column."""
    if isinstance(sample_weight, str):
        name = sample_weight
        return columns.without(name), as_weights(columns.numpy(name), columns.n_rows, f"weight column {name!r}")
    return columns, as_weights(sample_weight, columns.n_rows)


def take_blocks(columns: Columns, blocks: BlockColumns | None) -> tuple[Columns, BlockNumbers | None]:
    """Columns without those of time and groups, and the block of each row; either may be a name or an array."""
    if blocks is None or not blocks.given:
        return columns, None
    given = {"time": blocks.time, "groups": blocks.groups}
    names = [name for name in given.values() if isinstance(name, str)]
    for role, value in given.items():
        if value is not None and not isinstance(value, str) and np.ndim(value) != 1:
            raise DataError(f"{role}={value!r} is no column: pass its name ('x3' for column 3 of an array) or an array")
    same_length(columns.n_rows, **{k: v for k, v in given.items() if v is not None and not isinstance(v, str)})
    time, groups = (columns.column(v) if isinstance(v, str) else v for v in given.values())
    return columns.without(*names), number_blocks(time, groups, blocks.block)


def scores(columns: Columns, score_column: str | int | None, y_prob: Any = None) -> tuple[str, FloatArray]:
    """Name and values of the prediction to calibrate."""
    if y_prob is not None:
        probability = as_probabilities(y_prob, "y_prob")
        same_length(columns.n_rows, y_prob=probability)
        return score_column if isinstance(score_column, str) else "y_prob", probability
    if score_column is None:
        if len(columns.names) > 1:
            raise DataError(
                "which column holds the prediction? pass score_column='name' (or y_prob=…); "
                f"the data has {', '.join(map(repr, columns.names[:12]))}"
            )
        name = columns.names[0]
    else:
        name = columns.name_of(score_column)
    return name, as_probabilities(columns.numpy(name), f"score column {name!r}")


def warn(messages: Iterator[str] | Sequence[str], stacklevel: int) -> None:
    """One warning for each message; ``stacklevel`` counts the callers from here to the user's line."""
    for message in messages:
        warnings.warn(message, MBCTWarning, stacklevel=stacklevel + 1)


def unfit_columns(columns: Columns) -> dict[str, str]:
    """Identifiers, dates and earlier results among the columns, each with the reason why it is no feature."""
    found = (*find_identifiers(columns), *find_dates(columns), *find_earlier_runs(columns.names))
    return {each.column: each.reason for each in found}


def describe_unfit(unfit: dict[str, str], *, kept: bool, advice: str | None = None) -> list[str]:
    """One message about identifiers and dates, where there are any, and ``advice``; ``kept`` if the user names them."""
    what = "kept as features=[…] asks" if kept else "left out, features=[…] would keep them"
    listed = ", ".join(f"{name} ({reason})" for name, reason in unfit.items())
    lines = [*([f"{what}: {listed}"] if unfit else []), *([] if advice is None else [advice])]
    return ["; ".join(lines)] if lines else []


def describe_time_features(excluded: Sequence[str], *, kept: bool) -> list[str]:
    """One message about features that identify the time, where there are any; ``kept`` if the user names them."""
    what = "left out of the rules, because their values identify the time (features=[…] would keep them)"
    if kept:
        what = "features that identify the time, kept because features=[…] names them"
    return [f"{what}: {', '.join(map(repr, excluded))}"] if excluded else []


def suspicions(data: TrainingData, features: Sequence[str], *, whole: bool = True) -> Iterator[str]:
    """What looks wrong about rows to fit on: leaks, decisions instead of scores, swapped labels, too few rows.

    Where they are not the ``whole``, there may be more of them.
    """
    rows = np.arange(len(data.y_true))
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS])
    y_true, y_prob, weight = data.y_true[rows], data.y_prob[rows], data.weight[rows]
    chosen = data.columns.only(features).take(rows)
    leaks = find_leaks(chosen, y_true, y_prob=y_prob, weight=weight) if features else ()
    if leaks:
        listed = ", ".join(map(str, leaks))
        yield f"suspected leak: {listed}; leave out what is not known when predictions are made"
    if set(np.unique(y_prob).tolist()) == {0.0, 1.0}:
        yield "every score is 0 or 1: these look like decisions; pass probabilities, as predict_proba gives them"
    elif (auc := _auc_below_chance(y_prob, y_true, weight)) is not None:
        yield (
            f"the prediction ranks the labels the wrong way round (AUC {auc:.3f}): are the labels swapped, "
            "or is it the probability of the other class?"
        )
    positives = int(np.sum(data.y_true[data.weight > 0]))
    n_rows = int(np.sum(data.weight > 0))
    if whole and min(positives, n_rows - positives) < FEWEST:
        yield f"too few rows to tell: {n_rows:,}, {positives:,} positives; add rows before you trust a calibration"


def _auc_below_chance(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> float | None:
    """The AUC where it is clearly below one half, else None."""
    positives = float(np.sum(y_true))
    negatives = len(y_true) - positives
    if min(positives, negatives) < FEWEST:
        return None
    auc = auc_of_rows(y_prob, y_true, weight)
    error = float(np.sqrt((positives + negatives + 1.0) / (12.0 * positives * negatives)))
    return auc if auc < 0.5 - _WRONG_WAY * error else None


def feature_names(columns: Columns, score_column: str, features: Features) -> list[str]:
    """Names of the ``columns`` that trees may split by, all or some but ``score_column``."""
    if features is None:
        return [name for name in columns.names if name != score_column]
    if isinstance(features, str):
        raise ParameterError(f"features={features!r} must be a list of columns, not one name")
    names = [columns.name_of(name) for name in features]
    if len(set(names)) < len(names):
        raise DataError(f"features names a column twice: {names}")
    columns.require(names)
    return [name for name in names if name != score_column]


def refuse_other_roles(features: Features, **roles: Any) -> None:
    """Raise where one of ``features`` is named as the label, the weight, the time or the groups too."""
    for role, name in roles.items():
        if isinstance(name, str) and not isinstance(features, str) and name in (features or ()):
            raise DataError(f"{name!r} cannot be both a feature and {role}={name!r}: leave it out of features")


def prepared_rows(data: TrainingData, features: Features, *, stacklevel: int, as_given: bool = False) -> TrainingData:
    """``data`` without the identifiers and dates that nobody named as ``features``, unless it is taken ``as_given``.

    Warns of these, of rows that seem to belong together and of what looks wrong; ``stacklevel`` counts the callers from
    here to the user's line.
    """
    if not as_given:
        unfit = unfit_columns(data.columns.only(feature_names(data.columns, data.score, features)))
        warn(describe_unfit(unfit, kept=features is not None, advice=dependence(data)), stacklevel + 1)
        data = data if features is not None else replace(data, columns=data.columns.without(*unfit))
    warn(suspicions(data, feature_names(data.columns, data.score, features)), stacklevel + 1)
    return data


def dependence(data: TrainingData) -> str | None:
    """The argument to add where rows of ``data`` seem to belong together and nothing was said of it."""
    if data.blocks is not None and data.blocks.groups is not None:
        return None
    found = find_dependence(data.columns.without(data.score), data.y_true, data.y_prob, data.block)
    return None if found is None else str(found)


def binned_cells(
    data: TrainingData, features: Features, categorical: Categorical, preset: "Preset"
) -> tuple[FeatureBins, Cells]:
    """Bins of the columns of ``data``, as ``preset`` asks, and the rows joined by their codes."""
    data = data.counted()
    weight = None if np.all(data.weight == 1.0) else data.weight
    names = feature_names(data.columns, data.score, features)
    bins = fit_bins(data.columns, data.score, names, data.y_prob, data.y_true, weight, categorical, preset.binning)
    codes = encode(data.columns, bins, data.y_prob)
    level: Level = "auto" if preset.link == "linear" else "score"  # The paper's trees need sums of equal codes alone.
    return bins, build_cells(codes, data.y_prob, data.y_true, weight, bins, level, data.block)
