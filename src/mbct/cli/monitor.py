"""``mbct monitor``: alarms over days of outcomes, valid however often one looks."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mbct.cli.options import labelled, labelled_data, load_calibrator, needed_columns, time_option
from mbct.cli.roles import Roles, RowOptions
from mbct.cli.shell import answer, command, note
from mbct.cli.sources import Data
from mbct.errors import DataError, ModelFileError
from mbct.files import write_atomically

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator
    from mbct.evaluation.monitor import Alarm, CalibrationMonitor

EXAMPLES = (
    "mbct monitor clicks.parquet --model model.json --by site",
    "mbct monitor 'log/2024-*.parquet' --time at --level 0.001 --tolerance 0.05",
    "mbct monitor monday.parquet --day 2024-05-06 --by site --state monitor.json",
)
_DAY_SECONDS = 86_400.0


@command(examples=EXAMPLES)
@labelled
@time_option
@click.option("--day", metavar="YYYY-MM-DD", help="Day of all rows, where no column says it.")
@click.option(
    "--model", metavar="FILE", type=click.Path(), help="Watch this model's calibrated probabilities, not the score."
)
@click.option("--by", metavar="COLUMN", help="Column whose values are watched one by one.")
@click.option("--segments", default=50, show_default=True, help="Values of --by with a test of their own.")
@click.option("--level", default=0.01, show_default=True, help="Chance of a false alarm, ever, over all tests.")
@click.option("--tolerance", default=0.02, show_default=True, help="Relative deviation of the odds that is none.")
@click.option("--state", metavar="FILE", help="Go on from this file and keep the state there; a day counts once.")
@click.pass_context
def monitor(
    ctx: click.Context,
    rows: RowOptions,
    day: str | None,
    model: str | None,
    by: str | None,
    segments: int,
    level: float,
    tolerance: float,
    state: str | None,
    as_json: bool,
) -> None:
    """Raise alarms where outcomes have left predictions.

    Days are taken in order. A calibrated stream raises an alarm with probability --level at most, however long it is
    watched. Exit code 1: an alarm is on.
    """
    from mbct.evaluation.monitor import CalibrationMonitor

    calibrator = None if model is None else load_calibrator(model)
    score = None if calibrator is None else calibrator.score_column_
    watching = CalibrationMonitor(level=level, tolerance=tolerance, segments=segments if by else 0)
    taken = _restored(watching, state)
    with labelled_data(rows, score=score) as (opened, roles):
        label, y_prob, segment, days = rows_by_day(opened, roles, calibrator, by, day)
    raised = take_days(watching, label, y_prob, segment, days, taken)
    if state is not None:
        kept = {"last_day": max([int(days.max()), *([] if taken is None else [taken])]), **watching.to_dict()}
        write_atomically(state, json.dumps(kept).encode())
    for alarm in () if as_json else raised:
        note(f"raised: {alarm}")
    lists = {"raised": raised, "alarms": watching.alarms, "past": watching.past}
    document = {name: [asdict(alarm) for alarm in alarms] for name, alarms in lists.items()}
    answer("\n".join(f"alarm: {alarm}" for alarm in watching.alarms) or "no alarm", document, as_json=as_json)
    if watching.alarms:
        ctx.exit(1)


def take_days(
    watching: "CalibrationMonitor", label: Any, y_prob: Any, segment: Any, days: Any, taken: int | None
) -> "list[Alarm]":
    """Take rows day by day, those after day number ``taken``; the alarms raised on the way."""
    import numpy as np

    order = np.argsort(days, kind="stable")
    present, starts = np.unique(days[order], return_index=True)
    raised: list[Alarm] = []
    for number, where in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        if taken is not None and number <= taken:
            note(f"{np.datetime64(number, 'D')} was taken before: its {len(where):,} rows are left out")
            continue
        names = None if segment is None else segment[where].tolist()
        raised += watching.update(label[where], y_prob[where], names, at=number * _DAY_SECONDS)
    return raised


def rows_by_day(
    opened: Data, roles: Roles, calibrator: "Calibrator | None", by: str | None, day: str | None
) -> tuple[Any, Any, Any, Any]:
    """Labels, probabilities, segments and day numbers of rows; ``day`` is that of all, where no column says it."""
    import numpy as np

    from mbct.data.blocks import blocks_of_time
    from mbct.data.columns import read_columns
    from mbct.model.encoding import category_key
    from mbct.store.manifest import as_day

    opened.require([by] if by else [])
    if roles.weight is not None:
        raise DataError(f"outcomes are watched one by one, without the weight {roles.weight!r}: leave it out")
    time = roles.time
    if day is None and time is None:
        raise DataError("no column says when rows happened: name it with --time, or the day of all with --day")
    table = opened.table(needed_columns(opened, roles, calibrator, [by] if by else []))
    columns = read_columns(table)
    label = np.asarray(columns.numpy(roles.label), dtype=np.float64)
    y_prob = columns.numpy(roles.score) if calibrator is None else calibrator.calibrate(table)
    segment = None
    if by is not None:
        keys = [category_key(value) for value in columns.numpy(by).tolist()]
        segment = np.array(["missing" if key is None else str(key) for key in keys], dtype=object)
    if day is not None or time is None:
        return label, y_prob, segment, np.full(len(label), np.datetime64(as_day(str(day)), "D").astype(int))
    column = columns.column(time)
    if not column.dtype.is_temporal() and column.dtype.is_numeric():
        raise DataError(f"--time {roles.time} holds numbers, no dates: give dates, or --day for a file of one day")
    return label, y_prob, segment, blocks_of_time(column, "day")


def _restored(watching: "CalibrationMonitor", state: str | None) -> int | None:
    """Take up what a file has kept; the number of the last day in it."""
    if state is None or not Path(state).exists():
        return None
    try:
        kept = json.loads(Path(state).read_bytes())
        watching.restore(kept)
        return int(kept["last_day"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{state} holds no state of mbct monitor ({error}): remove it to begin anew") from error
