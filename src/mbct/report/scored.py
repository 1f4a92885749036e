"""The rows a report is about: checked, calibrated, cut into segments; and what had to be left out."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import take_labels, take_weights
from mbct.calibrators.multiclass.scores import ManyScores
from mbct.calibrators.persistence import load_model
from mbct.data.blocks import as_times
from mbct.data.checks import SuspectColumn, find_dates, find_identifiers, find_leaks
from mbct.data.columns import Columns, as_floats, column_name, is_number, read_columns
from mbct.errors import DataError
from mbct.evaluation.diagnostics.calibrated_rows import CalibratedRows, calibrated_rows, check_calibrator
from mbct.evaluation.metrics.evaluation import Evaluation
from mbct.evaluation.metrics.many_classes import evaluate_classes
from mbct.evaluation.metrics.resampling import IntervalOptions, number_rows
from mbct.evaluation.metrics.rows import Rows, Segmentation, missing_values, segment
from mbct.model.ensemble import CalibrationEnsemble
from mbct.validation import FloatArray, as_probabilities, class_labels, same_length

if TYPE_CHECKING:
    from mbct.training.folds import BlockSize

MOST_NUMBERS = 20
"""A column of numbers with more distinct values is cut into deciles."""
CLASS = "class"
"""Field of the class in the report of many classes."""
IDENTIFIER_SHARE = 0.5
"""A column with more distinct values than this share of the rows is taken for an identifier."""


@dataclass(frozen=True)
class Exclusion:
    """Something that was left out, how much of it, and why."""

    what: str
    amount: str
    why: str


@dataclass(frozen=True)
class Scored:
    """Rows before and after the calibration, with the same segments."""

    calibrator: Calibrator
    predictions: CalibratedRows
    fields: tuple[Segmentation, ...]
    before: Rows
    after: Rows
    exclusions: tuple[Exclusion, ...]
    leaks: tuple[SuspectColumn, ...] = ()
    """Features that alone separate the labels."""
    time: npt.NDArray[Any] | None = None
    """When each row happened: dates or whole numbers."""
    blocks: npt.NDArray[np.int32] | None = None
    """Number of the day or group of each row, where rows belong together, for resampling."""
    classes: tuple[str, ...] = ()
    """Of a model of many classes: every row stands here once for each, as that class against the rest."""
    many: tuple[Evaluation, Evaluation] | None = None
    """Metrics of all classes together, before and after."""

    @property
    def model(self) -> CalibrationEnsemble | None:
        """The trees, where the calibrator has some."""
        model = getattr(self.calibrator, "model_", None)
        return model if isinstance(model, CalibrationEnsemble) else None

    @property
    def tested_by(self) -> str:
        """What intervals and tests of segments and bins go by, in words."""
        if self.before.blocks is None:
            return "by single rows, taken for independent"
        return f"by the sums of {int(self.before.blocks.max()) + 1:,} whole blocks of rows"

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""
        return len(self.before) // max(len(self.classes), 1)


def score_rows(
    calibrator_or_path: Any,
    X: Any,
    y: Any,
    score_column: str | int | None = None,
    sample_weight: Any = None,
    by: Sequence[str] | None = None,
    time: Any = None,
    groups: Any = None,
    block: "BlockSize" = "day",
) -> Scored:
    """Read the model if a path is given, drop what cannot be evaluated, calibrate the rest and cut it into segments.

    Segments are those of the columns ``by``; if None, of the model's features, or of all columns where it has none.
    ``time`` is a column's name, or dates or whole numbers for each row; ``groups`` a column's name or any values.
    """
    given: IntervalOptions = {"time": time, "groups": groups, "block": block}
    calibrator = (
        load_model(calibrator_or_path) if isinstance(calibrator_or_path, str | os.PathLike) else calibrator_or_path
    )
    columns, labels, label_name = take_labels(read_columns(X), y)
    same_length(columns.n_rows, y=labels)
    if isinstance(getattr(calibrator, "score_column_", None), list):
        return _score_classes(calibrator, columns, labels, sample_weight, by, given)
    check_calibrator(calibrator)
    name = calibrator.score_column_ if score_column is None else column_name(score_column)
    kept, exclusions = _usable(columns, labels, [name], sample_weight)
    calibrator.encode_labels(labels[kept], label_name)
    columns, weight = columns.take(np.flatnonzero(kept)), _kept(sample_weight, kept)
    other = None if score_column is None else as_probabilities(columns.numpy(name), f"score {name!r}")
    rows = calibrated_rows(calibrator, dict(columns.by_name), labels[kept], sample_weight=weight, y_prob=other)
    if name != rows.score:  # the column that stood in for the score is no segment
        rows = replace(rows, columns=rows.columns.without(name))
    features = _features(rows.columns, calibrator, [rows.score])
    fields, left_out = _fields(_segment_columns(rows.columns, features, [rows.score], by))
    codes = tuple(field.codes for field in fields)
    leaks = find_leaks(features, rows.y_true, y_prob=rows.before, weight=rows.weight)
    when, blocks, in_order = _blocks(columns, kept, given)
    before, after = (Rows(p, rows.y_true, rows.weight, codes, blocks, in_order) for p in (rows.before, rows.after))
    return Scored(calibrator, rows, fields, before, after, (*exclusions, *left_out), leaks, when, blocks)


def _blocks(
    columns: Columns, kept: npt.NDArray[np.bool_], given: IntervalOptions
) -> tuple[npt.NDArray[Any] | None, npt.NDArray[np.int32] | None, bool]:
    """When each row that is kept happened, the number of its block, and whether blocks are in the order of time."""
    of_rows = {"time": given.get("time"), "groups": given.get("groups")}
    same_length(len(kept), **{k: v for k, v in of_rows.items() if v is not None and not isinstance(v, str)})
    time, groups = (columns.column(v) if isinstance(v, str) else _kept(v, kept) for v in of_rows.values())
    blocks, in_order = number_rows(columns.n_rows, {**given, "time": time, "groups": groups})
    return None if time is None else as_times(time), blocks, in_order


def _score_classes(
    calibrator: ManyScores,
    columns: Columns,
    labels: npt.NDArray[Any],
    sample_weight: Any,
    by: Sequence[str] | None,
    given: IntervalOptions,
) -> Scored:
    """Each row once for each class, whether it is of that class; resampled together, with the class as a segment."""
    scores = list(calibrator.score_column_)
    kept, exclusions = _usable(columns, labels, scores, sample_weight)
    columns, weight = take_weights(columns.take(np.flatnonzero(kept)), _kept(sample_weight, kept))
    names = calibrator.classes_.tolist()
    code = class_labels(labels[kept], "the label", calibrator.classes_)[1]
    before = np.column_stack([as_probabilities(columns.numpy(name), f"score {name!r}") for name in scores])
    after = calibrator.calibrate(dict(columns.by_name))
    was, now = (
        evaluate_classes(calibrator.classes_[code], p, classes=names, sample_weight=weight) for p in (before, after)
    )
    when, blocks, in_order = _blocks(columns, kept, given)
    features = _features(columns, calibrator, scores)
    fields, left_out = _fields(_segment_columns(columns, features, scores, by))
    position = np.tile(np.arange(len(code)), len(names))
    own = np.repeat(np.arange(len(names)), len(code))
    classes = Segmentation(CLASS, own, tuple(map(str, names)))
    # Over all classes predictions and labels of a segment both sum to its rows: only with a class can it be off.
    stacked = (classes, *(_with_class(field, position, classes) for field in fields))
    hit = np.concatenate([code == k for k in range(len(names))]).astype(np.float64)
    groups_of = tuple(field.codes for field in stacked)
    own_block = None if blocks is None else blocks[position]
    first, second = (Rows(p.T.ravel(), hit, weight[position], groups_of, own_block, in_order) for p in (before, after))
    named = {field.name: np.asarray(field.labels)[field.codes] for field in stacked}
    together = Columns(named, len(position))
    return Scored(
        calibrator,
        CalibratedRows(together, scores[0], hit, first.y_prob, second.y_prob, first.weight),
        stacked,
        first,
        second,
        (*exclusions, *left_out),
        time=None if when is None else when[position],
        blocks=np.arange(len(code), dtype=np.int32)[position] if own_block is None else own_block,
        classes=classes.labels,
        many=(was, now),
    )


def _with_class(field: Segmentation, position: npt.NDArray[np.intp], classes: Segmentation) -> Segmentation:
    """Each value of a field with each class."""
    labels = tuple(f"{value}, {name}" for value in field.labels for name in classes.labels)
    return Segmentation(f"{field.name}, {CLASS}", field.codes[position] * len(classes) + classes.codes, labels)


def _kept(given: Any, kept: npt.NDArray[np.bool_]) -> Any:
    """The rows that are kept of an array; a column's name or one number for all rows stays as it is."""
    return given if given is None or isinstance(given, str | int | float) else np.asarray(given)[kept]


def _segment_columns(columns: Columns, features: Columns, scores: Sequence[str], by: Sequence[str] | None) -> Columns:
    """The columns ``by``; if None the model's features, or all but the scores where it has none."""
    if by is not None:
        columns.require(by)
        return columns.only(by)
    return features if features.names else columns.without(*scores)


def _features(columns: Columns, calibrator: Calibrator, scores: Sequence[str]) -> Columns:
    """The columns that the calibrator looks at beside the scores."""
    used = {*map(str, calibrator.feature_names_in_)} - {*scores}
    return columns.only(name for name in columns.names if name in used)


def _usable(
    columns: Columns, labels: npt.NDArray[Any], score_columns: Sequence[str], sample_weight: Any
) -> tuple[npt.NDArray[np.bool_], list[Exclusion]]:
    """Rows that have a label, a prediction and a weight, and what the others lack."""
    kept, dropped = np.ones(columns.n_rows, dtype=np.bool_), []
    weight = columns.numpy(sample_weight) if isinstance(sample_weight, str) else sample_weight
    faults = [(missing_values(labels), "without a label to compare the prediction with")]
    scores = [name for name in score_columns if name in columns]
    faults += [(missing_values(columns.numpy(name)), "without a prediction to calibrate") for name in scores]
    if weight is not None and not isinstance(weight, int | float):
        faults.append((np.asarray(weight) == 0, "of weight 0, which count for nothing"))
    for fault, why in faults:
        same_length(columns.n_rows, sample_weight=fault)
        number = int(np.sum(fault & kept))
        if number:
            dropped.append(Exclusion("rows", f"{number:,}", why))
        kept &= ~fault
    if not kept.any():
        raise DataError(f"none of the {columns.n_rows:,} rows has a label, a prediction and a weight; check the data")
    return kept, dropped


def _fields(columns: Columns) -> tuple[tuple[Segmentation, ...], list[Exclusion]]:
    """Columns as segments, but for constants, identifiers and dates."""
    fields, left_out = [], []
    unfit = {each.column: each.reason for each in (*find_identifiers(columns), *find_dates(columns))}
    for name in columns.names:
        if name in unfit:
            left_out.append(Exclusion(f"segments of column {name!r}", "all values", unfit[name]))
            continue
        column = columns.numpy(name)
        found = segment_field(columns, name, column)
        n_values = len(found)
        if n_values < 2:
            left_out.append(Exclusion(f"segments of column {name!r}", "1 value", "the same value in every row"))
        elif n_values > max(IDENTIFIER_SHARE * len(column), MOST_NUMBERS):
            why = "nearly every row has its own value: an identifier, not a segment"
            left_out.append(Exclusion(f"segments of column {name!r}", f"{n_values:,} values", why))
        else:
            fields.append(found)
    return tuple(fields), left_out


def segment_field(columns: Columns, name: str, column: npt.NDArray[Any]) -> Segmentation:
    """The column by value or, where it holds many numbers, by deciles."""
    if is_number(columns.column(name)):
        values = as_floats(columns.column(name))
        known = values[~np.isnan(values)]
        if len(np.unique(known)) > MOST_NUMBERS:
            return _deciles(name, values, known)
    return segment(column, name)


def _deciles(name: str, values: FloatArray, known: FloatArray) -> Segmentation:
    """Ten parts of about equal size, named by their own smallest and largest value."""
    edges = np.unique(np.quantile(known, np.arange(1, 10) / 10, method="inverted_cdf"))
    codes = np.searchsorted(edges, values, side="left").astype(np.int64)
    missing = np.isnan(values)
    present = np.unique(codes[~missing])
    labels = []
    for code in present:
        part = values[~missing & (codes == code)]
        low, high = float(part.min()), float(part.max())
        labels.append(f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}")
    renumbered = np.searchsorted(present, codes).astype(np.int64)
    renumbered[missing] = len(labels)
    return Segmentation(name, renumbered, (*labels, "(missing)") if missing.any() else tuple(labels))
