"""The multi-view picture: the same predictions divided by chance, by prediction and by each feature."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.metrics.multi_view import DEFAULT_BINS, closed_form_of_rows
from mbct.metrics.rows import Rows
from mbct.metrics.segments import Segmentation
from mbct.stats.closed_form import closed_form_mvce
from mbct.stats.divisions import uniform_mass
from mbct.stats.field_error import field_error
from mbct.stats.partition_error import norm_of_errors, partition_error

_FOLDED = float(np.sqrt(2.0 / np.pi))
"""Mean of |Z| for a standard normal Z."""


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
    by_mass = _mass_bins(rows, DEFAULT_BINS)
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


def _mass_bins(rows: Rows, n_bins: int) -> npt.NDArray[np.int64]:
    """Bins of equal mass by prediction, each row wholly in one."""
    order = np.argsort(rows.y_prob, kind="stable")
    share = np.cumsum(rows.weight[order]) / rows.weight.sum()
    codes = np.empty(len(rows), dtype=np.int64)
    codes[order] = np.minimum((share * n_bins).astype(np.int64), n_bins - 1)
    return codes
