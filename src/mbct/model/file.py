"""The model file: one versioned JSON document for every method, and the ensemble inside an MBCT one."""

import json
import os
from pathlib import Path
from typing import Any

from mbct.errors import ModelFileError, StorageError
from mbct.model.ensemble import CalibrationEnsemble

FORMAT = "mbct-calibrator"
VERSION = 1


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """A file's content, or one clear error."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def parse_document(content: bytes, name: str = "the model file") -> dict[str, Any]:
    """Parse a model file and check that this version understands it."""
    try:
        document = json.loads(content)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{name} is damaged or no model file: {error}; restore it or fit again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f"{name} is not a calibrator of this package (no format {FORMAT!r} in it)")
    version = document.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ModelFileError(f"{name} has format version {version!r}, newer than {VERSION}: upgrade mbct to read it")
    return document


def dump_document(document: dict[str, Any]) -> bytes:
    """The bytes of a document: equal content gives equal bytes."""
    full = {"format": FORMAT, "version": VERSION, **document}
    return (json.dumps(full, ensure_ascii=False, allow_nan=False, sort_keys=True) + "\n").encode()


def ensemble_of(content: bytes, name: str = "the model file") -> CalibrationEnsemble:
    """The frozen ensemble inside an MBCT model file: all that scoring, exports and rules need."""
    document = parse_document(content, name)
    if document.get("method") != "mbct":
        raise ModelFileError(f"{name} holds a {document.get('method')!r} calibrator, which has no rules; fit 'mbct'")
    try:
        state = document["state"]["model"]
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{name} is damaged: no model in it; restore it or fit again") from error
    return CalibrationEnsemble.from_dict(state)


def load_ensemble(path: str | os.PathLike[str]) -> CalibrationEnsemble:
    """Read the frozen ensemble of a saved :class:`~mbct.calibrators.mbct.MBCTCalibrator`."""
    return ensemble_of(read_bytes(path), str(path))
