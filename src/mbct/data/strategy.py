"""From a source to what the trees grow on: cells in memory where they fit, else rows that stay in the engine."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.binning import features_by_value, fit_bins_of_rows, with_codes
from mbct.data.blocks import number_blocks
from mbct.data.columns import Categorical
from mbct.data.levels import EngineLevels
from mbct.data.raw_cells import MOST_GROUPS, RawRows
from mbct.data.rows import (
    GROUP,
    SUM_NAMES,
    TIME,
    EngineRows,
    P,
    W,
    Y,
    code_column,
    refuse_one_class,
    sums_by,
    training_rows,
)
from mbct.data.sharded_cells import ShardedCells, sharded_cells
from mbct.data.source import LazySource
from mbct.errors import MBCTWarning, ParameterError
from mbct.model.bins import CodeMatrix, FeatureBins
from mbct.progress import progress
from mbct.training.binning import BinningOptions
from mbct.training.cells import Cells, Sums, sums_of_equal_scores
from mbct.training.folds import BlockColumns
from mbct.training.grouping import group_rows, with_blocks

CellLevel = Literal["cell", "score"]


def coded_rows(rows: EngineRows, bins: FeatureBins) -> LazySource:
    """Codes, prediction, label and weight of every row, and nothing else."""
    coded = with_codes(rows.source, bins, P)
    return coded.with_frame(coded.frame.select(*_keys(bins, "cell"), P, Y, W, *_block_columns(coded)))


_GOLDEN = (5.0**0.5 - 1.0) / 2.0


def sampled_rows(coded: LazySource, bins: FeatureBins, share: float) -> LazySource:
    """About this share of the coded rows: those whose content a multiplicative hash puts below it.

    The same rows in every engine, whatever their order; rows of equal codes and prediction are taken together.
    """
    warnings.warn(
        f"the rows make more cells than fit into memory: trees grow on {share:.1%} of the rows, drawn at random",
        MBCTWarning,
        stacklevel=2,
    )
    mixed = nw.col(P) * (1e6 * _GOLDEN)
    for j in range(len(bins)):
        mixed = mixed + nw.col(code_column(j)).cast(nw.Float64) * (_GOLDEN ** (j + 1) * 1e3)
    return coded.with_frame(coded.frame.filter(mixed % 1.0 < share))


def estimate_cells(coded: LazySource, bins: FeatureBins, level: CellLevel) -> int:
    """About how many cells there will be, from a sketch of the codes' hash (a few per cent off)."""
    return coded.engine.count_distinct(coded.frame, [*_keys(bins, level), *_block_columns(coded)])


def cells_of_rows(coded: LazySource, bins: FeatureBins, level: CellLevel, blocks: BlockColumns | None = None) -> Cells:
    """Cells in canonical order.

    Level "cell" joins rows of equal codes; "score" joins rows of equal codes and equal prediction, which loses
    nothing and gives the bits that memory would give. Rows of two blocks are never joined.
    """
    of_block = _block_columns(coded)
    names = ["count", "label"] if level == "score" else [*SUM_NAMES, "logit"]
    grouped = sums_by(coded.frame, [*_keys(bins, level), *of_block], names)
    names += [P] if level == "score" else []
    codes, columns = _gathered(coded.engine.batches(grouped), bins, names, of_block)
    when, who = columns.pop(TIME, None), columns.pop(GROUP, None)
    block = None if blocks is None or not of_block else number_blocks(when, who, blocks.block)
    # Raw times may share a block, such as the hours of a week: their groups are joined. Others are distinct already,
    # and get the order of their content.
    group, first = group_rows(with_blocks(codes, block), columns.get(P))
    y_prob = columns.pop(P)[first] if level == "score" else None
    for name in columns:  # one at a time, as there may be millions of cells
        columns[name] = np.bincount(group, columns[name], len(first)).astype(np.float64)
    sums = Sums(**columns) if y_prob is None else sums_of_equal_scores(columns["count"], columns["label"], y_prob)
    codes, block = np.ascontiguousarray(codes[first]), None if block is None else block[first]
    return Cells(codes, sums, bins.n_codes, bins.fingerprint, one_score=level == "score", block=block)


def rows_as_cells(coded: LazySource, bins: FeatureBins) -> Cells:
    """Every row a cell of its own, in the order in which the engine hands them out."""
    codes, columns = _gathered(coded.engine.batches(coded.frame), bins, [P, Y, W])
    sums = Sums.of_rows(columns[P], columns[Y], columns[W])
    return Cells(codes, sums, bins.n_codes, bins.fingerprint, one_score=True)


def _gathered(
    batches: Iterable[nw.DataFrame[Any]], bins: FeatureBins, names: Sequence[str], as_is: Sequence[str] = ()
) -> tuple[CodeMatrix, dict[str, Any]]:
    """Codes of all batches, in the narrowest integers, and their columns: ``names`` as floats, others as they are."""
    codes: list[CodeMatrix] = [np.empty((0, len(bins)), dtype=bins.code_type)]
    parts: dict[str, list[np.ndarray[Any, Any]]] = {name: [np.empty(0)] for name in names} | {n: [] for n in as_is}
    for batch in batches:
        narrow = np.empty((len(batch), len(bins)), dtype=bins.code_type)
        for j in range(len(bins)):
            narrow[:, j] = batch[code_column(j)].to_numpy()
        codes.append(narrow)
        for name, found in parts.items():
            found.append(np.asarray(batch[name].to_numpy(), dtype=None if name in as_is else np.float64))
    return np.concatenate(codes), {name: np.concatenate(parts.pop(name)) for name in list(parts)}


def _block_columns(coded: LazySource) -> list[str]:
    """Columns that say which rows belong together, where there are some."""
    present = set(coded.names)
    return [name for name in (TIME, GROUP) if name in present]


def _keys(bins: FeatureBins, level: CellLevel) -> list[str]:
    return [code_column(j) for j in range(len(bins))] + ([P] if level == "score" else [])


Strategy = Literal["auto", "cells", "level-wise", "sharded"]
MOST_CELLS = 10_000_000
"""Cells that are brought into memory, about 100 bytes each."""
_WORTH_JOINING = 0.5  # Join rows of equal codes only if that leaves at most this share of them
_WORTH_ESTIMATING = 1_000_000  # Below so many rows an estimate of the cells costs more than it can save


@dataclass(frozen=True)
class Prepared:
    """Bins, and what to train on: cells, in shards or in memory, or rows in the engine; their weight and positives."""

    bins: FeatureBins
    rows: Cells | EngineLevels | ShardedCells
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
    n_threads: int = 1,
) -> Iterator[Prepared]:
    """Check, bin and reduce the rows of ``source``.

    ``level_wise`` says whether the trees can grow on rows that stay in the engine (preset "paper"). If not, rows of
    equal codes and prediction are joined, which loses nothing; where those are too many, rows of equal codes, or a
    sample of the rows. Strategy "sharded" joins rows of equal codes and prediction too, but brings no cell home.
    """
    if strategy not in get_args(Strategy):
        raise ParameterError(f"strategy={strategy!r} must be one of {', '.join(map(repr, get_args(Strategy)))}")
    if strategy == "level-wise" and not level_wise:
        raise ParameterError("strategy='level-wise' needs preset='paper' and its closed-form loss 'mvce'")
    rows = training_rows(source, score_column, label, weight, features, blocks)
    refuse_one_class(rows)
    if level_wise and strategy not in ("level-wise", "sharded") and options.score_binning == "width":
        raw = RawRows(rows, score_column, features, features_by_value(rows, features, categorical), options)
        direct = _from_raw(raw, most_cells, insist=strategy == "cells")
        if direct is not None:
            yield Prepared(*direct, rows.weight, rows.positives)
            return
    bins = fit_bins_of_rows(rows, score_column, features, categorical, options)
    coded = coded_rows(rows, bins)
    if strategy == "sharded":
        with sharded_cells(coded, bins, blocks, rows.n_rows, n_threads) as sharded:
            yield Prepared(bins, sharded, rows.weight, rows.positives)
        return
    level = _cell_level(rows, coded, bins, strategy, level_wise=level_wise, most_cells=most_cells)
    if level is None:
        with EngineLevels(coded, bins.n_codes) as levels:
            yield Prepared(bins, levels, rows.weight, rows.positives)
    else:
        if level == "sample":
            coded, level = sampled_rows(coded, bins, most_cells / rows.n_rows), "score"
        with progress("summing rows by cell"):
            cells = rows_as_cells(coded, bins) if level == "row" else cells_of_rows(coded, bins, level, blocks)
        yield Prepared(bins, cells, rows.weight, rows.positives)


def _from_raw(raw: RawRows, most_cells: int, *, insist: bool) -> tuple[FeatureBins, Cells] | None:
    """Cells by way of raw values, read once: grouped where they are few, else row by row; None where neither fits."""
    n_rows = raw.rows.n_rows
    fits, most_groups = n_rows <= 2 * most_cells, min(MOST_GROUPS, most_cells)
    grouped = raw.grouped(most_groups) if fits and raw.look_few() else None
    if grouped is not None:
        return grouped
    n_groups = raw.estimate()
    worth_joining = n_groups <= _WORTH_JOINING * n_rows
    if worth_joining and n_groups <= most_groups:
        grouped = raw.grouped(most_groups)
    if grouped is not None or insist or not fits or n_rows < _WORTH_ESTIMATING or not raw.rows.source.engine.streams:
        return grouped
    # Cut numbers have fewer codes than values.
    return raw.row_by_row(join=worth_joining or len(raw.by_value) < len(raw.features))


def _cell_level(
    rows: EngineRows, coded: LazySource, bins: FeatureBins, strategy: Strategy, *, level_wise: bool, most_cells: int
) -> CellLevel | Literal["row", "sample"] | None:
    """The level at which cells fit into memory, "row" where joining saves little, "sample" where none fits.

    None for rows that stay in the engine.
    """
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
    if strategy == "cells":
        return "cell"
    return None if level_wise else "sample"


def _shrinks(coded: LazySource, bins: FeatureBins, n_rows: int) -> bool:
    """Whether rows of equal codes are worth joining: the share of distinct ones among some rows can only fall."""
    some = coded.with_frame(coded.frame.head(_WORTH_ESTIMATING))
    if estimate_cells(some, bins, "cell") <= _WORTH_JOINING * min(_WORTH_ESTIMATING, n_rows):
        return True
    return estimate_cells(coded, bins, "cell") <= _WORTH_JOINING * n_rows
