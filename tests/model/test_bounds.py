import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator, load_model
from mbct.data.columns import read_columns
from mbct.data.memory import encode
from mbct.model.bounds import bin_of, bin_tree
from mbct.stats.theorem import label_rate_bound


def fit(frame, **options):
    return MBCTCalibrator(score_column="p", **options).fit(frame, "y")


def bins_of_rows(model, frame):
    codes = encode(read_columns(frame), model.model_.bins, frame["p"].to_numpy())
    return bin_of(model.model_, codes)


@pytest.mark.parametrize("options", [{}, {"model_size": "compact"}, {"preset": "paper"}])
def test_the_mean_of_the_ends_is_the_theorem_s_interval_of_each_bin(options):
    data = biased_clicks(0, 20_000)
    model = fit(data.frame, **options)
    calibrated, lower, upper = model.calibrate(data.frame, return_bounds=True)
    node, n_bins = bins_of_rows(model, data.frame)
    assert np.array_equal(calibrated, model.calibrate(data.frame))
    for b in np.unique(node):
        rows = node == b
        rate = data.y[rows].mean()
        bound = float(label_rate_bound(rate, rows.sum(), n_bins, model.alpha))
        # The paper's multipliers make prediction and label rate agree in every bin, but for what is cut off at 1.
        mean = rate if "preset" in options else calibrated[rows].mean()
        expected = np.array([max(rate - bound, 0.0), min(rate + bound, 1.0)]) / mean
        assert lower[rows] == pytest.approx(np.clip(expected[0] * calibrated[rows], 0, 1), rel=1e-6, abs=1e-12)
        assert upper[rows] == pytest.approx(np.clip(expected[1] * calibrated[rows], 0, 1), rel=1e-6, abs=1e-12)


def all_bins_hold(node, *values):
    """Whether the mean truth of each bin lies between the means of its lower and upper ends."""
    size = np.bincount(node)
    present = size > 0
    truth, low, high = (np.bincount(node, v)[present] / size[present] for v in values)
    return bool(np.all((low <= truth) & (truth <= high)))


@pytest.mark.parametrize(("options", "n_fits"), [({"model_size": "compact"}, 20), ({"preset": "paper"}, 40)])
def test_coverage_by_simulation(options, n_fits):
    """All bins at once hold in at least 1 − α of the samples, each fit judged on 100,000 fresh rows."""
    fresh = biased_clicks(999, 100_000)
    held = 0
    for seed in range(n_fits):
        model = fit(biased_clicks(seed, 4_000).frame, max_trees=8, **options)
        _, lower, upper = model.calibrate(fresh.frame, return_bounds=True)
        node, _ = bins_of_rows(model, fresh.frame)
        held += all_bins_hold(node, fresh.truth, lower, upper)
    assert held >= 0.95 * n_fits


@pytest.mark.parametrize("heaviest", [1, 3])
def test_bounds_count_rows_not_weights(heaviest):
    data, fresh = biased_clicks(10, 6_000), biased_clicks(210, 20_000)
    weight = 4.0 * np.random.default_rng(0).integers(1, heaviest + 1, len(data.y))
    model = MBCTCalibrator(score_column="p", model_size="compact").fit(data.frame, "y", sample_weight=weight)
    assert model.model_.trees[0].count[0] == pytest.approx(weight.sum() ** 2 / np.sum(weight**2), rel=0.1)
    _, lower, upper = model.calibrate(fresh.frame, return_bounds=True)
    assert all_bins_hold(bins_of_rows(model, fresh.frame)[0], fresh.truth, lower, upper)


PRESETS = [{"preset": "default"}, {"preset": "fast"}, {"preset": "paper"}]


def with_fewer_negatives(data, rate, seed):
    kept = (data.y == 1) | (np.random.default_rng(seed).random(len(data.y)) < rate)
    return data.frame[kept].reset_index(drop=True)


@pytest.mark.parametrize("options", PRESETS)
def test_with_sampled_negatives_the_interval_of_a_bin_is_that_of_its_sampled_rows_brought_back(options):
    """Sampling multiplies the odds of a bin's rate by 1/r, so the theorem's ends come back by the odds times r."""
    rate = 0.2
    sample = with_fewer_negatives(biased_clicks(4, 60_000), rate, seed=4)
    model = fit(sample, negative_sampling_rate=rate, **options)
    calibrated, lower, upper = model.calibrate(sample, return_bounds=True)
    node, n_bins = bins_of_rows(model, sample)
    assert n_bins > 1
    y = sample["y"].to_numpy()
    stands_for = np.where(y == 1, 1.0, 1.0 / rate)
    for b in np.unique(node):
        rows = node == b
        label_rate = y[rows].mean()
        bound = float(label_rate_bound(label_rate, rows.sum(), n_bins, model.alpha))
        ends = np.clip([label_rate - bound, label_rate + bound], 0.0, 1.0)
        low, high = ends * rate / (ends * rate + 1.0 - ends)
        # The paper's multipliers make prediction and label rate agree in every bin, but for what is cut off at 1.
        paper = options["preset"] == "paper"
        mean = np.average(y[rows] if paper else calibrated[rows], weights=stands_for[rows])
        assert lower[rows] == pytest.approx(np.clip(low / mean * calibrated[rows], 0, 1), rel=1e-6, abs=1e-12)
        assert upper[rows] == pytest.approx(np.clip(high / mean * calibrated[rows], 0, 1), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("options", PRESETS)
def test_coverage_with_sampled_negatives(options):
    """The rates of the population, not of the sample, lie between the means of the ends of each bin."""
    fresh, rate = biased_clicks(999, 50_000), 0.2
    held = 0
    for seed in range(20):
        sample = with_fewer_negatives(biased_clicks(seed, 10_000), rate, seed)
        model = fit(sample, negative_sampling_rate=rate, max_trees=8, **options)
        _, lower, upper = model.calibrate(fresh.frame, return_bounds=True)
        node, _ = bins_of_rows(model, fresh.frame)
        held += all_bins_hold(node, fresh.truth, lower, upper)
    assert held >= 19


def test_more_rows_make_the_intervals_narrower():
    fresh = biased_clicks(999, 2_000).frame
    widths = []
    for n_rows in (5_000, 80_000):
        _, lower, upper = fit(biased_clicks(1, n_rows).frame, model_size="compact").calibrate(fresh, return_bounds=True)
        widths.append(float(np.mean(upper - lower)))
    assert widths[1] < 0.5 * widths[0]


def test_bounds_are_saved_and_sampled_data_are_brought_back(tmp_path):
    data = biased_clicks(2, 20_000)
    rate = 0.25
    kept = (data.y == 1) | (np.random.default_rng(0).random(len(data.y)) < rate)
    model = fit(data.frame[kept].reset_index(drop=True), negative_sampling_rate=rate)
    model.save(tmp_path / "model.json")
    calibrated, lower, upper = load_model(tmp_path / "model.json").calibrate(data.frame, return_bounds=True)
    again = model.calibrate(data.frame, return_bounds=True)
    assert all(np.array_equal(one, other) for one, other in zip(again, (calibrated, lower, upper), strict=True))
    assert np.mean((lower <= calibrated) & (calibrated <= upper)) > 0.9
    assert lower.mean() < data.truth.mean() < upper.mean()


def test_a_model_without_trees_has_one_bin():
    model = fit(biased_clicks(21, 5_000, calibrated=True).frame)
    if model.model_.trees:
        pytest.fail("this sample was chosen to need no trees")
    calibrated, lower, upper = model.calibrate(biased_clicks(3, 10).frame, return_bounds=True)
    assert np.ptp(upper / calibrated) == pytest.approx(0.0, abs=1e-9)
    assert np.all(lower < upper)


def test_the_bins_of_an_odds_ensemble_are_those_of_the_tree_that_tells_rows_apart_most():
    model = fit(biased_clicks(5, 20_000).frame)
    trees = model.model_.trees
    spreads = []
    for tree in trees:
        mean = np.average(tree.step[tree.leaves], weights=tree.count[tree.leaves])
        spreads.append(np.sum(tree.count[tree.leaves] * (tree.step[tree.leaves] - mean) ** 2))
    assert bin_tree(model.model_) is trees[int(np.argmax(spreads))]
    shuffled = model.model_.with_trees(trees[::-1])
    assert bin_tree(shuffled) is bin_tree(model.model_)
