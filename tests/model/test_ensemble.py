import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import biased_clicks, random_model, random_rows
from mbct import MBCTCalibrator
from mbct.data.columns import encode, read_columns
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble, feature_shares
from mbct.model.file_check import read_ensemble
from mbct.model.rules import rules
from mbct.model.tree import CalibrationTree

links = st.sampled_from(["linear", "odds"])
seeds = st.integers(0, 100_000)


def rows_of(model, seed, n=60):
    raw = random_rows(seed, model, n)
    p = np.array(raw["score"])
    return encode(read_columns(raw), model.bins, p), p


@settings(max_examples=30)
@given(seeds, links)
def test_json_round_trip_gives_identical_bytes_and_predictions(seed, link):
    model = random_model(seed, link)
    text = json.dumps(model.to_dict(), sort_keys=True)
    again = read_ensemble(json.loads(text))
    assert json.dumps(again.to_dict(), sort_keys=True) == text
    codes, p = rows_of(model, seed)
    assert np.array_equal(again.calibrate_codes(codes, p), model.calibrate_codes(codes, p))


@settings(max_examples=30)
@given(seeds, links)
def test_answers_are_probabilities(seed, link):
    model = random_model(seed, link)
    codes, _ = rows_of(model, seed)
    for p in (0.0, 1e-300, 0.5, 1.0):
        answer = model.calibrate_codes(codes, np.full(len(codes), p))
        assert np.all((answer >= 0.0) & (answer <= 1.0))


@settings(max_examples=20)
@given(seeds, links)
def test_one_rule_of_each_tree_holds_for_every_row(seed, link):
    model = random_model(seed, link, n_trees=2)
    raw = random_rows(seed, model, 40)
    codes, _ = rows_of(model, seed, 40)
    total = model.tree_total(codes)
    known = {f.name: set(f.values) for f in model.bins if f.kind == "category"}
    for i in range(40):
        row = {name: values[i] for name, values in raw.items()}
        product = 1.0
        for number in range(len(model.trees)):
            (rule,) = [
                r
                for r in rules(model, fallbacks=True)
                if r.tree == number and all(holds(c, row, known) for c in r.conditions)
            ]
            product *= rule.multiplier
        expected = product if link == "linear" else math.log(product)
        assert total[i] == pytest.approx(expected, abs=1e-9)


def holds(condition, row, known):
    value = row[condition.feature]
    if value is None:
        return condition.missing
    if isinstance(value, float):
        return any(low < value <= high for low, high in condition.intervals)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text in condition.values or (condition.unseen and text not in known[condition.feature])


def test_a_model_without_trees_returns_predictions_as_they_are():
    model = random_model(0).with_trees(())
    p = np.array([0.0, 1e-300, 0.3, 1.0])
    assert np.array_equal(model.calibrate_codes(np.zeros((4, 5), np.uint8), p), p)
    assert model.to_text() == "identity: predictions are returned as they are"
    assert not list(model.rules())


def one_split(feature, step, count):
    """A tree whose root sends the first two codes of a feature to its two children."""
    table = np.full(5, -1, np.int32)
    table[:2] = [1, 2]
    numbers = np.array([feature, -1, -1], np.int32)
    return CalibrationTree(numbers, np.zeros(3, np.int64), table, np.array(step), np.array(count), *np.ones((2, 3)))


BINS = FeatureBins(
    (NumberBins("p", (0.2, 0.4)), CategoryBins("site", ("a", "b", "c")), CategoryBins("os", ("x", "y", "z")))
)


@pytest.mark.parametrize(
    ("link", "steps"),
    [("odds", [[0.0, 1.0, -1.0], [0.5, 0.5, 2.5]]), ("linear", np.exp([[0.0, 1.0, -1.0], [0.5, 0.5, 2.5]]))],
)
def test_shares_are_the_squared_moves_of_the_rows(link, steps):
    trees = one_split(1, steps[0], [30.0, 10.0, 20.0]), one_split(2, steps[1], [30.0, 10.0, 20.0])
    shares = feature_shares(CalibrationEnsemble("p", link, BINS, trees))
    # The first tree moves 30 rows by 1, the second 20 rows by 2 beyond its root.
    np.testing.assert_allclose(shares, [0.0, 30.0 / 110.0, 80.0 / 110.0])


@pytest.mark.parametrize("seed", range(5))
def test_shares_sum_to_one_or_are_all_zero(seed):
    assert feature_shares(random_model(seed)).sum() == pytest.approx(1.0)
    assert feature_shares(random_model(seed, n_trees=0)).tolist() == [0.0] * 5


def test_the_features_that_carry_the_bias_matter_most():
    frame = biased_clicks(3, 6_000).frame
    fitted = MBCTCalibrator("p", max_trees=20, n_folds=2).fit(frame, "y")
    shares = dict(zip(fitted.feature_names_in_, fitted.feature_importances_, strict=True))
    assert sum(shares.values()) == pytest.approx(1.0)
    del shares["p"]
    assert max(shares, key=shares.get) == "device"
    assert "device" in fitted._repr_html_()
