"""Model files: one JSON document for every method, versioned, without pickle."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mbct.errors import ModelFileError, ParameterError, StorageError
from mbct.files import write_atomically

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator

FORMAT = "mbct-calibrator"
VERSION = 1


def save(calibrator: "Calibrator", path: str | os.PathLike[str]) -> None:
    """Write ``calibrator`` to ``path`` atomically."""
    write_atomically(path, dumps(calibrator))


def dumps(calibrator: "Calibrator") -> bytes:
    """The model file's bytes: the same calibrator gives the same bytes."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "method": calibrator.method,
        "parameters": _plain_parameters(calibrator),
        "score": calibrator.score_,
        "columns": calibrator.feature_names_in_.tolist(),
        "state": calibrator._state(),
    }
    return (json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True) + "\n").encode()


def load_model(path: str | os.PathLike[str]) -> "Calibrator":
    """Read a calibrator that :meth:`~mbct.calibrators.base.Calibrator.save` wrote."""
    source = Path(path)
    try:
        content = source.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {source}: {error.strerror}") from error
    return loads(content, str(source))


def read_document(content: bytes, name: str = "the model file") -> dict[str, Any]:
    """Parse a model file and check that this version understands it."""
    try:
        document = json.loads(content)
    except (UnicodeDecodeError, ValueError) as error:
        raise ModelFileError(f"{name} is damaged or no model file: {error}; restore it or fit again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f"{name} is not a calibrator of this package (no format {FORMAT!r} in it)")
    version = document.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ModelFileError(f"{name} has format version {version!r}, newer than {VERSION}: upgrade mbct to read it")
    return document


def loads(content: bytes, name: str = "the model file") -> "Calibrator":
    """Rebuild a calibrator from a model file's bytes."""
    from mbct.calibrators.registry import make

    document = read_document(content, name)
    try:
        calibrator = make(document["method"], **document["parameters"])
        calibrator.score_ = document["score"]
        calibrator.feature_names_in_ = np.asarray(document["columns"], dtype=object)
        calibrator.n_features_in_ = len(document["columns"])
        calibrator.classes_ = np.array([0, 1])
        calibrator._restore(document["state"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{name} is damaged: {type(error).__name__} {error}; restore it or fit again") from error
    return calibrator


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
