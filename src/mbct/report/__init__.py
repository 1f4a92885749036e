"""The report: one self-contained HTML page about a calibrator on labelled rows (extra ``report``)."""

from importlib import import_module
from typing import Any

_PUBLIC = {"ReportSummary": "build", "build_report": "build", "write_report": "build"}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"mbct.report.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'mbct.report' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
