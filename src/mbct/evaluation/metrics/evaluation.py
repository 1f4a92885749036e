"""One table of everything: all rows, and every segment of every field."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from mbct.errors import ParameterError
from mbct.evaluation.metrics.curve import net_benefit_at_rate
from mbct.evaluation.metrics.multi_view import DEFAULT_BINS, closed_form_of_rows
from mbct.evaluation.metrics.multicalibration import ALL_ROWS, multicalibration_error
from mbct.evaluation.metrics.resampling import IntervalOptions, Resampling, prepare
from mbct.evaluation.metrics.results import Table
from mbct.evaluation.metrics.rows import Rows, Segmentation, check_choice, check_count, read_segments
from mbct.evaluation.metrics.scores import grouped_area
from mbct.evaluation.metrics.totals import block_null, p_value_of_total
from mbct.stats.divisions import uniform_mass
from mbct.stats.expected_error import (
    brownian_range_tail,
    cumulative_error,
    cumulative_scale,
    ece_of_atoms,
    ece_of_bins,
    in_sigmas,
    smooth_error,
    sweep_bins,
)
from mbct.stats.partition_error import (
    calibration_n,
    debiased_error,
    field_error,
    finer_partition_error,
    partition_error,
    prediction_ratio,
    relative_field_error,
)
from mbct.stats.probabilities import auc_of_atoms
from mbct.stats.testing import CORRECTIONS
from mbct.validation import FloatArray

OTHER = "(other)"
BLOCKS = 100
PARTS = 4

METRICS: dict[str, Callable[[Rows], float]] = {
    "label_rate": lambda rows: rows.label_rate,
    "mean_prediction": lambda rows: float(rows.whole.pred[0] / rows.whole.count[0]),
    "pcoc": lambda rows: float(prediction_ratio(rows.whole)[0]),
    "pce": lambda rows: float(partition_error(rows.whole)[0]),
    "bfgpce": lambda rows: finer_partition_error(rows.atoms, PARTS),
    "log_loss": lambda rows: rows.log_loss,
    "normalised_entropy": lambda rows: rows.normalised_entropy,
    "brier": lambda rows: rows.brier,
    "miscalibration": lambda rows: rows.decomposition.miscalibration,
    "discrimination": lambda rows: rows.decomposition.discrimination,
    "uncertainty": lambda rows: rows.decomposition.uncertainty,
    "log_loss_miscalibration": lambda rows: rows.log_loss_parts.miscalibration,
    "log_loss_discrimination": lambda rows: rows.log_loss_parts.discrimination,
    "log_loss_uncertainty": lambda rows: rows.log_loss_parts.uncertainty,
    "auc": lambda rows: auc_of_atoms(rows.atoms),
    "ece": lambda rows: ece_of_bins(rows.default_bins, 1.0),
    "mce": lambda rows: ece_of_bins(rows.default_bins, np.inf),
    "ece_sweep": lambda rows: ece_of_atoms(rows.atoms, sweep_bins(rows.atoms), 2.0),
    "debiased_ece": lambda rows: debiased_error(rows.default_bins),
    "smooth_ece": lambda rows: smooth_error(rows.atoms),
    "mvce": lambda rows: closed_form_of_rows(rows, DEFAULT_BINS, 2.0),
    "cal_n": lambda rows: calibration_n(uniform_mass(rows.atoms, BLOCKS))[0],
    "ecce": lambda rows: cumulative_error(rows.atoms),
    "ici": lambda rows: rows.curve_distances[0],
    "e50": lambda rows: rows.curve_distances[1],
    "e90": lambda rows: rows.curve_distances[2],
    "net_benefit": net_benefit_at_rate,
}
"""Columns of the table, each at the defaults of the metric of that name (``mvce``: the closed form)."""


def _variational_error(rows: Rows) -> float:
    from mbct.evaluation.metrics.curve import variational_error  # fits calibrators, which others need not import

    return float(variational_error(rows.y_true, rows.y_prob, sample_weight=rows.weight))


ON_REQUEST: dict[str, Callable[[Rows], float]] = {"variational_error": _variational_error}
"""Metrics that :func:`evaluate` computes where they are named."""

SHARES = {"label_rate", "mean_prediction", "auc"}
"""Metrics that cannot exceed 1, and whose intervals do not."""

SHOWN = (
    "field",
    "segment",
    "count",
    "label_rate",
    "mean_prediction",
    "pcoc",
    "pcoc_low",
    "pcoc_high",
    "log_loss",
    "auc",
    "ece",
    "ecce",
    "p_value",
)
"""Columns of the segments that are printed; the others are in the data frame."""


@dataclass(frozen=True)
class Evaluation:
    """What :func:`evaluate` found; prints as tables, in notebooks as HTML."""

    segments: Table
    """All rows first, then every segment: a row each, a column a metric."""
    fields: Table | None
    """Errors over the values of each field and their means; None without fields."""
    multicalibration_error: float | None
    """Multicalibration error over the fields; None without fields."""
    notes: tuple[str, ...]
    """How the p-values and intervals were found."""
    intervals: Table | None = None
    """For each row of ``segments`` the ends of every metric's interval, ``ece_low`` and ``ece_high``."""

    @property
    def overall(self) -> dict[str, Any]:
        """The first row, all data, as a dict of column names to values."""
        return {name: values[0] for name, values in self.segments.columns}

    def to_dict(self) -> dict[str, Any]:
        """Everything as a dict of plain JSON values."""
        return {
            "segments": self.segments.to_dict(),
            "intervals": None if self.intervals is None else self.intervals.to_dict(),
            "fields": None if self.fields is None else self.fields.to_dict(),
            "multicalibration_error": self.multicalibration_error,
            "notes": list(self.notes),
        }

    def to_pandas(self) -> Any:
        """The segments as a pandas data frame, the intervals beside them."""
        bounds = () if self.intervals is None else self.intervals.columns[2:]
        return Table((*self.segments.columns, *bounds)).to_pandas()

    def __str__(self) -> str:
        parts = [str(self._all_rows())]
        if self.fields is not None:
            parts += [str(self.shown()), str(self.fields)]
        if self.multicalibration_error is not None:
            parts.append(f"multicalibration error {self.multicalibration_error:.5g}")
        return "\n\n".join(parts) + "\n" + "\n".join(self.notes)

    def _repr_html_(self) -> str:
        tables = [self._all_rows(), *([self.shown(), self.fields] if self.fields is not None else [])]
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return "".join(table._repr_html_() for table in tables) + notes

    def shown(self) -> Table:
        """The segments, in columns that fit a terminal."""
        bounds = () if self.intervals is None else self.intervals.columns[2:]
        known = dict((*self.segments.columns, *bounds))
        return Table(tuple((name, known[name][1:]) for name in SHOWN if name in known))

    def _all_rows(self) -> Table:
        """The first row as a column, its intervals beside it."""
        names = list(self.overall)[2:]
        columns = [("all rows", tuple(names)), ("", tuple(self.overall[name] for name in names))]
        if self.intervals is not None:
            ends = {name: values[0] for name, values in self.intervals.columns}
            columns += [
                (end, tuple(ends.get(f"{name}_{end}", float("nan")) for name in names)) for end in ("low", "high")
            ]
        return Table(tuple(columns))


def evaluate(
    y_true: Any,
    y_prob: Any,
    *,
    by: Any = None,
    metrics: Sequence[str] | None = None,
    max_values: int = 20,
    correction: str = "holm",
    sample_weight: Any = None,
    **resampling: Unpack[IntervalOptions],
) -> Evaluation:
    """Every metric over all rows and, for each column of ``by``, over each of its values.

    Parameters
    ----------
    y_true, y_prob, sample_weight : as in :mod:`mbct.metrics`
        Labels, predictions and weights of the rows.
    by : frame, mapping, array or None, default=None
        Columns whose values are the segments.
    metrics : list of str or None, default=None
        Metrics to compute, by name; None computes all but ``variational_error``, which takes seconds and has no
        interval here.
    max_values : int, default=20
        Values of a column that get a row of their own, largest first; the rest share one. Errors over fields use all.
    correction : "holm" or "benjamini-hochberg", default="holm"
        Correction of ``p_value`` for the number of segments. It is that of each segment's ECCE; with ``time`` or
        ``groups``, of its predicted against its observed positives, by the sums of whole blocks.
    **resampling : as in :mod:`mbct.metrics`
        Keywords of the intervals; here ``confidence`` defaults to 0.95 and ``n_bootstrap`` to 100. All metrics share
        the resamples; intervals are not corrected for their number. ``confidence=None`` leaves them out, which is many
        times as fast.

    Returns
    -------
    evaluation : Evaluation
        Tables of segments, intervals and fields, with ``to_dict`` and ``to_pandas``.
    """
    chosen = _chosen(metrics)
    options: IntervalOptions = {"confidence": 0.95, "n_bootstrap": 100, **resampling}
    check_count("max_values", max_values)
    check_choice("correction", correction, tuple(CORRECTIONS))
    fields = () if by is None else read_segments(by)
    rows, how = prepare(y_true, y_prob, sample_weight, options, tuple(field.codes for field in fields))
    named = _parts(rows, fields, max_values)
    parts = [rows, *(rows.take(mask) for _, _, mask in named[1:])]
    columns: list[tuple[str, tuple[Any, ...]]] = [
        ("field", tuple(field for field, _, _ in named)),
        ("segment", tuple(label for _, label, _ in named)),
        ("count", tuple(float(part.weight.sum()) for part in parts)),
        *((name, tuple((METRICS | ON_REQUEST)[name](part) for part in parts)) for name in chosen),
        ("p_value", _p_values(parts, correction)),
    ]
    tested = f"{correction} correction over {len(named) - 1} segments" if len(named) > 1 else "one test"
    if rows.blocks is None:
        notes = [f"p_value: ECCE against the range of Brownian motion, as if the predictions were right; {tested}"]
    else:
        notes = [f"p_value: predicted against observed positives, if {block_null(rows)}; {tested}"]
    intervals = None
    if how.confidence is not None:
        resampled = [name for name in chosen if name not in ON_REQUEST]
        intervals = _intervals(rows, fields, max_values, Table(tuple(columns)), resampled, how)
        drawn = "" if rows.blocks is None else f" of {int(rows.blocks.max()) + 1:,} whole blocks"
        resamples = f"{how.n_bootstrap} resamples{drawn}"
        notes.append(f"intervals: {how.confidence:.0%}, basic bootstrap, {resamples}, each on its own")
    if not fields:
        return Evaluation(Table(tuple(columns)), None, None, tuple(notes), intervals)
    worst = multicalibration_error(
        y_true,
        y_prob,
        by,
        min_rows=1,
        correction=correction,
        sample_weight=sample_weight,
        time=options.get("time"),
        groups=options.get("groups"),
        block=options.get("block", "day"),
    )
    notes.append(f"worst: {worst}")
    return Evaluation(Table(tuple(columns)), _field_table(rows, fields), worst.value, tuple(notes), intervals)


def _parts(rows: Rows, fields: tuple[Segmentation, ...], most: int) -> list[tuple[str, str, npt.NDArray[np.bool_]]]:
    """Field, segment and which rows: all of them, then the ``most`` largest values of each field, and its rest."""
    parts = [("", ALL_ROWS, np.ones(len(rows), dtype=np.bool_))]
    for codes, field in zip(rows.groups, fields, strict=True):
        weight = np.bincount(codes, rows.weight, len(field))
        largest = np.sort(np.argsort(-weight, kind="stable")[:most])
        parts += [(field.name, field.labels[code], codes == code) for code in largest if weight[code] > 0]
        rest = ~np.isin(codes, largest)
        parts += [(field.name, OTHER, rest)] if rest.any() else []
    return parts


def _intervals(
    rows: Rows,
    fields: tuple[Segmentation, ...],
    max_values: int,
    values: Table,
    chosen: list[str],
    resampling: Resampling,
) -> Table:
    """Ends of the interval of every metric in every part, from resamples that all of them share."""
    ordered = rows.in_one_order()
    plain = replace(ordered, groups=())
    parts = [(plain.take(mask), np.flatnonzero(mask)) for _, _, mask in _parts(ordered, fields, max_values)]

    def measure(times: npt.NDArray[np.intp]) -> FloatArray:
        weight = ordered.drawn(times).weight
        found = np.full((len(chosen), len(parts)), np.nan)
        for k, (part, index) in enumerate(parts):
            drawn = replace(part, weight=weight[index])
            if drawn.weight.any():
                found[:, k] = [METRICS[name](drawn) for name in chosen]
        return found

    replicates = resampling.replicates(ordered, measure)
    columns: list[tuple[str, tuple[Any, ...]]] = [(name, values[name]) for name in ("field", "segment")]
    for m, name in enumerate(chosen):
        highest = 1.0 if name in SHARES else np.inf
        found = [
            resampling.interval_of(value, replicates[:, m, k], highest=highest) for k, value in enumerate(values[name])
        ]
        columns.append((f"{name}_low", tuple(each.lower for each in found)))
        columns.append((f"{name}_high", tuple(each.upper for each in found)))
    return Table(tuple(columns))


def _chosen(metrics: Sequence[str] | None) -> list[str]:
    if metrics is None:
        return list(METRICS)
    known = [*METRICS, *ON_REQUEST]
    if isinstance(metrics, str) or not set(metrics) <= set(known):
        raise ParameterError(f"metrics must be a list of names among {', '.join(known)}; got {metrics!r}")
    return list(metrics)


def _p_values(parts: list[Rows], correction: str) -> tuple[float, ...]:
    """All rows' own p-value, then those of the segments, corrected for their number."""
    raw = np.asarray([_p_value(part) for part in parts])
    return (float(raw[0]), *map(float, CORRECTIONS[correction](raw[1:])))


def _p_value(part: Rows) -> float:
    """That of the ECCE; rows of blocks have no known law of it, but of their total."""
    if part.blocks is not None:
        return p_value_of_total(part)
    return brownian_range_tail(in_sigmas(cumulative_error(part.atoms), cumulative_scale(part.y_prob, part.weight)))


def _field_table(rows: Rows, fields: tuple[Segmentation, ...]) -> Table:
    """Field-ECE and Field-RCE of each field, and their means over fields."""
    values = [rows.values(i, len(field)) for i, field in enumerate(fields)]
    relative = [relative_field_error(each) for each in values]
    columns: dict[str, list[float]] = {
        "values": [float(np.sum(each.count > 0)) for each in values],
        "field_ece": [field_error(each) for each in values],
        "field_rce": [each.seen for each in relative],
        "field_rce_all": [each.all_values for each in relative],
        "unseen_share": [each.unseen_share for each in relative],
        "grouped_auc": [grouped_area(rows, i, len(field)).value for i, field in enumerate(fields)],
    }
    names = [*(field.name for field in fields), "(mean)"]
    means = {name: [*each, float(np.mean(each))] for name, each in columns.items()}
    return Table((("field", tuple(names)), *((name, tuple(each)) for name, each in means.items())))
