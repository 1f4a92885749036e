"""``mbct serve``: the scoring service."""

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from mbct.cli.publish import name_option
from mbct.cli.shell import command

EXAMPLES = (
    "mbct serve model.json",
    "mbct serve redis://localhost:6379 --name clicks --last-good clicks.json",
    "mbct serve model.json --workers 4",
    "mbct serve cells",
    "mbct serve model.json --journal feedback --store cells --fsync always",
    "mbct serve cells --journal feedback --store cells --segment site --online",
    "MBCT_TOKEN=$(cat token) mbct serve model.json --host 0.0.0.0 --port 9000",
)


@command(examples=EXAMPLES)
@click.argument("model", metavar="MODEL|REDIS_URL|STORE")
@name_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1), help="Processes on the port.")
@click.option("--last-good", metavar="FILE", help="Copy of the model from a registry, for starts without it.")
@click.option(
    "--poll", "poll_seconds", default=1.0, show_default=True, help="Seconds between looks at the model's source."
)
@click.option("--journal", metavar="FOLDER", help="Where scores and outcomes are kept, so that a crash loses none.")
@click.option("--store", metavar="FOLDER", help="Store that takes the outcomes' cells by day; needs --journal.")
@click.option(
    "--fsync",
    type=click.Choice(["always", "interval", "never"]),
    default="interval",
    show_default=True,
    help="When the journal is forced to the disk: before each answer, once a second, or by the system.",
)
@click.option("--segment", metavar="FEATURE", help="Feature by whose values live metrics are kept.")
@click.option("--alarm-level", default=0.01, show_default=True, help="Chance of a false calibration alarm, ever.")
@click.option("--tolerance", default=0.02, show_default=True, help="Relative deviation of the odds that is no alarm.")
@click.option("--online", is_flag=True, help="Recalibrate from outcomes between retrains; see /v1/online.")
@click.option("--allow-other-columns", is_flag=True, help="Swap in models that need columns the present one lacks.")
def serve(model: str, name: str, last_good: str | None, journal: str | None, store: str | None, **given: Any) -> None:
    """Score over HTTP; the model is swapped live.

    A model file, or the version in service of a Redis or of a store of cells, is watched. If the variable MBCT_TOKEN
    holds a bearer token, requests must carry it. Outcomes (--journal, --store) need one worker.
    """
    from mbct.serving import ServiceOptions
    from mbct.serving import serve as serve_model
    from mbct.serving.options import FeedbackOptions

    of_feedback = {each.name: given.pop(each.name) for each in fields(FeedbackOptions) if each.name in given}
    feedback = FeedbackOptions(folder=Path(journal) if journal else None, **of_feedback)
    options = ServiceOptions(**given, token=os.environ.get("MBCT_TOKEN") or None, feedback=feedback)
    sink = None
    if store is not None:
        from mbct.store import CellStore

        sink = CellStore(store)
    serve_model(model, name=name, last_good=last_good, options=options, sink=sink)
