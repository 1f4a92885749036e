"""The paper's experiments, reproduced: ``run(["all"], quick=True, …)`` or ``python -m reproduction all``."""

from typing import Any

__all__ = ["NAMES", "run"]

NAMES = ("metrics", "table", "in-depth", "auction", "complexity")
"""Names that ``run`` takes, beside "all"."""


def __getattr__(name: str) -> Any:
    if name == "run":
        from reproduction.reproduce import run

        return run
    raise AttributeError(f"module 'reproduction' has no attribute {name!r}")
