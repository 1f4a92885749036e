"""MVCE: the paper's error over many divisions, shuffled, sorted or by features."""

from typing import Any, Unpack

import numpy as np

from mbct.errors import ParameterError
from mbct.evaluation.metrics.resampling import NullOptions, Resampling, prepare
from mbct.evaluation.metrics.results import MultiViewEstimate
from mbct.evaluation.metrics.rows import Rows, check_choice, check_count, check_norm, read_segments
from mbct.progress import Advance, progress
from mbct.stats.expected_error import ece_of_atoms
from mbct.stats.multi_view import MultiViewError, bins_of_size, closed_form_mvce, monte_carlo_mvce, norm_over_views
from mbct.stats.partition_error import field_error

DEFAULT_BINS = 32
"""Bins of a view where neither their number nor their size is given: the paper's simulations use 32."""
MOST_COPIES = 1e9
"""Rows, or copies that weights stand for, up to which views are shuffled."""
VIEWS = ("shuffle", "sorted", "features")
METHODS = ("monte-carlo", "closed-form")


def mvce(
    y_true: Any,
    y_prob: Any,
    *,
    n_views: int = 100,
    bin_size: float | None = None,
    n_bins: int | None = None,
    norm: float = 2,
    views: str = "shuffle",
    method: str = "monte-carlo",
    features: Any = None,
    sample_weight: Any = None,
    **resampling: Unpack[NullOptions],
) -> MultiViewEstimate:
    """Multi-view calibration error ((1/r) Σ_i ((1/t_i) Σ_j PCE(D_ij))^p)^{1/p}, equation (mvce).

    ========== ================================================================================================
    views      divisions
    ========== ================================================================================================
    shuffle    r = ``n_views`` random ones into bins of one weight (the paper's): sees the total bias and Brier's noise
    sorted     one, by prediction: the ECE in norm 1
    features   one for each column of ``features``, by its values, each weighted by its rows: what shuffling hides
    ========== ================================================================================================

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval and of the p-value.
    n_views : int, default=100
        Number of shuffles.
    bin_size, n_bins : float and int, or None, default=None
        Rows of a bin, or bins of a view; 32 bins if neither is given.
    norm : float, default=2
        The norm p over views, finite and at least 1.
    views : "shuffle", "sorted" or "features", default="shuffle"
        How rows are divided.
    method : "monte-carlo" or "closed-form", default="monte-carlo"
        For shuffles: draw them, or take the limit of many at once (norms 1 and 2).
    features : frame, mapping, array or None, default=None
        Columns of ``views="features"``.

    Returns
    -------
    error : MultiViewEstimate
        A float with ``interval``, ``p_value``, ``standard_error`` and the views taken.
    """
    check_choice("views", views, VIEWS)
    check_choice("method", method, METHODS)
    p = check_norm(norm, allow_infinite=False)
    if (features is not None) != (views == "features"):
        raise ParameterError(f"features go with views='features' and with nothing else, got views={views!r}")
    if views == "features":
        return _over_features(y_true, y_prob, sample_weight, features, p, resampling)
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    bins = _number_of_bins(rows, bin_size, n_bins)
    if views == "sorted":
        return how.estimate(
            rows,
            lambda rows: ece_of_atoms(rows.atoms, bins, 1.0),
            MultiViewEstimate,
            views=views,
            n_views=1,
            n_bins=bins,
        )
    if method == "closed-form":
        if p not in (1.0, 2.0):
            raise ParameterError(f"the closed form covers norms 1 and 2, got {norm!r}; use method='monte-carlo'")
        return how.estimate(
            rows, lambda rows: closed_form_of_rows(rows, bins, p), MultiViewEstimate, method=method, n_bins=bins
        )
    return _shuffled(rows, bins, check_count("n_views", n_views), p, how)


def _shuffled(rows: Rows, n_bins: int, n_views: int, norm: float, resampling: Resampling) -> MultiViewEstimate:
    def views_of(rows: Rows, advance: Advance = lambda _: None) -> MultiViewError:
        return monte_carlo_mvce(
            rows.y_prob,
            rows.y_true,
            rows.weight,
            n_bins=n_bins,
            n_views=n_views,
            norm=norm,
            seed=resampling.seed,
            advance=advance,
        )

    _check_weight(rows)
    with progress("shuffled views", n_views) as advance:
        found = views_of(rows, advance)
    return resampling.estimate(
        rows,
        lambda rows: views_of(rows).value,
        MultiViewEstimate,
        value=found.value,
        standard_error=found.standard_error,
        n_views=n_views,
        n_bins=n_bins,
    )


def _over_features(
    y_true: Any, y_prob: Any, sample_weight: Any, features: Any, norm: float, resampling: NullOptions
) -> MultiViewEstimate:
    segmentations = read_segments(features)
    rows, how = prepare(y_true, y_prob, sample_weight, resampling, tuple(s.codes for s in segmentations))

    def statistic(rows: Rows) -> float:
        errors = [field_error(rows.values(i, len(s))) for i, s in enumerate(segmentations)]
        return norm_over_views(np.asarray(errors), norm)[0]

    return how.estimate(rows, statistic, MultiViewEstimate, views="features", n_views=len(segmentations))


def closed_form_of_rows(rows: Rows, n_bins: int, norm: float) -> float:
    """MVCE over all shuffles of rows."""
    total, label, pred = (float(sums[0]) for sums in (rows.whole.count, rows.whole.label, rows.whole.pred))
    return float(closed_form_mvce(total, pred - label, total * rows.brier, total / n_bins, norm))


def _number_of_bins(rows: Rows, bin_size: float | None, n_bins: int | None) -> int:
    if bin_size is not None and n_bins is not None:
        raise ParameterError(f"give bin_size or n_bins, not both (got {bin_size!r} and {n_bins!r})")
    if n_bins is not None:
        return check_count("n_bins", n_bins)
    if bin_size is None:
        return DEFAULT_BINS
    if not bin_size > 0:
        raise ParameterError(f"bin_size must be above 0, got {bin_size!r}")
    return bins_of_size(float(rows.weight.sum()), bin_size)


def _check_weight(rows: Rows) -> None:
    """Refuse weights so heavy that shuffling their copies would not end."""
    total = float(rows.weight.sum())
    if total > MOST_COPIES:
        raise ParameterError(
            f"sample_weight sums to {total:.3g}, and a shuffle would spread as many copies; "
            "use method='closed-form', or scale the weights down"
        )
