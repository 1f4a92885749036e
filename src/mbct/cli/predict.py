"""``mbct predict``: add the calibrated probability to every row."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mbct.cli.evaluate import UNSEEN, Gate, parse_gate, unseen_by_column
from mbct.cli.many_classes import calibrates_many
from mbct.cli.options import (
    data_argument,
    gates_option,
    load_calibrator,
    memory_option,
    model_argument,
    output_option,
    sql_option,
)
from mbct.cli.shell import command, note
from mbct.cli.sinks import FORMATS, STANDARD_OUTPUT, form_of, write_tables
from mbct.cli.sources import Data, open_data
from mbct.errors import DataError, ParameterError
from mbct.progress import Advance, progress

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator

EXAMPLES = (
    "mbct predict model.json clicks.parquet -o scored.parquet",
    "mbct predict model.json clicks.csv -o - | head",
    "cat clicks.csv | mbct predict model.json - -o scored.csv.gz",
    "mbct predict certified.json clicks.parquet --interval -o scored.parquet",
    "mbct predict model.json clicks.parquet --fail-if 'unseen > 0.5' -o scored.parquet",
)


@command(examples=EXAMPLES)
@model_argument
@data_argument
@output_option("Parquet or CSV by its ending; - prints CSV.")
@click.option("--column", default="calibrated", show_default=True, help="Name of the new column.")
@click.option("--interval", is_flag=True, help="Two columns more: the interval of each row, of a certified model.")
@click.option(
    "--on-missing",
    type=click.Choice(["null", "error"]),
    default="null",
    show_default=True,
    help="A row without a score: an empty probability, or stop.",
)
@gates_option("Write no file and exit with 1 if it holds: 'unseen > 0.5', a column's share of values new to the model.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Format, whatever the ending of FILE.")
@memory_option
@sql_option
def predict(
    model: str,
    data: str | None,
    output: str,
    column: str,
    interval: bool,
    on_missing: str,
    gates: tuple[str, ...],
    form: str | None,
    memory_limit: str | None,
    sql: str | None,
) -> None:
    """Add the calibrated probability to every row.

    Of many classes, each has a column. Rows are read, calibrated and written some at a time, so that DATA need not fit
    into memory.
    """
    calibrator = load_calibrator(model, many_classes=True)
    if interval and getattr(calibrator, "certificate_", None) is None:
        raise ParameterError(f"{model} holds no certificate: --interval needs one, which mbct certify adds")
    _refuse_own_input(data, output)
    columns = [column, f"{column}_lower", f"{column}_upper"] if interval else [column]
    if calibrates_many(calibrator):
        columns = [f"{column}_{each}" for each in calibrator.classes_.tolist()]
    how = _Calibration(calibrator, columns, interval, on_missing == "null", _gates(gates, calibrator))
    form = form or form_of(output)
    reading = open_data(data, sql, once=True, spelled=form == "csv", memory_limit=memory_limit)
    with reading as opened, progress("calibrating") as advance:
        for name in columns:
            if name in opened.names:
                raise ParameterError(f"the data has a column {name!r} already: choose another name with --column")
        write_tables(how.tables(opened, advance), output, form)
    if output != STANDARD_OUTPUT:
        note(f"wrote {how.n_rows:,} rows to {output}")
    if how.n_missing:
        note(f"rows without {calibrator.score_column_}, whose {column} is empty: {how.n_missing:,}")


@dataclass
class _Calibration:
    """How rows are calibrated, and what was counted on the way."""

    calibrator: "Calibrator"
    columns: Sequence[str]
    """Names of the new columns: the probability, with ``interval`` both its ends too; of many classes one for each."""
    interval: bool
    may_be_missing: bool
    """Whether rows without a score may pass."""
    gates: Sequence[Gate]
    """On the share of values that training has not met."""
    n_rows: int = 0
    n_missing: int = 0
    unseen: Counter[str] = field(default_factory=Counter)

    def tables(self, data: Data, advance: Advance) -> Iterator[Any]:
        """Arrow tables of the rows with the new columns, at least one; ends the command where a gate fails."""
        for table, typed in data.as_spelled():
            try:
                found = self._calibrated(typed)
                shares = unseen_by_column(self.calibrator, typed) if self.gates else {}
            except DataError as error:
                where = f"; row numbers start after the first {self.n_rows:,} rows" if self.n_rows else ""
                raise DataError(f"{error}{where}") from error
            self.unseen.update({name: round(share * table.num_rows) for name, share in shares.items()})
            self.n_rows += table.num_rows
            for name, values in zip(self.columns, found, strict=True):
                table = table.append_column(name, values)
            yield table
            advance(1)
        if self.n_rows == 0:
            raise DataError(f"{data.name} has no rows")
        checked = [gate.check({UNSEEN: max(self.unseen.values(), default=0) / self.n_rows}) for gate in self.gates]
        for result in checked:
            note(str(result))
        if any(result.failed for result in checked):
            raise click.exceptions.Exit(1)

    def _calibrated(self, table: Any) -> list[Any]:
        """The new columns of some rows."""
        import numpy as np
        import pyarrow as pa
        from pyarrow import compute

        if calibrates_many(self.calibrator):
            return [pa.array(values) for values in self.calibrator.calibrate(table).T]
        known = np.ones(table.num_rows, dtype=np.bool_)
        name = self.calibrator.score_column_
        if self.may_be_missing and name in table.column_names and not pa.types.is_string(table.column(name).type):
            score = table.column(name).cast(pa.float64())
            known = ~compute.is_null(score, nan_is_null=True).to_numpy()
            self.n_missing += int(np.sum(~known))
            table = table.set_column(table.column_names.index(name), name, compute.if_else(pa.array(known), score, 0.5))
        found = self.calibrator.calibrate(table, **({"return_interval": True} if self.interval else {}))
        return [pa.array(values, mask=~known) for values in (found if self.interval else (found,))]


def _gates(given: Sequence[str], calibrator: "Calibrator") -> list[Gate]:
    """The gates, all of them on unseen values: labels, which other metrics need, are not known here."""
    gates = [parse_gate(text) for text in given]
    for gate in gates:
        if gate.metric != UNSEEN:
            raise ParameterError(f"--fail-if names {gate.metric!r}; predict has {UNSEEN!r}, mbct evaluate the metrics")
    if gates and calibrator.method != "mbct":
        raise ParameterError(f"--fail-if names {UNSEEN!r}, which needs a model of method mbct")
    return gates


def _refuse_own_input(data: str | None, output: str) -> None:
    """Rows are written while they are read: a file cannot be both."""
    if data is None or output == STANDARD_OUTPUT or not Path(output).exists():
        return
    named = [data, *glob(data)]  # noqa: PTH207 - Path.glob knows no absolute patterns
    if any(Path(output).samefile(name) for name in named if Path(name).is_file()):
        raise ParameterError(f"{output} is the input itself: write to another file")
