import datetime
import json
import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from mbct import MBCTCalibrator, load_model
from mbct.calibrators.persistence import dumps
from terminal import mbct, mbct_on_terminal


def test_the_model_is_that_of_the_library(folder: Path, tmp_path: Path):
    frame = parquet.read_table(folder / "clicks.parquet")
    fitted = MBCTCalibrator("pctr", preset="paper", min_bin_size=200).fit(frame, "click")
    fitted.save(tmp_path / "own.json")
    assert (folder / "paper.json").read_bytes() == (tmp_path / "own.json").read_bytes()


def test_where_the_data_lies_does_not_change_the_model(folder: Path, tmp_path: Path):
    """Files, pipes, databases and queries are summed by DuckDB; the library is given a frame in memory."""
    holes = "SELECT * REPLACE (CASE WHEN age > 60 THEN 'nan'::DOUBLE WHEN age < 20 THEN NULL ELSE age END AS age) FROM"
    rows = duckdb.sql(
        f"SELECT *, ceil(1000 * pctr)::INT % 3 AS weight FROM ({holes} '{folder}/clicks.parquet')"
    ).to_arrow_table()
    parquet.write_table(rows, tmp_path / "rows.parquet")
    with duckdb.connect(str(tmp_path / "rows.db")) as connection:
        connection.execute("CREATE TABLE clicks AS FROM rows")
    parameters = {"n_folds": 2, "max_trees": 5, "numeric_bins": 16}
    names = ["device", "night", "site", "age", "pctr", "click", "weight"]
    expected = dumps(MBCTCalibrator("pctr", **parameters).fit(rows.select(names), "click", "weight"))
    settings = [part for name, value in parameters.items() for part in ("--set", f"{name}={value}")]
    for source in (
        ["rows.parquet"],
        ["r*.parquet", "--memory-limit", "200MB"],
        ["duckdb:///rows.db?table=clicks"],
        ["--sql", "SELECT * FROM 'rows.parquet'"],
    ):
        done = mbct("fit", *source, "--weight", "weight", *settings, "-o", "model.json", cwd=tmp_path)
        assert done.code == 0, done.err
        assert (tmp_path / "model.json").read_bytes() == expected, source


def test_guesses_are_shown_on_standard_error(folder: Path, tmp_path: Path):
    done = mbct("fit", folder / "clicks.csv", "--method", "platt", "-o", "model.json", cwd=tmp_path)
    assert done.code == 0
    assert "label: click (guessed)" in done.err
    assert "score: pctr (guessed)" in done.err
    assert "features: device, night, site, age" in done.err
    assert done.out.startswith("4,000 rows, label rate ")


def test_json_is_all_that_standard_output_holds(folder: Path, tmp_path: Path):
    arguments = ["--label", "click", "--score", "pctr", "--preset", "paper", "--exclude", "age,site", "--json"]
    done = mbct("fit", folder / "clicks.parquet", *arguments, "-o", "model.json", cwd=tmp_path)
    document = json.loads(done.out)
    assert document["features"] == ["device", "night"]
    assert document["excluded"] == [{"column": "site", "reason": "as asked"}, {"column": "age", "reason": "as asked"}]
    assert document["guessed"] == []
    assert document["trees"] >= 1
    assert document["mean_calibrated"] == pytest.approx(document["label_rate"], rel=0.02)


def test_on_a_terminal(folder: Path, tmp_path: Path):
    done = mbct_on_terminal("fit", folder / "clicks.parquet", "--preset", "paper", "-o", "model.json", cwd=tmp_path)
    assert done.code == 0
    assert re.search(r"\d+ (trees|tables) with [\d,]+ (rules|entries)", done.out)
    assert load_model(tmp_path / "model.json").method == "mbct"


def test_identifiers_dates_and_earlier_results_are_left_out(tmp_path: Path):
    n = 200
    table = pa.table(
        {
            "user_id": list(range(n)),
            "session": [f"session {i}" for i in range(n)],
            "site_id": [i % 5 for i in range(n)],
            "income": [1000.5 + 3 * i for i in range(n)],
            "__index_level_0__": list(range(n, 0, -1)),
            "row": [float(i) for i in range(n)],
            "day": [datetime.date(2024, 1, 1 + i % 28) for i in range(n)],
            "seen_at": [f"2024-01-{1 + i % 28:02d} 10:00" for i in range(n)],
            "calibrated": [0.1 + 0.8 * (i % 6) / 7 for i in range(n)],
            "p": [0.1 + 0.8 * (i % 7) / 7 for i in range(n)],
            "y": [i % 2 for i in range(n)],
        }
    )
    parquet.write_table(table, tmp_path / "rows.parquet")
    arguments = ["--method", "platt", "--time", "none", "--json", "-o", "m.json"]
    done = mbct("fit", "rows.parquet", *arguments, cwd=tmp_path)
    document = json.loads(done.out)
    assert document["features"] == ["site_id", "income"]
    reasons = {each["column"]: each["reason"] for each in document["excluded"]}
    assert list(reasons) == ["user_id", "session", "__index_level_0__", "row", "day", "seen_at", "calibrated"]
    for name in ("user_id", "session", "__index_level_0__", "row"):
        assert reasons[name] == "200 distinct values in 200 rows: looks like an identifier"
    for name in ("day", "seen_at"):
        assert reasons[name].startswith("dates, for example 2024-01-01")
    assert reasons["calibrated"] == "added by an earlier calibration"
    assert "left out: user_id (200 distinct values" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "clock"], "no column 'clock'; the data has device"),
        (["--label", "pctr", "--score", "pctr"], "must be different columns"),
        (
            ["--label", "age"],
            "label 'age' must be 0 or 1, but holds '18', '19', '20', '21', '22': pass --positive VALUE",
        ),
        (["--score", "age"], "lies outside [0, 1]"),
        (["--method", "magic"], "unknown method 'magic'"),
        (["--method", "platt", "--set", "depth=3"], "method 'platt' has no parameter 'depth'"),
        (["--set", "nonsense"], "not of the form NAME=VALUE"),
        (["--preset", "paper", "--set", "max_depth=0"], "max_depth=0 must be a whole number"),
        (["--sql", "SELEC 1"], "the query of --sql is wrong: Parser Error"),
        (["--sql", "SELECT nothing FROM data"], "the query of --sql is wrong: Binder Error"),
        (["--sql", "SELECT * FROM data WHERE age > 1000"], "has no rows"),
        (["--sql", "SELECT * FROM data WHERE click = 0"], "the label is 0 in every row"),
    ],
)
def test_bad_input_is_one_line_with_the_remedy(folder: Path, tmp_path: Path, arguments: list[str], message: str):
    done = mbct("fit", folder / "clicks.parquet", *arguments, "-o", "model.json", cwd=tmp_path)
    assert done.code == 2
    assert message in done.err.splitlines()[-1]
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_written(folder: Path, tmp_path: Path):
    done = mbct("fit", folder / "clicks.csv", "--method", "platt", "-o", "absent/model.json", cwd=tmp_path)
    assert done.code == 2
    assert "choose a folder that exists" in done.err


def test_a_label_of_two_texts_asks_for_the_positive_one(folder: Path, tmp_path: Path):
    query = "SELECT * REPLACE (if(click = 1, 'good', 'bad') AS click) FROM data"
    arguments = ["fit", folder / "clicks.parquet", "--sql", query, "--method", "platt", "-o", "m.json"]
    asked = mbct(*arguments, cwd=tmp_path)
    assert asked.code == 2
    assert "label 'click' is 'bad' or 'good': pass --positive good" in asked.err
    assert "label 'click' has no such value, but bad, good" in mbct(*arguments, "--positive", "best", cwd=tmp_path).err
    done = mbct(*arguments, "--positive", "good", cwd=tmp_path)
    assert done.code == 0, done.err
    given = mbct("fit", folder / "clicks.parquet", "--method", "platt", "-o", "own.json", cwd=tmp_path)
    assert given.out.replace("own.json", "m.json") == done.out
    assert (tmp_path / "own.json").read_bytes() == (tmp_path / "m.json").read_bytes()


def test_labels_that_read_true_or_false_need_no_word(folder: Path, tmp_path: Path):
    query = "SELECT * REPLACE (if(click = 1, 'True', 'False') AS click) FROM data"
    done = mbct("fit", folder / "clicks.parquet", "--sql", query, "--method", "platt", "-o", "m.json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "label rate 0.15" in done.out


DAYS = "SELECT * REPLACE (click + 0 AS click), DATE '2024-01-01' + (row_number() OVER () % 40)::INT AS day FROM data"
QUICK = ["--set", "max_trees=5", "--set", "n_folds=2"]


def test_a_column_of_dates_is_the_time_unless_told_otherwise(folder: Path, tmp_path: Path):
    arguments = ["fit", folder / "clicks.parquet", "--sql", DAYS, *QUICK]
    guessed = mbct(*arguments, "-o", "guessed.json", cwd=tmp_path)
    assert guessed.code == 0, guessed.err
    assert "time: day (guessed; --time none to ignore it)" in guessed.err
    assert "features: device, night, site, age\n" in guessed.err
    assert "4,000 rows from 2024-01-01 to 2024-02-09" in guessed.out
    named = mbct(*arguments, "--time", "day", "-o", "named.json", cwd=tmp_path)
    assert "time: day\n" in named.err
    assert (tmp_path / "named.json").read_bytes() == (tmp_path / "guessed.json").read_bytes()
    assert load_model(tmp_path / "named.json").time == "day"
    none = mbct(*arguments, "--time", "none", "-o", "none.json", cwd=tmp_path)
    assert "time:" not in none.err
    assert "left out: day (dates, for example 2024-01-01" in none.err
    assert load_model(tmp_path / "none.json").time is None


def test_dates_that_cannot_be_read_are_not_passed_over_in_silence(folder: Path, tmp_path: Path):
    query = "SELECT *, strftime(DATE '2024-01-01' + (random() * 40)::INT, '%d/%m/%Y') AS day FROM data"
    done = mbct("fit", folder / "clicks.parquet", "--sql", query, *QUICK, "-o", "m.json", cwd=tmp_path)
    assert "time:" not in done.err
    assert re.search(r"left out: day \(dates, .*; written as 2024-01-31 in every row it could be the --time", done.err)


def test_few_rows_are_said_to_be_few(folder: Path, tmp_path: Path):
    done = mbct("fit", folder / "clicks.parquet", "--sql", "SELECT * FROM data LIMIT 20", "-o", "m.json", cwd=tmp_path)
    assert "warning: too few rows to tell: 20, " in done.err
    assert "no trees: too few rows to tell" in done.out
    assert "no significant gain" not in done.out


def test_blocks_reach_the_calibrator(folder: Path, tmp_path: Path):
    blocks = ["--group", "site", "--block", "week", "--gap", "1", "--half-life", "30"]
    done = mbct(
        "fit", folder / "clicks.parquet", "--sql", DAYS, *QUICK, "--time", "day", *blocks, "-o", "m.json", cwd=tmp_path
    )
    assert done.code == 0, done.err
    assert "group: site" in done.err
    assert "features: device, night, age\n" in done.err
    model = load_model(tmp_path / "m.json")
    assert (model.time, model.groups, model.block, model.gap, model.half_life) == ("day", "site", "week", 1, 30.0)


def test_a_wrong_block_is_one_line(folder: Path, tmp_path: Path):
    arguments = ["fit", folder / "clicks.parquet", "--sql", DAYS, "-o", "m.json"]
    assert "block='fortnight' must be 'day'" in mbct(*arguments, "--block", "fortnight", cwd=tmp_path).err
    assert "no column 'when'" in mbct(*arguments, "--time", "when", cwd=tmp_path).err
    assert list(tmp_path.iterdir()) == []


def test_a_leak_is_named(folder: Path, tmp_path: Path):
    query = "SELECT *, click * 12.5 AS amount FROM data"
    done = mbct("fit", folder / "clicks.parquet", "--sql", query, *QUICK, "-o", "m.json", cwd=tmp_path)
    assert done.code == 0
    assert "suspected leak: amount (it alone ranks held-out labels with AUC 1.000" in done.err
    assert "leave it out with --exclude amount" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", *QUICK, "-o", "m.json"],
        ["fit", "--method", "segment", "--set", "field=device", "-o", "m.json"],
        ["fit", "--preset", "paper", "--set", "negative_sampling_rate=0.5", "-o", "m.json"],
        ["compare", "--methods", "platt", "--folds", "2"],
        ["advise"],
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_a_leak_is_named_once(arguments: list[str], folder: Path, tmp_path: Path):
    query = "SELECT *, click * 12.5 AS amount FROM data"
    name, *options = arguments
    done = mbct(name, folder / "clicks.parquet", "--sql", query, *options, cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.err.count("suspected leak") == 1, done.err


def test_fit_says_what_it_did(folder: Path, tmp_path: Path):
    done = mbct("fit", folder / "clicks.parquet", *QUICK, "-o", "model.json", cwd=tmp_path)
    assert done.code == 0, done.err
    rows, gain, size, *more, written = done.out.splitlines()
    assert rows.startswith("4,000 rows, label rate 0.1515")
    fold = r"−?0\.\d{5}"
    losses = rf"held-out log loss: {fold} → {fold}, lower by {fold} ± {fold}"
    assert re.fullmatch(rf"{losses} \(2 folds: {fold}, {fold}\)", gain)
    assert re.fullmatch(r"\d+ trees .*% of row pairs changed rank", size)
    assert more[-1].startswith("largest corrections: device mobile raised by ")
    assert more[-1].count("raised by") + more[-1].count("lowered by") == 3
    assert written == "wrote model.json"


def test_a_model_without_trees_has_gained_nothing(folder: Path, tmp_path: Path):
    query = "SELECT * REPLACE ((hash(age, pctr) % 1000 < 1000 * pctr)::INT AS click) FROM data"
    arguments = ["fit", folder / "clicks.parquet", "--sql", query, *QUICK, "-o", "model.json"]
    done = mbct(*arguments, cwd=tmp_path)
    assert re.search(r"^held-out log loss: (\S+) → \1, lower by 0\.00000 ± 0\.00000 \(2 folds: ", done.out, re.M)
    assert "no trees: held-out data show no significant gain" in done.out
    found = json.loads(mbct(*arguments, "--json", cwd=tmp_path).out)
    assert (found["rules"], found["held_out_gain"], found["held_out_gain_error"]) == (0, 0.0, 0.0)


def test_columns_that_the_fit_leaves_out_are_named_and_not_spoken_of(folder: Path, tmp_path: Path):
    days = "SELECT *, DATE '2024-01-12' + (row_number() OVER () // 100)::INT AS day FROM data"
    query = f"SELECT *, month(day) AS month FROM ({days})"
    arguments = ["fit", folder / "clicks.parquet", "--sql", query, *QUICK, "-o", "model.json"]
    done = mbct(*arguments, cwd=tmp_path)
    assert done.code == 0, done.err
    assert re.search(r"\(2 stretches of time: ", done.out)
    assert "largest corrections: " in done.out
    assert "month" not in done.out
    found = json.loads(mbct(*arguments, "--json", cwd=tmp_path).out)
    assert "month" not in found["features"]
    assert found["excluded"] == [{"column": "month", "reason": "its values identify the time"}]
    kept = json.loads(mbct(*arguments, "--features", "month,device", "--json", cwd=tmp_path).out)
    assert (kept["features"], kept["excluded"]) == (["month", "device"], [])


def test_rows_that_share_a_day_get_the_option_to_add(tmp_path: Path):
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(60), 100)
    p = rng.beta(2, 6, len(day))
    odds = p / (1 - p) * np.exp(rng.normal(0.0, 0.8, 60)[day])
    y = (rng.random(len(day)) < odds / (1 + odds)).astype(int)
    pd.DataFrame({"day": day, "p": p, "y": y}).to_csv(tmp_path / "int.csv", index=False)
    done = mbct("fit", "int.csv", *QUICK, "-o", "m.json", cwd=tmp_path)
    assert "rows with one value of 'day' share their residuals" in done.err
    assert "add --group day if its values are persons" in done.err
    assert ", --time day if they are numbers of days" in done.err
    assert done.err.count("share their residuals") == 1
    assert "share" not in mbct("fit", "int.csv", *QUICK, "--time", "day", "-o", "m.json", cwd=tmp_path).err
