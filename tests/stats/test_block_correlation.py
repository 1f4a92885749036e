import numpy as np

from mbct.stats.probabilities import block_correlation


def test_independent_rows_are_rarely_called_correlated():
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.05, 0.6, 2_000)
        y = (rng.random(2_000) < p).astype(float)
        found.append(block_correlation(y, p, rng.integers(0, 200, 2_000), seed=seed))
    assert np.mean([each.p_value <= 0.05 for each in found]) < 0.15
    assert abs(np.mean([each.value for each in found])) < 0.005


def test_a_bias_of_all_rows_is_no_correlation():
    rng = np.random.default_rng(1)
    y = (rng.random(5_000) < 0.5).astype(float)
    assert block_correlation(y, np.full(5_000, 0.2), np.repeat(np.arange(500), 10)).p_value > 0.05


def test_blocks_of_one_row_have_no_pairs():
    assert block_correlation(np.array([0.0, 1.0]), np.array([0.5, 0.5]), np.array([0, 1])).p_value == 1.0
