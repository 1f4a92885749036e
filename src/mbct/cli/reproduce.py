"""``mbct reproduce``: where the paper's experiments are."""

import click

from mbct.cli.shell import command

TEXT = """The paper's experiments are beside the package, not in it. In a clone of the repository:

    pip install --editable '.[reproduce]'
    python -m reproduction all --quick                        # a few minutes
    python -m reproduction all --data FOLDER --out FOLDER     # everything, with the public data sets

NAME instead of all is metrics, table, in-depth, auction or complexity."""


@command(examples=("mbct reproduce",))
def reproduce() -> None:
    """Say how to repeat the paper's experiments."""
    click.echo(TEXT)
