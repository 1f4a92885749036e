"""``mbct history``: models, decisions, gains and alarms of a store."""

from typing import TYPE_CHECKING, Any

import click

from mbct.cli.options import json_option, store_option
from mbct.cli.shell import command, print_json, print_table

if TYPE_CHECKING:
    from mbct.store.cell_store import CellStore


@command(examples=("mbct history --store cells", "mbct history --store cells --last 30 --json"))
@store_option
@click.option("--last", default=20, show_default=True, type=click.IntRange(min=1), help="Events to show.")
@json_option
def history(store: "CellStore", last: int, as_json: bool) -> None:
    """List what became of a store's models.

    Decisions of 'mbct refresh' and 'mbct rollback', and runs of 'mbct loop' with their alarms, oldest first.
    """
    from mbct.store.history import History

    events = History(store).events()[-last:]
    if as_json:
        print_json({"events": events})
        return
    rows = [_row(event) for event in events]
    print_table(("when", "what", "model", "gain", "remarks"), rows, left=("when", "what", "model", "remarks"))


def _row(event: dict[str, Any]) -> tuple[str, str, str, str, str]:
    when = event["at"][:16].replace("T", " ")
    model = (event.get("in_service") or "none")[:12]
    if event["kind"] == "loop":
        remarks = [alarm["text"] for alarm in event["alarms"]] or ["no alarm"]
        if event.get("error"):
            remarks.insert(0, event["error"])
        return when, f"loop of {event['day']}", model, "", "; ".join(remarks)
    compared = event.get("comparison")
    gain = "" if compared is None else f"{compared['gain']:+.2g} ± {compared['error']:.1g}"
    return when, event["decision"], model, gain, event.get("reason") or ""
