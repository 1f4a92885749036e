import numpy as np
import pytest

from builders import random_model
from mbct.errors import DataError
from mbct.store import cells_of_rows
from mbct.store.min_rows import merge_small_cells


def _cells(n_rows: int, seed: int = 0):
    bins = random_model(3).bins
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, n, n_rows) for n in bins.n_codes]).astype(bins.code_type)
    y_prob = rng.random(n_rows)
    return cells_of_rows(codes, y_prob, (rng.random(n_rows) < y_prob).astype(float), bins), bins


@pytest.mark.parametrize("n_rows", [60, 2000])
@pytest.mark.parametrize("min_rows", [1, 2, 10, 50])
def test_every_cell_has_enough_rows_and_no_total_changes(n_rows: int, min_rows: int) -> None:
    cells, bins = _cells(n_rows)
    merged = merge_small_cells(cells, bins, min_rows)
    assert merged.sums.count.min() >= min_rows
    for name in ("count", "label", "pred", "pred2", "pred_label", "logit"):
        assert float(getattr(merged.total, name)) == pytest.approx(float(getattr(cells.total, name)))
    assert np.all(merged.codes < np.array(bins.n_codes))
    assert len(merged) == len(cells) if min_rows == 1 else len(merged) < len(cells)


def test_large_cells_keep_their_codes() -> None:
    cells, bins = _cells(20_000)
    merged = merge_small_cells(cells, bins, 5)
    kept = {tuple(codes): count for codes, count in zip(merged.codes.tolist(), merged.sums.count, strict=True)}
    large = cells.select(cells.sums.count >= 5)
    assert len(large) > 20
    for codes, count in zip(large.codes.tolist(), large.sums.count, strict=True):
        assert kept[tuple(codes)] >= count


def test_what_cannot_be_met_is_refused() -> None:
    cells, bins = _cells(60)
    with pytest.raises(DataError, match="min_rows=0"):
        merge_small_cells(cells, bins, 0)
    with pytest.raises(DataError, match="60 rows, fewer than min_rows=100"):
        merge_small_cells(cells, bins, 100)
    with pytest.raises(DataError, match="cannot be used with weights"):
        merge_small_cells(cells.decay(0.3), bins, 2)
