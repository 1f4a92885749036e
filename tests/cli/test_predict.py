import datetime
import gzip
import io
import os
import subprocess
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import compute as pc
from pyarrow import csv, parquet

from mbct import load_model
from terminal import ENTRY_POINT, mbct, mbct_on_terminal


@pytest.mark.parametrize("model", ["paper.json", "isotonic.json"])
def test_the_input_and_one_column_more(folder: Path, tmp_path: Path, model: str):
    done = mbct("predict", folder / model, folder / "clicks.parquet", "-o", "out.parquet", cwd=tmp_path)
    assert done.code == 0, done.err
    before, after = parquet.read_table(folder / "clicks.parquet"), parquet.read_table(tmp_path / "out.parquet")
    assert after.drop_columns("calibrated").equals(before)
    expected = load_model(folder / model).calibrate(before)
    np.testing.assert_array_equal(after["calibrated"].to_numpy(), expected)


def test_an_interval_is_two_columns_more(folder: Path, tmp_path: Path):
    done = mbct(
        "predict", folder / "certified.json", folder / "clicks.parquet", "--interval", "-o", "o.parquet", cwd=tmp_path
    )
    assert done.code == 0, done.err
    table = parquet.read_table(tmp_path / "o.parquet")
    expected = load_model(folder / "certified.json").calibrate(
        parquet.read_table(folder / "clicks.parquet"), return_interval=True
    )
    for name, values in zip(["calibrated", "calibrated_lower", "calibrated_upper"], expected, strict=True):
        np.testing.assert_array_equal(table[name].to_numpy(), values)
    for model in ("isotonic.json", "paper.json"):
        refused = mbct("predict", folder / model, folder / "clicks.csv", "--interval", "-o", "-", cwd=tmp_path)
        assert refused.code == 2
        assert "holds no certificate: --interval needs one, which mbct certify adds" in refused.err


def test_csv_through_pipes_equals_parquet(folder: Path, tmp_path: Path):
    rows = (folder / "clicks.csv").read_bytes()
    piped = mbct("predict", folder / "paper.json", "-", "-o", "-", cwd=tmp_path, stdin=rows)
    packed = mbct("predict", folder / "paper.json", "-", "-o", "o.csv.gz", cwd=tmp_path, stdin=gzip.compress(rows))
    columns = mbct(
        "predict", folder / "paper.json", "-", "-o", "-", cwd=tmp_path, stdin=(folder / "clicks.parquet").read_bytes()
    )
    assert (piped.code, packed.code, columns.code) == (0, 0, 0)
    assert gzip.decompress((tmp_path / "o.csv.gz").read_bytes()).decode() == piped.out
    assert columns.out.replace('"', "") == piped.out.replace('"', "")  # text of a CSV file stays text
    table = csv.read_csv(io.BytesIO(piped.out.encode()))
    assert table.num_rows == 4000
    assert table.column_names[-1] == "calibrated"


def test_terminal(folder: Path, tmp_path: Path):
    done = mbct_on_terminal("predict", folder / "paper.json", folder / "clicks.csv", "-o", "out.csv", cwd=tmp_path)
    assert done.code == 0
    assert "wrote 4,000 rows to out.csv" in done.out
    refused = mbct_on_terminal(
        "predict", folder / "paper.json", folder / "clicks.csv", "-o", "-", "--format", "parquet", cwd=tmp_path
    )
    assert refused.code == 2
    assert "Parquet is no text for a terminal" in refused.out


def test_standard_input_must_not_be_the_keyboard(folder: Path, tmp_path: Path):
    done = mbct_on_terminal("predict", folder / "paper.json", "-", "-o", "out.csv", cwd=tmp_path)
    assert done.code == 2
    assert "standard input is the keyboard" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--column", "age"], "has a column 'age' already"),
        (["--sql", "SELECT pctr FROM data"], "missing"),
        (["--sql", "SELECT * REPLACE (pctr * 100 AS pctr) FROM data"], "lies outside [0, 1]"),
    ],
)
def test_bad_input(folder: Path, tmp_path: Path, arguments: list[str], message: str):
    done = mbct("predict", folder / "paper.json", folder / "clicks.csv", *arguments, "-o", "out.csv", cwd=tmp_path)
    assert done.code == 2
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


def _peak_megabytes(*arguments: str, cwd: Path) -> float:
    process = subprocess.Popen([str(ENTRY_POINT), *arguments], cwd=cwd, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1024


def test_memory_does_not_grow_with_the_rows(folder: Path, tmp_path: Path):
    """Twenty times the rows, 350 MB of them in memory, for less than 150 MB more."""
    for name, copies in (("few", 50), ("many", 1000)):
        duckdb.sql(
            f"COPY (SELECT c.*, i AS a, i * 0.5 AS b, -i AS c FROM read_parquet('{folder}/clicks.parquet') c, "
            f"range({copies}) r(i)) TO '{tmp_path}/{name}.parquet'"
        )
    few, many = (
        _peak_megabytes(
            "predict",
            str(folder / "isotonic.json"),
            f"{name}.parquet",
            "-o",
            f"{name}-out.parquet",
            "--memory-limit",
            "200MB",
            cwd=tmp_path,
        )
        for name in ("few", "many")
    )
    assert many - few < 150
    written = duckdb.sql(f"SELECT count(*), count(calibrated), max(a) FROM '{tmp_path}/many-out.parquet'").fetchall()
    assert written == [(4_000_000, 4_000_000, 999)]


def test_a_fault_far_down_is_placed_and_nothing_is_left(folder: Path, tmp_path: Path):
    rows = "(SELECT * FROM data LIMIT 1), range(300000) r(i)"
    query = f"SELECT * EXCLUDE (i) REPLACE (if(i = 299999, 7, 0.5) AS pctr) FROM {rows}"
    done = mbct("predict", folder / "isotonic.json", folder / "clicks.csv", "--sql", query, "-o", "o.csv", cwd=tmp_path)
    assert done.code == 2
    assert "lies outside [0, 1]: 7 in row " in done.err
    assert "row numbers start after the first" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.* that training has not met")
@pytest.mark.parametrize(("every", "code"), [(3, 0), (1, 1)])
def test_a_gate_on_values_that_training_has_not_met(folder: Path, tmp_path: Path, every: int, code: int):
    rows = "(SELECT *, row_number() OVER () AS n FROM data), range(100)"
    query = f"SELECT * REPLACE (if(n % {every} = 0, upper(device), device) AS device) FROM {rows}"
    arguments = ["predict", folder / "paper.json", folder / "clicks.parquet", "--sql", query, "-o", "out.parquet"]
    done = mbct(*arguments, "--fail-if", "unseen > 0.5", cwd=tmp_path)
    assert done.code == code, done.err
    assert f"unseen is {1333 / 4000 if every == 3 else 1:.6g}, fails if unseen > 0.5" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ([] if code else ["out.parquet"])


@pytest.mark.parametrize(
    ("model", "gate", "message"),
    [
        ("paper.json", "ece > 0.1", "--fail-if names 'ece'; predict has 'unseen', mbct evaluate the metrics"),
        ("isotonic.json", "unseen > 0.5", "which needs a model of method mbct"),
    ],
)
def test_a_gate_that_cannot_be_checked(folder: Path, tmp_path: Path, model: str, gate: str, message: str):
    done = mbct("predict", folder / model, folder / "clicks.csv", "-o", "o.csv", "--fail-if", gate, cwd=tmp_path)
    assert done.code == 2
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


def test_moments_do_not_depend_on_the_zone_of_the_machine(folder: Path, tmp_path: Path):
    moments = pa.array([datetime.datetime(2024, 1, 31, hour, tzinfo=datetime.UTC) for hour in (5, 23)])
    parquet.write_table(pa.table({"pctr": [0.1, 0.2], "when": moments}), tmp_path / "in.parquet")
    written = []
    for zone in ("UTC", "Europe/Berlin"):
        command = [ENTRY_POINT, "predict", folder / "isotonic.json", "in.parquet", "-o", "out.csv"]
        subprocess.run(command, cwd=tmp_path, env={**os.environ, "TZ": zone}, check=True, capture_output=True)
        written.append((tmp_path / "out.csv").read_text())
    assert "2024-01-31 23:00:00" in written[0]
    assert written[0] == written[1]


def test_unknown_ending(folder: Path, tmp_path: Path):
    done = mbct("predict", folder / "paper.json", folder / "clicks.csv", "-o", "out.xlsx", cwd=tmp_path)
    assert done.code == 2
    assert "name it .parquet or .csv" in done.err


def test_a_damaged_model(folder: Path, tmp_path: Path):
    (tmp_path / "half.json").write_bytes((folder / "paper.json").read_bytes()[:500])
    done = mbct("predict", "half.json", folder / "clicks.csv", "-o", "out.csv", cwd=tmp_path)
    assert done.code == 2
    assert "half.json is damaged" in done.err


def test_a_row_without_a_score_has_no_probability(folder: Path, tmp_path: Path):
    holes = "SELECT * REPLACE (CASE WHEN n % 4 = 0 THEN NULL WHEN n % 4 = 1 THEN 'nan'::DOUBLE ELSE pctr END AS pctr)"
    query = f"{holes} FROM (SELECT *, row_number() OVER () AS n FROM data)"
    arguments = ["predict", folder / "certified.json", folder / "clicks.parquet", "--sql", query]
    done = mbct(*arguments, "--interval", "-o", "out.parquet", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "rows without pctr, whose calibrated is empty: 2,000" in done.err
    table = parquet.read_table(tmp_path / "out.parquet")
    known = table.filter(pc.greater_equal(pc.bit_wise_and(table["n"], 3), 2))
    assert table["calibrated"].null_count == table["calibrated_upper"].null_count == 2000
    expected = load_model(folder / "certified.json").calibrate(known)
    np.testing.assert_array_equal(known["calibrated"].to_numpy(), expected)
    stopped = mbct(*arguments, "--on-missing", "error", "-o", "other.parquet", cwd=tmp_path)
    assert stopped.code == 2
    assert not (tmp_path / "other.parquet").exists()


def test_the_input_is_not_written_over(folder: Path, tmp_path: Path):
    rows = (folder / "clicks.csv").read_bytes()
    (tmp_path / "clicks.csv").write_bytes(rows)
    for source in ("clicks.csv", "./c*.csv", tmp_path / "clicks.csv"):
        done = mbct("predict", folder / "isotonic.json", source, "-o", "clicks.csv", cwd=tmp_path)
        assert done.code == 2
        assert "clicks.csv is the input itself: write to another file" in done.err
    assert (tmp_path / "clicks.csv").read_bytes() == rows


def test_data_in_the_place_of_the_model(folder: Path, tmp_path: Path):
    done = mbct("predict", folder / "clicks.csv", folder / "paper.json", "-o", "out.csv", cwd=tmp_path)
    assert done.code == 2
    assert "clicks.csv is data, no model: MODEL comes first, then DATA" in done.err


def test_the_columns_of_a_csv_file_keep_their_bytes(folder: Path, tmp_path: Path):
    """Numbers, booleans, leading zeros, dates, quotes and missing values, on both sides of a batch's end."""
    rows = [
        'mobile,0.10, 007,Yes,01/01/2024,1e2,"a, ""b""",',
        "desktop,.2,08,No,,-0.0,plain,1",
        "mobile,0.30,,True,x,+3,é,",
    ]
    names = "device,pctr,age,member,when,amount,text,gap,night,site"
    (tmp_path / "in.csv").write_text("\n".join([names, *(f"{row},no,s1" for row in rows * 70_000), ""]))
    done = mbct("predict", folder / "paper.json", "in.csv", "-o", "out.csv", cwd=tmp_path)
    assert done.code == 0, done.err
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("in.csv", "out.csv"))
    assert before == [line.rpartition(",")[0] for line in after]
    assert after[1].rpartition(",")[2] == after[-3].rpartition(",")[2]
