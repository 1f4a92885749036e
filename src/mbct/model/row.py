"""One row in one call of a kernel: the trees as masks and tables side by side, no array made."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import code_offsets
from mbct.model.ensemble import large_table
from mbct.model.masks import WordArray, masked_total_of_row, masks_of_trees, moved
from mbct.model.tables import FIRST, stack_tables, table_total_of_row
from mbct.model.tree import IntArray
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
