"""One row in one call of a kernel: the trees as masks and tables side by side, no array made."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import code_offsets
from mbct.model.ensemble import WordArray, large_table, masks_of_trees
from mbct.model.tables import FIRST, N_FEATURES, PAIRS, stack_tables
from mbct.model.tree import DE_BRUIJN, HASH_SHIFT, IntArray, moved
from mbct.validation import FloatArray

if TYPE_CHECKING:
    from mbct.model.ensemble import CalibrationEnsemble


class RowTrees(NamedTuple):
    """Masks of small trees and tables of large ones, for codes that are counted on from feature to feature."""

    words: WordArray
    leaf_values: FloatArray
    plan: npt.NDArray[np.int64]
    classes: IntArray
    pairs: IntArray
    values: FloatArray
    product: bool


def row_trees(model: "CalibrationEnsemble") -> RowTrees | None:
    """The trees of a model, tables first; None where masks would need too much memory."""
    n_codes, product = model.bins.n_codes, model.link == "linear"
    tables = [large_table(tree, n_codes) for tree in model.trees]
    masks = masks_of_trees(
        [tree for tree, table in zip(model.trees, tables, strict=True) if table is None], n_codes, product=product
    )
    if masks is None:
        return None
    tabular = [(tree, table) for tree, table in zip(model.trees, tables, strict=True) if table is not None]
    joined = stack_tables([tree for tree, _ in tabular], [table for _, table in tabular], product=product)
    plan = joined.plan
    features, begins = plan[:, FIRST::2], plan[:, FIRST + 1 :: 2]
    begins -= np.where(features >= 0, code_offsets(n_codes)[features], 0)
    return RowTrees(masks.words, masks.leaf_values, plan, joined.classes, joined.pairs, joined.values, product)


@kernel
def calibrate_row(
    rows: npt.NDArray[np.int64],
    score: float,
    words: WordArray,
    leaf_values: FloatArray,
    plan: npt.NDArray[np.int64],
    classes: IntArray,
    pairs: IntArray,
    values: FloatArray,
    product: bool,
) -> float:
    """Calibrated probability of one row, given its codes counted on from feature to feature."""
    total = table_total_of_row(rows, 1.0 if product else 0.0, plan, classes, pairs, values, product)
    return moved(score, masked_total_of_row(rows, total, words, leaf_values, product), product)


@kernel
def masked_total_of_row(
    rows: npt.NDArray[np.int64], total: float, words: WordArray, leaf_values: FloatArray, product: bool
) -> float:
    """``total`` moved by the trees, given the ``words`` rows of a row's codes: no array is made."""
    for g in range(words.shape[1]):
        reachable = words[rows[0], g]
        for j in range(1, len(rows)):
            reachable &= words[rows[j], g]
        if reachable != 0:
            bit = (np.uint64(reachable) * np.uint64(DE_BRUIJN)) >> np.uint64(HASH_SHIFT)
            total = total * leaf_values[g, bit] if product else total + leaf_values[g, bit]
    return total


@kernel
def table_total_of_row(
    codes: npt.NDArray[np.int64],
    total: float,
    plan: npt.NDArray[np.int64],
    classes: IntArray,
    pairs: IntArray,
    values: FloatArray,
    product: bool,
) -> float:
    """``total`` moved by the tables; ``codes`` of one row, to which ``plan`` says where the classes begin."""
    for t in range(len(plan)):
        place = 0
        for d in range(plan[t, N_FEATURES]):
            if d == 2 and plan[t, PAIRS] >= 0:
                place = pairs[plan[t, PAIRS] + place]
            place += classes[plan[t, FIRST + 2 * d + 1] + codes[plan[t, FIRST + 2 * d]]]
        value = values[place]
        total = total * value if product else total + value
    return total
