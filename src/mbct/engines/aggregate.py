"""Cells from an engine: one GROUP BY of the codes, and an estimate of how many groups that will give."""

from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np

from mbct.binning.features import FeatureBins
from mbct.cells.build import sums_of_equal_scores
from mbct.cells.cells import Cells
from mbct.cells.group import CodeMatrix, group_rows
from mbct.engines.encode import with_codes
from mbct.engines.expressions import cell_sums
from mbct.engines.rows import P, Rows, W, Y, code_column
from mbct.engines.source import LazySource
from mbct.stats.sums import Sums
from mbct.validation import FloatArray

CellLevel = Literal["cell", "score"]


def coded_rows(rows: Rows, bins: FeatureBins) -> LazySource:
    """Codes, prediction, label and weight of every row, and nothing else."""
    coded = with_codes(rows.source, bins, P)
    codes = [code_column(j) for j in range(len(bins))]
    return coded.with_frame(coded.frame.select(*codes, P, Y, W))


def estimate_cells(coded: LazySource, bins: FeatureBins, level: CellLevel) -> int:
    """About how many cells there will be, from a sketch of the codes' hash (a few per cent off)."""
    return coded.engine.count_distinct(coded.frame, _keys(bins, level))


def cells_of_rows(coded: LazySource, bins: FeatureBins, level: CellLevel) -> Cells:
    """Cells in canonical order.

    Level "cell" joins rows of equal codes; "score" joins rows of equal codes and equal prediction, which loses
    nothing and gives the bits that memory would give.
    """
    wanted = cell_sums(P, Y, W)
    if level == "score":
        wanted = {name: wanted[name] for name in ("count", "label")}
    keys = _keys(bins, level)
    prepared = coded.frame.select(*keys, *(expression.alias(name) for name, expression in wanted.items()))
    found = coded.engine.collect(prepared.group_by(*keys).agg(*(nw.col(name).sum() for name in wanted)))
    codes = np.empty((len(found), len(bins)), dtype=bins.code_type)
    for j in range(len(bins)):
        codes[:, j] = found[code_column(j)].to_numpy()
    summed = {name: _floats(found, name) for name in wanted}
    if level == "cell":
        return Cells(codes, Sums(**summed), bins.n_codes, bins.fingerprint, one_score=False).canonical()
    return _cells_of_scores(codes, _floats(found, P), summed["count"], summed["label"], bins)


def _cells_of_scores(
    codes: CodeMatrix, y_prob: FloatArray, count: FloatArray, label: FloatArray, bins: FeatureBins
) -> Cells:
    _, first = group_rows(codes, y_prob)
    sums = sums_of_equal_scores(count[first], label[first], y_prob[first])
    return Cells(np.ascontiguousarray(codes[first]), sums, bins.n_codes, bins.fingerprint, one_score=True)


def _keys(bins: FeatureBins, level: CellLevel) -> list[str]:
    return [code_column(j) for j in range(len(bins))] + ([P] if level == "score" else [])


def _floats(frame: nw.DataFrame[Any], name: str) -> FloatArray:
    return np.asarray(frame[name].to_numpy(), dtype=np.float64)
