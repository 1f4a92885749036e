"""A calibration tree drawn as boxes: rows, multiplier and bound of its nodes, down to the largest steps."""

import math
from typing import Any, Self

from mbct.errors import ParameterError
from mbct.evaluation.diagnostics.tree_outline import TreeNode, TreeOutline, outline_tree
from mbct.model.ensemble import CalibrationEnsemble
from mbct.plots.style import AFTER, BEFORE, NEUTRAL, axes_for

_LABEL_LENGTH = 30
_LINE_HEIGHT = 0.74


class TreeDisplay:
    """One tree from left to right, a node a box; blue raises predictions, orange lowers them.

    Parameters
    ----------
    outline : TreeOutline
        Computed result.
    max_leaves : int or None, default=10
        Leaves that are drawn, those with the largest steps, and the nodes on the way to them; None draws all.
    max_depth : int or None, default=None
        Splits down to which nodes are drawn; None draws all.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on, after :meth:`plot`.
    """

    def __init__(self, outline: TreeOutline, *, max_leaves: int | None = 10, max_depth: int | None = None):
        self.outline = outline
        self.max_leaves = max_leaves
        self.max_depth = max_depth

    @classmethod
    def from_estimator(
        cls,
        calibrator: Any,
        *,
        tree: int = 0,
        max_leaves: int | None = 10,
        max_depth: int | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw a tree of a fitted MBCT calibrator.

        Parameters
        ----------
        calibrator : MBCTCalibrator or CalibrationEnsemble
            A fitted calibrator, or its ensemble.
        tree : int, default=0
            Number of the tree, from 0.
        max_leaves, max_depth : int or None, default=10 and None
            Which nodes are drawn, see :class:`TreeDisplay`.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.
        """
        model = calibrator if isinstance(calibrator, CalibrationEnsemble) else getattr(calibrator, "model_", None)
        if not isinstance(model, CalibrationEnsemble):
            raise ParameterError(f"a fitted MBCTCalibrator is needed, got {type(calibrator).__name__}: it has no trees")
        outline = outline_tree(model, getattr(calibrator, "trace_", None), tree=tree)
        return cls(outline, max_leaves=max_leaves, max_depth=max_depth).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``; None makes a new figure."""
        place = self._places()
        lines = max(y for _, y in place.values()) + 1
        depth = max(x for x, _ in place.values()) + 1
        ax = axes_for(ax, 0.4 + 2.9 * depth, 0.5 + _LINE_HEIGHT * lines)
        for node in self.outline.nodes:
            if node.number in place:
                self._draw(ax, node, place)
        ax.set(xlim=(-0.04, depth), ylim=(lines - 0.35, -0.9))
        ax.set_axis_off()
        title = f"tree {self.outline.tree + 1} of {self.outline.n_trees}: multipliers of the {self.outline.applies_to}"
        n_leaves = sum(node.is_leaf for node in self.outline.nodes)
        if self.max_leaves is not None and n_leaves > self.max_leaves:
            title += f", the {self.max_leaves} largest of {n_leaves} steps"
        ax.set_title(title, loc="left", fontsize=10)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _places(self) -> dict[int, tuple[float, float]]:
        """Column and line of every node shown: leaves one below the other, parents in the middle of their children."""
        nodes, drawn = self.outline.nodes, self._largest()
        place: dict[int, tuple[float, float]] = {}
        line = 0.0

        def settle(number: int) -> float:
            nonlocal line
            node = nodes[number]
            deepest = self.max_depth is not None and node.depth >= self.max_depth
            if node.is_leaf or deepest:
                y, line = line, line + 1.0
            else:
                below = [settle(child) for child in node.children if child in drawn]
                y = (below[0] + below[-1]) / 2.0
            place[number] = (float(node.depth), y)
            return y

        settle(0)
        return place

    def _largest(self) -> set[int]:
        """The leaves whose multiplier is furthest from 1, up to ``max_leaves`` of them, and all nodes above them."""
        nodes = self.outline.nodes
        leaves = [node for node in nodes if node.is_leaf]
        leaves.sort(key=lambda node: -abs(math.log(max(node.multiplier, 1e-300))))
        drawn = {node.number for node in leaves[: self.max_leaves]}
        for node in reversed(nodes):  # parents come before their children
            if node.number in drawn and node.parent >= 0:
                drawn.add(node.parent)
        return drawn

    def _draw(self, ax: Any, node: TreeNode, place: dict[int, tuple[float, float]]) -> None:
        x, y = place[node.number]
        colour = AFTER if node.multiplier > 1.0005 else BEFORE if node.multiplier < 0.9995 else NEUTRAL
        text = f"× {node.multiplier:.4g}   {node.rows:,.0f} rows\nrate {node.label_rate:.4g} ± {node.bound:.2g}"
        hidden = any(child not in place for child in node.children)
        ax.annotate(
            f"{text} …" if hidden else text,
            (x, y),
            fontsize=8.5,
            va="center",
            bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": colour, "linewidth": 1.4},
            zorder=3,
        )
        if node.parent >= 0:
            px, py = place[node.parent]
            ax.plot([px + 0.1, px + 0.62, px + 0.78, x], [py, py, y, y], color="#9CA3AF", linewidth=1.0, zorder=1)
            label = (
                node.condition if len(node.condition) <= _LABEL_LENGTH else f"{node.condition[: _LABEL_LENGTH - 1]}…"
            )
            ax.text(x - 0.02, y - 0.34, label, fontsize=8.5, va="bottom", color="#374151")
