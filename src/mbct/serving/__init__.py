"""Scoring in production: one row in microseconds, a registry of models in Redis, and the service.

The public names are loaded on first use: scoring a row needs neither Redis nor the service's packages.
"""

from typing import TYPE_CHECKING

from mbct.lazy import lazy_names

if TYPE_CHECKING:
    from mbct.serving.batch import BatchScorer as BatchScorer
    from mbct.serving.explanation import explain as explain
    from mbct.serving.options import ServiceOptions as ServiceOptions
    from mbct.serving.row import RowScorer as RowScorer
    from mbct.serving.server import serve as serve
    from mbct.store.model_registry import ModelRegistry as ModelRegistry
    from mbct.store.model_registry import publish as publish

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    ("mbct.serving.batch", "BatchScorer"),
    ("mbct.serving.explanation", "explain"),
    ("mbct.serving.options", "ServiceOptions"),
    ("mbct.serving.row", "RowScorer"),
    ("mbct.serving.server", "serve"),
    ("mbct.store.model_registry", "ModelRegistry publish"),
)
