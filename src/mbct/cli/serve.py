"""``mbct serve``: the scoring service."""

import os
from pathlib import Path

import click

from mbct.cli.publish import name_option
from mbct.cli.shell import command

EXAMPLES = (
    "mbct serve model.json",
    "mbct serve redis://localhost:6379 --name clicks --last-good clicks.json",
    "mbct serve model.json --journal feedback --store cells",
    "MBCT_TOKEN=$(cat token) mbct serve model.json --host 0.0.0.0 --port 9000",
)


@command(examples=EXAMPLES)
@click.argument("model", metavar="MODEL|REDIS_URL")
@name_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on.")
@click.option("--last-good", metavar="FILE", help="Copy of the model from Redis, for starts without it.")
@click.option("--poll", default=1.0, show_default=True, help="Seconds between looks at the model's source.")
@click.option("--journal", metavar="FOLDER", help="Where scores and outcomes are kept, so that a crash loses none.")
@click.option("--store", metavar="FOLDER", help="Store that takes the outcomes' cells by day; needs --journal.")
@click.option("--segment", metavar="FEATURE", help="Feature by whose values live metrics are kept.")
def serve(
    model: str,
    name: str,
    host: str,
    port: int,
    last_good: str | None,
    poll: float,
    journal: str | None,
    store: str | None,
    segment: str | None,
) -> None:
    """Score over HTTP; the model is swapped live.

    A model file is watched; a Redis is followed. A bearer token is asked for if the variable MBCT_TOKEN holds one.
    """
    from mbct.serving import ServiceOptions
    from mbct.serving import serve as serve_model
    from mbct.serving.options import FeedbackOptions

    feedback = FeedbackOptions(folder=Path(journal) if journal else None, segment=segment)
    token = os.environ.get("MBCT_TOKEN") or None
    options = ServiceOptions(host=host, port=port, token=token, poll_seconds=poll, feedback=feedback)
    sink = None
    if store is not None:
        from mbct.store import CellStore

        sink = CellStore(store)
    serve_model(model, name=name, last_good=last_good, options=options, sink=sink)
