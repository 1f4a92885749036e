"""The page as a document: what it says, how large it is, that it is the same each time."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders import biased_clicks

pytest.importorskip("altair", reason="altair is not installed: pip install 'mbct[report]'")

from mbct import MBCTCalibrator
from mbct.calibrators.score_only.logistic import PlattCalibrator
from mbct.calibrators.score_only.score_map import IdentityCalibrator
from mbct.errors import ParameterError, StorageError
from mbct.metrics import log_loss
from mbct.report import ReportSummary, build_report, write_report

CHAPTERS = ("worst", "reliability", "fields", "metrics", "rules", "tree", "views", "pud", "excluded", "origin")

# Small reports are about the rows of the fit, and one is about a leak.
pytestmark = [
    pytest.mark.filterwarnings("ignore:these are the .* rows that the model was fitted on"),
    pytest.mark.filterwarnings("ignore:suspected leak"),
]


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are tested elsewhere; here they only have to be there."""
    monkeypatch.setattr("mbct.report.paired._MOST_RESAMPLES", 20)
    monkeypatch.setattr("mbct.report.paired._FEWEST_RESAMPLES", 20)


def charts_of(html: str) -> dict[str, dict]:
    found = re.findall(r'<script type="application/json" data-chart="([^"]+)">(.*?)</script>', html)
    return {name: json.loads(content) for name, content in found}


def test_the_summary_tells_the_verdict(report: tuple[Path, ReportSummary]) -> None:
    path, summary = report
    assert summary.outcome == "better"
    assert summary.verdict.startswith("Calibration helps: log loss falls by")
    assert summary.log_loss_change_interval[1] < 0
    assert summary.biased_segments_after < summary.biased_segments_before <= summary.n_segments
    assert summary.n_bytes == path.stat().st_size < 3_000_000
    assert str(path) in str(summary)
    held_out = biased_clicks(13, 8000)
    assert summary.log_loss_before == pytest.approx(float(log_loss(held_out.y, held_out.p)))


def test_every_chapter_is_there_and_the_page_asks_for_nothing(report: tuple[Path, ReportSummary]) -> None:
    html = report[0].read_text()
    assert tuple(re.findall(r'<section id="(\w+)"', html)) == CHAPTERS
    page = html[: html.index("<script>")]
    assert not re.search(r'(src|href)="(?!#)', page)
    assert "default-src 'none'" in page
    assert html.count("window.vegaEmbed=") == 1


def test_values_from_data_are_escaped(report: tuple[Path, ReportSummary]) -> None:
    html = report[0].read_text()
    assert "<script>window.broken" not in html
    assert "&lt;script&gt;window.broken" in html
    assert any("</script>" in json.dumps(spec) for spec in charts_of(html).values())


def test_the_same_input_gives_the_same_bytes_whatever_was_built_before() -> None:
    data = biased_clicks(14, 1500)
    frame = data.frame.drop(columns="y")
    calibrator = MBCTCalibrator("p", preset="paper", min_bin_size=200).fit(frame, data.y)
    first = build_report(calibrator, frame, data.y)
    assert build_report(PlattCalibrator("p").fit(frame, data.y), frame, data.y) != first
    assert build_report(calibrator, frame, data.y) == first


def test_charts_stay_small_however_many_rows_there_are() -> None:
    sizes = []
    for n_rows in (1000, 16_000):
        data = biased_clicks(15, n_rows)
        frame = data.frame.drop(columns="y")
        html = build_report(PlattCalibrator("p").fit(frame, data.y), frame, data.y)
        sizes.append(sum(len(json.dumps(spec)) for spec in charts_of(html).values()))
    assert sizes[1] < 1.3 * sizes[0] < 150_000


def test_a_model_that_moves_nothing_says_so() -> None:
    data = biased_clicks(16, 800)
    frame = data.frame.drop(columns="y")
    html = build_report(IdentityCalibrator("p").fit(frame, data.y), frame, data.y)
    assert "leaves every prediction unchanged" in html
    assert "This model has no trees" in html


def test_a_model_of_other_data_is_said_to_hurt(tmp_path: Path) -> None:
    data = biased_clicks(17, 4000)
    frame = data.frame.drop(columns="y")
    backwards = PlattCalibrator("p").fit(frame, 1 - data.y)
    summary = write_report(backwards, frame, data.y, tmp_path / "report.html")
    assert summary.outcome == "worse"
    assert summary.verdict.startswith("Calibration hurts on these rows")


def test_the_default_preset_replays_its_first_tree() -> None:
    data = biased_clicks(18, 3000)
    frame = data.frame.drop(columns="y")
    html = build_report(MBCTCalibrator("p", max_trees=6, n_folds=2).fit(frame, data.y), frame, data.y)
    assert "log loss, replayed on these rows" in html
    assert "multiplies its odds" in html


def test_weights_count_and_are_told() -> None:
    data = biased_clicks(19, 1000)
    frame = data.frame.drop(columns="y").assign(w=np.r_[0.0, np.full(999, 2.0)])
    html = build_report(PlattCalibrator("p").fit(data.frame, "y"), frame, data.y, sample_weight="w")
    assert "weight 1,998" in html
    assert "of weight 0" in html


def test_a_score_without_features_needs_no_segments() -> None:
    data = biased_clicks(20, 600)
    html = build_report(PlattCalibrator().fit(data.p, data.y), {"x0": data.p}, data.y)
    assert "no column besides the score" in html


def test_wrong_use_is_one_clear_error(tmp_path: Path) -> None:
    data = biased_clicks(21, 600)
    with pytest.raises(ParameterError, match="a calibrator of mbct is needed, got object"):
        build_report(object(), data.frame, "y")
    with pytest.raises(StorageError, match="cannot read"):
        build_report(tmp_path / "absent.json", data.frame, "y")
    calibrator = PlattCalibrator("p").fit(data.frame, "y")
    with pytest.raises(StorageError, match="choose a folder that exists"):
        write_report(calibrator, data.frame, "y", tmp_path / "absent" / "report.html")


@pytest.mark.parametrize("name", ["report.pdf", "report.png", "report"])
def test_a_report_is_html(tmp_path: Path, name: str) -> None:
    data = biased_clicks(21, 600)
    calibrator = PlattCalibrator("p").fit(data.frame, "y")
    with pytest.raises(ParameterError, match=f"{name} must end in .html"):
        write_report(calibrator, data.frame, "y", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_chart_through_time_and_another_period_beside() -> None:
    data, other = biased_clicks(22, 3000), biased_clicks(23, 1000)
    day = pd.Timestamp("2024-01-01 22:00", tz="Europe/Berlin") + pd.to_timedelta(np.arange(3000) // 30, unit="D")
    html = build_report(
        PlattCalibrator("p").fit(data.frame, "y"),
        data.frame.assign(day=day),
        "y",
        time="day",
        compare_with=("December", other.frame),
    )
    shown = json.dumps(charts_of(html)["chart-time"])
    assert "2024-01-01" in shown  # a Monday
    assert "2023-12" not in shown
    assert "2024-04-08" in shown
    assert "December, before" in html
    assert "1,000" in html
    assert "day" not in re.findall(r"<h3>(\w+)</h3>", html)


def test_segments_are_the_models_features_unless_asked() -> None:
    data = biased_clicks(24, 1500)
    calibrator = MBCTCalibrator("p", preset="paper", min_bin_size=300).fit(data.frame[["p", "device", "y"]], "y")
    html = build_report(calibrator, data.frame, "y")
    fields = re.findall(r'<article class="card"><h3>(\w+)</h3>', html)
    assert fields[0] == "device"
    assert "site" not in fields
    assert "'night', 'site', 'age'" in html.replace("&#x27;", "'")
    asked = build_report(calibrator, data.frame, "y", by=["site", "night"])
    assert {"site", "night"} <= set(re.findall(r'<article class="card"><h3>(\w+)</h3>', asked))


def test_a_leak_is_called_suspicious(tmp_path: Path) -> None:
    data = biased_clicks(25, 3000)
    frame = data.frame.assign(amount=data.y * 12.5)
    calibrator = MBCTCalibrator("p", max_trees=10, n_folds=2).fit(frame, "y")
    summary = write_report(calibrator, frame, "y", tmp_path / "report.html")
    assert summary.outcome == "suspicious"
    assert summary.verdict.startswith("Suspiciously good: AUC goes from 0.")
    assert "amount (it alone ranks held-out labels with AUC 1.000" in summary.verdict


def test_a_certificate_has_a_chapter() -> None:
    data = biased_clicks(0, 3_000)
    model = MBCTCalibrator("p", preset="fast", max_trees=2, certify=0.5).fit(data.frame, "y")
    html = build_report(model, biased_clicks(1, 1_000).frame, "y")
    assert '<section id="certificate"' in html
    assert all(line in html for line in model.certificate_.lines())
    assert html.count("<td") > len(model.certificate_.group("partition"))
