"""Which values of a category get a code of their own."""

import numpy as np
import pytest

from mbct.binning.fit import RareValues, counts_rows, fit_category_bins


def bins_of(mass, label, min_rows=2.0, rate=0.2):
    values = [f"v{i}" for i in range(len(mass))]
    mass, label = np.array(mass, dtype=float), np.array(label, dtype=float)
    return fit_category_bins("c", values, mass, label, 0.2 * mass, min_rows, rate)


def test_values_met_once_share_the_code_of_unseen_ones():
    bins = bins_of([9, 1, 1, 1, 2], [2, 0, 1, 0, 0])
    assert set(bins.values) == {"v0", "v4"}


@pytest.mark.parametrize(("heavy", "light"), [(0, 1), (1, 0)])
def test_where_weights_sort_values_by_label_all_keep_their_codes(heavy, light):
    """Values met once, of weight 5 in one class and 1 in the other: the light ones alone would stand for the unseen."""
    mass = [5.0] * 40 + [1.0] * 60
    label = [5.0 * heavy] * 40 + [1.0 * light] * 60
    assert len(bins_of(mass, label).values) == 100


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
