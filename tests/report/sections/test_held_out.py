"""The held-out gain of a fit, as the report shows it."""

import json
import re

import numpy as np
import pytest

from builders import biased_clicks

pytest.importorskip("altair", reason="altair is not installed: pip install 'mbct[report]'")

from mbct import MBCTCalibrator
from mbct.calibrators.persistence import dumps, loads
from mbct.calibrators.score_only.logistic import PlattCalibrator
from mbct.report.sections.held_out import render

FIT = {"max_trees": 5, "n_folds": 3}


def test_the_gain_and_its_folds_in_time_order_of_a_model_from_a_file():
    frame = biased_clicks(3, 4000).frame.assign(day=np.arange(4000) // 100)
    fitted = loads(dumps(MBCTCalibrator("p", time="day", **FIT).fit(frame, "y")))
    shown = render(fitted)
    assert f"lower by {fitted.held_out_gain_:.5f} ± {fitted.held_out_gain_error_:.5f} (3 stretches of time: " in shown
    chart = json.loads(re.search(r'data-chart="chart-held-out">(.*?)</script>', shown)[1])
    points = next(each for each in chart["layer"] if each["mark"]["type"] == "point")["data"]["values"]
    assert [point["gain"] for point in points] == pytest.approx(fitted.held_out_gain_by_fold_, rel=1e-4)
    assert "stretches of time, first to last" in json.dumps(chart)


def test_a_model_that_changes_nothing_has_no_chart():
    fitted = MBCTCalibrator("p", **FIT).fit(biased_clicks(20, 2000, calibrated=True).frame, "y")
    shown = render(fitted)
    assert "lower by 0.00000 ± 0.00000 (3 folds: " in shown
    assert "chart" not in shown


def test_nothing_where_nothing_was_held_out():
    frame = biased_clicks(3, 1000).frame
    assert render(PlattCalibrator("p").fit(frame, "y")) == ""
    assert render(MBCTCalibrator("p", preset="paper", min_bin_size=300).fit(frame, "y")) == ""


def test_a_notebook_shows_the_folds():
    fitted = MBCTCalibrator("p", **FIT).fit(biased_clicks(3, 4000).frame, "y")
    assert re.search(r"lower by 0\.\d+ ± 0\.\d+ \(3 folds: (−?0\.\d+, ){2}−?0\.\d+\)", fitted._repr_html_())
