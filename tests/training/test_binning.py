import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbct.model.bins import NumberBins
from mbct.training.binning import RareValues, counts_rows, equal_width_edges, fit_category_bins, mass_edges


def codes_of(values, n_bins):
    distinct, count = np.unique(values, return_counts=True)
    edges = mass_edges(distinct, count.astype(float), n_bins)
    return NumberBins("x", tuple(edges)).encode(values), edges


def test_equal_width_is_the_papers_hundred_buckets():
    edges = equal_width_edges(100)
    assert len(edges) == 99
    assert edges[0] == pytest.approx(0.01)
    assert edges[-1] == pytest.approx(0.99)


def test_few_distinct_values_each_have_a_bin():
    codes, edges = codes_of(np.array([3.0, 1.0, 2.0, 2.0]), 10)
    assert codes.tolist() == [2, 0, 1, 1]
    assert edges.tolist() == [1.5, 2.5]


def test_frequent_value_does_not_swallow_its_neighbours():
    values = np.concatenate([np.zeros(9600), np.linspace(1, 2, 400)])
    codes, _ = codes_of(values, 8)
    assert np.all(codes[:9600] == 0)
    assert len(np.unique(codes[9600:])) >= 6


def test_mass_is_about_equal_on_a_continuous_column():
    values = np.random.default_rng(0).lognormal(size=20_000)
    codes, edges = codes_of(values, 20)
    assert len(edges) == 19
    counts = np.bincount(codes, minlength=20)
    assert counts.min() > 900
    assert counts.max() < 1100


def test_edges_are_round_numbers_between_the_values():
    _, edges = codes_of(np.array([0.123456, 0.198765, 7.1, 1234.5678]), 10)
    assert edges.tolist() == [0.16, 4.0, 600.0]


def test_weights_count_as_copies():
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    copies = np.array([3.0, 1.0, 2.0, 5.0, 1.0])
    distinct, count = np.unique(np.repeat(values, copies.astype(int)), return_counts=True)
    assert mass_edges(values, copies, 3).tolist() == mass_edges(distinct, count.astype(float), 3).tolist()


@given(st.lists(st.floats(-1e9, 1e9, width=32), min_size=1, max_size=200), st.integers(1, 20))
def test_edges_separate_exactly_the_values_they_lie_between(values, n_bins):
    column = np.array(values)
    codes, edges = codes_of(column, n_bins)
    assert len(edges) < n_bins or len(edges) == 0
    assert np.all(np.diff(edges) > 0)
    order = np.argsort(column, kind="stable")
    assert np.all(np.diff(codes[order]) >= 0)
    assert len(np.unique(codes)) == len(edges) + 1


def test_a_frequent_value_that_closes_two_bins_at_once_makes_none_too_many():
    assert mass_edges(np.arange(4.0), np.array([1.0, 9.0, 1.0, 1.0]), 2).tolist() == [0.5]


def bins_of(weight, label, min_rows=2.0, rate=0.2):
    values = [f"v{i}" for i in range(len(weight))]
    weight, label = np.array(weight, dtype=float), np.array(label, dtype=float)
    return fit_category_bins("c", values, weight, label, 0.2 * weight, min_rows, rate)


def test_values_met_once_share_the_code_of_unseen_ones():
    bins = bins_of([9, 1, 1, 1, 2], [2, 0, 1, 0, 0])
    assert set(bins.values) == {"v0", "v4"}


@pytest.mark.parametrize(("heavy", "light"), [(0, 1), (1, 0)])
def test_where_weights_sort_values_by_label_all_keep_their_codes(heavy, light):
    """Values met once, of weight 5 in one class and 1 in the other: the light ones alone would stand for the unseen."""
    weight = [5.0] * 40 + [1.0] * 60
    label = [5.0 * heavy] * 40 + [1.0 * light] * 60
    assert len(bins_of(weight, label).values) == 100


def test_weights_that_are_no_whole_numbers_count_no_rows():
    assert len(bins_of([0.5, 0.7, 3.25, 1.0], [0.5, 0.0, 0.0, 1.0]).values) == 4


def test_more_rows_are_taken_at_their_word():
    assert bins_of([5.5, 1.2, 80.0], [1.0, 1.2, 3.0], min_rows=5.0).values == ("v2", "v0")


@pytest.mark.parametrize(
    ("rare", "rate", "expected"),
    [
        (RareValues(0.0, 0.0), 0.2, True),
        (RareValues(50.0, 9.0), 0.2, True),
        (RareValues(50.0, 0.0), 0.01, True),
        (RareValues(50.0, 0.0), 0.3, False),
        (RareValues(3.0, 3.0), 0.2, True),
        (RareValues(8.0, 8.0), 0.2, False),
    ],
)
def test_one_label_may_be_chance(rare, rate, expected):
    assert counts_rows(np.array([7.0, 2.0]), rare, rate, 2.0) is expected
