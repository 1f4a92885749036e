"""Displays draw what was computed, on the axes given."""

from collections.abc import Iterator

import numpy as np
import pytest

from builders import biased_clicks

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'mbct[plots]'")

import matplotlib as mpl
import matplotlib.pyplot as plt

import mbct.plots
from mbct import MBCTCalibrator
from mbct.calibrators.score_only.logistic import PlattCalibrator
from mbct.errors import DataError, ParameterError
from mbct.plots import (
    BinsDisplay,
    DecisionCurveDisplay,
    FieldBiasDisplay,
    FitTraceDisplay,
    PUDDisplay,
    ReliabilityDisplay,
    SegmentReliabilityDisplay,
    TreeDisplay,
)
from mbct.plots.style import AFTER, BEFORE, PALETTE

DATA = biased_clicks(11, 6000)
X = DATA.frame.drop(columns="y")


@pytest.fixture(autouse=True)
def _quiet_figures() -> Iterator[None]:
    mpl.use("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def calibrator() -> MBCTCalibrator:
    return MBCTCalibrator("p", preset="paper", min_bin_size=400).fit(biased_clicks(10, 6000).frame, "y")


def test_reliability_draws_its_curves(calibrator: MBCTCalibrator) -> None:
    display = ReliabilityDisplay.from_estimator(calibrator, DATA.frame, "y", n_bins=9)
    before, after = display.curves
    assert (before.name, after.name) == ("before", "after")
    drawn = display.ax_.lines[1].get_xydata()
    np.testing.assert_allclose(drawn, np.column_stack([before.mean_prediction, before.label_rate]))
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["before", "after"]
    assert display.histogram_ax_ is not None
    display.figure_.canvas.draw()


def test_the_decision_curve_draws_before_after_and_all_rows(calibrator: MBCTCalibrator) -> None:
    display = DecisionCurveDisplay.from_estimator(calibrator, DATA.frame, "y")
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["all rows", "before", "after"]
    np.testing.assert_allclose(display.ax_.lines[2].get_ydata(), display.curves[0].net_benefit)
    alone = DecisionCurveDisplay.from_predictions(DATA.y, DATA.p, thresholds=[0.1, 0.2])
    assert len(alone.curves) == 1
    alone.figure_.canvas.draw()


def test_reliability_uses_the_axes_given() -> None:
    _, ax = plt.subplots()
    display = ReliabilityDisplay.from_predictions(DATA.y, DATA.p, ax=ax, histogram=False)
    assert display.ax_ is ax
    assert display.histogram_ax_ is None
    assert ax.get_legend() is None


def test_segment_panels(calibrator: MBCTCalibrator) -> None:
    display = SegmentReliabilityDisplay.from_estimator(calibrator, X, DATA.y, by="site", max_panels=4)
    assert len(display.axes_) == 4
    assert display.axes_[0].get_title(loc="left").startswith("site = s1")
    with pytest.raises(ParameterError, match="4 panels need as many axes, got 1"):
        display.plot(plt.subplots()[1])
    alone = SegmentReliabilityDisplay.from_predictions(DATA.y, DATA.p, by=DATA.frame["device"])
    assert len(alone.axes_) == 2
    alone.figure_.canvas.draw()


def test_field_bias_fills_only_sure_marks(calibrator: MBCTCalibrator) -> None:
    display = FieldBiasDisplay.from_estimator(calibrator, X, DATA.y)
    assert display.fields[0].field == "device"
    before = display.ax_.collections[1]
    assert len(before.get_offsets()) == 2
    filled = [tuple(colour[:3]) != (1.0, 1.0, 1.0) for colour in before.get_facecolors()]
    assert filled == [segment.significant for segment in display.fields[0].segments]
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["mobile", "desktop"]
    single = FieldBiasDisplay.from_predictions(DATA.y, DATA.p, by=X[["site"]])
    single.figure_.canvas.draw()
    with pytest.raises(ParameterError, match="1 results need as many names, got 2"):
        FieldBiasDisplay(single.fields, names=("a", "b"))


def test_several_predictions_are_drawn_by_the_same_field() -> None:
    display = FieldBiasDisplay.from_predictions(DATA.y, {"base": DATA.p, "truth": DATA.truth}, by=X[["site", "device"]])
    assert display.names == ("base", "truth")
    assert [field.field for field in display.fields] == ["device", "device"]


def test_before_and_after_have_colours_of_their_own(calibrator: MBCTCalibrator) -> None:
    both = {"before": DATA.p, "after": DATA.truth}
    assert ReliabilityDisplay.from_predictions(DATA.y, both).colours == [BEFORE, AFTER]
    assert DecisionCurveDisplay.from_estimator(calibrator, DATA.frame, "y").colours == [BEFORE, AFTER]
    assert BinsDisplay.from_predictions(DATA.y, {"a": DATA.p, "b": DATA.truth}).colours == list(PALETTE[:2])
    with pytest.raises(DataError, match="by must be one column, got"):
        SegmentReliabilityDisplay.from_estimator(calibrator, X, DATA.y)


def test_pud_strips_hold_every_part(calibrator: MBCTCalibrator) -> None:
    display = PUDDisplay.from_estimator(calibrator, X, DATA.y, by="device", n_bins=6)
    ours, histogram = display.strips
    assert histogram.ratio.shape == (6, 4)
    assert ours.spread < histogram.spread
    assert len(display.ax_.collections[1].get_offsets()) == ours.ratio.size
    alone = PUDDisplay.from_predictions(DATA.y, DATA.p, bins=DATA.frame["night"].to_numpy())
    assert alone.strips[0].ratio.shape == (2, 4)
    alone.figure_.canvas.draw()


def test_tree_shows_a_box_for_each_node(calibrator: MBCTCalibrator) -> None:
    display = TreeDisplay.from_estimator(calibrator, max_leaves=None)
    boxes = [text for text in display.ax_.texts if "rows" in text.get_text()]
    assert len(boxes) == calibrator.model_.trees[0].n_nodes
    short = TreeDisplay.from_estimator(calibrator.model_, max_depth=1)
    assert any("…" in text.get_text() for text in short.ax_.texts)
    largest = TreeDisplay.from_estimator(calibrator, max_leaves=2)
    outline = largest.outline
    steps = sorted((node.multiplier for node in outline.nodes if node.is_leaf), key=lambda k: -abs(np.log(k)))
    drawn = [text.get_text() for text in largest.ax_.texts if "rows" in text.get_text()]
    assert all(any(text.startswith(f"× {k:.4g} ") for text in drawn) for k in steps[:2])
    assert len(drawn) < outline.root.number + len(outline.nodes)
    assert f"the 2 largest of {len(steps)} steps" in largest.ax_.get_title(loc="left")
    with pytest.raises(ParameterError, match="it has no trees"):
        TreeDisplay.from_estimator(PlattCalibrator("p").fit(X, DATA.y))


def test_fit_trace_of_both_presets(calibrator: MBCTCalibrator) -> None:
    display = FitTraceDisplay.from_estimator(calibrator)
    drawn = display.ax_.lines[0].get_ydata()
    np.testing.assert_allclose(drawn, [split.ensemble_loss for split in calibrator.trace_.splits])
    validated = MBCTCalibrator("p", max_trees=4, n_folds=2).fit(X, DATA.y)
    rounds = FitTraceDisplay.from_estimator(validated)
    assert len(rounds.ax_.get_xticks()) == len(validated.trace_.rounds)
    rounds.figure_.canvas.draw()
    with pytest.raises(ParameterError, match="it has no trace"):
        FitTraceDisplay.from_estimator(object())


def test_metric_against_bins(calibrator: MBCTCalibrator) -> None:
    display = BinsDisplay.from_estimator(calibrator, X, DATA.y, metric="mvce", n_bins=[4, 8])
    np.testing.assert_allclose(display.ax_.lines[0].get_ydata(), display.curves[0].value)
    alone = BinsDisplay.from_predictions(DATA.y, DATA.p, n_bins=[4, 8])
    assert alone.ax_.get_ylabel() == "ECE"


def test_foreign_estimators_are_sent_to_from_predictions() -> None:
    with pytest.raises(ParameterError, match="got object; for other models pass their probabilities"):
        ReliabilityDisplay.from_estimator(object(), X, DATA.y)


def test_every_public_name_is_a_display() -> None:
    for name in mbct.plots.__all__:
        assert callable(getattr(mbct.plots, name).plot)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = mbct.plots.Nothing


@pytest.mark.parametrize("display", [ReliabilityDisplay, SegmentReliabilityDisplay, FieldBiasDisplay])
def test_intervals_are_wider_where_rows_of_a_day_vary_together(display):
    rng = np.random.default_rng(4)
    day = np.repeat(np.arange(60), 100)
    shock = rng.normal(0.0, 0.6, 60)[day]
    y = rng.random(6000) < 1 / (1 + np.exp(1.0 - shock))
    p = np.full(6000, 1 / (1 + np.exp(1.0)))
    half = {"by": {"half": np.where(np.arange(6000) % 2, "odd", "even")}} if display._by_columns else {}
    options = {"n_bins": 1} if display is not FieldBiasDisplay else {}
    alone, in_time, in_groups = (
        display.from_predictions(y, p, **half, **options, **blocks) for blocks in ({}, {"time": day}, {"groups": day})
    )

    def width(drawn):
        if isinstance(drawn, FieldBiasDisplay):
            return drawn.fields[0].segments[0].upper - drawn.fields[0].segments[0].lower
        curve = drawn.curves[0] if isinstance(drawn, ReliabilityDisplay) else drawn.curves[""][0]
        return float(curve.upper[0] - curve.lower[0])

    assert min(width(in_time), width(in_groups)) > 1.5 * width(alone)
