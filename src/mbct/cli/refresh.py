"""``mbct refresh``: refit from a store of cells and promote what is not worse."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from mbct.cli.options import (
    check_settings,
    half_life_option,
    json_option,
    number_or_text,
    output_option,
    settings_option,
    store_option,
)
from mbct.cli.shell import answer, command, write_output

if TYPE_CHECKING:
    from mbct.store.cell_store import CellStore

EXAMPLES = (
    "mbct refresh --store cells -o model.json",
    "mbct refresh --store cells --days 30 --half-life 7 -o model.json",
    "mbct refresh --store cells --maturity auto -o model.json",
    "mbct refresh --store cells --require better --set preset=paper -o model.json",
)


@command(examples=EXAMPLES)
@store_option
@click.option("--days", type=click.IntRange(min=1), help="Days to fit on; all before the holdout if not given.")
@half_life_option
@click.option("--holdout", default="newest day", show_default=True, help="Last day to evaluate on.")
@click.option(
    "--holdout-days",
    type=click.IntRange(min=1),
    metavar="N",
    help="Days to evaluate on; 7, or a third of a store of fewer than 21 days, if not given.",
)
@click.option("--require", type=click.Choice(["not-worse", "better"]), default="not-worse", show_default=True)
@click.option("--level", default=0.05, show_default=True, help="Significance of the comparison.")
@click.option(
    "--maturity",
    metavar="auto|DAYS",
    callback=number_or_text,
    help="Late labels: wait so many days, or estimate how many have come and complete them.",
)
@settings_option("Parameter of the model; those of the model in service if none is given.")
@output_option("Write the model in service to this file.", required=False)
@json_option
@click.pass_context
def refresh(
    ctx: click.Context,
    /,
    store: "CellStore",
    settings: dict[str, Any],
    output: str | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Refit from cells; promote what is not worse.

    A model fitted on the days before is evaluated on the newest ones. Exit code 1: the model in service was kept, or,
    where there is none, predictions pass unchanged. A record of the decision stays in the store.
    """
    from mbct.calibrators.mbct import MBCTCalibrator
    from mbct.store.model_registry import ModelRegistry
    from mbct.store.refresh import refresh as refresh_store

    check_settings("mbct", settings, MBCTCalibrator._get_param_names())
    choices["require"] = choices["require"].replace("-", " ")
    result = refresh_store(store, MBCTCalibrator(**settings) if settings else None, **choices)
    if output is not None and result.in_service is not None:
        write_output(output, ModelRegistry(store).read(result.in_service))
    answer(f"{result.decision}: {result.reason}", asdict(result), as_json=as_json)
    if not result.promoted:
        ctx.exit(1)
