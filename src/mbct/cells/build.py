"""Cells from rows: grouped where that saves much, row by row where it does not."""

from typing import Literal

import numpy as np

from mbct.binning.features import FeatureBins
from mbct.cells.cells import Cells
from mbct.cells.group import CodeMatrix, estimate_distinct, group_rows, hash_rows, prediction_bits
from mbct.stats.sums import Sums
from mbct.validation import FloatArray

Level = Literal["auto", "cell", "score", "row"]

_WORTH_GROUPING = 0.5
"""Group only if it leaves at most this share of the rows."""


def build_cells(
    codes: CodeMatrix,
    y_prob: FloatArray,
    y_true: FloatArray,
    weight: FloatArray | None,
    bins: FeatureBins,
    level: Level = "auto",
) -> Cells:
    """Cells of rows.

    ``level``: "cell" joins rows of equal codes (the paper's aggregation); "score" joins rows of equal codes and equal
    prediction, which loses nothing, and puts them into an order of their own; "row" joins none; "auto" is "cell"
    where that at least halves the number and "row" elsewhere.
    """
    weight = np.ones(len(y_prob)) if weight is None else weight
    hashes = None
    if level == "auto":
        hashes = hash_rows(codes, prediction_bits(None))
        level = "cell" if estimate_distinct(hashes) <= _WORTH_GROUPING * len(codes) else "row"
    if level == "row":
        return Cells(codes, Sums.of_rows(y_prob, y_true, weight), bins.n_codes, bins.fingerprint, one_score=True)
    if level == "cell":
        group, first = group_rows(codes, hashes=hashes)
        sums = Sums.of_rows(y_prob, y_true, weight).grouped(group, len(first))
        return Cells(np.ascontiguousarray(codes[first]), sums, bins.n_codes, bins.fingerprint, one_score=False)
    group, first = group_rows(codes, y_prob)
    count = np.bincount(group, weight, len(first)).astype(np.float64)
    label = np.bincount(group, weight * y_true, len(first)).astype(np.float64)
    sums = sums_of_equal_scores(count, label, y_prob[first])
    return Cells(np.ascontiguousarray(codes[first]), sums, bins.n_codes, bins.fingerprint, one_score=True)


def sums_of_equal_scores(count: FloatArray, label: FloatArray, y_prob: FloatArray) -> Sums:
    """Sums from the two that need adding up, so that the order of rows cannot touch the others."""
    unit = Sums.of_rows(y_prob, np.ones(len(y_prob)), np.ones(len(y_prob)))
    return Sums(count, label, count * y_prob, count * unit.pred2, label * y_prob, count * unit.logit)
