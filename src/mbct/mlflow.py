"""Calibrators in MLflow: pyfunc models without pickle, with metrics and the report beside them (extra ``mlflow``).

The model's data is the file that :meth:`~mbct.calibrators.base.Calibrator.save` writes, and this module loads it.
"""

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from mbct import __version__
from mbct.calibrators.base import Calibrator
from mbct.calibrators.persistence import load_model as read_model
from mbct.evaluation.diagnostics.calibrated_rows import calibrated_rows
from mbct.evaluation.metrics.evaluation import METRICS, evaluate
from mbct.lazy import optional
from mbct.report import write_report
from mbct.validation import FloatArray

__all__ = ["load_model", "log_model", "signature"]

_TYPES = {"string": "string", "boolean": "boolean", "date": "datetime", "datetime": "datetime"}


def log_model(calibrator: Calibrator, name: str = "calibrator", *, X: Any = None, y: Any = None, **options: Any) -> Any:
    """Log a fitted calibrator to the active run of MLflow, as a model of the flavour pyfunc.

    Parameters
    ----------
    calibrator : Calibrator
        Any fitted calibrator of this package.
    name : str, default="calibrator"
        Name of the model.
    X, y : frame or array, and str or array, default=None
        Labelled rows, best held out. With them the metrics of :func:`mbct.metrics.evaluate` are logged, of the
        prediction (``log_loss_before``) and of the calibrated probability (``log_loss_after``), and as artefacts
        ``calibration/metrics.json`` and ``calibration/report.html``.
    **options : Any
        Those of ``mlflow.pyfunc.log_model``, such as ``registered_model_name``.

    Returns
    -------
    info : mlflow.models.model.ModelInfo
        ``info.model_uri`` is what :func:`load_model` and ``mlflow.pyfunc.load_model`` take.
    """
    mlflow = _mlflow()
    package = "mbct[lightgbm]" if calibrator.method == "lightgbm" else "mbct"
    known = {"pip_requirements": [f"{package}=={__version__}"], "signature": signature(calibrator)}
    with tempfile.TemporaryDirectory() as folder:
        calibrator.save(Path(folder) / "model.json")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*input example")  # it would prove a signature that was only inferred
            info = mlflow.pyfunc.log_model(
                name=name, loader_module=__name__, data_path=f"{folder}/model.json", **{**known, **options}
            )
        if X is not None:
            _log_quality(mlflow, calibrator, X, y, Path(folder), info.model_id)
    return info


def load_model(model_uri: str) -> Calibrator:
    """The calibrator that :func:`log_model` logged.

    Parameters
    ----------
    model_uri : str
        ``models:/…``, ``runs:/…`` or a folder.

    Returns
    -------
    Calibrator
        Fitted.
    """
    calibrator: Calibrator = _mlflow().pyfunc.load_model(model_uri).get_raw_model()
    return calibrator


def signature(calibrator: Calibrator) -> Any:
    """The columns that a calibrator reads, typed by its bins, and the shape of its result.

    Numbers are of MLflow's type Any: as "double" it would refuse whole numbers, as "long" missing ones.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted.

    Returns
    -------
    mlflow.models.ModelSignature
        What :func:`log_model` logs.
    """
    _mlflow()
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec
    from mlflow.types.schema import AnyType

    scores = np.atleast_1d(calibrator.score_column_).tolist()
    bins: Any = getattr(calibrator, "bins_", None) or getattr(getattr(calibrator, "model_", None), "bins", ())
    types: dict[str, Any] = dict.fromkeys(scores, "double")
    by_name = {feature.name: feature for feature in bins}
    read = calibrator.feature_names_in_.tolist() if calibrator.feature_aware else []
    for name in read:
        if name in by_name or not by_name:  # columns without bins were left out of the fit
            types.setdefault(name, _TYPES.get(getattr(by_name.get(name), "value_type", ""), AnyType()))
    shape = (-1,) if len(scores) == 1 else (-1, len(scores))
    columns = [ColSpec(kind, name) for name, kind in types.items()]
    return ModelSignature(Schema(columns), Schema([TensorSpec(np.dtype(np.float64), shape)]))


class _Scorer:
    """What MLflow calls."""

    def __init__(self, calibrator: Calibrator):
        self.calibrator = calibrator

    def predict(self, model_input: Any, params: Any = None) -> FloatArray:  # noqa: ARG002 - MLflow passes it
        """Calibrated probabilities."""
        return self.calibrator.calibrate(model_input)

    def get_raw_model(self) -> Calibrator:
        """The calibrator itself."""
        return self.calibrator


def _load_pyfunc(path: str) -> _Scorer:
    """MLflow's entry point for ``loader_module``."""
    return _Scorer(read_model(path))


def _log_quality(mlflow: Any, calibrator: Calibrator, X: Any, y: Any, folder: Path, model_id: str) -> None:
    rows = calibrated_rows(calibrator, X, y)
    found = {
        when: evaluate(rows.y_true, getattr(rows, when), sample_weight=rows.weight) for when in ("before", "after")
    }
    values = {f"{name}_{when}": float(each.overall[name]) for when, each in found.items() for name in METRICS}
    mlflow.log_metrics({name: value for name, value in values.items() if np.isfinite(value)}, model_id=model_id)
    metrics = {when: each.to_dict() for when, each in found.items()}
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=1), encoding="utf-8")
    write_report(calibrator, X, y, folder / "report.html")
    for name in ("metrics.json", "report.html"):
        mlflow.log_artifact(str(folder / name), "calibration")


def _mlflow() -> Any:
    """The library, or one clear error."""
    return optional("mbct.mlflow needs MLflow: pip install 'mbct[mlflow]'", "mlflow", "mlflow.pyfunc")
