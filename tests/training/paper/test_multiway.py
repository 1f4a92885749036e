import numpy as np
import pytest

from mbct.model.tree import STOP
from mbct.stats.multi_view import closed_form_mvce
from mbct.training.paper.histogram import COUNT, LABEL, PRED, PRED2, PRED_LABEL
from mbct.training.paper.multiway import STAY, MultiwaySplits, best_features, losses_of_level

OFFSET = np.array([0, 4, 10, 12])
MIN_SIZE = 20.0


def _histograms(seed: int, n_nodes: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    count = rng.integers(0, 60, (n_nodes, OFFSET[-1])).astype(float)
    label = np.floor(count * rng.random(count.shape))
    p = rng.random(count.shape)
    return np.stack([count, label, count * p, count * p * p, label * p], axis=-1)


def _node_sums(histograms: np.ndarray) -> np.ndarray:
    """Sums of the first feature's codes; the others need not agree for what is tested here."""
    return histograms[:, : OFFSET[1]].sum(axis=1)


def test_splits_of_many_nodes_are_those_of_each() -> None:
    histograms = _histograms(0)
    feature, k = np.array([1, -1, 0, 2, 1]), np.array([1.5, 1.0, 0.5, 2.0, 0.25])
    together = MultiwaySplits.of(histograms, OFFSET, feature, k, MIN_SIZE)
    assert together.slot.tolist() == [0, 2, 3, 4]
    alone = [
        MultiwaySplits.of(histograms[i : i + 1], OFFSET, feature[i : i + 1], k[i : i + 1], MIN_SIZE)
        for i in together.slot
    ]
    for name in ("feature", "n_codes", "n_children", "group", "sums", "multipliers"):
        joined = np.concatenate([getattr(split, name) for split in alone])
        np.testing.assert_array_equal(getattr(together, name), joined)
    np.testing.assert_array_equal(
        together.multiplier_of_codes(), np.concatenate([split.multiplier_of_codes() for split in alone])
    )
    first = np.array([10, 20, 30, 40])
    tables = [split.tables(first[i : i + 1]) for i, split in enumerate(alone)]
    np.testing.assert_array_equal(together.tables(first), np.concatenate(tables))


def test_a_group_has_rows_enough_or_shares_the_last_one() -> None:
    histogram = np.zeros((1, 12, 5))
    histogram[0, 4:10, COUNT] = [5.0, 30.0, 0.0, 16.0, 40.0, 1.0]
    histogram[0, 4:10, LABEL] = [1.0, 10.0, 0.0, 2.0, 10.0, 0.0]
    histogram[0, 4:10, PRED] = [2.0, 5.0, 0.0, 4.0, 40.0, 0.0]
    split = MultiwaySplits.of(histogram, OFFSET, np.array([1]), np.array([7.0]), MIN_SIZE)
    assert split.group.tolist() == [3, 1, STAY, 3, 2, 3]
    assert split.sums[:, COUNT].tolist() == [0.0, 30.0, 40.0, 22.0]
    assert split.multipliers.tolist() == [7.0, 2.0, 0.25, 0.5]
    assert split.tables(np.array([8])).tolist() == [10, 8, STOP, 10, 9, 10]
    assert split.multiplier_of_codes().tolist() == [0.5, 2.0, 7.0, 0.5, 0.25, 0.5]


def test_losses_of_a_level_are_the_closed_form_of_its_groups() -> None:
    histograms = _histograms(3)
    sums, k = _node_sums(histograms), np.linspace(0.5, 1.5, 5)
    before, after = losses_of_level(histograms, OFFSET, sums, k, MIN_SIZE, 10.0)
    for i in range(5):
        assert before[i] == pytest.approx(_loss(sums[i : i + 1], k[i : i + 1], sums[i, COUNT]), rel=1e-12)
        for j in range(3):
            split = MultiwaySplits.of(histograms[i : i + 1], OFFSET, np.array([j]), k[i : i + 1], MIN_SIZE)
            if split.n_children[0] < 2:
                assert np.isinf(after[i, j])
            else:
                expected = _loss(split.sums, split.multipliers, sums[i, COUNT])
                assert after[i, j] == pytest.approx(expected, rel=1e-7)  # multipliers keep nine digits


def _loss(sums: np.ndarray, k: np.ndarray, count: float) -> float:
    residual = (k * sums[:, PRED] - sums[:, LABEL]).sum()
    squared = (k * k * sums[:, PRED2] - 2 * k * sums[:, PRED_LABEL] + sums[:, LABEL]).sum()
    return float(closed_form_mvce(count, residual, squared, 10.0))


def test_the_first_of_equal_losses_is_taken_and_rounding_makes_none_unequal() -> None:
    losses = np.array([[np.inf, 0.5, 0.5 * (1 - 1e-13)], [0.4, 0.3, np.inf], [np.inf] * 3, [0.2, 0.2, 0.1]])
    assert best_features(losses).tolist() == [1, 1, -1, 2]
