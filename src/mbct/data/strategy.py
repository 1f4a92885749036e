"""From a source to what the trees grow on: cells in memory where they fit, else rows that stay in the engine."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from mbct.data.aggregation import CellLevel, cells_of_rows, coded_rows, estimate_cells, rows_as_cells
from mbct.data.binning import features_by_value, fit_bins_of_rows
from mbct.data.blocks import BlockColumns
from mbct.data.levels import EngineLevels
from mbct.data.memory import Categorical
from mbct.data.raw_groups import MOST_GROUPS, RawGroups
from mbct.data.raw_rows import cells_of_raw_rows
from mbct.data.rows import EngineRows, refuse_one_class, training_rows
from mbct.data.source import LazySource
from mbct.errors import DataError, ParameterError
from mbct.model.bins import FeatureBins
from mbct.progress import progress
from mbct.training.binning import BinningOptions
from mbct.training.cells import Cells

Strategy = Literal["auto", "cells", "level-wise"]
MOST_CELLS = 10_000_000
"""Cells that are brought into memory, about 100 bytes each."""
_WORTH_JOINING = 0.5
"""Join rows of equal codes only if that leaves at most this share of them."""
_WORTH_ESTIMATING = 1_000_000
"""Below so many rows an estimate of the cells costs more than it can save."""


@dataclass(frozen=True)
class Prepared:
    """Bins, and what to train on: cells, or rows in the engine with their weight and positives."""

    bins: FeatureBins
    rows: Cells | EngineLevels
    weight: float
    positives: float


@contextmanager
def prepare(
    source: LazySource,
    *,
    score_column: str,
    label: str,
    weight: str | None,
    features: Sequence[str],
    categorical: Categorical,
    options: BinningOptions,
    strategy: Strategy,
    level_wise: bool,
    blocks: BlockColumns | None = None,
    most_cells: int = MOST_CELLS,
) -> Iterator[Prepared]:
    """Check, bin and reduce the rows of ``source``.

    ``level_wise`` says whether the trees can grow on rows that stay in the engine (preset "paper"). If not, rows of
    equal codes and prediction are joined, which loses nothing, or, where those are too many, rows of equal codes.
    """
    if strategy not in get_args(Strategy):
        raise ParameterError(f"strategy={strategy!r} must be one of {', '.join(map(repr, get_args(Strategy)))}")
    if strategy == "level-wise" and not level_wise:
        raise ParameterError("strategy='level-wise' needs preset='paper' and its closed-form loss 'mvce'")
    rows = training_rows(source, score_column, label, weight, features, blocks)
    refuse_one_class(rows)
    if level_wise and strategy != "level-wise" and options.score_binning == "width":
        by_value = features_by_value(rows, features, categorical)
        direct = _from_raw(rows, score_column, features, by_value, options, most_cells, insist=strategy == "cells")
        if direct is not None:
            yield Prepared(*direct, rows.mass, rows.positives)
            return
    bins = fit_bins_of_rows(rows, score_column, features, categorical, options)
    coded = coded_rows(rows, bins)
    level = _cell_level(rows, coded, bins, strategy, level_wise=level_wise, most_cells=most_cells)
    if level is None:
        with EngineLevels(coded, bins.n_codes) as levels:
            yield Prepared(bins, levels, rows.mass, rows.positives)
    else:
        with progress("summing rows by cell"):
            cells = rows_as_cells(coded, bins) if level == "row" else cells_of_rows(coded, bins, level, blocks)
        yield Prepared(bins, cells, rows.mass, rows.positives)


def _from_raw(
    rows: EngineRows,
    score_column: str,
    features: Sequence[str],
    by_value: set[str],
    options: BinningOptions,
    most_cells: int,
    *,
    insist: bool,
) -> tuple[FeatureBins, Cells] | None:
    """Cells by way of raw values, read once: grouped where they are few, else row by row; None where neither fits."""
    groups = RawGroups.of(rows, score_column, features, by_value, options)
    fits, most_groups = rows.n_rows <= 2 * most_cells, min(MOST_GROUPS, most_cells)
    grouped = groups.cells(most_groups) if fits and groups.look_few() else None
    if grouped is not None:
        return grouped
    n_groups = groups.estimate()
    worth_joining = n_groups <= _WORTH_JOINING * rows.n_rows
    if worth_joining and n_groups <= most_groups:
        grouped = groups.cells(most_groups)
    if grouped is not None:
        return grouped
    if insist or not fits or rows.n_rows < _WORTH_ESTIMATING or not rows.source.engine.streams:
        return None
    # Cut numbers have fewer codes than values.
    join = worth_joining or len(by_value) < len(features)
    return cells_of_raw_rows(rows, score_column, features, by_value, options, join=join)


def _cell_level(
    rows: EngineRows, coded: LazySource, bins: FeatureBins, strategy: Strategy, *, level_wise: bool, most_cells: int
) -> CellLevel | Literal["row"] | None:
    """The level at which cells fit into memory, or "row" where joining saves little; None for rows in the engine."""
    if strategy == "level-wise":
        return None
    levels: tuple[CellLevel, ...] = ("cell",) if level_wise else ("score", "cell")
    if level_wise and strategy == "auto" and _WORTH_ESTIMATING <= rows.n_rows <= 2 * most_cells:
        return "cell" if _shrinks(coded, bins, rows.n_rows) else "row"
    if rows.n_rows <= most_cells:
        return levels[0]
    for level in levels:
        if estimate_cells(coded, bins, level) <= most_cells:
            return level
    if strategy == "auto" and level_wise:
        return None
    if strategy == "cells":
        return "cell"
    raise DataError(
        f"the {rows.n_rows:,} rows make more than {most_cells:,} cells, too many for memory: use fewer features or "
        "bins (numeric_bins, score_bins), fit on a sample, take preset='paper', which can grow in the engine, "
        "or insist with strategy='cells'"
    )


def _shrinks(coded: LazySource, bins: FeatureBins, n_rows: int) -> bool:
    """Whether rows of equal codes are worth joining: the share of distinct ones among some rows can only fall."""
    some = coded.with_frame(coded.frame.head(_WORTH_ESTIMATING))
    if estimate_cells(some, bins, "cell") <= _WORTH_JOINING * min(_WORTH_ESTIMATING, n_rows):
        return True
    return estimate_cells(coded, bins, "cell") <= _WORTH_JOINING * n_rows
