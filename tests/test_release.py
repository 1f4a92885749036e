"""What is released: one version, and the same bounds, Pythons and sessions wherever they are named."""

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import mbct

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")}


def nox_constant(name):
    return re.findall(r'"([^"]+)"', re.search(rf"^{name} = (\[.*?\]|\".*?\")$", NOXFILE, re.M | re.S)[1])


NOXFILE = (ROOT / "noxfile.py").read_text()
RECIPE = (ROOT / "packaging/conda/meta.yaml").read_text()


def test_the_version_stands_in_the_package_and_is_repeated_where_it_must():
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/mbct/__init__.py"
    assert version("mbct") == mbct.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == mbct.__version__
    assert f'version = "{mbct.__version__}"' in RECIPE


def test_the_recipe_has_the_bounds_of_the_package_and_its_command():
    extras = PROJECT["project"]["optional-dependencies"]
    promised = {line.replace(">=", " >=") for line in PROJECT["project"]["dependencies"] + extras["cli"]}
    run = RECIPE.partition("  run:")[2].partition("\ntest:")[0]
    found = set(re.findall(r"^    - (.+)$", run, re.M))
    assert {line.removeprefix("python-") for line in found} == {*promised, "python >=3.11"}


def test_classifiers_are_pythons_that_the_sessions_run():
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert set(classified) <= set(nox_constant("PYTHONS"))
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in classified


def test_workflows_run_sessions_that_exist_for_every_python():
    sessions = set(re.findall(r"^def ([a-z]+)\(session", NOXFILE, re.M))
    steps = [step for flow in WORKFLOWS.values() for job in flow["jobs"].values() for step in job["steps"]]
    called = [name for step in steps for name in re.findall(r"nox -s ([a-z]+)", step.get("run", ""))]
    assert set(called) == sessions
    for job in ("tests", "core"):
        assert WORKFLOWS["tests"]["jobs"][job]["strategy"]["matrix"]["python"] == nox_constant("PYTHONS")


def test_only_the_publishing_job_may_identify_itself():
    assert all(flow["permissions"] == {"contents": "read"} for flow in WORKFLOWS.values())
    jobs = {
        (name, job) for name, flow in WORKFLOWS.items() for job, body in flow["jobs"].items() if "permissions" in body
    }
    assert jobs == {("release", "publish"), ("docs", "deploy")}


def test_the_core_names_tests_that_exist():
    assert [path for path in nox_constant("CORE") if not (ROOT / path).exists()] == []
    extras = set(nox_constant("EXTRAS")[0].split(","))
    assert extras <= set(PROJECT["project"]["optional-dependencies"])


@pytest.fixture
def check_dist(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import check_dist as module

    yield module
    sys.modules.pop("check_dist")


def test_every_extra_for_users_is_tried(check_dist):
    development = {"demo", "reproduce", "bench", "all"}
    assert set(check_dist.USES) - {""} == set(PROJECT["project"]["optional-dependencies"]) - development


def test_examples_are_found_and_a_failing_one_is_told(check_dist, tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(check_dist, "run", lambda command, *_: ran.append(command[-1]))
    n_examples = check_dist.run_examples(Path(sys.executable), tmp_path)
    readme = (ROOT / "README.md").read_text()
    assert n_examples == len(re.findall(r"^\$ mbct", readme, re.M)) + len(re.findall(r"^```python", readme, re.M))
    assert ran[1].startswith("mbct simulate")
    monkeypatch.undo()
    with pytest.raises(SystemExit, match="no such flag"):
        check_dist.run([sys.executable, "-c", "raise SystemExit('no such flag')"], tmp_path)
