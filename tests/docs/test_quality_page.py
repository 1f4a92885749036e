"""README's table and the page of held-out quality are those of the kept results."""

import runpy
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
PAGE = runpy.run_path(str(ROOT / "benchmarks" / "quality_page.py"), run_name="quality_page")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def kept() -> pd.DataFrame:
    return pd.DataFrame(PAGE["kept_results"](ROOT / "docs" / "benchmarks" / "quality.jsonl"))


def test_readme_shows_the_kept_results(kept):
    assert PAGE["with_table"](README, kept) == README, "run python benchmarks/quality.py --order random --seeds 0"


def test_the_page_shows_the_kept_results(kept):
    page = (ROOT / "docs" / "benchmarks" / "quality.md").read_text(encoding="utf-8")
    shown = page.rpartition("\n\nMade with MBCT")[0]
    assert PAGE["page"](kept).rstrip() == shown, "run python benchmarks/quality.py --order random --seeds 0"


def test_another_result_would_change_readme(kept):
    better = kept.assign(log_loss=kept["log_loss"].where(kept["method"] != "mcgrad", 0.1))
    assert "| **0.10000** |" in PAGE["with_table"](README, better)


def test_a_method_that_missed_a_seed_is_left_out():
    rows = [("identity", 0, 0.5), ("identity", 1, 0.5), ("mbct", 0, 0.4), ("mbct", 1, 0.3), ("mcgrad", 1, 0.2)]
    results = pd.DataFrame(
        [{"data": "d", "base": "weak", "method": m, "seed": s, "log_loss": loss} for m, s, loss in rows]
    )
    line = PAGE["readme_table"](results).splitlines()[-1]
    assert line == "| d, weak base | 2 | 0.50000 | – | – | – | – | **0.35000** |"
