"""Trees made ready for many rows: each is looked up, masked or walked, whichever is fastest for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import numpy as np

from mbct.model.bins import CodeMatrix
from mbct.model.masks import WORD, masks_of_trees
from mbct.model.tables import TreeTable, table_of, table_steps
from mbct.model.tree import CalibrationTree
from mbct.validation import FloatArray

_MOST_WORDS = 4  # Words a tree takes on average up to which masks beat walking


class Steps(Protocol):
    """Some consecutive trees of an ensemble."""

    def add_to(self, total: FloatArray, codes: CodeMatrix) -> None:
        """Multiply or add the steps of each row, in the order of the trees."""


@dataclass(frozen=True, eq=False)
class WalkedTrees:
    """Trees that are walked node by node."""

    trees: tuple[CalibrationTree, ...]
    product: bool

    def add_to(self, total: FloatArray, codes: CodeMatrix) -> None:
        """Multiply or add the steps of each row."""
        for tree in self.trees:
            (np.multiply if self.product else np.add)(total, tree.leaf_value[tree.apply(codes)], out=total)


def large_table(tree: CalibrationTree, n_codes: Sequence[int]) -> TreeTable | None:
    """The tree as a table, unless it fits one word of masks, which are as fast and smaller."""
    return table_of(tree, n_codes) if len(tree.leaves) > WORD else None


def compile_trees(trees: Sequence[CalibrationTree], n_codes: Sequence[int], *, product: bool) -> tuple[Steps, ...]:
    """Runs of trees of one kind, in their order: results are those of walking, to the bit."""
    tables = [large_table(tree, n_codes) for tree in trees]
    others = [tree for tree, table in zip(trees, tables, strict=True) if table is None]
    masked = sum(-(-len(tree.leaves) // WORD) for tree in others) <= _MOST_WORDS * len(others)
    compiled: list[Steps] = []
    for is_table, group in groupby(zip(trees, tables, strict=True), key=lambda pair: pair[1] is not None):
        run, found = zip(*group, strict=True)
        if is_table:
            compiled.append(table_steps(run, [table for table in found if table is not None], product=product))
            continue
        masks = masks_of_trees(run, n_codes, product=product) if masked else None
        few_words = masks is not None and len(masks.steps) <= _MOST_WORDS * len(run)
        compiled.append(masks if masks is not None and few_words else WalkedTrees(run, product))
    return tuple(compiled)
