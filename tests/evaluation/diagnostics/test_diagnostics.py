"""What the displays draw, against hand computations and laws."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.isotonic import IsotonicRegression

from builders import biased_clicks, random_model, random_rows
from mbct import MBCTCalibrator
from mbct.data.columns import encode, read_columns
from mbct.errors import DataError, ParameterError
from mbct.evaluation.diagnostics.decision_curve import compute_decision_curve
from mbct.evaluation.diagnostics.field_bias import compute_field_bias, field_bias_of_rows, worst_segments
from mbct.evaluation.diagnostics.reliability import (
    compute_panels,
    compute_reliability,
    reliability_of_rows,
    wilson_interval,
)
from mbct.evaluation.diagnostics.subgroups import bins_of_equal_weight, compute_subgroups
from mbct.evaluation.diagnostics.tree_outline import first_grown, outline_tree, replay_growth
from mbct.evaluation.diagnostics.views import compute_bins_curves, view_errors
from mbct.evaluation.metrics.rows import Rows, read_rows, read_segments
from mbct.metrics import ece, field_ece, net_benefit, pcoc
from mbct.stats.probabilities import log_loss_of_rows
from mbct.stats.testing import total_p_values


@pytest.mark.parametrize(("positives", "rows"), [(0, 12), (3, 40), (40, 40), (250, 1000)])
def test_wilson_interval_agrees_with_scipy(positives: int, rows: int) -> None:
    low, high = wilson_interval(np.array([positives / rows]), np.array([float(rows)]), 0.9)
    reference = binomtest(positives, rows).proportion_ci(0.9, method="wilson")
    assert low[0] == pytest.approx(reference.low, abs=1e-12)
    assert high[0] == pytest.approx(reference.high, abs=1e-12)


def test_rare_events_are_tested_by_poisson() -> None:
    """One event where 0.01 was expected: the normal law would call it a certainty (p = 4e-23)."""
    p = total_p_values(np.array([1.0]), np.array([0.01]), np.array([0.0099]), 1.0)
    assert p[0] == pytest.approx(2 * (1 - np.exp(-0.01)), rel=1e-9)


def test_p_values_are_fair_where_predictions_are_right() -> None:
    rng = np.random.default_rng(5)
    for n_rows, least in ((60, 0.005), (3000, 0.035)):  # three events a sum, of which few outcomes lie near 0.05
        p = rng.beta(1, 20, (2000, n_rows))
        y = rng.random(p.shape) < p
        found = total_p_values(y.sum(1).astype(float), p.sum(1), (p * (1 - p)).sum(1), 1.0)
        assert least < (found < 0.05).mean() < 0.06


def test_a_weight_of_two_equals_two_rows_on_the_curve() -> None:
    data = biased_clicks(2, 3000)
    once = compute_reliability(np.repeat(data.y, 2), np.repeat(data.p, 2), n_bins=7)
    weighted = compute_reliability(data.y, data.p, n_bins=7, sample_weight=np.full(3000, 2.0))
    np.testing.assert_allclose(weighted.label_rate, once.label_rate)
    np.testing.assert_allclose(weighted.histogram, once.histogram)
    # Equal weights carry no more rows than there are: the band must not shrink.
    assert (weighted.upper - weighted.lower > once.upper - once.lower).all()


def test_bands_hold_the_truth_as_often_as_they_say() -> None:
    data = biased_clicks(3, 60_000, calibrated=True)
    curve = compute_reliability(data.y, data.p, n_bins=100, confidence=0.9)
    held = (curve.lower <= curve.mean_prediction) & (curve.mean_prediction <= curve.upper)
    assert held.mean() == pytest.approx(0.9, abs=0.08)
    assert curve.histogram.sum() == pytest.approx(1.0)


def test_the_isotonic_curve_is_that_of_scikit_learn_and_its_band_holds_the_truth() -> None:
    data = biased_clicks(3, 900, calibrated=True)
    curve = compute_reliability(data.y, data.p, confidence=0.9)
    fit = IsotonicRegression(y_min=0, y_max=1).fit(data.p, data.y)
    np.testing.assert_allclose(curve.label_rate, fit.predict(curve.mean_prediction), atol=1e-12)
    assert np.all(np.diff(curve.label_rate) >= 0)
    many = biased_clicks(3, 60_000, calibrated=True)
    band = compute_reliability(many.y, many.p, confidence=0.9)
    held = (band.lower <= band.mean_prediction) & (band.mean_prediction <= band.upper)
    assert np.average(held, weights=band.count) > 0.8
    assert np.all((band.lower <= band.label_rate) & (band.label_rate <= band.upper))


def test_a_last_block_of_few_rows_does_not_stretch_the_axes() -> None:
    p = np.append(np.linspace(0.001, 0.02, 900), 0.021)
    y = np.append(np.random.default_rng(0).random(900) < 0.01, True)
    curve = compute_reliability(y, p)
    assert curve.label_rate[-1] == 1.0
    assert curve.highest < 0.2


def test_the_decision_curve_of_all_rows_meets_zero_at_the_label_rate() -> None:
    data = biased_clicks(2, 3000)
    rate = data.y.mean()
    curve = compute_decision_curve(data.y, data.p, thresholds=[0.01, rate])
    assert curve.act_on_all[1] == pytest.approx(0.0, abs=1e-12)
    assert curve.net_benefit[0] == pytest.approx(float(net_benefit(data.y, data.p, threshold=0.01)))
    assert len(compute_decision_curve(data.y, data.p).threshold) == 100


def test_panels_are_the_largest_segments() -> None:
    data = biased_clicks(4, 5000)
    panels = compute_panels(data.y, data.p, data.frame["site"], max_panels=3)
    counts = data.frame["site"].value_counts()
    assert [panel.name for panel in panels] == [f"site = {name}" for name in counts.index[:3]]
    assert panels[0].n_rows == counts.iloc[0]


def test_field_bias_equals_the_public_metrics() -> None:
    data = biased_clicks(5, 8000)
    fields = compute_field_bias(data.y, data.p, data.frame[["device", "night", "site"]], max_values=5)
    assert fields[0].field == "device"
    for field in fields:
        assert field.error == pytest.approx(field_ece(data.y, data.p, data.frame[field.field]))
        ratios = [segment.ratio for segment in field.segments]
        assert ratios == sorted(ratios)
    mobile = next(s for s in fields[0].segments if s.segment == "mobile")
    chosen = (data.frame["device"] == "mobile").to_numpy()
    public = pcoc(data.y[chosen], data.p[chosen])
    assert mobile.ratio == pytest.approx(public.value)
    assert mobile.p_value == pytest.approx(public.p_value, rel=1e-6)
    assert mobile.significant
    assert mobile.lower < 1 / 1.6 < mobile.upper
    site = next(f for f in fields if f.field == "site")
    assert len(site.segments) == 6
    assert sum(s.count for s in site.segments) == 8000


def test_few_marks_where_predictions_are_right() -> None:
    marked = 0
    for seed in range(10):
        data = biased_clicks(seed, 4000, calibrated=True)
        fields = compute_field_bias(data.y, data.p, data.frame[["device", "night", "site"]])
        marked += any(segment.significant for field in fields for segment in field.segments)
    assert marked <= 2
    data = biased_clicks(0, 4000)
    fields = compute_field_bias(data.y, data.p, data.frame[["device", "night", "site"]])
    assert any(segment.significant for field in fields for segment in field.segments)


def test_the_worst_pair_is_found_and_redundant_pairs_are_not_listed() -> None:
    data = biased_clicks(6, 30_000)
    by = data.frame[["device", "night"]]
    fields = read_segments(by)
    groups = tuple(field.codes for field in fields)
    before = read_rows(data.y, data.p, None, groups)
    after = read_rows(data.y, data.truth, None, groups)
    worst, tested = worst_segments(before, after, fields, [0, 1], 10, 0.95)
    named = [f"{each.before.field} = {each.before.segment}" for each in worst]
    assert tested == 8
    assert "device = desktop · night = True" in named
    assert named[0] == "device = mobile"
    assert not any(name.startswith("device = mobile ·") for name in named)
    assert not any(each.after.significant for each in worst)


def test_subgroups_of_a_pure_bin_are_right_and_of_a_mixed_one_are_not() -> None:
    data = biased_clicks(7, 40_000)
    device = (data.frame["device"] == "mobile").to_numpy().astype(int)
    pure = compute_subgroups(data.y, data.truth, np.zeros(40_000, int), order=device)
    mixed = compute_subgroups(data.y, data.p, np.zeros(40_000, int), order=device)
    assert pure.spread < 0.1 < mixed.spread
    assert pure.ratio.shape == (1, 4)


def test_bins_of_equal_weight_keep_equal_values_together() -> None:
    value = np.repeat([1.0, 1.2, 1.4, 1.6], [10, 5, 5, 20])
    bins = bins_of_equal_weight(value, np.ones(40), 3)
    assert len(np.unique(bins)) <= 3
    assert all(len(np.unique(bins[value == v])) == 1 for v in np.unique(value))
    assert (np.diff(bins) >= 0).all()


def test_subgroups_refuse_columns_of_other_lengths() -> None:
    with pytest.raises(DataError, match="bins has 2 rows where 3 were expected"):
        compute_subgroups([0, 1, 1], [0.5] * 3, [0, 0])


def test_shuffling_hides_what_features_show() -> None:
    """A bias that cancels between two segments: invisible to shuffled views, plain by feature."""
    rng = np.random.default_rng(8)
    group = np.arange(40_000) % 2
    p = np.full(40_000, 0.3)
    y = (rng.random(40_000) < np.where(group == 1, 0.4, 0.2)).astype(float)
    fields = read_segments({"group": group})
    shuffled, in_order, by_group = view_errors(read_rows(y, p, None, (fields[0].codes,)), fields)
    assert shuffled.error < 1.2 * shuffled.by_chance
    assert by_group.error > 10 * by_group.by_chance
    assert by_group.error == pytest.approx(field_ece(y, p, group))
    assert in_order.kind == "sorted"


def test_chance_is_what_right_predictions_leave_on_average() -> None:
    found = []
    for seed in range(20):
        data = biased_clicks(seed, 5000, calibrated=True)
        fields = read_segments(data.frame[["site"]])
        rows = read_rows(data.y, data.p, None, (fields[0].codes,))
        found.append([(view.error, view.by_chance) for view in view_errors(rows, fields)])
    error, chance = np.mean(found, axis=0).T
    np.testing.assert_allclose(error, chance, rtol=0.12)


def test_bins_curve_equals_the_metric() -> None:
    data = biased_clicks(9, 2000)
    curves = compute_bins_curves(data.y, {"base": data.p, "truth": data.truth}, n_bins=[5, 20])
    assert [curve.name for curve in curves] == ["base", "truth"]
    np.testing.assert_allclose(curves[0].value, [ece(data.y, data.p, n_bins=n) for n in (5, 20)])
    with pytest.raises(ParameterError, match="n_bins is empty"):
        compute_bins_curves(data.y, data.p, n_bins=[])


def test_the_outline_tells_every_node_and_the_losses_of_the_fit() -> None:
    data = biased_clicks(10, 6000)
    model = MBCTCalibrator("p", preset="paper", min_bin_size=400).fit(data.frame.drop(columns="y"), data.y)
    outline = outline_tree(model.model_, model.trace_)
    tree = model.model_.trees[0]
    assert len(outline.nodes) == tree.n_nodes
    assert outline.root.rows == 6000
    assert {node.number for node in outline.nodes if node.is_leaf} == set(tree.leaves.tolist())
    assert outline.splits == tuple(s for s in model.trace_.splits if s.tree == 0)
    for node in outline.nodes[1:]:
        assert node.number in outline.nodes[node.parent].children
    with pytest.raises(ParameterError, match="tree=99 does not exist"):
        outline_tree(model.model_, tree=99)


@pytest.mark.parametrize("link", ["odds", "linear"])
@pytest.mark.parametrize("seed", range(4))
def test_the_replay_ends_at_the_loss_of_the_whole_tree(link: str, seed: int) -> None:
    model = random_model(seed, link, n_trees=1)
    frame = random_rows(seed, model, 500)
    columns = read_columns({name: np.array(values, dtype=object) for name, values in frame.items()})
    p = np.array(frame["score"])
    y = (np.random.default_rng(seed).random(500) < p).astype(float)
    weight = np.random.default_rng(seed + 1).uniform(0.5, 2.0, 500)
    codes = encode(columns, model.bins, p)
    records = replay_growth(model, codes, p, y, weight)
    assert len(records) == int((model.trees[0].feature >= 0).sum())
    whole = log_loss_of_rows(model.calibrate_codes(codes, p), y, weight)
    assert records[-1].ensemble_loss == pytest.approx(whole, rel=1e-8)  # records keep nine digits
    assert records[0].count == pytest.approx(weight.sum())


def test_a_later_tree_is_replayed_from_where_the_earlier_ones_end() -> None:
    model = random_model(11, "odds", n_trees=2)
    frame = random_rows(11, model, 500)
    columns = read_columns({name: np.array(values, dtype=object) for name, values in frame.items()})
    p = np.array(frame["score"])
    y = (np.random.default_rng(3).random(500) < p).astype(float)
    codes = encode(columns, model.bins, p)
    records = replay_growth(model, codes, p, y, np.ones(500), 1)
    assert {record.tree for record in records} == {1}
    whole = log_loss_of_rows(model.calibrate_codes(codes, p), y, np.ones(500))
    assert records[-1].ensemble_loss == pytest.approx(whole, rel=1e-8)
    assert records != tuple(sorted(records, key=lambda record: (record.depth, record.node)))  # not level by level
    assert outline_tree(model, tree=1, splits=records).splits == records


def test_the_first_grown_tree_is_the_first_with_two_splits() -> None:
    trees = random_model(7, "odds", n_trees=3).trees
    stump = random_model(3, "odds", n_trees=3).trees[2]
    model = random_model(7, "odds", n_trees=3)
    assert first_grown(replace(model, trees=(stump, *trees))) == 1
    assert first_grown(replace(model, trees=(*trees, stump))) == 0
    assert first_grown(replace(model, trees=(stump,))) == 0


def test_bands_and_intervals_of_blocks_allow_for_shared_shocks() -> None:
    """Fifty copies of every row, a block each: bands are those of the rows alone, not of fifty times as many."""
    data = biased_clicks(3, 1500, calibrated=True)
    copies = np.repeat(np.arange(1500), 50)
    fields = read_segments(data.frame[["device"]])
    alone = read_rows(data.y, data.p, None, tuple(field.codes for field in fields))
    many = alone.take(copies)
    together = replace(many, blocks=copies.astype(np.int32))

    def width(rows: Rows, n_bins: int | None) -> float:
        curve = reliability_of_rows(rows, "", n_bins, 0.95, None)
        return float(np.average(curve.upper - curve.lower, weights=curve.count))

    for n_bins in (None, 10):
        assert width(many, n_bins) < 0.5 * width(alone, n_bins)
        assert width(together, n_bins) == pytest.approx(width(alone, n_bins), rel=0.25)
    found = [field_bias_of_rows(rows, fields, 20, 0.95, "holm")[0].segments for rows in (alone, many, together)]
    for one, copied, in_blocks in zip(*found, strict=True):
        assert copied.p_value < one.p_value
        assert in_blocks.p_value == pytest.approx(one.p_value, rel=0.3)
        assert (in_blocks.lower, in_blocks.upper) == pytest.approx((one.lower, one.upper), rel=0.05)
