"""Reading, resampling and formatting, apart from the page."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from builders import biased_clicks
from mbct.calibrators.multiclass.dirichlet import DirichletCalibrator
from mbct.calibrators.score_only.logistic import PlattCalibrator
from mbct.errors import DataError
from mbct.evaluation.metrics.evaluation import METRICS
from mbct.evaluation.metrics.rows import read_rows
from mbct.metrics import log_loss
from mbct.report.page import Column, Section, change, interval, number, table, text
from mbct.report.paired import n_resamples, paired_estimates
from mbct.report.scored import score_rows


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.36446, "0.3645"),
        (1.0, "1.000"),
        (20133.0, "20,133"),
        (999.96, "1000"),
        (-0.01234, "−0.01234"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
    ],
)
def test_numbers(value: float, shown: str) -> None:
    assert number(value) == shown


def test_everything_is_escaped() -> None:
    assert text("<b>&\"'") == "&lt;b&gt;&amp;&quot;&#x27;"
    assert "<x>" not in Section("a", "<x>", "<x>", "").html()
    assert "<x>" not in table([Column("<x>", hint="<x>")], [], label="<x>")
    assert interval((float("nan"), 1.0)) == ""
    assert change(float("nan"), 0.5) == "– → 0.5000"


def _fitted() -> PlattCalibrator:
    data = biased_clicks(1, 2000)
    return PlattCalibrator("p").fit(data.frame.drop(columns="y"), data.y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_what_cannot_be_evaluated_is_left_out(frame: type) -> None:
    data = biased_clicks(2, 1000).frame
    columns = {name: data[name].tolist() for name in data}
    columns["y"][:7] = [None] * 7
    columns["p"][5:9] = [None] * 4
    columns["w"] = [0.0 if i in (20, 21) else 1.0 for i in range(1000)]
    columns["row"] = [f"r{i}" for i in range(1000)]
    columns["one"] = ["x"] * 1000
    by = ["device", "night", "site", "age", "row", "one"]
    scored = score_rows(_fitted(), frame(columns), "y", sample_weight="w", by=by)
    assert scored.n_rows == 1000 - 7 - 2 - 2
    left_out = [(each.what, each.amount) for each in scored.exclusions]
    assert left_out == [
        ("rows", "7"),
        ("rows", "2"),
        ("rows", "2"),
        ("segments of column 'row'", "all values"),
        ("segments of column 'one'", "1 value"),
    ]
    assert [field.name for field in scored.fields] == ["device", "night", "site", "age"]
    age = scored.fields[-1]
    assert len(age) == 10
    assert age.labels[0].startswith("18 to ")


def test_the_score_may_have_another_name() -> None:
    data = biased_clicks(3, 500)
    calibrator = _fitted()
    renamed = data.frame.drop(columns="y").rename(columns={"p": "pctr"})
    scored = score_rows(calibrator, renamed, data.y, score_column="pctr")
    np.testing.assert_allclose(scored.after.y_prob, calibrator.calibrate(data.frame))
    assert "pctr" not in [field.name for field in scored.fields]


def test_no_row_left_is_an_error() -> None:
    with pytest.raises(DataError, match="none of the 2 rows has a label"):
        score_rows(_fitted(), {"p": [0.1, 0.2]}, np.array([np.nan, np.nan]))


def test_a_missing_feature_is_named() -> None:
    with pytest.raises(DataError, match="'p' is missing"):
        score_rows(_fitted(), {"device": ["a", "b"]}, [0, 1])


def test_paired_intervals_are_those_of_the_metric_and_ignore_row_order() -> None:
    data = biased_clicks(4, 3000)
    before, after = read_rows(data.y, data.p), read_rows(data.y, data.truth)
    found = paired_estimates(before, after, {"log_loss": METRICS["log_loss"]})["log_loss"]
    assert found.before == pytest.approx(float(log_loss(data.y, data.p)))
    assert found.change_interval[0] < found.change < found.change_interval[1] < 0
    # The differences are paired: their interval is far narrower than those of the two losses.
    assert found.change_interval[1] - found.change_interval[0] < found.before_interval[1] - found.before_interval[0]
    order = np.random.default_rng(0).permutation(3000)
    again = paired_estimates(before.take(order), after.take(order), {"log_loss": METRICS["log_loss"]})["log_loss"]
    assert again.change_interval == pytest.approx(found.change_interval, rel=1e-12)


def test_resamples_shrink_with_the_data() -> None:
    assert [n_resamples(n) for n in (1000, 100_000, 200_000, 10_000_000)] == [200, 200, 100, 50]


def test_the_score_of_an_array_is_named_by_its_number() -> None:
    data = biased_clicks(5, 400)
    rows = np.column_stack([data.p, data.frame["age"].to_numpy()])
    calibrator = PlattCalibrator(0).fit(rows, data.y)
    scored = score_rows(calibrator, rows, data.y, score_column=0)
    np.testing.assert_array_equal(scored.after.y_prob, calibrator.calibrate(rows))
    assert [field.name for field in scored.fields] == ["x1"]


def test_a_label_that_is_none_is_called_by_its_name() -> None:
    with pytest.raises(DataError, match="label column 'device' holds 'desktop', which is not among the classes"):
        score_rows(_fitted(), biased_clicks(6, 50).frame, "device")


def test_a_row_of_many_classes_stands_once_for_each_class() -> None:
    scores = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 60)
    scored = score_rows(DirichletCalibrator().fit(scores, np.arange(60) % 3), scores, np.arange(60) % 3)
    assert scored.classes == ("0", "1", "2")
    assert scored.before.y_prob == pytest.approx(scores.T.ravel())
    assert scored.before.y_true.tolist() == [float(row % 3 == k) for k in range(3) for row in range(60)]
    with pytest.raises(DataError, match="column is missing: 'site'"):
        score_rows(scored.calibrator, scores, np.arange(60) % 3, by=["site"])


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((8.74e-05, 0.00338), "0.00009 to 0.00338"),
        ((-0.0134, -0.0092), "−0.0134 to −0.0092"),
        ((-0.00001, 0.25), "0.000 to 0.250"),
        ((1.2e-05, 3.4e-05), "1.2e-05 to 3.4e-05"),
        ((900.0, 12345.0), "900 to 12,345"),
        ((0.0, 0.0), "0 to 0"),
    ],
)
def test_both_ends_of_an_interval_have_the_same_decimals(ends: tuple[float, float], shown: str) -> None:
    assert interval(ends) == f'<small class="interval">{shown}</small>'


def test_rows_of_one_block_are_drawn_together() -> None:
    """Twenty copies of every row: blocks of copies give the interval of the rows alone, single rows a narrower one."""
    data = biased_clicks(7, 500)
    statistics = {"log_loss": METRICS["log_loss"]}
    before, after = read_rows(data.y, data.p), read_rows(data.y, data.truth)
    alone = paired_estimates(before, after, statistics)["log_loss"].before_interval
    copies = np.repeat(np.arange(500), 20)
    many = before.take(copies), after.take(copies)
    in_blocks = paired_estimates(*many, statistics, blocks=copies)["log_loss"].before_interval
    by_row = paired_estimates(*many, statistics)["log_loss"].before_interval
    assert in_blocks[1] - in_blocks[0] == pytest.approx(alone[1] - alone[0], rel=0.25)
    assert by_row[1] - by_row[0] < 0.35 * (alone[1] - alone[0])
