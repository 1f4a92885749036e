"""Cells from an engine: one GROUP BY of the codes, and an estimate of how many groups that will give."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.blocks import BlockColumns, number_blocks
from mbct.data.encoding import with_codes
from mbct.data.expressions import cell_sums
from mbct.data.rows import GROUP, TIME, EngineRows, P, W, Y, code_column
from mbct.data.source import LazySource
from mbct.model.bins import CodeMatrix, FeatureBins
from mbct.stats.sums import Sums
from mbct.training.blocks import BlockNumbers
from mbct.training.cells import Cells, group_rows, sums_of_equal_scores, with_blocks
from mbct.validation import FloatArray

CellLevel = Literal["cell", "score"]


def coded_rows(rows: EngineRows, bins: FeatureBins) -> LazySource:
    """Codes, prediction, label and weight of every row, and nothing else."""
    coded = with_codes(rows.source, bins, P)
    codes = [code_column(j) for j in range(len(bins))]
    return coded.with_frame(coded.frame.select(*codes, P, Y, W, *_block_columns(coded)))


def estimate_cells(coded: LazySource, bins: FeatureBins, level: CellLevel) -> int:
    """About how many cells there will be, from a sketch of the codes' hash (a few per cent off)."""
    return coded.engine.count_distinct(coded.frame, [*_keys(bins, level), *_block_columns(coded)])


def cells_of_rows(coded: LazySource, bins: FeatureBins, level: CellLevel, blocks: BlockColumns | None = None) -> Cells:
    """Cells in canonical order.

    Level "cell" joins rows of equal codes; "score" joins rows of equal codes and equal prediction, which loses
    nothing and gives the bits that memory would give. Rows of two blocks are never joined.
    """
    wanted = cell_sums(P, Y, W)
    if level == "score":
        wanted = {name: wanted[name] for name in ("count", "label")}
    keys, of_block = _keys(bins, level), _block_columns(coded)
    keys += of_block
    prepared = coded.frame.select(*keys, *(expression.alias(name) for name, expression in wanted.items()))
    grouped = prepared.group_by(*keys).agg(*(nw.col(name).sum() for name in wanted))
    names = [*wanted, *([P] if level == "score" else [])]
    codes, columns, raw = _gathered(coded.engine.batches(grouped), bins, names, of_block)
    if blocks is not None and of_block:
        return _cells_with_blocks(codes, columns, number_blocks(raw.get(TIME), raw.get(GROUP), blocks.block), bins)
    # Groups are distinct already: grouping them again finds the order of their content.
    _, order = group_rows(codes, columns.get(P))
    codes = np.ascontiguousarray(codes[order])
    for name in columns:
        columns[name] = columns[name][order]  # one at a time, as there may be millions
    sums = Sums(**columns) if level == "cell" else sums_of_equal_scores(columns["count"], columns["label"], columns[P])
    return Cells(codes, sums, bins.n_codes, bins.fingerprint, one_score=level == "score")


def _cells_with_blocks(
    codes: CodeMatrix, columns: dict[str, FloatArray], block: BlockNumbers, bins: FeatureBins
) -> Cells:
    """Cells of groups whose raw times may share a block, such as the hours of a week: these are joined."""
    keys = with_blocks(codes, block)
    group, first = group_rows(keys, columns.get(P))
    sums = {name: np.bincount(group, column, len(first)).astype(np.float64) for name, column in columns.items()}
    own = np.ascontiguousarray(codes[first])
    if P in columns:
        joined = sums_of_equal_scores(sums["count"], sums["label"], columns[P][first])
        return Cells(own, joined, bins.n_codes, bins.fingerprint, one_score=True, block=block[first])
    return Cells(own, Sums(**sums), bins.n_codes, bins.fingerprint, one_score=False, block=block[first])


def rows_as_cells(coded: LazySource, bins: FeatureBins) -> Cells:
    """Every row a cell of its own, in the order in which the engine hands them out."""
    codes, columns, _ = _gathered(coded.engine.batches(coded.frame), bins, [P, Y, W])
    sums = Sums.of_rows(columns[P], columns[Y], columns[W])
    return Cells(codes, sums, bins.n_codes, bins.fingerprint, one_score=True)


def _gathered(
    batches: Iterable[nw.DataFrame[Any]], bins: FeatureBins, names: list[str], raw_names: Sequence[str] = ()
) -> tuple[CodeMatrix, dict[str, FloatArray], dict[str, Any]]:
    """Codes, in the narrowest integers, columns of all batches, and other columns as they are."""
    codes: list[CodeMatrix] = [np.empty((0, len(bins)), dtype=bins.code_type)]
    parts: dict[str, list[FloatArray]] = {name: [np.empty(0)] for name in names}
    raw: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in raw_names}
    for batch in batches:
        narrow = np.empty((len(batch), len(bins)), dtype=bins.code_type)
        for j in range(len(bins)):
            narrow[:, j] = batch[code_column(j)].to_numpy()
        codes.append(narrow)
        for name, found in parts.items():
            found.append(np.asarray(batch[name].to_numpy(), dtype=np.float64))
        for name, as_is in raw.items():
            as_is.append(np.asarray(batch[name].to_numpy()))
    columns = {}
    for name in names:
        columns[name] = np.concatenate(parts.pop(name))
    return np.concatenate(codes), columns, {name: np.concatenate(as_is) for name, as_is in raw.items()}


def _block_columns(coded: LazySource) -> list[str]:
    """Columns that say which rows belong together, where there are some."""
    present = set(coded.names)
    return [name for name in (TIME, GROUP) if name in present]


def _keys(bins: FeatureBins, level: CellLevel) -> list[str]:
    return [code_column(j) for j in range(len(bins))] + ([P] if level == "score" else [])
