import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbct.stats.divisions import Bins, atoms_by_group, atoms_by_prediction, equal_width, rows_as_bins, uniform_mass
from mbct.stats.partition_error import shuffled_view


def _rows(n, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 8, n) / 8 if ties else rng.random(n)
    return p, (rng.random(n) < p).astype(float), rng.integers(1, 4, n).astype(float)


def test_uniform_mass_equals_array_split_where_rows_divide_evenly():
    p, y, _ = _rows(120)
    order = np.argsort(p)
    bins = uniform_mass(atoms_by_prediction(p, y, np.ones(120)), 8)
    assert bins.label == pytest.approx([part.sum() for part in np.array_split(y[order], 8)])
    assert bins.pred == pytest.approx([part.sum() for part in np.array_split(p[order], 8)])


@given(n=st.integers(1, 60), n_bins=st.integers(1, 80), seed=st.integers(0, 9))
@settings(deadline=None)
def test_every_uniform_bin_has_the_same_mass_and_nothing_is_lost(n, n_bins, seed):
    p, y, w = _rows(n, seed, ties=True)
    bins = uniform_mass(atoms_by_prediction(p, y, w), n_bins)
    assert bins.count == pytest.approx(np.full(n_bins, w.sum() / n_bins))
    assert bins.label.sum() == pytest.approx((w * y).sum())
    assert bins.pred.sum() == pytest.approx((w * p).sum())


@given(n=st.integers(1, 40), n_bins=st.integers(1, 20), seed=st.integers(0, 9))
@settings(deadline=None)
@pytest.mark.parametrize("divide", [uniform_mass, equal_width])
def test_weights_are_copies_and_row_order_is_nothing(divide, n, n_bins, seed):
    p, y, w = _rows(n, seed, ties=True)
    whole = w.astype(int)
    weighted = divide(atoms_by_prediction(p, y, w), n_bins)
    shuffle = np.random.default_rng(seed).permutation(whole.sum())
    copied = divide(
        atoms_by_prediction(np.repeat(p, whole)[shuffle], np.repeat(y, whole)[shuffle], np.ones(whole.sum())), n_bins
    )
    for name in ("count", "label", "pred"):
        assert getattr(weighted, name) == pytest.approx(getattr(copied, name))


def test_equal_width_intervals_are_closed_on_the_right():
    atoms = atoms_by_prediction(np.array([0.0, 0.25, 0.26, 1.0]), np.zeros(4), np.ones(4))
    assert equal_width(atoms, 4).count.tolist() == [2, 1, 0, 1]


def test_rows_without_weight_are_no_atoms():
    atoms = atoms_by_prediction(np.array([0.1, 0.2]), np.array([1.0, 1.0]), np.array([0.0, 2.0]))
    assert atoms.count.tolist() == [2.0]
    assert atoms.pred.tolist() == [0.4]


def test_atoms_by_group_are_those_of_each_group():
    p, y, w = _rows(200, ties=True)
    group = np.arange(200) % 3
    of_group, atoms = atoms_by_group(p, y, w, group)
    for g in range(3):
        alone = atoms_by_prediction(p[group == g], y[group == g], w[group == g])
        assert atoms.label[of_group == g].tolist() == alone.label.tolist()


def test_a_shuffled_view_holds_the_same_rows():
    rows = rows_as_bins(*_rows(50))
    view = shuffled_view(rows, np.random.default_rng(1))
    assert sorted(view.pred) == sorted(rows.pred)
    assert view.pred.tolist() != rows.pred.tolist()


def test_bins_know_their_number():
    assert len(Bins(np.ones(3), np.ones(3), np.ones(3))) == 3
