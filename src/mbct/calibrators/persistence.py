"""Model files: one JSON document for every method, versioned, without pickle."""

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from mbct.errors import ParameterError
from mbct.files import write_atomically
from mbct.model.class_model import ClassModel
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import dump_document, ensemble_of, has_many_classes, naming, parse_document, read_bytes
from mbct.model.file_check import fault, read_classes
from mbct.validation import ClassLabels

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator


def save(calibrator: "Calibrator", path: str | os.PathLike[str]) -> None:
    """Write ``calibrator`` to ``path`` atomically."""
    write_atomically(path, dumps(calibrator))


def dumps(calibrator: "Calibrator") -> bytes:
    """The model file's bytes: the same calibrator gives the same bytes."""
    document = {
        "method": calibrator.method,
        "parameters": _plain_parameters(calibrator),
        "score_column": calibrator.score_column_,
        "columns": calibrator.feature_names_in_.tolist(),
        **_labels(calibrator),
        "state": calibrator._state(),
    }
    return dump_document(document)


def load_model(path: str | os.PathLike[str]) -> "Calibrator":
    """Read a fitted calibrator of any method from its file.

    Parameters
    ----------
    path : str or path
        A file that :meth:`~mbct.calibrators.base.Calibrator.save` wrote.

    Returns
    -------
    Calibrator
        Of the class and with the parameters of the one that was saved.
    """
    return loads(read_bytes(path), str(path))


def model_of(content: bytes, name: str = "the model file") -> CalibrationEnsemble | ClassModel:
    """The frozen model in a model file of MBCT or of many classes: all that scoring and exports need."""
    if not has_many_classes(content, name):
        return ensemble_of(content, name)
    model: ClassModel = getattr(loads(content, name), "model_")  # noqa: B009 - loads has seen that it is of many classes
    return model


def loads(content: bytes, name: str = "the model file") -> "Calibrator":
    """Rebuild a calibrator from a model file's bytes."""
    from mbct.calibrators.multiclass.scores import ManyScores
    from mbct.calibrators.registry import make

    with naming(name):
        document = parse_document(content, name)
        calibrator = make(document["method"], **document["parameters"])
        labels = _read_labels(document)
        if not isinstance(document["score_column"], str) and not isinstance(calibrator, ManyScores):
            raise fault("score_column", document["score_column"], "one column")
        calibrator._remember(document["score_column"], document["columns"], labels)
        calibrator._restore(document["state"])
    return calibrator


def _read_labels(document: dict[str, Any]) -> ClassLabels:
    positive = document.get("positive", 1)
    if type(positive) is not int or positive not in (0, 1):
        raise fault("positive", positive, "0 or 1")
    return ClassLabels(read_classes(document.get("classes", [0, 1]), "classes", 2), positive)


def _labels(calibrator: "Calibrator") -> dict[str, Any]:
    """The two classes and which is positive; nothing where they are 0 and 1, or one of many in the state."""
    classes = calibrator.classes_.tolist()
    zero_one = calibrator.classes_.dtype.kind == "i" and classes == [0, 1] and calibrator.positive_ == 1
    if zero_one or not isinstance(calibrator.score_column_, str):
        return {}
    if not all(isinstance(value, str | int | float) for value in classes):
        raise ParameterError(f"classes {classes!r} cannot be written to a model file: make the labels text or numbers")
    return {"classes": classes, "positive": calibrator.positive_}


def _plain_parameters(calibrator: "Calibrator") -> dict[str, Any]:
    parameters = {}
    for key, value in calibrator.get_params(deep=False).items():
        if key in calibrator.run_parameters:
            continue
        plain = value.item() if isinstance(value, np.generic) else value
        try:
            parameters[key] = json.loads(json.dumps(plain, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise ParameterError(f"parameter {key}={value!r} cannot be written to a model file") from error
    return parameters
