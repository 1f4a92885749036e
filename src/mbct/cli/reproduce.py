"""``mbct reproduce``: the paper's experiments."""

import click

from mbct.cli.shell import command

EXAMPLES = (
    "mbct reproduce metrics --quick",
    "mbct reproduce all --quick --out quick",
    "mbct reproduce table --data ~/data --out reproduction",
)


@command(examples=EXAMPLES)
@click.argument("names", nargs=-1, required=True, metavar="NAME...|all")
@click.option("--quick", is_flag=True, help="Small versions of all, in a few minutes.")
@click.option("--out", default="reproduction", show_default=True, metavar="FOLDER", help="Folder to write to.")
@click.option("--data", default="data", show_default=True, metavar="FOLDER", help="Folder of the public data sets.")
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="The same seed, the same numbers."
)
@click.option("--repetitions", type=click.IntRange(min=1), help="Splits of each data set and simulated markets.")
def reproduce(names: tuple[str, ...], quick: bool, out: str, data: str, seed: int, repetitions: int | None) -> None:
    """Repeat the paper's experiments.

    NAME is metrics, table, in-depth, auction or complexity. Finished parts in the folder are kept, so that an
    interrupted run goes on where it stopped.
    """
    from mbct.experiments import run

    click.echo(run(names, quick=quick, out=out, data=data, seed=seed, repetitions=repetitions))
