"""The site's navigation, and the figures that its landing page takes from other pages."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def _text(name: str) -> str:
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


def test_the_navigation_has_five_groups():
    assert [next(iter(group)) for group in SITE["nav"]] == ["Start", "Guides", "How it works", "Evidence", "Reference"]


def test_the_landing_page_shows_the_picture_both_interfaces_and_the_report():
    page = _text("index.md")
    assert "images/carriers.png" in page
    assert "images/report-wide.png" in page
    assert page.index('=== "Command line"') < page.index('=== "Python"')
    assert page.count("### ") == 3


def test_the_landing_page_quotes_the_comparison_in_time_order():
    row = re.search(r"\| \*\*mbct\*\* \| (\d+) \| \d+ \| (\d+) \| \S+ \| (\d+) ", _text("benchmarks/quality-time.md"))
    assert row is not None
    pairs, harmful, best = row.groups()
    page = _text("index.md")
    assert f"[{pairs} comparisons in time order]" in page
    assert harmful == "0"
    assert "it was never worse than the base predictor" in page
    assert f"had the lowest loss or lay within a standard error of it in {best}." in page
