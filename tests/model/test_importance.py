import numpy as np
import pytest

from builders import biased_clicks, random_model
from mbct import MBCTCalibrator
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.importance import feature_shares
from mbct.model.tree import CalibrationTree


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
