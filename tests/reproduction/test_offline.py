"""The main table's ingredients."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbct.stats.theorem import min_bin_size
from reproduction.datasets.dataset import Dataset
from reproduction.offline.case import SCORE, make_case
from reproduction.offline.inequality import bin_size
from reproduction.offline.methods import IN_TIME, MAX_DEPTH, MAX_TREES, SCORE_BUCKETS, fitted, printed_mbct
from reproduction.offline.results import gain, over_repetitions
from reproduction.offline.subgroups import leaves


def dataset(order: str, n: int = 3000) -> Dataset:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, n), rng.choice(["u", "v", "w"], n)
    label = (rng.random(n) < 0.1 + 0.15 * a).astype(np.int8)
    frame = pl.DataFrame({"y": label, "a": a, "b": b, "p": 0.1 + 0.1 * a + 0.1 * rng.random(n)})
    return Dataset("d", "D", "d", frame, "y", (), (), ("a", "b"), "a", 200, (0.2, 0.5, 0.3), order, "p")


@given(rate=st.floats(0.001, 0.6), n=st.integers(100, 10_000_000))
def test_the_inequality_is_solved_as_the_package_solves_it(rate, n):
    assert abs(bin_size(rate, n, 0.1, 0.05) - min_bin_size(rate, n, 0.1, 0.05)) <= 1


def test_a_split_by_time_is_bootstrapped_after_the_first_repetition():
    data = dataset("time")
    case = make_case(data, 0)
    assert case.test.equals(data.frame[2100:].select("a", "b", pl.col("p").alias(SCORE)))
    first, second, third = (case.resampled(0, r) for r in range(3))
    assert first.tolist() == list(range(900))
    assert len(second) == 900
    assert set(second) < set(first)
    assert set(second) != set(third)
    assert case.with_test_rows(second).test.equals(case.test[second])
    assert make_case(dataset("random"), 0).resampled(0, 1).tolist() == list(range(900))


def test_whole_blocks_of_time_are_drawn():
    data = dataset("time")
    day = np.arange(3000) // 100
    case = make_case(replace(data, frame=data.frame.with_columns(pl.Series("day", day)), block="day"), 0)
    assert case.train_block.tolist() == day[600:2100].tolist()
    rows = case.resampled(0, 1)
    days, counts = np.unique(case.test_block[rows], return_counts=True)
    assert set(counts % 100) == {0}
    assert 1 < len(days) < 9
    assert sum(counts) == 900


def test_folds_of_time_are_one_more_method_where_rows_have_a_time():
    data = dataset("time", 1000)
    without = make_case(data, 0)
    case = make_case(replace(data, frame=data.frame.with_columns(day=pl.int_range(pl.len()) // 50), block="day"), 0)
    assert IN_TIME not in fitted(without, 0)
    model = fitted(case, 0)[IN_TIME]
    assert len(model.held_out_gain_by_fold_) == 5
    assert model.get_params() == fitted(case, 0)["mbct-default"].get_params()


def repetitions(order: str, values: list[float]):
    described = {"order": order, "rows": [60, 20, 20]}
    return [{"dataset": described, "methods": {"m": {"s": v}, "n": {"s": 0.2}}} for v in values]


def test_intervals_follow_the_way_repetitions_were_made():
    by_time, shuffled = repetitions("time", [0.1, 0.3, 0.5]), repetitions("random", [0.1, 0.3, 0.5])

    def value(repetition):
        return repetition["methods"]["m"]["s"]

    assert over_repetitions(by_time, value).mean == 0.1
    assert over_repetitions(by_time, value).n == 2
    assert over_repetitions(shuffled, value).mean == pytest.approx(0.3)
    assert over_repetitions(shuffled, value).factor == pytest.approx((1 / 3 + 0.25) ** 0.5)
    assert gain(shuffled, "m", "n", "s")[1] == 1


def test_the_printed_preset_has_the_papers_settings():
    case = make_case(dataset("random"), 0)
    model = printed_mbct(case, "mvce").fit(case.train, case.train_label)
    assert model.get_params()["max_depth"] == MAX_DEPTH == 5
    assert 0 < len(model.model_.trees) <= MAX_TREES == 8
    assert len(model.model_.bins[0].edges) + 1 <= SCORE_BUCKETS == 100


def test_the_leaves_of_the_first_tree_hold_rows_of_one_multiplier():
    case = make_case(dataset("random"), 0)
    model = printed_mbct(case, "mvce", max_trees=1).fit(case.train, case.train_label)
    leaf = leaves(model, case.test)
    factor = model.calibrate(case.test) / case.test[SCORE].to_numpy()
    assert len(np.unique(leaf)) > 1
    assert all(np.ptp(factor[leaf == number]) < 1e-12 for number in np.unique(leaf))
