"""Every way to name data gives the same rows."""

import gzip
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from mbct.cli.sources import open_data
from mbct.errors import DataError, StorageError

ROWS = pa.table({"site": ["a", "b", None, "d'e"], "p": [0.25, 0.5, 0.75, 1.0], "y": pa.array([0, 1, 1, 0], pa.int64())})


def read_table(source: str | None, sql: str | None = None, *, once: bool = False) -> pa.Table:
    with open_data(source, sql, once=once) as opened:
        return opened.table()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    parquet.write_table(ROWS, "rows.parquet")
    parquet.write_table(ROWS, "it's odd.parquet")
    text = "site,p,y\na,0.25,0\nb,0.5,1\n,0.75,1\nd'e,1.0,0\n"
    Path("rows.csv").write_text(text)
    Path("rows.csv.gz").write_bytes(gzip.compress(text.encode()))
    Path("rows.dat").write_bytes(Path("rows.parquet").read_bytes())
    with duckdb.connect("rows.db") as connection:
        connection.execute("CREATE TABLE clicks AS FROM 'rows.parquet'")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "sql"),
    [
        ("rows.parquet", None),
        ("it's odd.parquet", None),
        ("rows.csv", None),
        ("rows.csv.gz", None),
        ("rows.dat", None),
        ("r*s.parquet", None),
        ("duckdb:///rows.db?table=clicks", None),
        ("duckdb:///rows.db", None),
        ("duckdb:///rows.db", "SELECT * FROM clicks"),
        ("duckdb:///rows.db?table=clicks", "SELECT * FROM data"),
        ("rows.csv", "SELECT * FROM data"),
        (None, "SELECT * FROM 'rows.parquet'"),
    ],
)
def test_all_sources_agree(data: Path, source: str | None, sql: str | None):
    assert read_table(source, sql).to_pydict() == ROWS.to_pydict()
    assert read_table(source, sql, once=True).to_pydict() == ROWS.to_pydict()


def test_absolute_database(data: Path):
    assert read_table(f"duckdb:///{data}/rows.db?table=clicks").num_rows == 4


def test_decimals_become_floats(data: Path):
    table = read_table("rows.parquet", "SELECT 0.1 AS p, sum(y) AS y FROM data")
    assert table.schema.types == [pa.float64(), pa.float64()]


@pytest.mark.parametrize(
    ("source", "sql", "message"),
    [
        (None, None, "no data given"),
        ("absent.csv", None, "cannot read absent.csv: it does not exist"),
        (".", None, "it is a folder; name its files"),
        ("absent*.csv", None, "cannot read absent"),
        ("duckdb:///absent.db?table=x", None, "no database absent.db"),
        ("duckdb:///rows.db?table=x", None, "cannot read duckdb:///rows.db"),
        ("rows.csv", "SELECT p AS a, y AS a FROM data", "two columns called 'a'"),
        ("rows.csv", "DROP TABLE data", "the query of --sql is wrong"),
    ],
)
def test_faults_are_named(data: Path, source: str | None, sql: str | None, message: str):
    with pytest.raises((DataError, StorageError), match=r".*") as caught:
        read_table(source, sql)
    assert message in str(caught.value)


def test_unknown_ending(data: Path):
    Path("rows.xyz").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"name it \.parquet or \.csv"):
        read_table("rows.xyz")


def test_a_parquet_file_cut_short(data: Path):
    Path("half.parquet").write_bytes(Path("rows.parquet").read_bytes()[:60])
    with pytest.raises(DataError, match=r"cannot read half\.parquet"):
        read_table("half.parquet")
