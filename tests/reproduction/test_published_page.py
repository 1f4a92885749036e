"""docs/reproduction is what its own files give: no number there was typed by hand."""

import json
import re
import shutil
from pathlib import Path

from reproduction.page import PAGE, RECORD, render

PUBLISHED = Path(__file__).parents[2] / "docs" / "reproduction"


def test_page_and_tables_are_those_of_the_numbers_beside_them(tmp_path):
    out = tmp_path / "out"
    for name in ("data", "timings"):
        shutil.copytree(PUBLISHED / name, out / name)
    shutil.copy(PUBLISHED / RECORD, out)
    render(out)
    assert (out / PAGE).read_text() == (PUBLISHED / PAGE).read_text()
    tables = {path.name: path.read_text() for path in (out / "tables").iterdir()}
    assert tables == {path.name: path.read_text() for path in (PUBLISHED / "tables").iterdir()}
    figures = {path.name for path in (out / "figures").iterdir()}
    assert figures == {path.name for path in (PUBLISHED / "figures").iterdir()}


def test_every_kept_file_is_on_record_and_every_picture_is_there():
    record = json.loads((PUBLISHED / RECORD).read_text())
    kept = {path.relative_to(PUBLISHED / "data").as_posix() for path in (PUBLISHED / "data").rglob("*.json")}
    assert kept == {file for files in record["parts"].values() for file in files}
    pictures = re.findall(r"!\[[^\n]*\]\((.+?)\)", (PUBLISHED / PAGE).read_text())
    assert pictures
    assert all((PUBLISHED / picture).is_file() for picture in pictures)


def test_the_published_run_is_a_full_one_of_every_experiment():
    record = json.loads((PUBLISHED / RECORD).read_text())
    assert not record["quick"]
    assert set(record["parts"]) == {"metrics", "table", "in-depth", "auction", "complexity"}
    simulations = [file for file in record["parts"]["metrics"] if "main-" in file]
    contents = [json.loads((PUBLISHED / "data" / file).read_text()) for file in simulations]
    assert {content["parameters"]["repetitions"] for content in contents} == {200}
