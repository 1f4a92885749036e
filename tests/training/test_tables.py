"""Tables: features that act together are chosen, classes bound the size, and a tree on classes is one on codes."""

from dataclasses import replace

import numpy as np
import pytest

from mbct.model.bins import code_offsets
from mbct.model.tables import table_of
from mbct.stats.probabilities import sigmoid
from mbct.training.binned_rows import BinnedRows
from mbct.training.distillation import RULES, TABLE_GROWTH, Stage, distill
from mbct.training.grower import frozen_tree, grow_tree
from mbct.training.tables import MOST_PLACES, TableGrowth, _equal_weight, _frequent_apart

N_CODES = (102, 302, 12, 6)


def rows(step_of, n_rows=40_000):
    """Rows of four features, two numbers and two categories; the last two codes of each are missing and unseen."""
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, n - 2, n_rows) for n in N_CODES]).astype(np.uint16)
    start = rng.normal(-1.0, 0.5, n_rows)
    return BinnedRows(
        codes,
        start,
        np.ones(n_rows),
        sigmoid(start + step_of(codes)),
        (np.arange(n_rows) % 5 == 4).astype(np.uint8),
        code_offsets(N_CODES),
        np.array([True, False, True, False]),
        np.arange(4),
    )


def interaction(codes):
    return np.where((codes[:, 2] < 5) == (codes[:, 3] < 2), 0.5, -0.5)


@pytest.mark.parametrize(
    ("step_of", "chosen"),
    [(lambda codes: 0.01 * codes[:, 0], 0), (interaction, (2, 3)), (lambda c: np.where(c[:, 1] % 2, 0.5, -0.5), 1)],
)
def test_the_features_that_explain_most_are_chosen(step_of, chosen):
    distilled = rows(step_of)
    growth = TableGrowth(distilled, distilled.train_rows(1), 3)
    features = growth.next_table(distilled.log_odds).features
    assert set(np.atleast_1d(chosen)) <= set(features)
    assert len(features) <= 3


def test_an_interaction_is_chosen_though_no_feature_gains_alone():
    distilled = rows(interaction)
    features = TableGrowth(distilled, distilled.train_rows(1), 8).next_table(distilled.log_odds).features
    assert {2, 3} <= set(features)


def test_four_features_that_act_together_are_one_table():
    def together(codes):
        return 1.5 * (codes[:, 0] < 50) * (codes[:, 1] < 150) * (codes[:, 2] < 5) * (codes[:, 3] < 2)

    (table,) = distill(rows(together), replace(RULES, stages=(Stage(1, 0.0),))).trees
    assert set(table.feature[table.feature >= 0].tolist()) == {0, 1, 2, 3}
    places = np.prod(table_of(table, N_CODES).n_classes)
    assert places <= 2 * MOST_PLACES, "missing and unseen values have classes of their own"


def test_classes_are_fewer_where_a_table_has_more_features():
    distilled = rows(interaction)
    growth = TableGrowth(distilled, distilled.train_rows(1), 8)
    n_classes = [[int(own[-1]) + 1 for own in growth.classed(features).class_of] for features in ((1,), (0, 1, 2))]
    assert n_classes == [[302], [78, 78, 12]]


def test_a_tree_on_classes_says_the_same_on_codes():
    distilled = rows(lambda codes: 0.01 * codes[:, 0] + np.where(codes[:, 1] % 3, 0.3, -0.3))
    growth = TableGrowth(distilled, distilled.train_rows(1), 3)
    classed = growth.next_table(distilled.log_odds)
    gradient = np.zeros((len(distilled.weight), 4), dtype=np.float32)
    grown = grow_tree(
        classed.rows,
        distilled.train_rows(1),
        classed.rows.usable,
        distilled.log_odds,
        distilled.label,
        gradient,
        TABLE_GROWTH,
        np.uint64(0),
    )
    on_classes = frozen_tree(grown, grown.leaf_value, np.zeros((len(grown.feature), 3)))
    on_codes = classed.expanded(on_classes)
    assert on_codes.n_nodes > 100
    np.testing.assert_array_equal(on_classes.apply(classed.rows.codes), on_codes.apply(distilled.codes))


def test_classes_of_numbers_are_neighbours_of_equal_weight():
    own = _equal_weight(np.ones(100), 24)
    assert own.max() == 23
    assert np.all(np.diff(own) >= 0)
    assert np.bincount(own).max() <= 5
    np.testing.assert_array_equal(_equal_weight(np.ones(5), 24), np.arange(5))


def test_frequent_values_stay_apart_and_others_join_their_like():
    weight = np.arange(300, 0, -1.0)
    mean = np.where(np.arange(300) % 2, 1.0, -1.0)
    own = _frequent_apart(weight, mean, 64)
    assert own.max() == 63
    assert len(np.unique(own[:48])) == 48
    assert len(np.intersect1d(own[48::2], own[49::2])) <= 1
