"""A calibration error against the number of bins it is taken over."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.errors import ParameterError
from mbct.metrics.multi_view import closed_form_of_rows
from mbct.metrics.rows import Rows, check_choice, check_count, read_rows
from mbct.stats.debiased_error import debiased_error
from mbct.stats.divisions import uniform_mass
from mbct.stats.expected_error import ece_of_atoms
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
    y_true: Any,
    y_prob: Any,
    *,
    metric: str = "ece",
    n_bins: Sequence[int] = DEFAULT_NUMBERS,
    sample_weight: Any = None,
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
