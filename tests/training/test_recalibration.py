from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mbct.training.binned_rows import BinnedRows
from mbct.training.offsets import _fitted_steps, fit_recalibration, significant_recalibration, standardized_scores

N_BINS = 50


def scored(slope=1.0, shift=0.0, n_rows=20_000, seed=0, usable=(0, 1)):
    """Rows whose true log-odds are a line in those that the base gives; one more feature that tells nothing."""
    rng = np.random.default_rng(seed)
    given = rng.normal(-1.0, 1.0, n_rows)
    label = (rng.random(n_rows) < 1 / (1 + np.exp(-(shift + slope * given)))).astype(float)
    edges = np.quantile(given, np.linspace(0, 1, N_BINS + 1)[1:-1])
    codes = np.column_stack([np.searchsorted(edges, given), rng.integers(0, 4, n_rows)]).astype(np.uint8)
    return BinnedRows(
        codes,
        given,
        np.ones(n_rows),
        label,
        (np.arange(n_rows) % 5).astype(np.uint8),
        np.array([0, N_BINS + 2, N_BINS + 8]),
        np.array([True, False]),
        np.array(usable),
    )


def fit(parts, n_threads=2):
    with ThreadPoolExecutor(n_threads) as pool:
        return fit_recalibration(parts, 5, pool)


def test_an_over_confident_base_is_stretched_back():
    parts = scored(slope=0.6, shift=0.4)
    line = fit(parts)
    moved = parts.log_odds + line.step_of(0, parts.codes, parts.offset)
    truth = 0.4 + 0.6 * parts.log_odds
    assert line.features == (0,)
    assert np.sqrt(np.mean((moved - truth) ** 2)) < 0.1
    assert parts.held_out_loss(line.log_odds) < parts.held_out_loss([parts.log_odds] * 5)
    for fold in range(5):
        assert parts.log_odds + line.step_of(fold, parts.codes, parts.offset) == pytest.approx(line.log_odds[fold])


def test_it_is_the_line_that_logistic_regression_finds():
    from sklearn.linear_model import LogisticRegression

    parts = scored(slope=0.7, shift=-0.3, n_rows=50_000)
    found = significant_recalibration(parts)
    mean = np.bincount(parts.codes[:, 0], parts.log_odds) / np.bincount(parts.codes[:, 0])
    column = mean[parts.codes[:, 0]][:, None]
    peer = LogisticRegression(C=np.inf).fit(np.hstack([parts.log_odds[:, None], column]), parts.label)
    line = found[:N_BINS]
    slope = np.polyfit(mean, line, 1)
    assert line == pytest.approx(np.polyval(slope, mean), abs=1e-6)
    assert slope[0] == pytest.approx(peer.coef_.sum() - 1.0, abs=0.01)
    assert slope[1] == pytest.approx(peer.intercept_[0], abs=0.01)


def test_a_calibrated_base_has_no_line_that_differs_from_chance():
    significant = [significant_recalibration(scored(seed=seed, n_rows=4_000)) is not None for seed in range(300)]
    assert sum(significant) <= 2


def test_a_line_that_is_told_from_chance_is_trusted_as_far_as_it_is_sure():
    def kept(rows):
        fitted = _fitted_steps(rows, standardized_scores(rows), rows.all_rows, rows.log_odds)
        return np.abs(significant_recalibration(rows)).max() / np.abs(fitted).max()

    assert 0.5 < kept(scored(slope=0.9, n_rows=20_000)) < kept(scored(slope=0.5, n_rows=20_000)) < 1.0


def test_no_line_where_the_score_may_not_be_looked_at():
    parts = scored(slope=0.5, usable=(1,))
    assert fit(parts) is None
    assert significant_recalibration(parts) is None


def test_threads_do_not_matter():
    parts = scored(slope=0.6)
    for one, two in zip(fit(parts, 1).steps, fit(parts, 2).steps, strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_score_or_one_label_is_no_fault(label):
    parts = scored(n_rows=500)
    same = BinnedRows(**{**vars(parts), "codes": np.zeros_like(parts.codes), "log_odds": np.full(500, -1.0)})
    assert significant_recalibration(same) is None
    one = BinnedRows(**{**vars(parts), "label": np.full(500, label)})
    assert np.all(np.isfinite(significant_recalibration(one)))
