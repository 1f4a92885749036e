"""The speed benchmark runs, and draws its page and picture; quick mode measures nothing of worth."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_quick_mode_measures_parts_and_draws_the_page(tmp_path):
    out = tmp_path / "docs" / "benchmarks" / "speed.json"
    for parts in (["start"], ["metric", "paper"]):
        subprocess.run(
            [sys.executable, "benchmarks/speed.py", "--quick", "--only", *parts, "--folder", tmp_path, "--out", out],
            cwd=ROOT,
            check=True,
            timeout=300,
        )
    rows = json.loads(out.read_text())["rows"]
    assert {row["part"] for row in rows} == {"start", "metric", "paper"}
    assert all(row["ours"] for row in rows)
    page = (tmp_path / "docs" / "benchmarks.md").read_text()
    assert all(f"| {row['work']} |" in page for row in rows)
    assert out.with_suffix(".svg").read_text().count("<rect") >= len(rows)
