"""An executor without threads: what is submitted runs when its result is asked for, and never if it is cancelled."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


class _Deferred(Future[Value]):
    def __init__(self, function: Callable[[], Value]):
        super().__init__()
        self.function = function

    def result(self, timeout: float | None = None) -> Value:
        """Run the function, once."""
        if not self.done():
            self.set_result(self.function())
        return super().result(timeout)


class OnDemand(Executor):
    """For rounds that are passes over a whole cluster: none is begun before it is known to be needed."""

    def submit(
        self, fn: Callable[Arguments, Value], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Value]:
        """Defer the call."""
        return _Deferred[Any](lambda: fn(*args, **kwargs))
