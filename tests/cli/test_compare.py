import json
from pathlib import Path

from pyarrow import parquet

from mbct import compare
from terminal import mbct, mbct_on_terminal


def test_the_table_of_the_library(folder: Path):
    options = ["--methods", "platt,isotonic", "--folds", "3", "--seed", "1"]
    document = json.loads(mbct("compare", "clicks.parquet", *options, "--json", cwd=folder).out)
    table = parquet.read_table(folder / "clicks.parquet")
    expected = compare(table, "click", score_column="pctr", methods=["platt", "isotonic"], cv=3, random_state=1)
    assert {m["name"]: m["log_loss"] for m in document["methods"]} == {m.name: m.log_loss for m in expected.methods}
    assert document["best"] == expected.best.name


def test_text_and_terminal(folder: Path):
    arguments = ["compare", "clicks.csv", "--methods", "platt", "--folds", "2"]
    for done in (mbct(*arguments, cwd=folder), mbct_on_terminal(*arguments, cwd=folder)):
        assert done.code == 0
        assert "4,000 rows, 2 folds, held-out scores" in done.out


def test_bad_input(folder: Path):
    done = mbct("compare", "clicks.csv", "--methods", "plat", cwd=folder)
    assert done.code == 2
    assert "unknown method 'plat'" in done.err
    assert mbct("compare", "clicks.csv", "--folds", "1", cwd=folder).code == 2
