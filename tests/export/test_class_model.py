from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from mbct.calibrators import DirichletCalibrator, MatrixScalingCalibrator, MulticlassCalibrator
from mbct.errors import ParameterError
from mbct.export import export_model
from mbct.export.class_model import classes_to_onnx, classes_to_python, classes_to_sql
from mbct.export.onnx import onnx_inputs
from terminal import mbct

SCORES = ["p_cat", "p dog's", "p_eel"]


def fitted(kind=MatrixScalingCalibrator, **parameters):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 3)) * 2.0
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    p[:5] = np.eye(3)[[0, 1, 2, 0, 1]]
    y = np.array(["cat", "dog", "eel"])[(rng.uniform(size=(500, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(0, 2)]
    frame = pd.DataFrame(p, columns=SCORES)
    if kind is MulticlassCalibrator:
        frame = frame.assign(river=rng.choice(["Spree", "Rhine's", None], 500), depth=rng.normal(size=500))
        y = np.where(frame["river"] == "Spree", "eel", y)
        frame.loc[:20, "depth"] = np.nan
    return kind(SCORES, **parameters).fit(frame, y), frame


@pytest.fixture(params=["matrix", "vector", "temperature", "dirichlet", "dirichlet, free", "trees"])
def calibrator(request):
    if request.param == "trees":
        model, frame = fitted(MulticlassCalibrator, max_trees=4, n_folds=2)
        assert any(model.trees_)
        return model, frame.assign(river=["Elbe", *frame["river"][1:]])  # a value that no row had
    if request.param.startswith("dirichlet"):
        return fitted(DirichletCalibrator, **({"penalty": 1e-3} if "free" in request.param else {}))
    return fitted(structure=request.param)


def test_python_gives_the_same_probabilities(calibrator):
    model, frame = calibrator
    content = {"__name__": "exported"}
    exec(compile(classes_to_python(model.model_), "exported.py", "exec"), content)
    found = [list(content["calibrate"](row).values()) for row in frame.to_dict("records")]
    np.testing.assert_allclose(found, model.calibrate(frame), rtol=1e-12, atol=1e-300)
    with pytest.raises(ValueError, match=r"'p_cat' must be a probability between 0 and 1, got 1\.5"):
        content["calibrate"](dict.fromkeys(SCORES, 1.5))


def test_sql_gives_the_same_probabilities(calibrator):
    model, frame = calibrator
    numbered = frame.assign(id=np.arange(len(frame)))
    found = duckdb.sql(classes_to_sql(model.model_, table="numbered", keep="id")).df().sort_values("id")
    assert list(found.columns) == ["id", "calibrated_cat", "calibrated_dog", "calibrated_eel"]
    assert len(numbered) == len(found)
    np.testing.assert_allclose(found.iloc[:, 1:].to_numpy(), model.calibrate(frame), rtol=1e-12, atol=1e-300)


def test_onnx_gives_the_same_probabilities(calibrator):
    onnxruntime = pytest.importorskip("onnxruntime", reason="install onnxruntime")
    model, frame = calibrator
    session = onnxruntime.InferenceSession(classes_to_onnx(model.model_), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, onnx_inputs(model.model_, frame))
    np.testing.assert_allclose(found, model.calibrate(frame), rtol=1e-12, atol=1e-300)


def test_the_command_line_writes_all_three(tmp_path: Path):
    model, frame = fitted()
    model.save(tmp_path / "model.json")
    for target in ("python", "sql", "onnx"):
        done = mbct("export", "model.json", "--to", target, "-o", f"out.{target}", cwd=tmp_path)
        assert done.code == 0, done.err
    done = mbct("export", "model.json", "--to", "sql", "--dialect", "postgres", "--set", "table=scored", cwd=tmp_path)
    assert "FROM scored" in done.out
    refused = mbct("export", "model.json", "--to", "c", cwd=tmp_path)
    assert refused.code == 2
    assert "a model of many classes is written as python, sql, onnx, not as c" in refused.err
    assert frame.shape[1] == 3


def test_an_engine_without_greatest_is_named():
    with pytest.raises(ParameterError, match="which has no GREATEST"):
        classes_to_sql(fitted()[0].model_, dialect="sqlite")


def test_what_cannot_be_exported_is_named():
    with pytest.raises(ParameterError, match="a model of many classes is written as python, sql, onnx, not as c"):
        export_model(fitted()[0].model_, "c")
    model = fitted(MulticlassCalibrator, coupling="one-vs-rest", max_trees=2, n_folds=2)[0]
    with pytest.raises(ParameterError, match="coupling='one-vs-rest' is neither exported nor served: fit with 'joint'"):
        model.model_.bins  # noqa: B018 - the property raises
