"""Every page of figures says which code it was made with, and that is the present release or the one before it."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs/benchmarks.md", ROOT / "docs/reproduction/README.md", *(ROOT / "docs/benchmarks").glob("*.md")]
MADE_WITH = re.compile(r"^Made with MBCT (\d+\.\d+)\.\d+, commit ([0-9a-f]{10})\+?\.$", re.MULTILINE)


def made_with(page: Path) -> re.Match[str]:
    found = MADE_WITH.search(page.read_text(encoding="utf-8"))
    assert found is not None, f"{page.name} does not say which commit it was made with: run its benchmark again"
    return found


def newest_releases(changelog: str, number: int) -> list[str]:
    """Major and minor version of the newest releases, the present one among them."""
    found = re.findall(r"^## (\d+\.\d+)\.\d+", changelog, re.MULTILINE)
    return list(dict.fromkeys(found))[:number]


def test_the_newest_releases_are_read_from_the_changelog():
    changelog = "# Changelog\n\n## 1.0.0\n\n## 0.9.1\n\n## 0.9.0\n\n## 0.8.2\n"
    assert newest_releases(changelog, 2) == ["1.0", "0.9"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_of_figures_is_at_most_one_release_old(page):
    recent = newest_releases((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), 2)
    assert made_with(page).group(1) in recent, f"{page.name} was made with an older release: run its benchmark again"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commit_of_a_page_is_one_of_this_history(page):
    shallow = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True)
    if shallow.stdout.strip() != "false":
        pytest.skip("the history of commits is not here: clone the whole repository")
    command = ["git", "merge-base", "--is-ancestor", made_with(page).group(2), "HEAD"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0
