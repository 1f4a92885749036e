"""Scoring in production: one row in microseconds, a cache of model versions in Redis, and the service.

The public names are loaded on first use: scoring a row needs neither Redis nor the service's packages.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "BatchScorer": "mbct.serving.batch",
    "ModelCache": "mbct.serving.cache",
    "RowScorer": "mbct.serving.row",
    "ServiceOptions": "mbct.serving.options",
    "explain": "mbct.serving.explanation",
    "publish": "mbct.serving.cache",
    "rollback": "mbct.serving.cache",
    "serve": "mbct.serving.server",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'mbct.serving' has no attribute {name!r}")
