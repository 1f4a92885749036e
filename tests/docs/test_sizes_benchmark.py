"""The page of speed opens with the figures that were measured, and the benchmark measures what it says."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sizes():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import sizes
    finally:
        sys.path.pop(0)
    return sizes


def test_the_page_opens_with_the_figures(sizes):
    figures = json.loads(sizes.FIGURES.read_text(encoding="utf-8"))
    page = sizes.PAGE.read_text(encoding="utf-8")
    assert page.index(sizes.START) < 100
    assert sizes.table(figures) in page


@pytest.mark.slow
def test_every_command_is_timed(sizes, tmp_path):
    found = sizes.measure(2_000, tmp_path, repeats=1)
    assert list(found["seconds"]) == ["fit, default", "fit, fast", "fit, paper", "predict"]
    assert all(min(seconds) > 0 for seconds in found["seconds"].values())
    assert (tmp_path / "out.parquet").exists()
