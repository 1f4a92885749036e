"""The model file: one versioned JSON document for every method, and the ensemble inside an MBCT one.

Whatever reads a model, from a file, a store, Redis or a request, reads it here; :mod:`mbct.model.file_check` checks
what is inside. Version 2 has the names of today; files of version 1 are renamed as they are read.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mbct.errors import MissingDependencyError, ModelFileError, StorageError
from mbct.model.boosted_trees import trees_of_text
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file_check import read_ensemble, read_list, read_object, text

FORMAT = "mbct-calibrator"
VERSION = 2
MOST_BYTES = 2**29
MOST_COLUMNS = 2**20
_RENAMED_PARAMETERS = {
    "score": "score_column",
    "size": "model_size",
    "order": "rank_preservation",
    "negative_rate": "negative_sampling_rate",
    "number_bins": "numeric_bins",
    "score_by": "score_binning",
}


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """A file's content, or one clear error."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def parse_document(content: bytes, name: str = "the model file") -> dict[str, Any]:
    """Parse a model file of this version or an older one; what is inside is named as in this version."""
    if len(content) > MOST_BYTES:
        raise ModelFileError(
            f"{name} has {len(content):,} bytes, more than {MOST_BYTES:,}: no model file is that large"
        )
    try:
        document = json.loads(content, parse_constant=_refuse_constant)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{name} is damaged or no model file: {error}; restore it or fit again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f"{name} is not a calibrator of this package (no format {FORMAT!r} in it)")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"{name} has format version {version!r}: restore it or fit again")
    if version > VERSION:
        raise ModelFileError(f"{name} has format version {version!r}, newer than {VERSION}: upgrade mbct to read it")
    try:
        return _with_sound_head(_from_version_1(document) if version == 1 else document)
    except RecursionError as error:
        raise ModelFileError(f"{name} is damaged: it is nested too deep; restore it or fit again") from error


def dump_document(document: dict[str, Any]) -> bytes:
    """The bytes of a document: equal content gives equal bytes."""
    full = {"format": FORMAT, "version": VERSION, **document}
    return (json.dumps(full, ensure_ascii=False, allow_nan=False, sort_keys=True) + "\n").encode()


def has_many_classes(content: bytes, name: str = "the model file") -> bool:
    """Whether a model file is of a calibrator with a score column for each class."""
    return isinstance(parse_document(content, name).get("score_column"), list)


def ensemble_of(content: bytes, name: str = "the model file") -> CalibrationEnsemble:
    """The frozen ensemble inside an MBCT model file: all that scoring, exports and rules need.

    One clear error where anything in the content makes no sense: what is returned can be served.
    """
    with naming(name):
        document = parse_document(content, name)
        if document.get("method") != "mbct":
            raise ModelFileError(
                f"{name} holds a {document.get('method')!r} calibrator, which has no rules; fit 'mbct'"
            )
        state = document.get("state")
        if not isinstance(state, dict) or "model" not in state:
            raise ModelFileError(f"{name} is damaged: no model in it; restore it or fit again")
        return read_ensemble(state["model"])


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors in the content of a file become a :class:`~mbct.errors.ModelFileError` with the name of the file in it."""
    try:
        yield
    except MissingDependencyError:
        raise
    except ModelFileError as error:
        message = str(error).replace("the model is damaged", f"{name} is damaged", 1)
        raise ModelFileError(message if name in message else f"{name}: {message}") from error
    except Exception as error:
        # The content comes from outside: whatever it breaks is damage in it, never a reason to stop serving.
        raise ModelFileError(f"{name} is damaged: {type(error).__name__} {error}; restore it or fit again") from error


def load_ensemble(path: str | os.PathLike[str]) -> CalibrationEnsemble:
    """Read the ensemble of a model file, for exports and scorers.

    Parameters
    ----------
    path : str or path
        A file that :class:`~mbct.calibrators.mbct.MBCTCalibrator` wrote.

    Returns
    -------
    CalibrationEnsemble
        Bins and trees, without what only training needs.
    """
    return ensemble_of(read_bytes(path), str(path))


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def _with_sound_head(document: dict[str, Any]) -> dict[str, Any]:
    """The document, if method, parameters, score column and columns are what they must be where there are any."""
    text(document.get("method", ""), "method")
    read_object(document.get("parameters", {}), "parameters", ())
    score_column = document.get("score_column", "")
    for name in score_column if isinstance(score_column, list) else [score_column]:
        text(name, "score_column")
    for name in read_list(document.get("columns", []), "columns", MOST_COLUMNS):
        text(name, "columns")
    return document


def _from_version_1(document: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had other names of parameters, score column, link and leaf values, and LightGBM's own text."""
    parameters = document.get("parameters")
    if isinstance(parameters, dict):
        parameters = {_RENAMED_PARAMETERS.get(name, name): value for name, value in parameters.items()}
        document = {**document, "parameters": parameters}
    state = document.get("state")
    if document.get("method") == "lightgbm" and isinstance(state, dict) and isinstance(state.get("model"), str):
        document = {**document, "state": {**state, "trees": trees_of_text(state["model"])}}
    return {**_renamed(document), "version": VERSION}


def _renamed(content: Any) -> Any:
    """New names wherever an ensemble, a tree or the scores of a class stand."""
    if isinstance(content, list):
        return (
            [_renamed(item) for item in content] if any(isinstance(item, dict | list) for item in content) else content
        )
    if not isinstance(content, dict):
        return content
    renames: dict[str, str] = {}
    if {"children", "step"} <= content.keys():
        renames = {"step": "leaf_value"}
    elif {"pattern", "trees"} <= content.keys():
        renames = {"pattern": "link", "score": "score_column"}
    elif {"score", "columns"} <= content.keys():
        renames = {"score": "score_column"}
    return {renames.get(name, name): _renamed(value) for name, value in content.items()}
