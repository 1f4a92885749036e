import numpy as np
import pytest

from mbct import metrics
from mbct.evaluation.metrics.rows import Rows
from mbct.evaluation.metrics.totals import compare_totals, p_value_of_total


def shocked_days(seed: int, n_days: int = 40, n_rows: int = 60) -> Rows:
    """Predictions that are right on average, and a shock that the rows of each day share."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(n_days, dtype=np.int32), n_rows)
    p = rng.beta(2, 6, len(day))
    shock = rng.normal(0.0, 0.5, n_days)[day]
    odds = p / (1 - p) * np.exp(shock)
    y = (rng.random(len(day)) < odds / (1 + odds)).astype(float)
    # A shock raises rates more than its opposite lowers them: right on average is right for this law of shocks.
    quantiles = np.sqrt(2) * 0.5 * np.polynomial.hermite.hermgauss(20)[0]
    weights = np.polynomial.hermite.hermgauss(20)[1] / np.sqrt(np.pi)
    mean = (weights / (1 + (1 - p[:, None]) / p[:, None] * np.exp(-quantiles))).sum(axis=1)
    return Rows(mean, y, np.ones(len(day)), (), day, True)


def test_p_values_under_shared_shocks_are_fair_by_days_only():
    by_days, by_rows = [], []
    for seed in range(200):
        rows = shocked_days(seed)
        by_days.append(p_value_of_total(rows))
        by_rows.append(p_value_of_total(Rows(rows.y_prob, rows.y_true, rows.weight)))
    assert np.mean(np.array(by_days) < 0.05) < 0.1
    assert np.mean(np.array(by_rows) < 0.05) > 0.3


def test_blocks_that_agree_by_chance_prove_nothing():
    """Three positives expected and none seen: every day has the same sum, but labels vary all the same."""
    rows = Rows(np.full(300, 0.01), np.zeros(300), np.ones(300), (), np.repeat(np.arange(30), 10).astype(np.int32))
    assert p_value_of_total(rows) == pytest.approx(2 * np.exp(-3.0))


def test_rows_of_blocks_are_worth_fewer_rows():
    rows = shocked_days(0)
    segment = np.arange(len(rows)) % 3
    alone = compare_totals(Rows(rows.y_prob, rows.y_true, rows.weight), segment, 3, 0.95)
    together = compare_totals(rows, segment, 3, 0.95)
    assert np.array_equal(alone.size, alone.sums.count)
    assert (together.size < alone.size).all()
    assert (together.p_value >= alone.p_value).all()


def test_pcoc_tells_by_what_it_is_tested():
    rows = shocked_days(1)
    found = metrics.pcoc(rows.y_true, rows.y_prob, time=rows.blocks)
    assert found.p_value == pytest.approx(p_value_of_total(rows))
    assert "Student's t of the sums Σ(y − p) of 40 whole blocks" in str(found)
    assert metrics.pcoc(rows.y_true, rows.y_prob).p_value < found.p_value
