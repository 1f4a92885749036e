"""The level-wise strategy: rows stay in the engine, which sums them by (node, code) once for each level of a tree.

What comes back is bounded by nodes × codes, however many cells there are.
"""

from typing import Self

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from mbct.data.engines.engine import Frame
from mbct.data.rows import SUM_NAMES, P, W, Y, code_column, sums_by
from mbct.data.source import LazySource
from mbct.model.bins import code_offsets
from mbct.model.tree import STOP, IntArray
from mbct.training.paper.histogram import N_SUMS
from mbct.validation import FloatArray

_NODE, _CODE = "__mbct_node", "__mbct_code"
_SPLIT, _CHILD, _STEP = "__mbct_split", "__mbct_child", "__mbct_step"


class EngineLevels:
    """Coded rows as the grower sees them (:class:`~mbct.training.paper.levelwise.LevelSource`).

    The engine keeps one table of codes, prediction, label, weight and node; moving rows down a level, or multiplying
    predictions at the end of a tree, writes it anew.
    """

    most_sums_at_once = 40_000_000
    """320 MB: every request is a query."""

    def __init__(self, coded: LazySource, n_codes: tuple[int, ...]):
        self.engine = coded.engine
        self.n_codes = n_codes
        self.offset = code_offsets(n_codes)
        self.codes = [code_column(j) for j in range(len(n_codes))]
        self.frame = self.engine.materialize(coded.frame.with_columns(nw.lit(0).cast(nw.Int32).alias(_NODE)))
        self.moved: set[int] = set()
        self.answered: tuple[list[int], FloatArray] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.release(self.frame)

    def level_sums(self, nodes: list[int]) -> FloatArray:
        """Five sums for each of ``nodes`` and each code of each feature, shape (nodes, codes, 5).

        The last answer is remembered while no row has moved: a tree asks twice for its root.
        """
        if self.answered is None or self.answered[0] != nodes:
            self.answered = (list(nodes), self._level_sums(nodes))
        return self.answered[1]

    def _level_sums(self, nodes: list[int]) -> FloatArray:
        open_rows = self.frame.filter(nw.col(_NODE).is_in(nodes)).with_columns(
            *(nw.col(name) + int(self.offset[j]) for j, name in enumerate(self.codes))
        )
        long = self.engine.unpivot(open_rows, self.codes, _CODE, (_NODE, P, Y, W))
        found = self.engine.collect(sums_by(long, (_NODE, _CODE), SUM_NAMES))
        slot_of = {node: slot for slot, node in enumerate(nodes)}
        slots = np.array([slot_of[node] for node in found[_NODE].to_list()], dtype=np.intp)
        out = np.zeros((len(nodes), int(self.offset[-1]), N_SUMS))
        places = np.asarray(found[_CODE].to_numpy(), dtype=np.intp)
        for s, name in enumerate(SUM_NAMES):
            out[slots, places, s] = found[name].to_numpy()
        return out

    def move(self, feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray) -> None:
        """Send rows of the nodes that were split on to their children: two joins with small tables."""
        nodes = [n for n in np.flatnonzero(feature >= 0).tolist() if n not in self.moved]
        self.moved.update(nodes)
        parents, codes, children = [], [], []
        for node in nodes:
            start = int(table_start[node])
            child = table[start : start + self.n_codes[feature[node]]]
            reached = np.flatnonzero(child != STOP)
            parents.append(np.full(len(reached), node))
            codes.append(reached)
            children.append(child[reached])
        splits = self.engine.table(self.frame, {_NODE: np.array(nodes), _SPLIT: feature[nodes]})
        steps = self.engine.table(
            self.frame, {_NODE: np.concatenate(parents), _CODE: np.concatenate(codes), _CHILD: np.concatenate(children)}
        )
        split_code = nw.lit(STOP)
        for j in np.unique(feature[nodes]).tolist():
            split_code = nw.when(nw.col(_SPLIT) == j).then(nw.col(self.codes[j])).otherwise(split_code)
        moved = (
            self.frame.join(splits, on=_NODE, how="left")
            .with_columns(split_code.cast(nw.Int32).alias(_CODE))
            .join(steps, on=[_NODE, _CODE], how="left")
        )
        stayed = nw.col(_CHILD).is_null()
        reached_node = nw.when(stayed).then(nw.col(_NODE)).otherwise(nw.col(_CHILD)).cast(nw.Int32)
        self._replace(moved.select(*self.codes, P, Y, W, reached_node.alias(_NODE)))

    def multiply(self, multiplier: FloatArray) -> None:
        """End a tree: multiply each row's prediction by its node's multiplier and go back to the root."""
        steps = self.engine.table(self.frame, {_NODE: np.arange(len(multiplier)), _STEP: multiplier})
        joined = self.frame.join(steps, on=_NODE, how="left")
        root = nw.lit(0).cast(nw.Int32).alias(_NODE)
        self._replace(joined.select(*self.codes, (nw.col(P) * nw.col(_STEP)).alias(P), Y, W, root))
        self.moved.clear()

    def _replace(self, frame: Frame) -> None:
        before = self.frame
        self.answered = None
        self.frame = self.engine.materialize(frame)
        self.engine.release(before)
