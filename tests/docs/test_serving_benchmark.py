"""The benchmark of the service runs and draws its page; turns as short as these measure nothing of worth."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "benchmarks/serving.py", "--seconds", "0.2", "--rounds", "2"]


@pytest.mark.slow
def test_it_measures_every_format_and_draws_the_page(tmp_path):
    for package in ("psutil", "uvicorn", "httptools", "uvloop", "pyarrow"):
        pytest.importorskip(package, reason=f"{package} is missing: pip install '.[bench]'")
    subprocess.run([*COMMAND, "--out", tmp_path], cwd=ROOT, check=True, timeout=300)
    results = json.loads((tmp_path / "serving.json").read_text())
    assert {row["rows"] for row in results["service"]} == {1, 1000}
    assert all(turn["requests_a_second"] > 0 for row in results["service"] for turn in row["service"] + row["nothing"])
    page = (tmp_path / "serving.md").read_text()
    assert all(f"| {row['request']} |" in page for row in results["service"])
    assert "{" not in page.replace("`{}`", "")


def test_a_missing_package_is_named_in_one_line(tmp_path):
    hide = "import sys, importlib.util as u; found = u.find_spec; "
    hide += "u.find_spec = lambda name, *rest: None if name == 'psutil' else found(name, *rest); "
    run = f"sys.argv = {COMMAND[1:]!r}; import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", hide + run], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "benchmarks/serving.py needs psutil: pip install '.[bench]'\n"


def test_the_page_in_the_docs_is_that_of_its_figures(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from serving_page import page

    folder = ROOT / "docs" / "benchmarks"
    shown = (folder / "serving.md").read_text().rpartition("\n\nMade with MBCT")[0]
    assert shown == page(json.loads((folder / "serving.json").read_text())).rstrip()
