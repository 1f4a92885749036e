"""Running the service: uvicorn with limits, one process or several, drained before it stops."""

import json
import logging
import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from mbct.errors import ModelFileError, ParameterError, StorageError
from mbct.lazy import optional
from mbct.serving.options import FeedbackOptions, Limits, ServiceOptions
from mbct.text import escape_control

log = logging.getLogger("mbct.serving")

_SETTINGS = "MBCT_SERVE_SETTINGS"  # Environment variable by which workers learn what to serve


def serve(
    model: str | os.PathLike[str],
    *,
    name: str = "default",
    last_good: str | os.PathLike[str] | None = None,
    options: ServiceOptions | None = None,
    sink: Any = None,
) -> None:
    """Serve a model until the process gets SIGTERM or SIGINT, then finish the requests under way.

    Parameters
    ----------
    model : str or path
        A model file, watched and swapped when it is replaced, or a registry, whose version in service is followed:
        a Redis (``redis://host:6379``) or a store of cells.
    name, last_good : str, default="default"; str, path or None, default=None
        Which model of the Redis, and a file that keeps a copy of the model from a registry, for starts without it.
    options : ServiceOptions or None, default=None
        Address, token, limits, workers, feedback.
    sink : OutcomeSink or None, default=None
        Takes the outcomes' cells, such as a :class:`~mbct.store.cell_store.CellStore`.
    """
    uvicorn = optional("the service needs uvicorn and msgspec: pip install 'mbct[serve]'", "uvicorn", "msgspec")
    options = options or ServiceOptions()
    _set_up_logging()
    if options.workers > 1 and sink is not None:
        raise ParameterError(f"outcomes for a store need one process, not workers={options.workers}")
    from mbct.serving.limits import DrainedServer, LimitedProtocol

    service, watcher = _assemble(model, name, last_good, options, sink)
    watcher.look()
    if watcher.current is None and not _is_registry(model):
        service.close()
        detail = watcher.health.detail or "the source holds no model"
        if watcher.health.refused:
            raise ModelFileError(detail.removeprefix("a new model was refused: "))
        raise StorageError(detail)
    settings = {
        "host": options.host,
        "port": options.port,
        "ws": "none",
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": options.limits.keep_alive_seconds,
        "timeout_graceful_shutdown": options.limits.drain_seconds,
        "limit_concurrency": options.limits.connections,
        "http": partial(LimitedProtocol, limits=options.limits),
    }
    if options.workers == 1:
        DrainedServer(uvicorn.Config(service, **settings)).run()
        return
    service.close()
    given = {"model": str(model), "name": name, "last_good": None if last_good is None else str(last_good)}
    os.environ[_SETTINGS] = json.dumps({**given, "options": asdict(options)})
    uvicorn.run("mbct.serving.server:worker_service", factory=True, workers=options.workers, **settings)


def worker_service() -> Any:
    """The application of one of several workers, as the environment describes it."""
    given = json.loads(os.environ[_SETTINGS])
    plain = given.pop("options")
    limits, feedback = Limits(**plain.pop("limits")), FeedbackOptions(**plain.pop("feedback"))
    _set_up_logging()
    return _assemble(options=ServiceOptions(**plain, limits=limits, feedback=feedback), sink=None, **given)[0]


def _assemble(model: Any, name: str, last_good: Any, options: ServiceOptions, sink: Any) -> tuple[Any, Any]:
    from mbct.serving.app import Service
    from mbct.serving.feedback import FeedbackLoop
    from mbct.serving.loaded_model import LoadedModel
    from mbct.serving.metrics import Metrics
    from mbct.serving.model_watcher import FileSource, ModelSource, ModelWatcher
    from mbct.store.model_registry import ModelRegistry

    source: ModelSource
    if _is_registry(model):
        source = ModelRegistry(model, name)
    elif last_good is not None:
        raise ParameterError("last_good is for models from a registry: a file is its own copy")
    else:
        source = FileSource(Path(model))
    metrics = Metrics(options.limits.unseen_labels)
    build = partial(LoadedModel, limits=options.limits, count_unseen=metrics.count_unseen)
    watcher = ModelWatcher(
        source,
        build,
        poll_seconds=options.poll_seconds,
        last_good=last_good,
        allow_other_columns=options.allow_other_columns,
    )
    return Service(watcher, FeedbackLoop(options.feedback, sink), options, metrics), watcher


def _is_registry(model: str | os.PathLike[str]) -> bool:
    """Whether models come from a Redis or a store of cells, not from one file."""
    return "://" in str(model) or Path(model).is_dir()


class _EscapeControl(logging.Filter):
    """Values and names in messages cannot forge lines or move the cursor."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape the message, never drop it."""
        record.msg, record.args = escape_control(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            lines = logging.Formatter().formatException(record.exc_info).split("\n")
            record.exc_text = "\n".join(f"  {escape_control(line)}" for line in lines)
        return True


log.addFilter(_EscapeControl())


def _set_up_logging() -> None:
    """Lines with time and level on standard error, unless the program that calls us has set up logging itself."""
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
