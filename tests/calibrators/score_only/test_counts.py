import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mbct.calibrators.score_only.counts import ScoreCounts, edges_between, uniform_mass_starts


def test_rows_of_no_weight_are_left_out():
    rows = ScoreCounts.of_rows(np.array([0.3, 0.1]), np.array([1.0, 1.0]), np.array([0.0, 2.0]))
    assert rows.score.tolist() == [0.1]
    assert rows.has_both_classes() is False


def test_bins_of_distinct_values_have_equal_numbers():
    assert uniform_mass_starts(np.ones(12), 4).tolist() == [0, 3, 6, 9]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=60), st.integers(1, 30))
def test_bins_are_few_ordered_and_not_empty(total, n_bins):
    starts = uniform_mass_starts(np.array(total, dtype=float), n_bins)
    assert starts[0] == 0
    assert len(starts) <= min(n_bins, len(total))
    assert np.all(np.diff(starts) > 0)
    assert starts[-1] < len(total)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30, unique=True))
def test_an_edge_parts_its_neighbours(values):
    ordered = np.sort(np.array(values))
    starts = np.arange(len(ordered))
    edges = edges_between(ordered, starts)
    np.testing.assert_array_equal(np.searchsorted(edges, ordered, side="left"), starts)


def test_an_edge_parts_adjacent_floats():
    values = np.array([0.5, np.nextafter(0.5, 1.0)])
    assert np.searchsorted(edges_between(values, np.array([0, 1])), values, side="left").tolist() == [0, 1]
