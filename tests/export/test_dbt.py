"""dbt itself runs the exported packages on DuckDB."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from builders import one_split_model, random_model, random_rows, reference, table_model
from mbct.errors import ParameterError
from mbct.export import export_model
from mbct.export.dbt import to_dbt
from mbct.model.bins import CategoryBins
from sql_tables import as_tuples, create_table

AWKWARD = ("{{ x }}", "{% raw %}", "{# note #}", "a\r\nb", "it's", "}} {")
MODELS = {
    "awkward_values": one_split_model(CategoryBins("site", AWKWARD)),
    "random_trees": random_model(7),
    "large_tables": table_model(3),
}
PROFILE = "mbct:\n  target: here\n  outputs:\n    here: {type: duckdb, path: here.duckdb}\n"
SOURCE = "SELECT * FROM read_parquet('{name}.parquet')"
MODEL = """{{{{ config(materialized='external', location='{name}_out.parquet') }}}}
{{{{ {name}.calibrate(ref('{name}_rows')) }}}}
"""


def written(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode())


def make_project(folder, duckdb):
    """A project that depends on a package for each model; the rows that it reads."""
    rows = {}
    packages = []
    written(folder, {"dbt_project.yml": "name: shop\nversion: '1.0.0'\nprofile: mbct\n", "profiles.yml": PROFILE})
    for name, model in MODELS.items():
        written(folder / "packages" / name, export_model(model, "dbt", package=name))
        packages.append(f"  - local: packages/{name}\n")
        rows[name] = random_rows(11, model, 300)
        if name == "awkward_values":
            rows[name]["site"] = [AWKWARD[i % len(AWKWARD)] for i in range(300)]
        connection = duckdb.connect()
        connection.execute(create_table(model, "duckdb"))
        marks = ", ".join("?" * (1 + len(model.bins)))
        connection.executemany(f"INSERT INTO predictions VALUES ({marks})", as_tuples(model, rows[name]))
        connection.execute(f"COPY predictions TO '{folder / name}.parquet'")
        calls = {f"models/{name}_rows.sql": SOURCE.format(name=name), f"models/{name}_out.sql": MODEL.format(name=name)}
        written(folder, calls)
    written(folder, {"packages.yml": "packages:\n" + "".join(packages)})
    return rows


@pytest.mark.slow
def test_dbt_gives_what_the_model_gives(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'mbct[cli]'")
    dbt = shutil.which("dbt", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if dbt is None:
        pytest.skip("dbt is not installed: uv tool install dbt-core --with dbt-duckdb")
    rows = make_project(tmp_path, duckdb)
    quiet = {"DO_NOT_TRACK": "1", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DBT_PROFILES_DIR": str(tmp_path)}
    environment = {**{key: value for key, value in os.environ.items() if key != "PYTHONPATH"}, **quiet}
    for command in (["deps"], ["run"]):
        done = subprocess.run([dbt, *command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    for name, model in MODELS.items():
        query = f"SELECT calibrated FROM '{tmp_path / name}_out.parquet' ORDER BY row_number"
        found = np.array(duckdb.sql(query).fetchall(), dtype=float)[:, 0]
        np.testing.assert_allclose(found, reference(model, rows[name]), rtol=1e-12)


def test_a_package_has_a_project_a_macro_and_for_large_trees_tables():
    assert list(to_dbt(random_model(1))) == ["dbt_project.yml", "macros/calibrate.sql"]
    for dialect, table in (("postgres", "flights_feature_1"), ("duckdb", "flights_arrays")):
        files = to_dbt(table_model(1), dialect, package="flights")
        assert f"models/{table}.sql" in files
        assert f"{{{{ ref('flights', '{table}') }}}}" in files["macros/calibrate.sql"]
        assert "CREATE" not in "".join(files.values())
        assert "\0" not in "".join(files.values())


def test_a_bad_name_is_refused():
    with pytest.raises(ParameterError, match="package='Click Model' must be small letters"):
        to_dbt(random_model(1), package="Click Model")
