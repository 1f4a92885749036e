"""The guide's examples run as they are printed."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import random_tree, reference
from mbct.binning.features import CategoryBins, FeatureBins, NumberBins
from mbct.boosting.document import dump_document
from mbct.boosting.model import CalibrationEnsemble
from mbct.export import TARGETS
from mbct.export.branches import used_features
from mbct.export.lightgbm import from_raw_score
from mbct.export.onnx import onnx_inputs
from mbct.export.sql import DIALECTS

GUIDE = (Path(__file__).parents[2] / "docs" / "exports.md").read_text(encoding="utf-8")


def blocks(language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL))


@pytest.fixture
def model_of_the_guide() -> CalibrationEnsemble:
    bins = FeatureBins(
        (
            NumberBins("pctr", (0.1, 0.3, 0.5)),
            NumberBins("distance", (200.0, 500.0)),
            CategoryBins("carrier", ("UA", "AA", "DL")),
            CategoryBins("hour", tuple(map(str, range(24))), "integer"),
        )
    )
    rng = np.random.default_rng(5)
    model = CalibrationEnsemble("pctr", "odds", bins, tuple(random_tree(rng, bins, "odds") for _ in range(4)))
    assert used_features(model) == [0, 1, 2, 3]
    return model


def test_the_examples_run(
    model_of_the_guide: CalibrationEnsemble,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for package in ("duckdb", "onnxruntime", "lightgbm"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    document = {"method": "mbct", "state": {"model": model_of_the_guide.to_dict()}}
    Path("model.json").write_bytes(dump_document(document))
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(blocks("python"), "exports.md", "exec"), names)
    in_python = float(capsys.readouterr().out.split()[-1])
    model, rows = names["model"], {name: list(values) for name, values in names["rows"].items()}
    expected = reference(model, rows)
    first = [in_python, names["connection"].sql("SELECT calibrated FROM calibrated_predictions").fetchall()[0][0]]
    np.testing.assert_allclose(first, expected[0], rtol=1e-12)
    np.testing.assert_allclose(names["session"].run(None, onnx_inputs(model, rows))[0], expected, rtol=1e-12)
    in_lightgbm = from_raw_score(model, np.array(rows["pctr"]), names["booster"].predict(names["matrix"]))
    np.testing.assert_allclose(in_lightgbm, expected, rtol=1e-12)
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler found; the other examples ran")
    Path("main.c").write_text(blocks("c"), encoding="ascii")
    subprocess.run([compiler, "-std=c99", "main.c", "model.c", "-o", "main", "-lm"], check=True)
    in_c = float(subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout)
    assert in_c == pytest.approx(expected[0], rel=1e-14)


def test_the_guide_names_every_target_and_dialect() -> None:
    for name in (*TARGETS, *DIALECTS):
        assert f"`{name}`" in GUIDE
