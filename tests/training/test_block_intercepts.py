import numpy as np
import pytest

from mbct.training.block_intercepts import block_intercepts, block_sums, gradients_within_blocks


def shocked(seed, n_blocks=80, n_rows=200, spread=0.5, shift=0.0):
    rng = np.random.default_rng(seed)
    block = np.repeat(np.arange(n_blocks), n_rows).astype(np.int32)
    shock = rng.normal(shift, spread, n_blocks)
    log_odds = rng.normal(-1.0, 1.0, len(block))
    label = (rng.random(len(block)) < 1.0 / (1.0 + np.exp(-log_odds - shock[block]))).astype(float)
    return block, shock, log_odds, label


def sums_of(block, log_odds, label):
    rows = np.arange(len(block), dtype=np.int32)
    out = np.zeros((len(block), 4), dtype=np.float32)
    return *block_sums(rows, log_odds, np.ones(len(block)), label, block, int(block.max()) + 1, out), out


def test_shocks_are_predicted_around_their_common_mean():
    block, shock, log_odds, label = shocked(0, shift=0.3)
    g, h, _ = sums_of(block, log_odds, label)
    mean, found = block_intercepts(g, h)
    assert mean == pytest.approx(shock.mean(), abs=0.12)
    assert np.corrcoef(found, shock)[0, 1] > 0.9
    assert found.std() < shock.std() * 1.05


def test_without_shocks_nothing_is_taken_out_but_the_mean():
    block, _, log_odds, label = shocked(1, spread=0.0)
    g, h, _ = sums_of(block, log_odds, label)
    mean, found = block_intercepts(g, h)
    assert abs(mean) < 0.05
    assert np.abs(found).max() < 0.1


def test_gradients_within_blocks_sum_to_little_in_every_block_and_lie_in_their_half():
    block, _, log_odds, label = shocked(2)
    n_blocks = int(block.max()) + 1
    half = (np.arange(n_blocks) % 2).astype(np.uint8)
    rows, weight = np.arange(len(block), dtype=np.int32), np.ones(len(block))
    g, h, _ = sums_of(block, log_odds, label)
    out = np.zeros((len(block), 4), dtype=np.float32)
    intercept = gradients_within_blocks(rows, log_odds, weight, label, block, half, out)
    left = np.bincount(block, out[:, 0] + out[:, 2])
    assert left == pytest.approx(g - h * intercept, abs=1e-2)
    assert np.sum(left**2) < 0.2 * np.sum(g**2)
    assert np.all(out[half[block] == 0, 2:] == 0.0)
    assert np.all(out[half[block] == 1, :2] == 0.0)
