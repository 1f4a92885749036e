"""Cells of at least so many rows: smaller ones are merged into the cell that leaves one feature more open."""

from dataclasses import replace

import numpy as np

from mbct.errors import DataError
from mbct.model.bins import FeatureBins
from mbct.training.cells import Cells


def merge_small_cells(cells: Cells, bins: FeatureBins, min_rows: int) -> Cells:
    """Cells of which each has ``min_rows`` rows or more, with the same totals.

    A cell with fewer gives up its features one by one, the one of most values first: the feature's code becomes that
    of unseen values, until enough cells share the rest. What is left after all features goes to the nearest score bin
    that has enough rows.
    """
    if min_rows < 1:
        raise DataError(f"min_rows={min_rows!r} must be at least 1")
    total = float(np.asarray(cells.total.count))
    if np.any(cells.sums.count != np.rint(cells.sums.count)):
        raise DataError("min_rows counts rows: it cannot be used with weights")
    if total < min_rows:
        raise DataError(
            f"the batch has {total:g} rows, fewer than min_rows={min_rows}: append a longer stretch of rows"
        )
    merged = replace(cells, one_score=False)
    for j in sorted(range(1, len(bins)), key=lambda j: -len(np.unique(cells.codes[:, j]))):
        small = merged.sums.count < min_rows
        if not small.any():
            break
        codes = merged.codes.copy()
        codes[small, j] = bins[j].unseen
        merged = replace(merged, codes=codes).canonical()
    small = merged.sums.count < min_rows
    if not small.any():
        return merged
    codes = merged.codes.copy()
    score = codes[:, 0].astype(np.int64)
    enough = np.flatnonzero(~small)
    if len(enough):
        nearest = enough[np.abs(score[small][:, None] - score[enough]).argmin(axis=1)]
        codes[small] = codes[nearest]
    else:
        codes[:] = codes[merged.sums.count.argmax()]
    return replace(merged, codes=codes).canonical()
