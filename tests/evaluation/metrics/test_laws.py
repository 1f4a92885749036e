"""Laws that every metric must keep, whatever it measures."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mbct.metrics as metrics
from mbct.errors import DataError, ParameterError

N = 60


def _with_site(metric, **options):
    def call(y, p, site, **more):
        return metric(y, p, site, **options, **more)

    return call


def _plain(metric, **options):
    def call(y, p, site, **more):
        return metric(y, p, **options, **more)

    return call


def _by_features(y, p, site, **more):
    return metrics.mvce(y, p, views="features", features={"site": site}, **more)


METRICS = {
    "ece": _plain(metrics.ece, n_bins=7),
    "ece equal width": _plain(metrics.ece, n_bins=7, strategy="equal-width", norm=2),
    "mce": _plain(metrics.mce, n_bins=4),
    "ece_sweep": _plain(metrics.ece_sweep),
    "debiased_ece": _plain(metrics.debiased_ece, n_bins=4),
    "smooth_ece": _plain(metrics.smooth_ece),
    "ecce": _plain(metrics.ecce),
    "pce": _plain(metrics.pce),
    "pud": _plain(metrics.pud),
    "bfgpce": _plain(metrics.bfgpce),
    "pcoc": _plain(metrics.pcoc),
    "cal_n": _plain(metrics.cal_n, n_blocks=5),
    "mvce": _plain(metrics.mvce, n_bins=6, n_views=5),
    "mvce closed form": _plain(metrics.mvce, bin_size=9, method="closed-form"),
    "mvce sorted": _plain(metrics.mvce, n_bins=5, views="sorted"),
    "mvce features": _by_features,
    "log_loss": _plain(metrics.log_loss),
    "normalised_entropy": _plain(metrics.normalised_entropy),
    "brier": _plain(metrics.brier),
    "auc": _plain(metrics.auc),
    "ici": _plain(metrics.ici),
    "net_benefit": _plain(metrics.net_benefit, threshold=0.3),
    "field_ece": _with_site(metrics.field_ece),
    "field_rce": _with_site(metrics.field_rce),
    "field_rce keep": _with_site(metrics.field_rce, no_positive="keep"),
    "multi_field": _with_site(metrics.multi_field),
    "multicalibration_error": _with_site(metrics.multicalibration_error, min_rows=1),
    "grouped_auc": _with_site(metrics.grouped_auc),
}
UNIT_ERRORS = [
    name for name in METRICS if name not in ("pud", "pcoc", "cal_n", "log_loss", "normalised_entropy", "net_benefit")
]
NOT_COPIES = {"multicalibration_error"}  # its σ takes a weight for one row of that weight, as the variance asks


def _sample(seed=0, n=N):
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(1, 2, n), 2)
    y = (rng.random(n) < p).astype(int)
    y[:2] = 0, 1
    site = rng.choice(["a", "b", "c"], n)
    site[:2] = "a"
    return y, p, site, rng.integers(1, 4, n)


@pytest.mark.parametrize("name", METRICS)
@given(seed=st.integers(0, 500))
@settings(max_examples=12, deadline=None)
def test_row_order_does_not_matter(name, seed):
    y, p, site, w = _sample(seed)
    order = np.random.default_rng(seed).permutation(N)
    before = METRICS[name](y, p, site, sample_weight=w)
    after = METRICS[name](y[order], p[order], site[order], sample_weight=w[order])
    assert after == pytest.approx(before, rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", [name for name in METRICS if name not in NOT_COPIES])
@given(seed=st.integers(0, 500))
@settings(max_examples=12, deadline=None)
def test_a_weight_of_k_is_k_copies(name, seed):
    y, p, site, w = _sample(seed)
    weighted = METRICS[name](y, p, site, sample_weight=w)
    copied = METRICS[name](np.repeat(y, w), np.repeat(p, w), np.repeat(site, w))
    assert copied == pytest.approx(weighted, rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", METRICS)
def test_a_weight_of_zero_is_no_row(name):
    y, p, site, w = _sample()
    w = np.where(np.arange(N) % 3 == 0, 0, w)
    w[:2] = 1
    without = METRICS[name](y[w > 0], p[w > 0], site[w > 0], sample_weight=w[w > 0])
    assert METRICS[name](y, p, site, sample_weight=w) == without


@pytest.mark.parametrize("name", UNIT_ERRORS)
@given(seed=st.integers(0, 500))
@settings(max_examples=12, deadline=None)
def test_lies_in_bounds(name, seed):
    y, p, site, _ = _sample(seed)
    highest = math.inf if "rce" in name else 1.0
    assert 0.0 <= METRICS[name](y, p, site) <= highest


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("column", [list, pd.Series, pl.Series, lambda a: pd.Series(a, index=range(5, 5 + N))])
def test_takes_columns_of_every_kind(name, column):
    y, p, site, w = _sample()
    plain = METRICS[name](y, p, site, sample_weight=w)
    y_bool = column(y == 1) if column is not list else column(y)
    assert METRICS[name](y_bool, column(p), column(site), sample_weight=column(w)) == plain


@pytest.mark.parametrize("name", METRICS)
def test_interval_is_seeded_ordered_and_free_of_row_order(name):
    y, p, site, w = _sample()
    options = {"sample_weight": w, "confidence": 0.9, "n_bootstrap": 8, "seed": 3}
    found = METRICS[name](y, p, site, **options)
    order = np.random.default_rng(1).permutation(N)
    again = METRICS[name](y[order], p[order], site[order], **options | {"sample_weight": w[order]})
    assert found.interval.lower <= found.interval.upper
    assert found.interval.confidence == 0.9
    assert again.interval.lower == pytest.approx(found.interval.lower, abs=1e-9)
    assert again.interval.upper == pytest.approx(found.interval.upper, abs=1e-9)
    other = METRICS[name](y, p, site, **options | {"seed": 4})
    assert (other.interval.lower, other.interval.upper) != (found.interval.lower, found.interval.upper)


@pytest.mark.parametrize("name", METRICS)
def test_bad_input_is_named(name):
    y, p, site, _ = _sample()
    with pytest.raises(DataError, match=r"y_prob lies outside \[0, 1\]: 1.5 in row 4"):
        METRICS[name](y, np.where(np.arange(N) == 4, 1.5, p), site)
    with pytest.raises(DataError, match="y_true is neither 0 nor 1: 2 in row 7"):
        METRICS[name](np.where(np.arange(N) == 7, 2, y), p, site)
    with pytest.raises(DataError, match="y_prob has 59 rows where 60 were expected"):
        METRICS[name](y, p[1:], site)
    with pytest.raises(DataError, match="sample_weight is negative: -1 in row 0"):
        METRICS[name](y, p, site, sample_weight=np.full(N, -1.0))
    with pytest.raises(ParameterError, match=r"confidence must lie between 0 and 1, for example 0\.95, got 95"):
        METRICS[name](y, p, site, confidence=95)


@pytest.mark.parametrize("name", METRICS)
def test_extreme_predictions_give_a_number(name):
    y = np.array([0, 1, 0, 1, 1, 0])
    p = np.array([0.0, 1.0, 1e-300, 1.0 - 1e-16, 0.0, 1.0])
    assert not math.isnan(METRICS[name](y, p, np.array(list("aabbab"))))


NAN = math.nan
OF_ONE_CLASS = {
    "debiased_ece": (0.25, 0.75, 0.0),  # the variance of one row in a bin is not known: all is taken for noise
    "pud": (math.inf, 0.25, 0.3),
    "pcoc": (math.inf, 0.25, 0.3),
    "cal_n": (NAN, 3.0, 7 / 3),
    "log_loss": (-math.log(0.75), -math.log(0.25), -math.log(0.3)),
    "normalised_entropy": (NAN, NAN, NAN),  # the entropy of one class is zero
    "brier": (0.25**2, 0.75**2, 0.7**2),
    "ici": (NAN, NAN, NAN),  # a smooth curve needs two distinct scores
    "net_benefit": (0.0, 0.0, 1.0),  # a row of probability 0.25 is not acted on at the threshold 0.3
    "field_rce": (NAN, 0.75, 0.7),
    "field_rce keep": (2.5, 0.75, 0.7),  # 5 predicted positives over none observed, each with half a row added
}


@pytest.mark.parametrize("name", [name for name in METRICS if name not in ("auc", "grouped_auc")])
def test_one_class_and_constant_predictions_have_the_value_of_the_definition(name):
    """Twenty rows of 0.25 that are all negative, all positive, and one positive of 0.3: errors are |rate − 0.25|."""
    constant, site = np.full(20, 0.25), np.array(list("ab") * 10)
    found = [METRICS[name](np.full(20, label), constant, site) for label in (0, 1)]
    found.append(METRICS[name]([1], [0.3], ["a"]))
    assert found == pytest.approx(OF_ONE_CLASS.get(name, (0.25, 0.75, 0.7)), nan_ok=True)


def test_what_has_no_value_has_no_interval_and_no_p_value():
    nothing = metrics.field_rce([0, 0, 0], [0.1, 0.2, 0.3], ["a", "a", "b"], confidence=0.9, n_null=9)
    assert math.isnan(nothing)
    assert math.isnan(nothing.interval.lower)
    assert math.isnan(nothing.p_value)
    assert nothing.all_values == pytest.approx(0.3)
    infinite = metrics.pud([0, 0], [0.1, 0.2], confidence=0.9)
    assert infinite == math.inf
    assert math.isnan(infinite.interval.upper)
    sparse = metrics.pud([1, 0, 0], [0.3, 0.3, 0.3], confidence=0.9)
    assert math.isfinite(sparse.interval.upper)


def test_ranking_needs_both_classes():
    with pytest.raises(DataError, match="the label is 1 in every row: the AUC needs both classes"):
        metrics.auc([1, 1], [0.2, 0.3])
    with pytest.raises(DataError, match="no group has both classes"):
        metrics.grouped_auc([1, 0], [0.2, 0.3], ["a", "b"])
