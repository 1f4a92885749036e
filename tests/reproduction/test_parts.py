"""Finished parts are kept, and only if the same code made them from the same parameters."""

import json
from pathlib import Path

import pytest

from reproduction import parts as parts_module
from reproduction import provenance
from reproduction.parts import SECONDS, Finished, Part, finish, kept, read
from reproduction.provenance import code_digest, imported
from reproduction.registry import EXPERIMENTS
from reproduction.settings import Settings

MODULE = "reproduction.markdown"


def part(compute=dict, parameters=None, **options) -> Part:
    return Part("e", "p", parameters or {}, compute, MODULE, **options)


def test_a_finished_part_is_not_computed_again(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"value": 1.5}

    first = part(compute, {"n": 1})
    finish(first, tmp_path)
    finish(first, tmp_path)
    assert len(calls) == 1
    assert kept(first, tmp_path) == Finished({"n": 1}, {"value": 1.5}, {})
    changed = part(compute, {"n": 2})
    assert kept(changed, tmp_path) is None
    finish(changed, tmp_path)
    assert len(calls) == 2


def test_seconds_are_kept_apart(tmp_path):
    timed = part(lambda: {"value": 1, SECONDS: {"fit": 0.5}}, timed=True)
    finish(timed, tmp_path)
    assert kept(timed, tmp_path) == Finished({}, {"value": 1}, {"fit": 0.5})
    assert "0.5" not in (tmp_path / "data/e/p.json").read_text()
    (tmp_path / "timings/e/p.json").unlink()
    assert kept(timed, tmp_path) is None


@pytest.mark.parametrize(("timed", "result"), [(True, {"value": 1}), (False, {SECONDS: {}})])
def test_a_part_that_is_not_what_it_says_is_refused(tmp_path, timed, result):
    with pytest.raises(ValueError, match=r"e/p\.json: timed="):
        finish(part(lambda: dict(result), timed=timed), tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_damaged_part_is_computed_again(tmp_path, content):
    damaged = part(lambda: {"value": 2})
    path = tmp_path / "data" / damaged.file
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    finish(damaged, tmp_path)
    assert read(tmp_path, damaged.file).result == {"value": 2}


def test_other_versions_make_another_key(monkeypatch):
    before = part().key
    monkeypatch.setattr(parts_module, "versions", lambda: {"numpy": "0"})
    assert part().key != before


def test_other_code_makes_another_key(monkeypatch):
    before = part().key
    monkeypatch.setattr(parts_module, "code_digest", lambda _: "other")
    assert part().key != before


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in the place of ours: a core, experiments that measure and one that shows."""
    files = {
        "mbct/core.py": "X = 1\n",
        "mbct/cli/main.py": "Y = 1\n",
        "reproduction/__init__.py": "from reproduction.report import f\n",
        "reproduction/measure.py": "from reproduction import deep\n",
        "reproduction/deep.py": "def f():\n    from reproduction.deeper import Z\n",
        "reproduction/deeper.py": "Z = 1\n",
        "reproduction/report.py": "from reproduction.measure import f\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(provenance, "_PACKAGE", tmp_path / "mbct")
    monkeypatch.setattr(provenance, "_EXPERIMENTS", tmp_path / "reproduction")
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    for cached in (provenance.imported, provenance._package_digest, provenance._file_digest):
        cached.cache_clear()


def digest_after(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    forget()
    return code_digest("reproduction.measure")


@pytest.mark.parametrize(
    ("name", "text", "matters"),
    [
        ("mbct/core.py", "X = 2\n", True),
        ("mbct/new.py", "W = 1\n", True),
        ("reproduction/deeper.py", "Z = 2\n", True),
        ("reproduction/deeper.py", '"""Words."""\n\nZ   = 1  # why\n', False),
        ("reproduction/report.py", "", False),
        ("mbct/cli/main.py", "Y = 2\n", False),
    ],
)
def test_the_digest_follows_the_code_that_a_result_depends_on(package, name, text, matters):
    before = code_digest("reproduction.measure")
    assert (digest_after(package, name, text) != before) == matters


def test_no_measurement_imports_what_only_shows():
    measuring = {p.module for e in EXPERIMENTS.values() for p in e.parts(Settings(True, 0, Path("nowhere"), 1))}
    measuring.add("reproduction.offline.measure")
    for module in measuring:
        names = {path.name for path in imported(module)}
        assert "measure.py" in names
        assert not names & {"figures.py", "report.py", "canvas.py", "page.py", "main_table.py", "in_depth.py"}


def test_files_name_their_parameters_and_versions(tmp_path):
    finish(part(lambda: {"value": 1}, {"seed": 3}), tmp_path)
    content = json.loads((tmp_path / "data/e/p.json").read_text())
    assert content["parameters"] == {"seed": 3}
    assert set(content["versions"]) >= {"python", "mbct", "numpy"}
