"""Public names that are imported on first use, so that importing a package costs nothing that is not needed."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose names live in other modules.

    A name whose module ends with the name itself is that module.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(modules[name])
        return (
            module if modules[name].rpartition(".")[2] == name and not hasattr(module, name) else getattr(module, name)
        )

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return load, names
