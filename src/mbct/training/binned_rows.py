"""Rows as trees see them: codes, log-odds, weight and positives, with the fold that holds each out.

They come from cells, or are made for distillation: real rows with the ensemble's probabilities as labels, and synthetic
ones between them. Labels can be had for real rows only, but an ensemble answers for any row. Where real ones are few,
trees would overfit it there and miss it elsewhere; synthetic rows that mix the values of two real ones fill the space
between (model compression: Buciluă, Caruana and Niculescu-Mizil, 2006).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, code_offsets
from mbct.stats.probabilities import sigmoid
from mbct.stats.sums import Duplicates, find_duplicates, rate_by_score
from mbct.training.cells import Cells
from mbct.training.folds import (
    BlockNumbers,
    BlockOptions,
    CellParts,
    EvaluatedRows,
    RowBlocks,
    row_blocks,
    split_into_folds,
)
from mbct.validation import FloatArray

RowNumbers = npt.NDArray[np.int32]
NO_BLOCKS: BlockNumbers = np.empty(0, dtype=np.int32)


@dataclass(frozen=True)
class BinnedRows:
    """Codes, starting log-odds, weight, weighted positives and fold of rows, or of parts of cells.

    ``log_odds`` and ``label`` have a column for each class where there are many. ``usable`` numbers the features that
    trees may split by; ``atomic``: what has one position is one row, whatever its weight. ``blocks``: which rows belong
    together, where they are not independent; ``fold`` is then that of a row's block, whether it is held out or not.
    """

    codes: CodeMatrix
    log_odds: FloatArray
    weight: FloatArray
    label: FloatArray
    fold: npt.NDArray[np.uint8]
    offset: npt.NDArray[np.int64]
    ordered: npt.NDArray[np.bool_]
    usable: npt.NDArray[np.int64]
    atomic: bool = False
    blocks: RowBlocks | None = None

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    @property
    def block_numbers(self) -> BlockNumbers:
        """Block of each row; empty where rows are independent."""
        return NO_BLOCKS if self.blocks is None else self.blocks.number

    @property
    def evaluated(self) -> EvaluatedRows:
        """Rows that some fold holds out; all but rows of groups that last beyond the stretch they are held out in."""
        return slice(None) if self.blocks is None else self.blocks.evaluated

    @property
    def evaluated_rows(self) -> RowNumbers:
        """Numbers of the rows that some fold holds out."""
        return self.all_rows[self.evaluated]

    @property
    def evaluated_weight(self) -> float:
        """Weight of the rows that some fold holds out."""
        return float(self.weight[self.evaluated].sum())

    def held_out_rows(self, fold: int) -> RowNumbers:
        """Rows that ``fold`` holds out and is evaluated on."""
        own = self.fold == fold if self.blocks is None else self.blocks.held_out(fold)
        return np.flatnonzero(own).astype(np.int32)

    def train_rows(self, fold: int) -> RowNumbers:
        """Rows that ``fold`` is fitted on: those of all others, but for blocks of time next to its own (``gap``)."""
        if self.blocks is not None:
            return np.flatnonzero(self.blocks.trained_on(fold)).astype(np.int32)
        return np.flatnonzero(self.fold != fold).astype(np.int32)

    @property
    def all_rows(self) -> RowNumbers:
        """Every row."""
        return np.arange(len(self.weight), dtype=np.int32)

    @property
    def n_codes(self) -> list[int]:
        """Number of codes of each feature."""
        return [int(n) for n in np.diff(self.offset)]

    def loss(self, rows: RowNumbers, log_odds: FloatArray) -> float:
        """Summed log loss of some rows."""
        return summed_log_loss(rows, log_odds, self.weight, self.label)

    def held_out_loss(self, log_odds: Sequence[FloatArray]) -> float:
        """Mean log loss of held-out rows, each at the log-odds of the fold that holds it out."""
        total = sum(self.loss(self.held_out_rows(fold), z) for fold, z in enumerate(log_odds))
        return total / self.evaluated_weight


def duplicates_in(cells: Cells) -> Duplicates:
    """Whether the weights of cells count rows, or copies of rows."""
    sums = cells.sums
    return find_duplicates(sums.count, sums.label, rate_by_score(sums.count, sums.label, sums.logit / sums.count))


def split_cells(
    cells: Cells,
    ordered: tuple[bool, ...],
    usable: Sequence[int],
    n_folds: int,
    seed: int,
    *,
    atomic: bool = False,
    block_options: BlockOptions | None = None,
) -> BinnedRows:
    """Split cells into folds: by their blocks where they have some, else row by row or ``atomic``.

    A cell moves at the mean log-odds of its rows, which is exact for row-level cells.
    """
    if cells.block is not None:
        blocks = row_blocks(cells.block, cells.sums.count, n_folds, seed, block_options or BlockOptions())
        parts = CellParts(np.arange(len(cells)), blocks.fold[blocks.number], cells.sums.count, cells.sums.label)
    else:
        blocks = None
        parts = split_into_folds(cells.sums.count, cells.sums.label, n_folds, seed, atomic=atomic)
    start = cells.sums.logit / cells.sums.count
    undivided = len(parts.cell) == len(cells)
    return BinnedRows(
        cells.codes if undivided else np.ascontiguousarray(cells.codes[parts.cell]),
        start if undivided else start[parts.cell],
        parts.count,
        parts.label,
        parts.fold,
        code_offsets(cells.n_codes),
        np.array(ordered, dtype=np.bool_),
        np.array(usable, dtype=np.int64),
        atomic,
        blocks,
    )


@kernel
def summed_log_loss(rows: RowNumbers, log_odds: FloatArray, weight: FloatArray, label: FloatArray) -> float:
    """Log loss of some rows."""
    total = 0.0
    for i in rows:
        z = log_odds[i]
        total += weight[i] * (max(z, 0.0) + np.log1p(np.exp(-abs(z)))) - label[i] * z
    return total


HELD_OUT = 1
"""Fold of the real cells that measure the fidelity; fold 0 is learnt from."""
_ONE_IN = 5
"""One cell in five is held out."""
_SHARE_TAKEN = 0.3
"""Share of a synthetic row's values that come from the other row."""
_MOST_SYNTHETIC_WEIGHT = 3.0
"""Weight of all synthetic rows beside that of the real ones that are learnt from, at most; one weighs as a real one."""


def make_distillation_set(
    cells: Cells,
    ordered: tuple[bool, ...],
    usable: Sequence[int],
    tree_total: Callable[[CodeMatrix], FloatArray],
    most: int,
    enough: int,
) -> BinnedRows:
    """At most so many cells, the first ones: they must be in canonical order, which is a random one.

    The label is the ensemble's expected positives. What is missing to ``enough`` is synthetic.
    """
    chosen = cells.select(np.arange(min(len(cells), most)))
    start, weight = chosen.sums.logit / chosen.sums.count, chosen.sums.count
    held_out = np.arange(len(chosen)) % _ONE_IN == _ONE_IN - 1
    rows = BinnedRows(
        chosen.codes,
        start,
        weight,
        weight * sigmoid(start + tree_total(chosen.codes)),
        np.where(held_out, HELD_OUT, 0).astype(np.uint8),
        code_offsets(cells.n_codes),
        np.array(ordered, dtype=np.bool_),
        np.array(usable, dtype=np.int64),
    )
    missing = enough - len(chosen)
    return rows if missing <= 0 else _with_synthetic(rows, missing, tree_total)


def _with_synthetic(rows: BinnedRows, n_rows: int, tree_total: Callable[[CodeMatrix], FloatArray]) -> BinnedRows:
    """The set with rows that have each value, or the score, from one real row or from another."""
    rng = np.random.default_rng(0)
    real = rows.train_rows(HELD_OUT)
    one = real[np.arange(n_rows) % len(real)]
    other = real[rng.integers(0, len(real), n_rows)]
    codes = rows.codes[one]
    for feature in range(codes.shape[1]):
        taken = rng.random(n_rows) < _SHARE_TAKEN
        codes[taken, feature] = rows.codes[other[taken], feature]
        if feature == 0:
            start = np.where(taken, rows.log_odds[other], rows.log_odds[one])
    weight = rows.weight[one]
    weight *= min(_MOST_SYNTHETIC_WEIGHT, n_rows / len(real)) * rows.weight[real].sum() / weight.sum()
    return replace(
        rows,
        codes=np.concatenate([rows.codes, codes]),
        log_odds=np.concatenate([rows.log_odds, start]),
        weight=np.concatenate([rows.weight, weight]),
        label=np.concatenate([rows.label, weight * sigmoid(start + tree_total(codes))]),
        fold=np.concatenate([rows.fold, np.zeros(n_rows, dtype=np.uint8)]),
    )
