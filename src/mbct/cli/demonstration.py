"""``mbct demo``: the demonstration on delayed flights."""

from pathlib import Path

import click

from mbct.cli.shell import command

EXAMPLES = ("mbct demo", "mbct demo --out flights")


@command(examples=EXAMPLES)
@click.option("--out", default="demo", show_default=True, type=click.Path(file_okay=False), help="Folder to write to.")
def demo(out: str) -> None:
    """Calibrate delayed flights, with a picture.

    Takes about a minute; needs the extra 'demo'. Writes a picture, the model and a report into the folder.
    """
    from mbct.cli.demo import print_result, run_demo

    print_result(run_demo(Path(out)))
