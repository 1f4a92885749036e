"""Rows for distillation: real ones with the ensemble's probabilities as labels, and synthetic ones between them.

Labels can be had for real rows only, but an ensemble answers for any row. Where real ones are few, trees would overfit
it there and miss it elsewhere; synthetic rows that mix the values of two real ones fill the space between (model
compression: Buciluă, Caruana and Niculescu-Mizil, 2006).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mbct.model.bins import CodeMatrix, code_offsets
from mbct.stats.logodds import sigmoid
from mbct.training.binned_rows import BinnedRows
from mbct.training.cells import Cells
from mbct.validation import FloatArray

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
