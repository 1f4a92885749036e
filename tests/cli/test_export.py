import json
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest
from pyarrow import parquet

from mbct import load_model
from mbct.export import TARGETS
from terminal import mbct, mbct_on_terminal


def test_an_expression_in_a_file_says_how_it_is_used(folder: Path):
    written = mbct("export", "paper.json", "--to", "sql", "-o", "expression.sql", cwd=folder).err
    assert "SELECT *, (…) AS calibrated FROM t; --form select" in written
    assert (
        "SELECT" not in mbct("export", "paper.json", "--to", "sql", "--form", "select", "-o", "s.sql", cwd=folder).err
    )


def test_sql_gives_what_predict_gives(folder: Path):
    expression = mbct("export", "paper.json", "--to", "sql", "--dialect", "duckdb", cwd=folder).out
    rows = parquet.read_table(folder / "clicks.parquet")
    exported = duckdb.sql(f"SELECT {expression} AS q FROM rows").to_arrow_table()["q"].to_numpy()
    np.testing.assert_allclose(exported, load_model(folder / "paper.json").calibrate(rows), rtol=0, atol=1e-12)


def test_forms_and_settings(folder: Path):
    view = mbct("export", "paper.json", "--to", "sql", "--form", "view", "--set", "table=shop.clicks", cwd=folder)
    assert view.code == 0
    assert '"shop"."clicks"' in view.out
    document = json.loads(mbct("export", "paper.json", "--to", "rules", "--form", "json", cwd=folder).out)
    assert document["rules"]


def test_a_python_file_runs_alone(folder: Path, tmp_path: Path):
    assert mbct("export", folder / "paper.json", "--to", "python", "-o", "alone.py", cwd=tmp_path).code == 0
    row = {"device": "mobile", "night": True, "site": "s1", "age": 30, "pctr": 0.1}
    script = f"import alone; print(alone.calibrate({row!r}))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path[0:0] = ['.']; {script}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    expected = load_model(folder / "paper.json").calibrate({name: [value] for name, value in row.items()})[0]
    assert float(done.stdout) == pytest.approx(expected, abs=1e-12)


def test_a_dbt_package_is_a_folder(folder: Path, tmp_path: Path):
    done = mbct("export", folder / "paper.json", "--to", "dbt", "-o", "shop/calibration", cwd=tmp_path)
    assert (done.code, done.err) == (0, "wrote shop/calibration (2 files)\n")
    assert "{{ relation }}" in (tmp_path / "shop/calibration/macros/calibrate.sql").read_text()
    refused = mbct("export", folder / "paper.json", "--to", "dbt", cwd=tmp_path)
    assert refused.code == 2
    assert "name a folder with -o" in refused.err


def test_help_names_every_target(folder: Path):
    help_text = " ".join(mbct("export", "--help", cwd=folder).out.split())
    assert all(target in help_text for target in TARGETS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["paper.json", "--to", "cobol"], "unknown target 'cobol'; there are c, dbt, lightgbm, onnx, pmml"),
        (["paper.json", "--to", "sql", "--dialect", "klingon"], "unknown SQL dialect 'klingon'"),
        (["paper.json", "--to", "python", "--set", "speed=9"], "has no option speed"),
        (["isotonic.json", "--to", "sql"], "which has no rules"),
        (["paper.json"], "Missing option '--to'"),
    ],
)
def test_bad_input(folder: Path, arguments: list[str], message: str):
    done = mbct("export", *arguments, cwd=folder)
    assert done.code == 2
    assert message in done.err


def test_on_a_terminal(folder: Path):
    assert "CASE" in mbct_on_terminal("export", "paper.json", "--to", "sql", cwd=folder).out
    pytest.importorskip("onnx", reason="onnx is not installed: pip install 'mbct[onnx]'")
    refused = mbct_on_terminal("export", "paper.json", "--to", "onnx", cwd=folder)
    assert refused.code == 2
    assert "name a file with -o" in refused.out
