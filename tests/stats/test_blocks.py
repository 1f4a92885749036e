import numpy as np
import pytest
from scipy.stats import ttest_1samp

from mbct.stats.blocks import error_of_total, totals_by_block


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("n_rows", [300, 3000], ids=["sorted", "counted"])
def test_the_error_of_a_group_is_that_of_its_block_sums(in_order, n_rows):
    """Two groups, the second of which lacks some blocks: each is as if it were alone."""
    rng = np.random.default_rng(0)
    block = np.append(rng.integers(0, 700, n_rows), 699)
    group = rng.integers(0, 2, len(block))
    group[block % 5 == 0] = 0
    weight, values = rng.random(len(block)), rng.normal(size=len(block))
    found = totals_by_block(values, weight, group, 2, block, in_order=in_order)
    for k in range(2):
        own = group == k
        mean = values[own].sum() / weight[own].sum()
        sums = np.bincount(block[own], values[own] - mean * weight[own], 700)
        size = np.bincount(block[own], weight[own], 700)
        n_blocks = np.count_nonzero(np.bincount(block[own], minlength=700))
        scale = np.sqrt(n_blocks / (n_blocks - 1) * 699 / 700)  # empty blocks are none of the group's own
        assert found.total[k] == pytest.approx(values[own].sum())
        assert found.error[k] == pytest.approx(error_of_total(sums, in_order=in_order) * scale)
        assert found.effective[k] == pytest.approx(size.sum() ** 2 / np.sum(size**2))


def test_p_values_of_equal_blocks_are_those_of_the_t_test():
    sums = np.array([0.5, -1.0, 2.0, 1.5, 0.0, 1.0])
    found = totals_by_block(sums, np.ones(6), np.zeros(6, dtype=int), 1, np.arange(6), in_order=False)
    assert found.p_values[0] == pytest.approx(ttest_1samp(sums, 0.0).pvalue)


def test_one_block_tells_nothing():
    group = np.array([0, 0, 1, 1])
    found = totals_by_block(np.ones(4), np.ones(4), group, 3, np.array([0, 0, 0, 1]), in_order=True)
    assert found.p_values.tolist() == [1.0, 0.0, 1.0]
    assert np.isinf(found.design_effect(np.ones(3), 0.95)).tolist() == [True, False, True]


def test_the_design_effect_is_the_ratio_of_variances_and_never_below_one():
    rng = np.random.default_rng(1)
    block, group = np.repeat(np.arange(2000), 10), np.tile([0, 1], 10_000)
    shock = rng.normal(size=2000)[block]
    values = np.where(group == 0, shock, rng.normal(size=20_000))
    found = totals_by_block(values, np.ones(20_000), group, 2, block, in_order=False)
    effect = found.design_effect(np.full(2, 10_000.0), 0.95)
    assert effect[0] == pytest.approx(5.0, rel=0.1)  # five equal rows of a group in each block
    assert effect[1] == pytest.approx(1.0, abs=0.1)
    assert found.design_effect(np.full(2, 1e9), 0.95) == pytest.approx(1.0, abs=0.01)
