"""Trees of LightGBM in our own form: its raw score to the last bit, whatever the values, the text it writes checked."""

import lightgbm
import numpy as np
import pytest

from mbct.errors import ModelFileError
from mbct.model.boosted_trees import read_boosted, trees_of_text


def rows(seed, n=3_000):
    rng = np.random.default_rng(seed)
    matrix = np.column_stack(
        [
            rng.normal(size=n),
            np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            np.where(rng.random(n) < 0.5, 0.0, rng.normal(size=n)),
            rng.integers(0, 70, n),
            np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 6, n)),
        ]
    )
    z = matrix[:, 0] + np.nan_to_num(matrix[:, 1]) + (matrix[:, 3] % 3 == 0) - (matrix[:, 4] == 2)
    return matrix, (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(int)


def booster(seed, **parameters):
    matrix, label = rows(seed)
    options = {"objective": "binary", "num_leaves": 12, "verbosity": -1, "min_data_per_group": 5, "seed": seed}
    data = lightgbm.Dataset(matrix, label, categorical_feature=[3, 4])
    return lightgbm.train({**options, **parameters}, data, 25)


@pytest.mark.parametrize("parameters", [{}, {"zero_as_missing": True}, {"use_missing": False}, {"num_leaves": 2}])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_raw_score_is_that_of_lightgbm_to_the_bit(seed, parameters):
    grown = booster(seed, **parameters)
    matrix, _ = rows(seed + 100)
    matrix[:40, :] = np.nan
    matrix[40:60, 3:] = [-1.0, 1e6]
    matrix[60:80, :3] = [np.inf, -np.inf, 1e-36]

    ours = read_boosted(trees_of_text(grown.model_to_string()), 5)

    np.testing.assert_array_equal(ours.predict(matrix), grown.predict(matrix, raw_score=True))


def test_no_text_is_no_tree():
    trees = read_boosted(trees_of_text(""), 3)

    assert trees.predict(np.zeros((2, 3))).tolist() == [0.0, 0.0]


def test_a_single_leaf():
    plain = {name: [] for name in ("split_feature", "decision_type", "left_child", "right_child", "threshold")}
    trees = read_boosted([{**plain, "cat_boundaries": [], "cat_threshold": [], "leaf_value": [0.25]}], 1)

    assert trees.predict(np.zeros((2, 1))).tolist() == [0.25, 0.25]


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t["left_child"].__setitem__(0, 0),
        lambda t: t["left_child"].__setitem__(0, 0.5),
        lambda t: t["right_child"].__setitem__(1, t["left_child"][1]),
        lambda t: t["leaf_value"].pop(),
        lambda t: t["leaf_value"].__setitem__(0, 1e308),
        lambda t: t["split_feature"].__setitem__(0, 5),
        lambda t: t["decision_type"].__setitem__(0, 99),
        lambda t: t["cat_boundaries"].__setitem__(-1, 10**6),
        lambda t: t["cat_threshold"].__setitem__(0, 2**40),
        lambda t: t["threshold"].__setitem__([kind & 1 for kind in t["decision_type"]].index(1), 1e6),
    ],
)
def test_damaged_trees_are_refused(damage):
    plain = trees_of_text(booster(0).model_to_string())
    with_sets = next(tree for tree in plain if tree["cat_threshold"])
    damage(with_sets)

    with pytest.raises(ModelFileError):
        read_boosted(plain, 5)


def test_damaged_text_is_refused():
    with pytest.raises(ModelFileError, match="text of LightGBM's model is damaged"):
        trees_of_text(booster(0).model_to_string().replace("leaf_value=", "leaf_value=x"))
