"""``mbct predict``: add the calibrated probability to every row."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from mbct.cli.options import data_argument, load_calibrator, memory_option, sql_option
from mbct.cli.shell import command, note
from mbct.cli.sinks import FORMATS, STANDARD_OUTPUT, write_tables
from mbct.cli.sources import Data, open_data
from mbct.errors import DataError, ParameterError
from mbct.progress import Advance, progress

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator

EXAMPLES = (
    "mbct predict model.json clicks.parquet -o scored.parquet",
    "mbct predict model.json clicks.csv -o - | head",
    "cat clicks.csv | mbct predict model.json - -o scored.csv.gz",
    "mbct predict model.json clicks.parquet --bounds -o scored.parquet",
)


@command(examples=EXAMPLES)
@click.argument("model")
@data_argument
@click.option("-o", "--output", required=True, metavar="FILE", help="Parquet or CSV by its ending; - prints CSV.")
@click.option("--column", default="calibrated", show_default=True, help="Name of the new column.")
@click.option("--bounds", is_flag=True, help="Two columns more: Theorem 1's interval of each row's bin (mbct).")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Format, whatever the ending of FILE.")
@memory_option
@sql_option
def predict(
    model: str,
    data: str | None,
    output: str,
    column: str,
    bounds: bool,
    form: str | None,
    memory_limit: str | None,
    sql: str | None,
) -> None:
    """Add the calibrated probability to every row.

    Rows are read, calibrated and written some at a time, so that DATA need not fit into memory.
    """
    calibrator = load_calibrator(model)
    if bounds and calibrator.method != "mbct":
        raise ParameterError(f"{model} holds a {calibrator.method!r} calibrator: --bounds needs bins, which 'mbct' has")
    with open_data(data, sql, once=True, memory_limit=memory_limit) as opened, progress("calibrating") as advance:
        columns = [column, f"{column}_lower", f"{column}_upper"] if bounds else [column]
        for name in columns:
            if name in opened.names:
                raise ParameterError(f"the data has a column {name!r} already: choose another name with --column")
        n_rows = write_tables(with_calibrated(calibrator, opened, columns, advance), output, form)
    if output != STANDARD_OUTPUT:
        note(f"wrote {n_rows:,} rows to {output}")


def with_calibrated(calibrator: "Calibrator", data: Data, columns: Sequence[str], advance: Advance) -> Iterator[Any]:
    """Arrow tables of the rows and their calibrated probability, named as the first of ``columns``; at least one table.

    Three names ask for the interval's ends too.
    """
    import pyarrow as pa

    n_rows = 0
    for table in data.batches():
        try:
            found = calibrator.calibrate(table, **({"return_bounds": True} if len(columns) > 1 else {}))
        except DataError as error:
            raise DataError(
                f"{error}; row numbers start after the first {n_rows:,} rows" if n_rows else str(error)
            ) from error
        n_rows += table.num_rows
        for name, values in zip(columns, found if len(columns) > 1 else (found,), strict=True):
            table = table.append_column(name, pa.array(values))
        yield table
        advance(1)
    if n_rows == 0:
        raise DataError(f"{data.name} has no rows")
