"""``mbct simulate``: data with a known bias, to try everything on."""

import click

from mbct.cli.options import output_option, seed_option
from mbct.cli.shell import command, note
from mbct.cli.sinks import FORMATS, STANDARD_OUTPUT, write_tables
from mbct.lazy import optional

EXAMPLES = (
    "mbct simulate -o clicks.parquet",
    "mbct simulate clicks --rows 20000 --seed 7 -o clicks.csv",
    "mbct simulate beta-main --rows 10000 --truth -o beta.parquet",
)
KINDS = ("clicks", "beta-main", "beta-second", "beta-third")


@command(examples=EXAMPLES)
@click.argument("kind", default="clicks", type=click.Choice(KINDS), metavar="[KIND]")
@click.option("--rows", default=100_000, show_default=True, type=click.IntRange(min=1), help="Number of rows.")
@seed_option("The same seed, the same rows.")
@click.option("--truth", is_flag=True, help="Add a column 'truth': the probability each label was drawn from.")
@output_option("Parquet or CSV by its ending; - prints CSV.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Format, whatever the ending of FILE.")
def simulate(kind: str, rows: int, seed: int, truth: bool, output: str, form: str | None) -> None:
    """Write data whose true bias is known.

    KIND is clicks (too low on mobiles, too high on desktops at night), or one of the paper's simulations:
    beta-main, beta-second, beta-third.
    """
    from mbct.simulation import simulate as draw

    pa = optional("writing data needs pyarrow: pip install 'mbct[cli]'", "pyarrow")
    simulation = draw(kind, rows, seed=seed)
    columns = {**simulation.columns, **({"truth": simulation.truth} if truth else {})}
    write_tables([pa.table(columns)], output, form)
    if output != STANDARD_OUTPUT:
        note(f"wrote {rows:,} rows to {output}")
