"""``mbct cells``: rows as sums by day, kept in a store from which models are refitted."""

from typing import TYPE_CHECKING, Any

import click

from mbct.cli.options import (
    features_options,
    half_life_option,
    json_option,
    labelled,
    labelled_data,
    memory_option,
    output_option,
    store_option,
)
from mbct.cli.roles import Roles, RowOptions
from mbct.cli.shell import answer, command, note, print_json, print_table, write_output
from mbct.cli.sources import Data

if TYPE_CHECKING:
    from mbct.store.cell_store import CellStore
    from mbct.store.manifest import Batch

AGGREGATE_EXAMPLES = (
    "mbct cells aggregate monday.parquet --store cells --day 2024-05-06",
    "mbct cells aggregate monday-13h.csv --store cells --day 2024-05-06 --batch 2024-05-06T13",
    "mbct cells aggregate monday.parquet --store cells --day 2024-05-06 --replace",
)
WINDOW_EXAMPLES = (
    "mbct cells window --store cells --days 7",
    "mbct cells window --store cells --days 30 --half-life 7 -o window.parquet",
)


@click.group()
def cells() -> None:
    """Keep rows as sums by day, in a store."""


@command(examples=AGGREGATE_EXAMPLES)
@labelled
@store_option
@click.option("--day", required=True, metavar="YYYY-MM-DD", help="Day of these rows.")
@click.option("--batch", help="Name of these rows, so that they count once; the day and DATA if not given.")
@click.option("--replace", is_flag=True, help="Exchange a batch of this name that holds other rows.")
@click.option("--min-rows", type=click.IntRange(min=1), metavar="K", help="Merge cells of fewer rows into larger ones.")
@features_options
@memory_option
def aggregate(
    rows: RowOptions,
    store: "CellStore",
    day: str,
    batch: str | None,
    replace: bool,
    min_rows: int | None,
    as_json: bool,
) -> None:
    """Add the rows of DATA to a store as cells.

    The first batch decides how columns are cut into bins; later ones follow it. A batch counts once, however often it
    is added; one of the same name with other rows is refused, or exchanged with --replace.
    """
    name = batch or " ".join(part for part in (day, rows.data, rows.sql) if part)
    held = store.manifest().find(name) is not None and not replace
    with labelled_data(rows) as (data, roles):
        added = append_rows(store, data, roles, day, name, replace=replace, min_rows=min_rows)
    again = ", which the store held already" if held else ""
    text = f"{added.count:,.0f} rows of {added.day} in {added.n_cells:,} cells as batch {name!r}{again}"
    document = {"batch": name, "day": added.day, "rows": added.count, "cells": added.n_cells}
    answer(text, document, as_json=as_json)


def append_rows(
    store: "CellStore",
    rows: Data,
    roles: Roles,
    day: str,
    batch: str,
    *,
    replace: bool = False,
    min_rows: int | None = None,
) -> "Batch":
    """Append rows, under the bins of the store's newest batch, or under their own if it is the first.

    DuckDB adds them up out of core: only the cells come into memory.
    """
    from mbct.data import aggregate as aggregate_rows
    from mbct.data import fit_bins
    from mbct.store.min_rows import merge_small_cells

    known = store.manifest().batches
    if known:
        newest = max(known, key=lambda each: each.day)
        bins = store.bins(newest.fingerprint)
        note(f"bins: those of {newest.day}")
    else:
        features = list(roles.features or ())
        own = rows.source(roles.columns)
        bins = fit_bins(own, score_column=roles.score, label=roles.label, weight=roles.weight, features=features)
    rows.require(bins.names)
    wanted = dict.fromkeys([*bins.names, roles.label, *([] if roles.weight is None else [roles.weight])])
    found = aggregate_rows(rows.source(list(wanted)), bins, label=roles.label, weight=roles.weight)
    if min_rows is not None:
        found = merge_small_cells(found, bins, min_rows)
    return store.append(found, bins, day=day, batch=batch, replace=replace)


@command(examples=("mbct cells merge --store cells", "mbct cells merge --store cells --keep-days 30"))
@store_option
@click.option("--keep-days", type=click.IntRange(min=1), help="Drop all but so many of the newest days, for good.")
@json_option
def merge(store: "CellStore", keep_days: int | None, as_json: bool) -> None:
    """Join the batches of each day into one file."""
    batches = store.compact(keep_days=keep_days).batches
    found = {"files": len(batches), "days": len({b.day for b in batches}), "rows": sum(b.count for b in batches)}
    text = f"{found['rows']:,.0f} rows of {found['days']} days in {found['files']} files"
    answer(text, found, as_json=as_json)


@command(examples=WINDOW_EXAMPLES)
@store_option
@click.option("--days", type=click.IntRange(min=1), help="Length of the window; all days if not given.")
@half_life_option
@click.option("--until", metavar="YYYY-MM-DD", help="Last day of the window; the newest if not given.")
@output_option("Write the cells as Parquet.", required=False)
@json_option
def window(
    store: "CellStore", days: int | None, half_life: float | None, until: str | None, output: str | None, as_json: bool
) -> None:
    """Add up the last days, older ones faded."""
    from mbct.store.cell_file import to_parquet

    found = store.window(days, half_life, until=until, by_day=False)
    total = found.cells.total
    summary = {
        "first_day": found.first_day,
        "last_day": found.last_day,
        "cells": len(found.cells),
        "rows": float(total.count),
        "label_rate": float(total.label / total.count),
        "mean_prediction": float(total.pred / total.count),
    }
    if output is not None:
        write_output(output, to_parquet([found.cells]))
    text = (
        f"{found.first_day} to {found.last_day}: {total.count:,.0f} rows in {len(found.cells):,} cells, "
        f"label rate {summary['label_rate']:.5g}, mean prediction {summary['mean_prediction']:.5g}"
    )
    answer(text, summary, as_json=as_json)


@command(examples=("mbct cells status --store cells", "mbct cells status --store cells --json"))
@store_option
@json_option
def status(store: "CellStore", as_json: bool) -> None:
    """List the days: batches, rows, positives, age."""
    import datetime

    from mbct.store.manifest import days_between

    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    held = store.manifest().batches
    days: list[dict[str, Any]] = []
    for day in sorted({batch.day for batch in held}):
        files = [batch for batch in held if batch.day == day]
        sums = {"rows": sum(f.count for f in files), "positives": sum(f.label for f in files)}
        names = [name for batch in files for name in batch.ids]
        cells = sum(f.n_cells for f in files)
        days.append({"day": day, "batches": names, **sums, "cells": cells, "age_days": days_between(day, today)})
    if as_json:
        print_json({"days": days})
        return
    rows = [
        (d["day"], f"{len(d['batches'])}", f"{d['rows']:,.0f}", f"{d['positives']:,.0f}", f"{d['age_days']} days")
        for d in days
    ]
    print_table(("day", "batches", "rows", "positives", "age"), rows, left=("day",))


@command(examples=("mbct cells verify --store cells",))
@store_option
@json_option
@click.pass_context
def verify(ctx: click.Context, store: "CellStore", as_json: bool) -> None:
    """Read every file and compare its checksum. Exit code 1: files are missing or damaged, and each is named."""
    n_files = len(store.manifest().batches)
    faults = store.verify(leftovers=False)
    text = "\n".join([*faults, f"{n_files} files of cells, {len(faults)} faults"])
    answer(text, {"files": n_files, "faults": faults}, as_json=as_json)
    if faults:
        ctx.exit(1)


@command(examples=("mbct cells maturity --store cells",))
@store_option
@json_option
def maturity(store: "CellStore", as_json: bool) -> None:
    """Show how late labels come: the share by age.

    Learned from days that were aggregated again with --replace. 'mbct refresh --maturity auto' uses it.
    """
    from mbct.store.maturity import store_maturity

    arrived = store_maturity(store).arrived
    if as_json:
        print_json({"arrived": list(arrived)})
        return
    shown = enumerate(arrived[: arrived.index(1.0) + 1])
    rows = [(f"{age}", f"{share:.1%}", "█" * round(40 * share)) for age, share in shown]
    print_table(("age in days", "arrived", ""), rows, left=("",))


for each in (aggregate, merge, window, status, verify, maturity):
    cells.add_command(each)
