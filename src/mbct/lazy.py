"""Imports on first use: of public names, so that importing a package is cheap, and of optional dependencies."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from mbct.errors import MissingDependencyError


def optional(remedy: str, *modules: str) -> Any:
    """The first of the ``modules``, all of which must be installed; else an error that says how to get them."""
    try:
        first, *_ = [import_module(module) for module in modules]
    except ImportError as error:
        raise MissingDependencyError(remedy) from error
    return first


def lazy_names(
    package: str, *names_of: tuple[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names live in other modules.

    Each of ``names_of`` is a module and the names that it defines, between spaces. A name that ends its module's own
    name, and that the module does not define, is that module. For type checkers the package imports the same names
    under ``TYPE_CHECKING``; a test holds both lists together.
    """
    modules = {name: module for module, names in names_of for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(modules[name])
        if modules[name].rpartition(".")[2] == name and not hasattr(module, name):
            return module
        return getattr(module, name)

    def known() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return load, known, sorted(modules)
