"""A real MLflow with a local file store: what is logged comes back, scores the same, and is described."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mbct import MBCTCalibrator
from mbct.errors import MissingDependencyError
from mbct.simulation import simulate
from small_calibrators import SMALL, fitted, rows

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # MLflow's own, while it is imported
    pytest.importorskip("mlflow.pyfunc", reason="MLflow is not installed: pip install 'mbct[mlflow]'")
    import mlflow

from mbct.mlflow import load_model, log_model, signature

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield tmp_path / "runs"
    mlflow.set_tracking_uri(before)


def clicks(seed, n_rows=4000):
    return pd.DataFrame(simulate(n_rows=n_rows, seed=seed).columns)


def test_a_model_is_logged_with_report_and_metrics_and_comes_back(store):
    pytest.importorskip("altair", reason="altair is not installed: pip install 'mbct[report]'")
    calibrator = MBCTCalibrator("pctr", preset="paper").fit(clicks(0), "click")
    held_out = clicks(1)
    with mlflow.start_run() as run:
        info = log_model(calibrator, X=held_out, y="click", registered_model_name="clicks")
    expected = calibrator.calibrate(held_out)
    served = mlflow.pyfunc.load_model("models:/clicks/1")
    np.testing.assert_array_equal(served.predict(held_out), expected)
    np.testing.assert_array_equal(served.predict(held_out.assign(age=held_out["age"].astype(float))), expected)
    np.testing.assert_array_equal(load_model(info.model_uri).calibrate(held_out), expected)
    with pytest.raises(mlflow.MlflowException, match="missing inputs"):
        served.predict(held_out.drop(columns="device"))

    logged = mlflow.get_run(run.info.run_id).data.metrics
    y = held_out["click"].to_numpy()
    log_loss = -np.mean(np.log(np.where(y == 1, expected, 1 - expected)))
    assert logged["log_loss_after"] == pytest.approx(log_loss)
    assert logged["pcoc_before"] == pytest.approx(held_out["pctr"].sum() / y.sum())
    found = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="calibration"))
    assert json.loads((found / "metrics.json").read_text())["after"]["segments"]
    assert "<html" in (found / "report.html").read_text(encoding="utf-8")
    assert mlflow.pyfunc.get_model_dependencies(info.model_uri)
    assert store.is_dir()


def test_the_signature_has_the_types_of_the_bins():
    calibrator = MBCTCalibrator("pctr", preset="paper").fit(clicks(0, 1000), "click")
    found = signature(calibrator)
    types = {column.name: str(column.type) for column in found.inputs}
    assert types == {
        "pctr": "DataType.double",
        "device": "DataType.string",
        "night": "DataType.boolean",
        "site": "DataType.string",
        "age": "Any",
    }
    assert found.outputs.inputs[0].shape == (-1,)


@pytest.mark.parametrize("method", ["segment", "isotonic", "mbct-multiclass"])
def test_other_calibrators_are_logged_too(store, method):
    assert method in SMALL
    calibrator = fitted(method)
    frame, _ = rows(method)
    with mlflow.start_run():
        info = log_model(calibrator, name="other")
    assert info.signature.inputs.input_names() == list(frame.columns)
    loaded = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_array_equal(loaded.predict(frame), calibrator.calibrate(frame))
    assert info.signature.outputs.inputs[0].shape == (-1, *loaded.predict(frame).shape[1:])
    assert load_model(info.model_uri).method == method


def test_without_mlflow_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", None)
    with pytest.raises(MissingDependencyError, match=r"mbct.mlflow needs MLflow: pip install 'mbct\[mlflow\]'"):
        load_model("models:/clicks/1")


def test_importing_the_module_loads_no_mlflow():
    code = "import sys, mbct; mbct.mlflow.log_model; sys.exit('mlflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
