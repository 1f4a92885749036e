"""One report for all tests that look at it."""

from pathlib import Path

import numpy as np
import pytest

from builders import biased_clicks

HOSTILE = "</script><script>window.broken = 1</script> & 'x' \"y\""
"""A category that would break a page which forgets to escape."""


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, object]:
    """Path of a report with a hostile category in it, and its summary."""
    pytest.importorskip("altair", reason="altair is not installed: pip install 'mbct[report]'")
    from mbct import MBCTCalibrator
    from mbct.report import write_report

    data = biased_clicks(12, 8000)
    frame = data.frame.drop(columns="y")
    frame["channel"] = np.where(np.arange(8000) % 5 == 0, HOSTILE, "plain")
    calibrator = MBCTCalibrator("p", preset="paper", min_bin_size=400).fit(frame, data.y)
    folder = tmp_path_factory.mktemp("report")
    calibrator.save(folder / "model.json")
    held_out = biased_clicks(13, 8000)
    rows = held_out.frame.drop(columns="y").assign(channel=frame["channel"])
    path = folder / "report.html"
    summary = write_report(
        folder / "model.json", rows, held_out.y, path, title=f"Clicks {HOSTILE}", command=f"mbct report {HOSTILE}"
    )
    return path, summary
