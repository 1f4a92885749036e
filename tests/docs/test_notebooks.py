"""The notebooks run from top to bottom in an empty folder, on data that anybody has, and keep their results."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def _code_cells(notebook: Path) -> list[dict]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_there_are_two():
    assert [notebook.stem for notebook in NOTEBOOKS] == ["ads_in_time_order", "insurance"]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(_code_cells(notebook)):
        exec(compile("".join(cell["source"]), f"{notebook.name}, code cell {number}", "exec"), names)
    assert "is not here: simulated" in capsys.readouterr().out
    assert list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_shows_what_it_found(notebook: Path):
    outputs = [output for cell in _code_cells(notebook) for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)
