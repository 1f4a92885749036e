"""How kernels are compiled: one decorator, so that every kernel is cached and lets other threads run."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile with numba on first use, keep the machine code on disk, release the interpreter lock.

    Floating-point order is kept (no fast-math): the same input gives the same bits on every run.
    """
    return cast(Function, njit(cache=True, nogil=True, error_model="numpy")(function))
