"""``mbct loop``: one day of a model's life: take the log, watch, refit, publish, report, remember."""

import datetime
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mbct.cli.cells import append_rows
from mbct.cli.monitor import rows_by_day, take_days
from mbct.cli.options import check_settings, json_option, labelled_data
from mbct.cli.roles import RowOptions
from mbct.cli.shell import answer, command, nearest, note
from mbct.errors import DataError, MBCTError, ParameterError
from mbct.files import write_atomically

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator
    from mbct.store.cell_store import CellStore
    from mbct.store.history import History
    from mbct.store.model_registry import ModelRegistry

_MONITOR = {"by", "segments", "level", "tolerance", "wait_days"}
_REFRESH = {"days", "half_life", "holdout_days", "require", "level", "maturity", "model"}
_PUBLISH = {"file", "redis", "name"}


@dataclass(frozen=True)
class LoopConfig:
    """What ``loop.toml`` says; :func:`read_config` checks it."""

    store: str
    log: str
    label: str | None = None
    score: str | None = None
    weight: str | None = None
    positive: str | None = None
    features: list[str] = field(default_factory=list)
    """Empty for every column that is fit to be one."""
    exclude: list[str] = field(default_factory=list)
    replace_days: int = 0
    reports: str | None = None
    monitor: dict[str, Any] = field(default_factory=dict)
    refresh: dict[str, Any] = field(default_factory=dict)
    publish: dict[str, Any] = field(default_factory=dict)

    def log_of(self, day: datetime.date) -> str:
        """The log of a day."""
        return self.log.replace("{day}", day.isoformat())

    def rows(self, day: datetime.date) -> RowOptions:
        """The rows of a day's log."""
        log = self.log_of(day)
        return RowOptions(log, None, self.label, self.positive, self.score, self.weight, exclude=self.exclude)


@command(examples=("mbct loop loop.toml", "mbct loop loop.toml --day 2024-05-06"))
@click.argument("config", type=click.Path())
@click.option("--day", metavar="YYYY-MM-DD", help="Day whose log to take; yesterday, in UTC, if not given.")
@json_option
@click.pass_context
def loop(ctx: click.Context, config: str, day: str | None, as_json: bool) -> None:
    """Take a day's log, watch, refit, publish, report.

    CONFIG is a TOML file. Run it once a day; running a day again counts nothing twice. Exit code 1: an alarm is on.
    What was done stands in the store: 'mbct history'.
    """
    from mbct.store.manifest import as_day

    settings = read_config(config)
    yesterday = datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(days=1)
    today = yesterday if day is None else datetime.date.fromisoformat(as_day(day))
    run = run_day(settings, today)
    lines = [f"{run['decision']}: {run['reason']}", *(f"alarm: {alarm['text']}" for alarm in run["alarms"])]
    answer("\n".join(lines), run, as_json=as_json)
    if run["alarms"]:
        ctx.exit(1)


def read_config(path: str) -> LoopConfig:
    """The checked content of a file of TOML."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ParameterError(f"cannot read {path}: {error}") from error
    known = list(LoopConfig.__dataclass_fields__)
    tables = {"monitor": _MONITOR, "refresh": _REFRESH, "publish": _PUBLISH}
    _known_keys(content, known, path)
    for name, keys in tables.items():
        _known_keys(content.get(name, {}), sorted(keys), f"[{name}] of {path}")
    if missing := [name for name in ("store", "log") if name not in content]:
        raise ParameterError(f"{path} does not say {missing[0]!r}; see the guide 'Running it for a year'")
    if "{day}" not in content["log"]:
        raise ParameterError(f"log = {content['log']!r} in {path} must contain {{day}}, which stands for the date")
    return LoopConfig(**content)


def run_day(config: LoopConfig, day: datetime.date) -> dict[str, Any]:
    """Everything that is done for a day; what was done is kept in the store's history, failed or not."""
    from mbct.store.cell_store import CellStore
    from mbct.store.history import History
    from mbct.store.model_registry import ModelRegistry

    store = CellStore(config.store)
    history, registry = History(store), ModelRegistry(store)
    served = registry.in_service()
    run: dict[str, Any] = {"day": day.isoformat(), "decision": "failed", "reason": "", "alarms": []}
    run |= {"served": served, "in_service": served}
    try:
        run["batches"] = _append(config, store, day)
        run["alarms"] = _watch(config, registry, history, day, served)
        run |= _refresh(config, store, registry)
        run["published"] = _publish(config, registry)
        run["report"] = _report(config, registry, day)
    except MBCTError as error:
        run["error"] = str(error)
        raise
    finally:
        run["run"] = history.add(run)
    return run


def _append(config: LoopConfig, store: "CellStore", day: datetime.date) -> list[str]:
    """The day's rows, and those of the days before whose labels may have come meanwhile."""
    appended = []
    for back in range(config.replace_days, -1, -1):
        each = day - datetime.timedelta(days=back)
        if back and not Path(config.log_of(each)).exists():
            continue
        with labelled_data(replace(config.rows(each), features=config.features)) as (data, roles):
            batch = f"log of {each.isoformat()}"
            append_rows(store, data, roles, each.isoformat(), batch, replace=True)
        appended.append(batch)
    return appended


def _watch(
    config: LoopConfig, registry: "ModelRegistry", history: "History", day: datetime.date, served: str | None
) -> list[dict[str, Any]]:
    """Alarms after the newest day whose labels are complete, under the model that served when its log came."""
    from mbct.evaluation.monitor import CalibrationMonitor

    settings = dict(config.monitor)
    by, wait = settings.pop("by", None), settings.pop("wait_days", 0)
    segments = settings.pop("segments", 50) if by else 0
    watching = CalibrationMonitor(segments=segments, **settings)
    state = history.monitor_state()
    if state:
        watching.restore(state)
    watched = day - datetime.timedelta(days=wait)
    if config.weight is not None:
        note("rows with weights are not watched: alarms count outcomes")
    elif Path(config.log_of(watched)).exists():
        then = (run["served"] for run in history.runs() if run["day"] >= watched.isoformat() and "served" in run)
        calibrator = _model(registry, next(then, served))
        with labelled_data(config.rows(watched)) as (data, roles):
            rows = rows_by_day(data, roles, calibrator, by, watched.isoformat())
        take_days(watching, *rows, state.get("last_day"))
        history.keep_monitor_state({"last_day": int(rows[3].max()), **watching.to_dict()})
    return [{**asdict(alarm), "text": str(alarm)} for alarm in watching.alarms]


def _refresh(config: LoopConfig, store: "CellStore", registry: "ModelRegistry") -> dict[str, Any]:
    from mbct.calibrators.mbct import MBCTCalibrator
    from mbct.store.refresh import refresh

    settings = dict(config.refresh)
    parameters = settings.pop("model", None)
    if parameters is not None:
        check_settings("mbct", parameters, MBCTCalibrator._get_param_names())
    try:
        result = refresh(store, None if parameters is None else MBCTCalibrator(**parameters), **settings)
    except DataError as error:  # too few days yet, or none that is complete: tomorrow there are more
        return {"decision": "waiting", "reason": str(error), "in_service": registry.in_service()}
    gain = {"gain": result.comparison.gain, "error": result.comparison.error}
    return {"decision": result.decision, "reason": result.reason, "in_service": result.in_service, "comparison": gain}


def _publish(config: LoopConfig, registry: "ModelRegistry") -> list[str]:
    """Bring the model in service to where services look; what is there already stays."""
    from mbct.store.model_registry import ModelRegistry, publish

    version = registry.in_service()
    if version is None:
        return []
    content, done = registry.read(version), []
    file, url = config.publish.get("file"), config.publish.get("redis")
    if file is not None and not (Path(file).exists() and Path(file).read_bytes() == content):
        write_atomically(file, content)
        done.append(file)
    if url is not None:
        name = config.publish.get("name", "default")
        with ModelRegistry(url, name) as published:
            known = published.in_service()
        if known != version:
            publish(content, url, name=name)
            done.append(f"redis as {name}")
    return done


def _report(config: LoopConfig, registry: "ModelRegistry", day: datetime.date) -> str | None:
    calibrator = _model(registry, registry.in_service())
    if config.reports is None or calibrator is None:
        return None
    from mbct.report import write_report

    with labelled_data(config.rows(day)) as (data, roles):
        table = data.table()
    Path(config.reports).mkdir(parents=True, exist_ok=True)
    path = Path(config.reports) / f"{day.isoformat()}.html"
    write_report(calibrator, table, roles.label, path, score_column=roles.score, sample_weight=roles.weight)
    return str(path)


def _model(registry: "ModelRegistry", version: str | None) -> "Calibrator | None":
    from mbct.calibrators.persistence import loads

    return None if version is None else loads(registry.read(version), version)


def _known_keys(content: Mapping[str, Any], known: list[str], where: str) -> None:
    for key in content:
        if key not in known:
            raise ParameterError(f"{where} has the unknown key {key!r}; {nearest(key, known)}")
