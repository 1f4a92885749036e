import json
from pathlib import Path

import duckdb
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


def test_days_are_held_out_whole(folder: Path):
    query = "SELECT *, DATE '2024-01-01' + (row_number() OVER () % 40)::INT AS day FROM data"
    arguments = ["compare", "clicks.parquet", "--sql", query, "--methods", "platt", "--folds", "4", "--json"]
    table = duckdb.sql(query.replace("data", f"'{folder}/clicks.parquet'")).to_arrow_table()
    options = {"score_column": "pctr", "methods": ["platt"], "cv": 4}
    for given, expected in (
        ([], compare(table, "click", **options, time="day")),
        (["--block", "week"], compare(table, "click", **options, time="day", block="week")),
        (["--time", "none"], compare(table.drop_columns("day"), "click", **options)),
        (["--time", "none", "--group", "site"], compare(table.drop_columns("day"), "click", **options, groups="site")),
    ):
        document = json.loads(mbct(*arguments, *given, cwd=folder).out)
        assert [m["log_loss"] for m in document["methods"]] == [m.log_loss for m in expected.methods], given
