"""``mbct predict``: add the calibrated probability to every row."""

from typing import Any

import click

from mbct.cli.options import data_argument, sql_option
from mbct.cli.shell import command, note
from mbct.cli.sinks import FORMATS, STANDARD_OUTPUT, write_table
from mbct.cli.sources import read_table
from mbct.errors import ParameterError

EXAMPLES = (
    "mbct predict model.json clicks.parquet -o scored.parquet",
    "mbct predict model.json clicks.csv -o - | head",
    "cat clicks.csv | mbct predict model.json - -o scored.csv.gz",
)


@command(examples=EXAMPLES)
@click.argument("model")
@data_argument
@click.option("-o", "--output", required=True, metavar="FILE", help="Parquet or CSV by its ending; - prints CSV.")
@click.option("--column", default="calibrated", show_default=True, help="Name of the new column.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Format, whatever the ending of FILE.")
@sql_option
def predict(model: str, data: str | None, output: str, column: str, form: str | None, sql: str | None) -> None:
    """Add the calibrated probability to every row."""
    from mbct.calibrators.persistence import load_model

    calibrator = load_model(model)
    table = with_calibrated(calibrator, read_table(data, sql), column)
    write_table(table, output, form)
    if output != STANDARD_OUTPUT:
        note(f"wrote {table.num_rows:,} rows to {output}")


def with_calibrated(calibrator: Any, table: Any, column: str) -> Any:
    """The Arrow table and the calibrated probability of each row under the name ``column``."""
    import pyarrow as pa

    if column in table.column_names:
        raise ParameterError(f"the data has a column {column!r} already: choose another name with --column")
    return table.append_column(column, pa.array(calibrator.calibrate(table)))
