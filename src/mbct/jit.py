"""How kernels are compiled: one decorator, so that every kernel is cached and lets other threads run."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.event import Event, Listener, register

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile with numba on first use, keep the machine code on disk, release the interpreter lock.

    Floating-point order is kept (no fast-math): the same input gives the same bits on every run.
    """
    return cast(Function, njit(cache=True, nogil=True, error_model="numpy")(function))


class _CompilationNote(Listener):  # type: ignore[misc]  # numba ships no types
    """Says once, on a terminal, that kernels are being compiled; kernels read from the cache are not announced."""

    told = False

    def on_start(self, event: Event) -> None:
        """A function that is not in the cache."""
        module = event.data["dispatcher"].py_func.__module__
        if not self.told and module.startswith("mbct.") and sys.stderr.isatty():
            self.told = True
            sys.stderr.write("mbct: compiling kernels, once for this installation (about half a minute)\n")

    def on_end(self, event: Event) -> None:
        """Nothing to say."""


register("numba:compile", _CompilationNote())
