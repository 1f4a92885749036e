"""``mbct publish`` and ``mbct rollback``: versions of a model in Redis or in a store of cells."""

import click

from mbct.cli.options import json_option, output_option
from mbct.cli.shell import answer, command, write_output

PUBLISH_EXAMPLES = (
    "mbct publish model.json redis://localhost:6379",
    "mbct publish model.json redis://localhost:6379 --name clicks --note 'data of May'",
)
ROLLBACK_EXAMPLES = (
    "mbct rollback redis://localhost:6379",
    "mbct rollback redis://localhost:6379 --name clicks --to 3f9a1c0d2b4e",
    "mbct rollback cells -o model.json",
)

url_argument = click.argument("url", envvar="MBCT_REDIS", metavar="URL")
name_option = click.option("--name", default="default", show_default=True, help="Which model, if Redis holds several.")


@command(examples=PUBLISH_EXAMPLES)
@click.argument("model")
@url_argument
@name_option
@click.option("--keep", default=20, show_default=True, type=click.IntRange(min=1), help="Versions to keep.")
@click.option("--note", default="", help="What to remember about this version.")
@click.option("--rules/--no-rules", default=True, help="Also as rules that any client can look up.")
@json_option
def publish(model: str, url: str, name: str, keep: int, note: str, rules: bool, as_json: bool) -> None:
    """Put a model into Redis and into service.

    URL may also stand in the variable MBCT_REDIS, where its password is not seen by others.
    """
    from mbct.serving import publish as publish_model

    _print_version(publish_model(model, url, name=name, keep=keep, note=note, rules=rules), name, as_json=as_json)


@command(examples=ROLLBACK_EXAMPLES)
@url_argument
@name_option
@click.option("--to", metavar="VERSION", help="Version to go back to; the one before the current if not given.")
@output_option("Exchange this file, which a service may watch, too.", required=False)
@json_option
def rollback(url: str, name: str, to: str | None, output: str | None, as_json: bool) -> None:
    """Go back to an earlier version of a model.

    URL is a Redis, or the store of cells that 'mbct refresh' keeps its models in. It may also stand in the variable
    MBCT_REDIS, where its password is not seen by others. Services of a Redis follow at once; a service that watches a
    file follows when -o names that file.
    """
    from mbct.store import ModelRegistry

    with ModelRegistry(url, name) as registry:
        version = registry.rollback(to)
        if output is not None:
            write_output(output, registry.read(version))
    _print_version(version, name, as_json=as_json)


def _print_version(version: str, name: str, *, as_json: bool) -> None:
    answer(f"version {version} of {name!r} is in service", {"name": name, "version": version}, as_json=as_json)
