"""How kernels are compiled: one decorator, so that every kernel is cached and lets other threads run."""

import os
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import config, njit
from numba.core.event import Event, Listener, register

Function = TypeVar("Function", bound=Callable[..., Any])
_OPTIONS = {"nogil": True, "error_model": "numpy"}


def kernel(function: Function) -> Function:
    """Compile with numba on first use, keep the machine code on disk, release the interpreter lock.

    Floating-point order is kept (no fast-math): the same input gives the same bits on every run. Where neither the
    installation nor the home folder can be written, the machine code goes to a temporary folder, or is not kept.
    """
    try:
        return cast(Function, njit(cache=True, **_OPTIONS)(function))
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
    folder = _temporary_cache()
    if folder is None:
        _warn_once("compiled kernels cannot be kept (no folder can be written), so every start compiles them anew")
        return cast(Function, njit(**_OPTIONS)(function))
    _warn_once(f"compiled kernels are kept in {folder}: neither the installation nor a home folder can be written")
    config.CACHE_DIR = str(folder)
    return cast(Function, njit(cache=True, **_OPTIONS)(function))


def _temporary_cache() -> Path | None:
    """A folder of this user's own among the temporary files; None where there is none or it is not ours alone."""
    try:
        folder = Path(tempfile.gettempdir()) / f"mbct-kernels-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    # Machine code is run as it is found: the folder must not be a link, nor belong to or be writable for others.
    own = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
    return folder if own and stat.S_ISDIR(found.st_mode) and os.access(folder, os.W_OK) else None


_warned = False


def _warn_once(message: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(f"{message}; set NUMBA_CACHE_DIR to choose a folder", RuntimeWarning, stacklevel=3)


class _CompilationNote(Listener):  # type: ignore[misc]  # numba ships no types
    """Says once, on a terminal, that kernels are being compiled; kernels read from the cache are not announced."""

    announced = False

    def on_start(self, event: Event) -> None:
        """A function that is not in the cache."""
        module = event.data["dispatcher"].py_func.__module__
        if not self.announced and module.startswith("mbct.") and sys.stderr.isatty():
            self.announced = True
            sys.stderr.write("mbct: compiling kernels, once for this installation (about half a minute)\n")

    def on_end(self, event: Event) -> None:
        """Nothing to say."""


register("numba:compile", _CompilationNote())
