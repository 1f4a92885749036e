"""One name for every export: a dictionary and one function."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mbct.errors import ParameterError
from mbct.model.class_model import ClassModel
from mbct.model.ensemble import CalibrationEnsemble

Exported = str | bytes | dict[str, str]
"""Content of a file, or of the files of a folder by name."""


@dataclass(frozen=True)
class Target:
    """Where an export is written, what its files are called, and what it is.

    Attributes
    ----------
    module, function : str
        The exporting function.
    suffix : str
        End of the file's name, such as ".sql"; empty for a folder.
    summary : str
        What the export is, in one line.
    """

    module: str
    function: str
    suffix: str
    summary: str

    def load(self) -> Callable[..., Exported]:
        """The exporting function, imported on first use."""
        loaded: Callable[..., Exported] = getattr(import_module(self.module), self.function)
        return loaded


TARGETS: dict[str, Target] = {
    "rules": Target("mbct.export.rules", "to_rules", ".txt", "if-then rules as text, or as JSON with a schema"),
    "sql": Target("mbct.export.sql", "to_sql", ".sql", "a SQL expression, SELECT or VIEW over the raw columns"),
    "dbt": Target("mbct.export.dbt", "to_dbt", "", "a dbt package: a macro that calibrates a relation"),
    "onnx": Target("mbct.export.onnx", "to_onnx", ".onnx", "an ONNX graph in float64 from the raw inputs"),
    "lightgbm": Target("mbct.export.lightgbm", "to_lightgbm", ".txt", "LightGBM model text, also for treelite"),
    "python": Target("mbct.export.python", "to_python", ".py", "one Python file without dependencies"),
    "c": Target("mbct.export.c", "to_c", ".c", "one C99 file without allocation"),
    "pmml": Target("mbct.export.pmml", "to_pmml", ".pmml", "a PMML 4.4 document"),
}


CLASS_TARGETS = ("python", "sql", "onnx")
"""What a model of many classes is written as, by ``classes_to_…`` of :mod:`mbct.export.class_model`."""


def export_model(model: CalibrationEnsemble | ClassModel, to: str, **options: Any) -> Exported:
    """The model in another language.

    Parameters
    ----------
    model : CalibrationEnsemble or ClassModel
        ``model_`` of a fitted calibrator (:class:`~mbct.calibrators.mbct.MBCTCalibrator`, or one of many classes), or
        from :func:`mbct.load_ensemble`.
    to : {"rules", "sql", "dbt", "onnx", "lightgbm", "python", "c", "pmml"}
        The target, one of :data:`TARGETS`.
    **options : Any
        Those of the target's function, for example ``dialect`` and ``form`` of "sql".

    Returns
    -------
    exported : str, bytes or dict of str
        Content of the file; for "dbt" of the files of a folder by name.
    """
    if to not in TARGETS:
        raise ParameterError(f"unknown export {to!r}; available are {', '.join(TARGETS)}")
    exporter = _exporter(model, to)
    known = [name for name in inspect.signature(exporter).parameters if name != "model"]
    if unknown := sorted(set(options) - set(known)):
        raise ParameterError(f"export {to!r} has no option {', '.join(unknown)}; it takes {', '.join(known) or 'none'}")
    _refuse_broken_text(model)
    return exporter(model, **options)


def _exporter(model: CalibrationEnsemble | ClassModel, to: str) -> Callable[..., Exported]:
    if isinstance(model, CalibrationEnsemble):
        return TARGETS[to].load()
    if to not in CLASS_TARGETS:
        raise ParameterError(f"a model of many classes is written as {', '.join(CLASS_TARGETS)}, not as {to}")
    return Target("mbct.export.class_model", f"classes_to_{to}", "", "").load()


def _refuse_broken_text(model: CalibrationEnsemble | ClassModel) -> None:
    """Half a surrogate pair is no character: no target can write it."""
    for feature in model.bins:
        for text in (feature.name, *getattr(feature, "values", ())):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise ParameterError(
                    f"feature {feature.name!r} holds {text!r}, which is not valid Unicode; mend the data and fit again"
                ) from error
