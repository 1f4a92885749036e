"""A calibration error against the number of bins it is taken over."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.errors import ParameterError
from mbct.evaluation.diagnostics.subgroups import bins_of_equal_weight
from mbct.evaluation.metrics.multi_view import DEFAULT_BINS, closed_form_of_rows
from mbct.evaluation.metrics.rows import Rows, Segmentation, check_choice, check_count, read_rows
from mbct.stats.divisions import uniform_mass
from mbct.stats.expected_error import ece_of_atoms
from mbct.stats.multi_view import closed_form_mvce
from mbct.stats.partition_error import debiased_error, field_error, norm_of_errors, partition_error
from mbct.validation import FloatArray

DEFAULT_NUMBERS = (5, 10, 15, 20, 32, 50, 75, 100, 150, 200)
METRICS: dict[str, Callable[[Rows, int], float]] = {
    "ece": lambda rows, n_bins: ece_of_atoms(rows.atoms, n_bins, 1.0),
    "debiased_ece": lambda rows, n_bins: debiased_error(uniform_mass(rows.atoms, n_bins)),
    "mvce": lambda rows, n_bins: closed_form_of_rows(rows, n_bins, 2.0),
}
"""Metrics that depend on a number of bins; MVCE in closed form."""


@dataclass(frozen=True, eq=False)
class BinsCurve:
    """The metric's values for each number of bins."""

    name: str
    metric: str
    n_bins: FloatArray
    value: FloatArray


def compute_bins_curves(
    y_true: Any, y_prob: Any, *, metric: str = "ece", n_bins: Sequence[int] = DEFAULT_NUMBERS, sample_weight: Any = None
) -> tuple[BinsCurve, ...]:
    """The metric for each number of bins; ``y_prob`` is one column, or a mapping of names to columns.

    >>> curves = compute_bins_curves([0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8], n_bins=[1, 2])
    >>> curves[0].value.round(3).tolist()
    [0.05, 0.2]
    """
    value = METRICS[check_choice("metric", metric, tuple(METRICS))]
    numbers = [check_count("n_bins", number) for number in n_bins]
    if not numbers:
        raise ParameterError("n_bins is empty: give at least one number of bins")
    named = y_prob if isinstance(y_prob, Mapping) else {"": y_prob}
    curves = []
    for name, column in named.items():
        rows = read_rows(y_true, column, sample_weight)
        values = np.asarray([value(rows, number) for number in numbers])
        curves.append(BinsCurve(str(name), metric, np.asarray(numbers, dtype=np.float64), values))
    return tuple(curves)


_FOLDED = float(np.sqrt(2.0 / np.pi))  # Mean of |Z| for a standard normal Z


@dataclass(frozen=True)
class ViewError:
    """Mean |mean prediction − label rate| over the bins of one kind of division, and what noise alone would give."""

    view: str
    kind: str
    error: float
    by_chance: float


def view_errors(rows: Rows, fields: Sequence[Segmentation]) -> tuple[ViewError, ...]:
    """Shuffled (norm 1, all shuffles), sorted by prediction, and by the values of each field.

    ``by_chance`` is the expectation if the predictions were right: Σ_b (n_b/n)·√(2/π)·σ_b with
    σ_b² = Σw²p(1 − p)/n_b² for a fixed division.
    """
    size = float(rows.weight.sum()) / DEFAULT_BINS
    chance = rows.y_prob * (1.0 - rows.y_prob)
    noise = closed_form_mvce(rows.weight.sum(), 0.0, np.sum(rows.weight * chance), size, 1.0)
    bins = uniform_mass(rows.atoms, DEFAULT_BINS)
    by_mass = bins_of_equal_weight(rows.y_prob, rows.weight, DEFAULT_BINS)
    found = [
        ViewError("shuffled", "shuffle", closed_form_of_rows(rows, DEFAULT_BINS, 1.0), float(noise)),
        ViewError(
            "sorted by prediction",
            "sorted",
            norm_of_errors(partition_error(bins), bins.count, 1.0),
            _by_chance(rows, by_mass, DEFAULT_BINS),
        ),
    ]
    for i, field in enumerate(fields):
        error = field_error(rows.values(i, len(field)))
        found.append(ViewError(f"by {field.name}", "feature", error, _by_chance(rows, rows.groups[i], len(field))))
    return tuple(found)


def _by_chance(rows: Rows, codes: npt.NDArray[np.int64], n_groups: int) -> float:
    variance = np.bincount(codes, rows.weight**2 * rows.y_prob * (1.0 - rows.y_prob), n_groups)
    return float(_FOLDED * np.sqrt(variance).sum() / rows.weight.sum())
