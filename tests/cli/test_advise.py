import json
from pathlib import Path

from pyarrow import parquet

from mbct import rank_features
from terminal import mbct, mbct_on_terminal


def test_the_advice_of_the_library(folder: Path):
    document = json.loads(mbct("advise", "clicks.parquet", "--json", "--seed", "3", cwd=folder).out)
    table = parquet.read_table(folder / "clicks.parquet")
    features = document["features"]
    expected = rank_features(table.select([*features, "pctr", "click"]), "click", score_column="pctr", random_state=3)
    assert [c["column"] for c in document["columns"]] == [a.column for a in expected.columns]
    assert [c["gain"] for c in document["columns"]] == [a.gain for a in expected.columns]


def test_text_and_terminal(folder: Path):
    arguments = ["advise", "clicks.csv"]
    for done in (mbct(*arguments, cwd=folder), mbct_on_terminal(*arguments, cwd=folder)):
        assert done.code == 0
        assert "recalibrating the score alone" in done.out


def test_bad_input(folder: Path):
    done = mbct("advise", "clicks.csv", "--features", "colour", cwd=folder)
    assert done.code == 2
    assert "colour" in done.err


def test_groups_are_held_out_whole(folder: Path):
    document = json.loads(mbct("advise", "clicks.parquet", "--group", "site", "--json", cwd=folder).out)
    table = parquet.read_table(folder / "clicks.parquet")
    expected = rank_features(table, "click", score_column="pctr", groups="site")
    assert [c["column"] for c in document["columns"]] == [a.column for a in expected.columns]
    assert "site" not in document["features"]


def test_columns_that_identify_the_time_are_left_out_unless_they_are_named(folder: Path):
    query = "SELECT *, row_number() OVER () // 100 AS day, row_number() OVER () // 1000 AS month FROM data"
    arguments = ["advise", "clicks.parquet", "--sql", query, "--time", "day"]
    done = mbct(*arguments, cwd=folder)
    assert done.out.rstrip().endswith("not evaluated, because their values identify the time: month")
    document = json.loads(mbct(*arguments, "--features", "month,site", "--json", cwd=folder).out)
    assert sorted(c["column"] for c in document["columns"]) == ["month", "site"]
    assert document["identify_time"] == []
