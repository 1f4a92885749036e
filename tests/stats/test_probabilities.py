import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss

from mbct.stats.divisions import atoms_by_prediction, pooled_blocks
from mbct.stats.probabilities import (
    brier_decomposition,
    brier_of_atoms,
    entropy,
    entropy_ratio,
    isotonic_rates,
    log_loss_of_atoms,
    log_loss_of_rows,
)


def _sample(n=500, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 40, n) / 39
    return p, (rng.random(n) < 0.2 + 0.5 * p).astype(float), rng.uniform(0.2, 3, n)


def _brier(p, y, w):
    return brier_score_loss(y, p, sample_weight=w)


def test_log_loss_and_brier_equal_scikit_learn():
    p, y, w = _sample()
    assert log_loss_of_rows(p, y, w) == pytest.approx(log_loss(y, p, sample_weight=w), rel=1e-12)
    atoms = atoms_by_prediction(p, y, w)
    assert log_loss_of_atoms(atoms) == pytest.approx(log_loss(y, p, sample_weight=w), rel=1e-12)
    assert brier_of_atoms(atoms) == pytest.approx(brier_score_loss(y, p, sample_weight=w), rel=1e-12)


def test_normalised_entropy_of_the_rate_is_one():
    y = np.array([0.0, 0.0, 0.0, 1.0])
    assert entropy_ratio(log_loss_of_rows(np.full(4, 0.25), y, np.ones(4)), 0.25) == pytest.approx(1.0)
    assert math.isnan(entropy_ratio(log_loss_of_rows(np.full(4, 0.25), np.zeros(4), np.ones(4)), 0.0))
    assert entropy(0.0) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_decomposition_is_that_of_scikit_learns_isotonic_fit_and_adds_up(seed):
    p, y, w = _sample(seed=seed)
    fit = IsotonicRegression().fit_transform(p, y, sample_weight=w)
    rate = np.average(y, weights=w)
    atoms = atoms_by_prediction(p, y, w)
    parts = brier_decomposition(atoms, isotonic_rates(atoms))
    assert parts.miscalibration == pytest.approx(_brier(p, y, w) - _brier(fit, y, w), abs=1e-12)
    assert parts.discrimination == pytest.approx(_brier(np.full(len(p), rate), y, w) - _brier(fit, y, w), abs=1e-12)
    assert parts.miscalibration - parts.discrimination + parts.uncertainty == pytest.approx(_brier(p, y, w))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=30))
def test_pooled_blocks_give_the_isotonic_fit(rows):
    count = np.array([c for c, _ in rows], dtype=float)
    label = count * np.array([y for _, y in rows], dtype=float)
    start = pooled_blocks(count, label)
    rate = np.add.reduceat(label, start) / np.add.reduceat(count, start)
    fit = np.repeat(rate, np.diff(np.append(start, len(rows))))
    peer = IsotonicRegression().fit_transform(np.arange(len(rows)), label / count, sample_weight=count)
    assert fit == pytest.approx(peer, abs=1e-9)
