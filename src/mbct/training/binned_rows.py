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


_MORE_THAN_ONE = 1.5  # Weight from which a cell may hold more than one row
_SCORE_GROUPS = 20  # Groups of equal weight in which the rate is taken
_MOSTLY = 0.6  # Share of the differences of larger cells below which cells hold mostly duplicates
_HARDLY_ANY = 0.25  # Share of the differences of independent rows below which they do, whatever larger ones show
_BEYOND_CHANCE = 2.5  # Standard errors by which differences must be missing
_ENOUGH = 10.0  # Differences to expect before those seen are a measure
_ROUNDING = 1e-9
_MULTIPLE = 1e-6  # Relative error within which a weight is a multiple of another
_SINGLES = 0.1  # Share of the cells with a class that must hold a single row of it for its weight to be seen


@dataclass(frozen=True)
class Duplicates:
    """``per_row``: how many duplicates of itself the mean unit of weight is among, 1 where none show.

    ``uniform``: all rows have as many, so that weight divided by it counts rows; else a cell is best taken for one row.
    """

    per_row: float
    uniform: bool = True


def find_duplicates(count: FloatArray, label: FloatArray, rate: FloatArray) -> Duplicates:
    """Duplicates in cells of some weight and positives; ``rate`` is what independent rows of each would show, or about.

    What was fitted on some rows is evaluated on others, which must hold no duplicate of a row that was fitted on.
    Weights do not say which they are: 10 may stand for ten rows of a table of counts, or for one row that matters ten
    times. Two things tell. Where all rows of a class weigh the same, every weight is a multiple of it. And labels: rows
    of one cell that are independent differ as often as their rate r says, so that over cells

        E[l(n − l)/(n − 1)] = n·r(1 − r),

    where l of n are positive; duplicates of one row never differ. They show in the smallest cells: a cell of n that
    holds rows m times each falls short of this by the share (m − 1)/(n − 1). Cells that differ in their rates fall
    short as well, but large ones as much as small ones.

    >>> rng = np.random.default_rng(0)
    >>> rows, weight, rate = rng.binomial(1, 0.3, 1000), rng.integers(1, 4, 1000), np.full(1000, 0.3)
    >>> find_duplicates(np.full(1000, 2.5), 2.5 * rows, rate)
    Duplicates(per_row=2.5, uniform=True)
    >>> find_duplicates(weight * 1.0, weight * 1.0 * rows, rate).uniform
    False
    >>> find_duplicates(np.full(1000, 4.0), rng.binomial(4, 0.3, 1000).astype(float), rate)
    Duplicates(per_row=1.0, uniform=True)
    """
    negatives = count - label
    positive, negative = _weight_of_class(label), _weight_of_class(negatives)
    if not positive or not negative:
        repeated = _copies_by_labels(count, label, rate)
        return Duplicates(repeated, uniform=repeated == 1.0)
    if abs(positive - negative) > _MULTIPLE * positive:
        return Duplicates(float(np.sum(label * positive + negatives * negative) / np.sum(count)), uniform=False)
    repeated = _copies_by_labels(count / positive, label / positive, rate)
    return Duplicates(repeated * positive, uniform=repeated == 1.0)


def _weight_of_class(weight: FloatArray) -> float:
    """What each row of a class weighs where all weigh the same, seen from the weight of the class in cells; else 0."""
    present = weight[weight > _ROUNDING]
    if not len(present):
        return 0.0
    times = present / present.min()
    single = times < 1.0 + _MULTIPLE
    regular = bool(np.all(np.abs(times - np.rint(times)) <= _MULTIPLE * times)) and np.mean(single) >= _SINGLES
    return float(np.mean(present[single])) if regular else 0.0


def _copies_by_labels(count: FloatArray, label: FloatArray, rate: FloatArray) -> float:
    """Duplicates of a row, averaged over weight, as labels show them."""
    large = np.flatnonzero(count > _MORE_THAN_ONE)
    if not len(large):
        return 1.0
    n, positives, rate = count[large], label[large], rate[large]
    octave = np.floor(np.log2(n)).astype(np.intp)
    variance = n * rate * (1.0 - rate)
    seen, expected, others = (
        np.bincount(octave, amount).astype(np.float64)
        for amount in (positives * (n - positives) / (n - 1.0), variance, variance * (n - 1.0))
    )
    whole = np.abs(n - np.rint(n)) <= _ROUNDING * n
    if not np.all(whole) and float(expected.sum()) < _ENOUGH:
        # Rows are weighted for certain, and labels are too few to tell whether anything else is in the cells.
        most = np.inf
    else:
        most = max(_most_duplicates(seen, expected, others), 1.0)
    return float(np.sum(count * np.clip(count, 1.0, most)) / np.sum(count))


def rate_by_score(count: FloatArray, label: FloatArray, log_odds: FloatArray) -> FloatArray:
    """Rate of positives among cells of about the same score, for the score itself may be far off."""
    order = np.argsort(log_odds, kind="stable")
    upto = np.cumsum(count[order])
    group = np.empty(len(count), np.intp)
    group[order] = np.minimum(upto / upto[-1] * _SCORE_GROUPS, _SCORE_GROUPS - 1).astype(np.intp)
    weight = np.bincount(group, count, _SCORE_GROUPS)
    rate = np.bincount(group, label, _SCORE_GROUPS) / np.where(weight > 0.0, weight, 1.0)
    return np.asarray(rate[group], dtype=np.float64)


def _most_duplicates(seen: FloatArray, expected: FloatArray, others: FloatArray) -> float:
    """Duplicates of a row in the largest cells that hold mostly duplicates, by octaves of weight; 0 where none do."""
    significant, most = False, 0.0
    seen_so_far = expected_so_far = 0.0
    for octave in np.flatnonzero(expected > 0.0):
        larger = float(expected[octave + 1 :].sum())
        measured = min(float(seen[octave + 1 :].sum()) / larger, 1.0) if larger >= _ENOUGH else 0.0
        if seen[octave] >= max(_MOSTLY * measured, _HARDLY_ANY) * expected[octave]:
            break
        # Where larger cells hold duplicates too, or there are none, they are no measure.
        share = measured if _MOSTLY * measured > _HARDLY_ANY else 1.0
        seen_so_far += float(seen[octave])
        expected_so_far += share * float(expected[octave])
        significant = significant or expected_so_far - seen_so_far > _BEYOND_CHANCE * np.sqrt(expected_so_far)
        missing = 1.0 - float(seen[octave]) / (share * float(expected[octave]))
        most = 1.0 + missing * float(others[octave] / expected[octave])
    return most if significant else 0.0


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
