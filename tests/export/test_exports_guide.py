"""The guide's examples say the same thing in every language, C included."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import reference
from mbct.export import TARGETS
from mbct.export.lightgbm import from_raw_score
from mbct.export.onnx import onnx_inputs
from mbct.export.sql import DIALECTS

RUN = "import sys; from mbct.cli.main import main; sys.exit(main())"
GUIDE = (Path(__file__).parents[2] / "docs" / "exports.md").read_text(encoding="utf-8")


def blocks(language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL))


@pytest.mark.slow
def test_the_examples_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = {
        "duckdb": "'mbct[cli]'",
        "onnxruntime": "onnxruntime",
        "lightgbm": "'mbct[lightgbm]'",
        "click": "'mbct[cli]'",
    }
    for package, extra in needed.items():
        pytest.importorskip(package, reason=f"{package} is not installed: pip install {extra}")
    monkeypatch.chdir(tmp_path)
    for line in blocks("console").splitlines():
        command = line.removeprefix("$ mbct ").split()
        subprocess.run([sys.executable, "-c", RUN, *command], check=True, capture_output=True)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(blocks("python"), "exports.md", "exec"), names)
    in_python = float(capsys.readouterr().out.split()[-1])
    model, rows = names["model"], {name: list(values) for name, values in names["rows"].items()}
    expected = reference(model, rows)
    assert in_python == pytest.approx(expected[0], rel=1e-14)
    np.testing.assert_allclose(names["session"].run(None, onnx_inputs(model, rows))[0], expected, rtol=1e-12)
    in_lightgbm = from_raw_score(model, np.array(rows["pctr"]), names["booster"].predict(names["matrix"]))
    np.testing.assert_allclose(in_lightgbm, expected, rtol=1e-12)
    clicks = names["connection"].sql("FROM 'clicks.parquet'").to_df()
    in_sql = np.array(names["calibrated"])[:, 0]
    np.testing.assert_allclose(in_sql, reference(model, clicks.to_dict("list")), rtol=1e-12)
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler found: apt-get install gcc; the other examples ran")
    Path("main.c").write_text(blocks("c"), encoding="ascii")
    subprocess.run([compiler, "-std=c99", "main.c", "model.c", "-o", "main", "-lm"], check=True)
    in_c = float(subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout)
    assert in_c == pytest.approx(expected[0], rel=1e-14)


def test_the_guide_names_every_target_and_dialect() -> None:
    for name in (*TARGETS, *DIALECTS):
        assert f"`{name}`" in GUIDE
