"""Rows met again and rows repeated: told apart by their labels."""

import numpy as np
import pytest

from mbct.training.binned_rows import Duplicates, find_duplicates, rate_by_score


def cells_of_rows(rng, n_rows, n_cells, rates, weight):
    """Rows thrown into cells, each row with its label and weight: mass and positives of every cell."""
    cell = rng.integers(0, n_cells, n_rows)
    label = rng.random(n_rows) < rates[cell]
    count = np.bincount(cell, weight(label), n_cells)
    positives = np.bincount(cell, weight(label) * label, n_cells)
    return count[count > 0], positives[count > 0]


def copies(count, label, rate):
    return find_duplicates(count, label, np.full(len(count), rate))


WEIGHTS = {
    "four": lambda label, _: np.full(len(label), 4.0),
    "one to three": lambda label, rng: rng.integers(1, 4, len(label)).astype(float),
    "fractions": lambda label, rng: rng.exponential(2.0, len(label)),
    "of negatives": lambda label, _: np.where(label, 1.0, 5.0),
}


@pytest.mark.parametrize("n_cells", [400, 3_000, 100_000])
@pytest.mark.parametrize("rate", [0.01, 0.2, 0.6])
@pytest.mark.parametrize("seed", range(5))
def test_rows_that_are_met_again_are_no_copies(seed, rate, n_cells):
    rng = np.random.default_rng(seed)
    spread = np.clip(rate * rng.lognormal(0.0, 0.5, n_cells), 0.0, 1.0)
    assert copies(*cells_of_rows(rng, 10_000, n_cells, spread, lambda label: np.ones(len(label))), rate) == Duplicates(
        1.0
    )


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("n_cells", [5_000, 100_000])
@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_weighted_rows_are_copies(kind, n_cells, rate):
    rng = np.random.default_rng(1)
    count, label = cells_of_rows(rng, 10_000, n_cells, np.full(n_cells, rate), lambda label: WEIGHTS[kind](label, rng))
    found = copies(count, label, label.sum() / count.sum())
    assert found.per_row > 1.0
    assert found.uniform == (kind == "four")


@pytest.mark.parametrize("times", [0.2, 2.0, 10 / 3])
@pytest.mark.parametrize("n_cells", [10_000, 1_000_000])
def test_rows_that_all_weigh_the_same(times, n_cells):
    rng = np.random.default_rng(2)
    rates = np.full(n_cells, 0.3)
    found = copies(*cells_of_rows(rng, 20_000, n_cells, rates, lambda label: np.full(len(label), times)), 0.3)
    assert found.uniform
    assert found.per_row == pytest.approx(times, rel=1e-9)


@pytest.mark.parametrize("n_cells", [10_000, 1_000_000])
def test_copies_are_those_of_the_mean_unit_of_mass(n_cells):
    """Σw²/Σw: as many rows would tell as much as the weighted ones do."""
    rng = np.random.default_rng(3)
    weight = rng.integers(1, 8, 20_000).astype(float)
    count, label = cells_of_rows(rng, 20_000, n_cells, np.full(n_cells, 0.3), lambda _: weight)
    assert copies(count, label, 0.3).per_row == pytest.approx(np.sum(weight**2) / np.sum(weight), rel=0.3)


def test_cells_of_very_different_rates_are_no_copies():
    """A table of counts in which features tell nearly all: small cells differ as much as large ones."""
    rng = np.random.default_rng(3)
    rates = np.where(rng.random(2_000) < 0.3, 0.85, 0.05)
    size = rng.integers(2, 200, 2_000)
    assert copies(size.astype(float), rng.binomial(size, rates).astype(float), 0.29) == Duplicates(1.0)


def test_single_rows_and_rows_of_little_weight_are_themselves():
    label = (np.arange(100) % 3 == 0).astype(float)
    assert copies(np.ones(100), label, 0.33) == Duplicates(1.0)
    weight = np.linspace(0.6, 1.4, 100)
    assert copies(weight, weight * label, 0.33) == Duplicates(1.0)


def test_a_few_positives_of_fractional_weight_are_taken_for_copies():
    count = np.random.default_rng(4).lognormal(0.0, 1.0, 5_000)
    label = np.where(np.arange(5_000) < 5, count, 0.0)
    assert not copies(count, label, 0.001).uniform


def test_the_rate_follows_the_labels_not_the_score():
    log_odds = np.linspace(-9.0, -7.0, 4_000)
    label = (np.arange(4_000) % 4 == 0).astype(float)
    rate = rate_by_score(np.ones(4_000), label, log_odds)
    assert rate == pytest.approx(0.25, abs=0.01)
    order = np.random.default_rng(5).permutation(4_000)
    assert np.array_equal(rate_by_score(np.ones(4_000), label[order], log_odds[order]), rate[order])
