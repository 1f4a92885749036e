"""Scoring in production: one row in microseconds, a cache of model versions in Redis, and the service.

The public names are loaded on first use: scoring a row needs neither Redis nor the service's packages.
"""

from typing import TYPE_CHECKING

from mbct.lazy import lazy_names

if TYPE_CHECKING:
    from mbct.serving.batch import BatchScorer as BatchScorer
    from mbct.serving.cache import ModelCache as ModelCache
    from mbct.serving.cache import publish as publish
    from mbct.serving.cache import rollback as rollback
    from mbct.serving.explanation import explain as explain
    from mbct.serving.options import ServiceOptions as ServiceOptions
    from mbct.serving.row import RowScorer as RowScorer
    from mbct.serving.server import serve as serve

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "BatchScorer": "mbct.serving.batch",
        "ModelCache": "mbct.serving.cache",
        "RowScorer": "mbct.serving.row",
        "ServiceOptions": "mbct.serving.options",
        "explain": "mbct.serving.explanation",
        "publish": "mbct.serving.cache",
        "rollback": "mbct.serving.cache",
        "serve": "mbct.serving.server",
    },
)
