import numpy as np
import pandas as pd
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.errors import ParameterError


def fit(frame, **options):
    return MBCTCalibrator(score_column="p", **options).fit(frame, "y")


def log_loss(prediction, y):
    p = np.clip(prediction, 1e-9, 1 - 1e-9)
    return float(-np.where(y == 1, np.log(p), np.log1p(-p)).mean())


def stretched(seed, n_rows):
    """Scores pressed together, and a bias by device: both have to be undone."""
    data = biased_clicks(seed, n_rows)
    odds = data.frame["p"] / (1 - data.frame["p"])
    pressed = 0.15 * odds**0.4 / (1 + 0.15 * odds**0.4)
    return data.frame.assign(p=pressed), data.truth


@pytest.mark.filterwarnings("ignore:.*that training has not met")
@pytest.mark.parametrize("size", ["auto", "full", "compact"])
def test_within_bin_keeps_the_order_inside_every_segment_and_still_gains(size):
    frame, _ = stretched(0, 20_000)
    test, _ = stretched(1, 20_000)
    model = fit(frame, rank_preservation="within-bin", model_size=size)
    grid = pd.DataFrame({"p": np.linspace(0.0, 1.0, 4001)})
    for device, night, site, age in [("mobile", True, "s1", 30), ("desktop", False, "s9", 70), ("new", True, "?", 40)]:
        rising = model.calibrate(grid.assign(device=device, night=night, site=site, age=age))
        assert np.all(np.diff(rising) >= 0.0)
    only_score = fit(frame, rank_preservation="preserve")
    losses = [log_loss(m.calibrate(test), test["y"]) for m in (model, only_score)]
    assert losses[0] < losses[1] < log_loss(test["p"], test["y"])
    assert model.reorder_rate_ > 0.0
    if size == "compact":
        assert len(model.model_.trees) <= 8
        assert model.model_.n_rules <= 256


def test_preserve_turns_no_pair_round():
    frame, _ = stretched(2, 10_000)
    model = fit(frame, rank_preservation="preserve")
    p = np.sort(np.random.default_rng(0).random(5000))
    shuffled = frame.sample(5000, replace=True, random_state=1).assign(p=p)
    assert np.all(np.diff(model.calibrate(shuffled)) >= 0.0)
    assert model.reorder_rate_ == 0.0
    assert len(model.model_.trees) == 1


def test_preserve_keeps_the_order_of_scores_that_are_too_wide():
    data = biased_clicks(3, 10_000)
    odds = data.frame["p"] / (1 - data.frame["p"])
    wide = data.frame.assign(p=4 * odds**2 / (1 + 4 * odds**2))
    model = fit(wide, rank_preservation="preserve")
    assert np.all(np.diff(model.calibrate(wide.sort_values("p"))) >= 0.0)


def sampled(frame, rate, seed=0):
    kept = (frame["y"] == 1) | (np.random.default_rng(seed).random(len(frame)) < rate)
    return frame[kept].reset_index(drop=True)


def odds_times(p, factor):
    return p * factor / (p * factor + 1 - p)


@pytest.mark.parametrize("rate", [0.5, 0.1])
def test_scores_learnt_on_the_sample_come_back_by_the_odds_exactly(rate):
    frame = sampled(biased_clicks(4, 40_000).frame, rate)
    frame = frame.assign(p=odds_times(frame["p"], 1 / rate))
    corrected = fit(frame, negative_sampling_rate=rate).calibrate(frame)
    assert corrected == pytest.approx(odds_times(fit(frame).calibrate(frame), rate), rel=1e-7)


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("scale", ["sample", "population"])
def test_the_mean_of_the_population_is_met_whatever_the_scores_mean(preset, scale):
    rate, test = 0.2, biased_clicks(105, 40_000)
    train = sampled(biased_clicks(5, 60_000).frame, rate)
    factor = 1 / rate if scale == "sample" else 1.0
    model = fit(train.assign(p=odds_times(train["p"], factor)), negative_sampling_rate=rate, preset=preset)
    calibrated = model.calibrate(test.frame.assign(p=odds_times(test.frame["p"], factor)))
    assert calibrated.mean() == pytest.approx(test.truth.mean(), rel=0.03)
    assert log_loss(calibrated, test.y) < log_loss(test.p, test.y)


def test_population_scores_without_bias_are_moved_little():
    train = sampled(biased_clicks(6, 30_000, calibrated=True).frame, 0.25)
    model = fit(train, negative_sampling_rate=0.25)
    difference = model.calibrate(train) - train["p"].to_numpy()
    assert np.abs(difference).mean() < 0.005


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank_preservation": "sorted"}, "rank_preservation='sorted' must be one of 'free', 'within-bin', 'preserve'"),
        ({"negative_sampling_rate": 0.0}, "negative_sampling_rate=0.0 must lie above 0 and at most at 1"),
        ({"negative_sampling_rate": 1.5}, "negative_sampling_rate=1.5 must lie above 0"),
        (
            {"rank_preservation": "preserve", "preset": "paper"},
            "rank_preservation='preserve' has no meaning with preset='paper'",
        ),
    ],
)
def test_senseless_constraints_are_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        fit(biased_clicks(7, 200).frame, **change)
