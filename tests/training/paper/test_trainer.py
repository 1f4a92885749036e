import json

import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.data.columns import encode, read_columns
from mbct.errors import ParameterError
from mbct.model.ensemble import CalibrationEnsemble
from mbct.training.cells import build_cells
from mbct.training.paper.trainer import PaperOptions, boost_cells


def model_bytes(calibrator):
    return json.dumps(calibrator.model_.to_dict(), sort_keys=True)


def fit(frame, **options):
    settings = {"score_column": "p", "preset": "paper", "categorical": "all", "min_bin_size": 300, **options}
    return MBCTCalibrator(**settings).fit(frame, "y")


def test_row_level_and_aggregated_cells_give_the_same_model():
    data = biased_clicks(1, 20_000)
    bins = fit(data.frame).model_.bins
    codes = encode(read_columns(data.frame), bins, data.p)
    models = []
    for level in ("row", "score", "cell"):
        cells = build_cells(codes, data.p, data.y, None, bins, level)
        trees, _ = boost_cells(cells, bins.names, PaperOptions(min_bin_size=300), n_threads=2)
        models.append(json.dumps(CalibrationEnsemble("p", "linear", bins, trees).to_dict()))
    assert models[0] == models[1] == models[2]


def test_threads_row_order_and_copies_do_not_change_the_model():
    frame = biased_clicks(2, 10_000).frame
    expected = model_bytes(fit(frame, n_threads=1))
    assert model_bytes(fit(frame, n_threads=4)) == expected
    assert model_bytes(fit(frame.sample(frac=1.0, random_state=3), n_threads=2)) == expected
    copies = np.random.default_rng(0).integers(1, 4, len(frame))
    settings = {"score_column": "p", "preset": "paper", "categorical": "all", "min_bin_size": 300}
    weighted = MBCTCalibrator(**settings).fit(frame, "y", sample_weight=copies)
    repeated = MBCTCalibrator(**settings).fit(frame.loc[frame.index.repeat(copies)], "y")
    assert model_bytes(weighted) == model_bytes(repeated)


def test_names_of_categories_do_not_matter():
    data = biased_clicks(3, 10_000)
    renamed = data.frame.assign(site=data.frame["site"].map(lambda v: f"renamed {99 - int(v[1:]):02d}"))
    before, after = fit(data.frame), fit(renamed)
    assert np.array_equal(before.calibrate(data.frame), after.calibrate(renamed))


def test_a_planted_tree_is_recovered():
    # Planted: 1.6 on mobile, 0.7 on desktop at night; with depth 2 both splits are found.
    data = biased_clicks(4, 60_000)
    model = fit(
        data.frame, features=["device", "night"], max_trees=1, max_depth=2, score_bins=1, min_bin_size=2000
    ).model_
    found = {
        tuple(sorted((c.feature, c.values) for c in r.conditions)): r.multiplier
        for r in model.rules()
        if not r.fallback
    }
    assert found[(("device", ("mobile",)), ("night", ("false",)))] == pytest.approx(1.6, rel=0.05)
    assert found[(("device", ("mobile",)), ("night", ("true",)))] == pytest.approx(1.6, rel=0.05)
    assert found[(("device", ("desktop",)), ("night", ("true",)))] == pytest.approx(0.7, rel=0.06)
    assert found[(("device", ("desktop",)), ("night", ("false",)))] == pytest.approx(1.0, rel=0.05)


def test_without_boosting_there_is_one_tree_and_boosting_lowers_the_loss():
    frame = biased_clicks(5, 20_000).frame
    single, several = fit(frame, max_trees=1), fit(frame, max_trees=8)
    assert len(single.model_.trees) == 1
    assert 1 < len(several.model_.trees) <= 8
    losses = [r.loss_after for r in several.trace_.rounds if r.kept]
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("loss", ["ece", "ece_sweep", "mvce-monte-carlo"])
def test_other_losses_grow_trees_that_lower_them(loss):
    calibrator = fit(biased_clicks(6, 4_000).frame, loss=loss, max_trees=2, max_depth=2)
    assert calibrator.trace_.loss == loss
    kept = [r for r in calibrator.trace_.rounds if r.kept]
    assert kept
    assert all(r.loss_after < r.loss_before for r in kept)


def test_monte_carlo_and_closed_form_choose_the_same_first_split():
    frame = biased_clicks(7, 10_000).frame
    closed, sampled = (fit(frame, loss=loss, max_trees=1, max_depth=1) for loss in ("mvce", "mvce-monte-carlo"))
    assert closed.trace_.splits[0].feature == sampled.trace_.splits[0].feature
    assert closed.trace_.splits[0].node_loss_after == pytest.approx(sampled.trace_.splits[0].node_loss_after, rel=0.05)


def test_the_bound_chooses_the_bin_size():
    options = PaperOptions(min_bin_size="bound")
    # Porto Seguro's figures: 208,000 rows at a rate of 3.64 % give β ≈ 39,400, not the printed 800.
    assert options.growth(208_000, 0.0364 * 208_000).min_bin_size == pytest.approx(39_405, rel=0.002)
    assert options.growth(12_000_000, 0.17 * 12_000_000).min_bin_size == pytest.approx(14_148, rel=0.001)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_trees": 0}, "max_trees=0 must be a whole number of at least 1"),
        ({"max_depth": -1}, "max_depth=-1 must be"),
        ({"min_bin_size": 1}, "min_bin_size=1 must be at least 2 rows"),
        ({"min_bin_size": "large"}, "min_bin_size='large' must be at least 2 rows, or 'bound'"),
        ({"alpha": 1.5}, "alpha=1.5 must lie between 0 and 1"),
        ({"max_relative_error": 0.0}, "max_relative_error=0.0 must be above 0"),
        ({"loss": "mse"}, "loss='mse' is unknown; choose mvce, ece"),
    ],
)
def test_senseless_options_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        PaperOptions(**options)
