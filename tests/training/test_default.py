import json

import numpy as np
import pandas as pd
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.data.columns import encode, read_columns
from mbct.errors import ParameterError
from mbct.model.ensemble import CalibrationEnsemble
from mbct.training.boosting import BoostingOptions
from mbct.training.cells import build_cells
from mbct.training.default import fit_cross_fitted
from mbct.training.nodes import VALUE_LIMIT


def fit(frame, weight=None, **options):
    return MBCTCalibrator(**{"score_column": "p", **options}).fit(frame, "y", sample_weight=weight)


def model_bytes(calibrator):
    return json.dumps(calibrator.model_.to_dict(), sort_keys=True)


def true_error(prediction, truth):
    return float(np.sqrt(np.mean((prediction - truth) ** 2)))


def log_loss(prediction, y):
    return -np.where(y == 1, np.log(prediction), np.log1p(-prediction))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_true_error_falls_by_more_than_half(seed):
    train, test = biased_clicks(seed, 30_000), biased_clicks(100 + seed, 30_000)
    calibrated = fit(train.frame).calibrate(test.frame)
    assert true_error(calibrated, test.truth) < 0.5 * true_error(test.p, test.truth)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_to_correct_keeps_the_predictions_within_noise(seed):
    train, test = biased_clicks(seed, 8_000, calibrated=True), biased_clicks(100 + seed, 20_000, calibrated=True)
    calibrated = fit(train.frame).calibrate(test.frame)
    difference = log_loss(np.clip(calibrated, 1e-9, 1 - 1e-9), test.y) - log_loss(
        np.clip(test.p, 1e-9, 1 - 1e-9), test.y
    )
    error = difference.std() / np.sqrt(len(difference))
    assert difference.mean() <= max(2 * error, 1e-12)
    assert difference.mean() < 1e-4


def test_calibrated_bases_get_the_identity():
    kept = [not fit(biased_clicks(s, 5_000, calibrated=True).frame).model_.trees for s in range(20, 28)]
    assert all(kept)


def test_trees_that_were_dropped_have_gained_nothing():
    for seed in range(20, 24):
        unchanged = fit(biased_clicks(seed, 5_000, calibrated=True).frame, max_trees=20)
        assert (unchanged.held_out_gain_, unchanged.held_out_gain_error_) == (0.0, 0.0)
        assert set(unchanged.held_out_gain_by_fold_) == {0.0}


def test_a_line_that_was_kept_has_its_own_gain():
    frame = biased_clicks(20, 5_000, calibrated=True).frame[["p", "y"]]
    moved = fit(frame.assign(p=frame["p"] ** 1.15), max_trees=1, learning_rate=1e-6)
    assert len(moved.model_.trees) == 1
    assert moved.held_out_gain_ > moved.held_out_gain_error_ > 0.0


def test_threads_row_order_and_copies_do_not_change_the_model():
    frame = biased_clicks(2, 4_000).frame
    expected = model_bytes(fit(frame, n_threads=1))
    assert model_bytes(fit(frame, n_threads=3)) == expected
    assert model_bytes(fit(frame.sample(frac=1.0, random_state=3))) == expected
    copies = np.random.default_rng(0).integers(0, 4, len(frame))
    repeated = frame.loc[frame.index.repeat(copies)]
    assert model_bytes(fit(frame, copies)) == model_bytes(fit(repeated))


def test_names_of_categories_do_not_matter():
    data = biased_clicks(3, 6_000)
    renamed = data.frame.assign(site=data.frame["site"].map(lambda v: f"renamed {99 - int(v[1:]):02d}"))
    assert np.array_equal(fit(data.frame).calibrate(data.frame), fit(renamed).calibrate(renamed))


def test_another_seed_gives_another_model_of_the_same_quality():
    train, test = biased_clicks(4, 20_000), biased_clicks(104, 20_000)
    one, other = (fit(train.frame, random_state=seed) for seed in (0, 1))
    assert model_bytes(one) != model_bytes(other)
    errors = [true_error(c.calibrate(test.frame), test.truth) for c in (one, other)]
    assert errors[0] == pytest.approx(errors[1], rel=0.1)
    assert max(errors) < 0.3 * true_error(test.p, test.truth)


def test_aggregated_cells_lose_little():
    train, test = biased_clicks(5, 40_000), biased_clicks(105, 20_000)
    bins = fit(train.frame, max_trees=1).model_.bins
    codes, held = encode(read_columns(train.frame), bins, train.p), encode(read_columns(test.frame), bins, test.p)
    ordered = tuple(feature.ordered for feature in bins)
    errors = {}
    for level in ("score", "cell"):
        cells = build_cells(codes, train.p, train.y, None, bins, level)
        trees = fit_cross_fitted(cells, ordered, BoostingOptions(), n_threads=2).trees
        model = CalibrationEnsemble("p", "odds", bins, trees)
        errors[level] = true_error(model.calibrate_codes(held, test.p), test.truth)
    assert errors["cell"] < 1.2 * errors["score"]


def test_leaf_values_are_finite_and_bounded():
    model = fit(biased_clicks(6, 5_000).frame).model_
    assert model.trees
    for tree in model.trees:
        assert np.all(np.isfinite(tree.leaf_value))
        assert np.all(np.abs(tree.leaf_value) <= VALUE_LIMIT)


@pytest.mark.filterwarnings("ignore:.*that training has not met")
def test_a_value_that_training_has_not_met_keeps_the_correction_by_the_other_features():
    data = biased_clicks(7, 5_000)
    calibrator = fit(data.frame)

    def with_values(**values):
        return calibrator.calibrate(data.frame.assign(**values))

    unseen = with_values(site="never seen")
    assert true_error(unseen, data.truth) < 0.5 * true_error(data.p, data.truth)
    assert np.array_equal(with_values(site="not seen either"), unseen)
    assert not np.array_equal(with_values(site=data.frame["site"].iloc[0]), unseen)
    assert np.array_equal(with_values(age=np.inf), with_values(age=data.frame["age"].max()))
    # Without the feature that carries the bias little of the correction is left, and none of it does harm.
    no_device = with_values(device=None, age=np.nan)
    assert true_error(no_device, data.truth) < true_error(data.p, data.truth)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_folds": 1}, "n_folds=1 must be at least 2"),
        ({"max_trees": 0}, "max_trees=0 must be at least 1"),
        ({"rate": 0.0}, "learning_rate=0.0 must lie above 0"),
        ({"feature_share": 1.5}, "feature_share=1.5 must lie above 0"),
    ],
)
def test_senseless_options_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        BoostingOptions(**options)


def too_steep(n_rows, slope, seed=0):
    """Rows whose score is over-confident everywhere, with a feature that tells nothing."""
    rng = np.random.default_rng(seed)
    true = rng.normal(-1.0, 1.0, n_rows)
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-true))).astype(float)
    return pd.DataFrame(
        {"p": 1 / (1 + np.exp(-slope * true)), "tells nothing": rng.integers(0, 9, n_rows), "y": y}
    ), true


def test_a_line_is_told_from_chance_where_trees_are_not():
    frame, true = too_steep(2_500, 1.3)
    model = fit(frame)
    (line,) = model.model_.trees
    assert line.feature[0] == 0
    assert (line.feature >= 0).sum() == 1
    truth = 1 / (1 + np.exp(-true))
    assert true_error(model.calibrate(frame), truth) < 0.6 * true_error(frame["p"], truth)


def test_trees_start_from_a_line_where_the_base_is_over_confident():
    frame, true = too_steep(30_000, 2.0)
    model = fit(frame, model_size="full")
    first = model.model_.trees[0]
    assert first.feature[0] == 0
    assert len(first.leaves) > 30
    truth = 1 / (1 + np.exp(-true))
    assert true_error(model.calibrate(frame), truth) < 0.1 * true_error(frame["p"], truth)
