"""Running the service: uvicorn, guarded against slow and endless headers, drained before it stops."""

import gc
import logging
import os
from functools import partial
from pathlib import Path
from typing import Any

from mbct.errors import MissingDependencyError, ModelFileError, ParameterError, StorageError
from mbct.serving.options import Limits, ServiceOptions

log = logging.getLogger("mbct.serving")

_REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


def serve(
    model: str | os.PathLike[str],
    *,
    name: str = "default",
    last_good: str | os.PathLike[str] | None = None,
    options: ServiceOptions | None = None,
    sink: Any = None,
) -> None:
    """Serve a model until the process is told to stop (SIGTERM or SIGINT), then finish the requests under way.

    ``model`` is a model file, watched and swapped when it is replaced, or the address of a Redis
    (``redis://host:6379``), whose model called ``name`` is followed; ``last_good`` then names a file that keeps a copy
    of the model in force for starts without Redis. ``sink`` takes the outcomes' cells
    (:class:`~mbct.serving.feedback.OutcomeSink`).
    """
    uvicorn = _uvicorn()
    options = options or ServiceOptions()
    _log_to_stderr()
    service, follower, feedback = _assemble(model, name, last_good, options, sink)
    try:
        follower.start()
        if follower.current is None and not _is_redis(model):
            raise _start_error(follower.health.problem or f"{model} holds no model")
        # What is loaded by now stays: the collector of cycles need not look at it again and again.
        gc.collect()
        gc.freeze()
        config = uvicorn.Config(
            service,
            host=options.host,
            port=options.port,
            http=_protocol(options.limits, service.scoring.reply_at_once),
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=options.limits.keep_alive_seconds,
            timeout_graceful_shutdown=options.limits.drain_seconds,
            limit_concurrency=options.limits.connections,
        )
        _server(uvicorn, config).run()
    finally:
        follower.stop()
        feedback.close()


def _assemble(model: Any, name: str, last_good: Any, options: ServiceOptions, sink: Any) -> tuple[Any, Any, Any]:
    from mbct.serving.app import Service
    from mbct.serving.cache import ModelCache
    from mbct.serving.feedback import FeedbackLoop
    from mbct.serving.loaded_model import ServedModel
    from mbct.serving.metrics import Metrics
    from mbct.serving.model_watcher import FileSource, Follower, ModelSource, RedisSource

    source: ModelSource
    if _is_redis(model):
        source = RedisSource(ModelCache(str(model), name))
    elif last_good is not None:
        raise ParameterError("last_good is for models from Redis: a file is its own copy")
    else:
        source = FileSource(Path(model))
    metrics = Metrics(options.limits.unseen_labels)

    def build(content: bytes, called: str) -> ServedModel:
        return ServedModel(content, called, limits=options.limits, count_unseen=metrics.count_unseen)

    follower = Follower(source, build, poll_seconds=options.poll_seconds, last_good=last_good)
    feedback = FeedbackLoop(options.feedback, sink)
    return Service(follower, feedback, options, metrics), follower, feedback


def _is_redis(model: str | os.PathLike[str]) -> bool:
    return str(model).startswith(_REDIS_SCHEMES)


def _start_error(problem: str) -> Exception:
    refused = problem.startswith("a new model was refused: ")
    return ModelFileError(problem.removeprefix("a new model was refused: ")) if refused else StorageError(problem)


def _server(uvicorn: Any, config: Any) -> Any:
    class Server(uvicorn.Server):  # type: ignore[misc]  # uvicorn is imported late, so Any
        """Ends with status 0 after a drain, where uvicorn would raise the signal once more."""

        should_exit: bool

        def handle_exit(self, sig: int, frame: Any) -> None:  # noqa: ARG002 - uvicorn's signature
            self.force_exit = bool(self.should_exit)
            self.should_exit = True

    return Server(config)


def _protocol(limits: Limits, answer: Any) -> Any:
    """How a connection is made: with the short way for scoring where uvicorn's parser allows it."""
    from mbct.serving.direct import DirectProtocol, is_possible
    from mbct.serving.limits import GuardedProtocol
    from mbct.serving.scoring import PATH

    if is_possible():
        return partial(DirectProtocol, limits=limits, path=PATH.encode(), answer=answer)
    return partial(GuardedProtocol, limits=limits)


def _log_to_stderr() -> None:
    """Lines with time and level, unless the program that calls us has set up logging itself."""
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")


def _uvicorn() -> Any:
    try:
        import msgspec  # noqa: F401 - only to see whether it is there
        import uvicorn
    except ImportError as error:
        raise MissingDependencyError("the service needs uvicorn and msgspec: pip install 'mbct[serve]'") from error
    return uvicorn
