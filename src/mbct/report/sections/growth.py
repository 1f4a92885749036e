"""Chapter: growth of the first tree, with local and global loss, as an outline that folds."""

import math
from typing import Any

from mbct.data.columns import encode
from mbct.evaluation.diagnostics.tree_outline import TreeNode, TreeOutline, first_grown, outline_tree, replay_growth
from mbct.model.tree import FitTrace, SplitRecord
from mbct.report.charts import AFTER, BEFORE, altair, chart, figure, tooltip, upright_axis
from mbct.report.page import Section, card, number, text
from mbct.report.scored import Scored

TITLE = "How the first tree grew"
MOST_SPLITS = 40


def section(scored: Scored) -> Section:
    """The first tree of more than one split; its losses are those of the fit, or else replayed on these rows."""
    outline = _outline(scored)
    if outline is None:
        return Section("tree", TITLE, "This model has no trees: there is nothing to show here.", "")
    earlier = "" if outline.tree == 0 else " (those before it have one split each)"
    where = "replayed on these rows" if outline.loss == "log loss" else "as the model was fitted"
    loss = outline.loss.upper() if outline.loss == "mvce" else outline.loss
    lead = (
        f"Tree {outline.tree + 1} of {outline.n_trees:,}{earlier}. A node's rows share the multiplier of the "
        f"{outline.applies_to} shown; its label rate is known within the bound (Theorem 1). A good split lowers the "
        f"node's own (local) loss and with it the loss of all rows (global): {loss}, {where}."
    )
    charts = ""
    if splits := outline.splits[:MOST_SPLITS]:
        total = figure("global-loss", _global(splits), "Loss of all rows after each split", height=200)
        local = figure("local-loss", _local(splits), "Change of the loss of each split node", height=200)
        cards = card("Loss of all rows", total) + card("Change of the loss of the split node", local)
        charts = f'<div class="grid">{cards}</div>'
    buttons = (
        '<p class="buttons"><button type="button" data-fold="open">unfold all</button>'
        '<button type="button" data-fold="close">fold all</button></p>'
    )
    tree = f'<div class="tree" id="tree-outline"><ul>{_node(outline, outline.root)}</ul></div>'
    return Section("tree", TITLE, lead, charts + buttons + tree, folded=True)


def _outline(scored: Scored) -> TreeOutline | None:
    model, trace = scored.model, getattr(scored.calibrator, "trace_", None)
    if model is None or not model.trees:
        return None
    tree = first_grown(model)
    if isinstance(trace, FitTrace) and any(split.tree == tree for split in trace.splits):
        return outline_tree(model, trace, tree=tree)
    rows = scored.predictions
    codes = encode(rows.columns, model.bins, rows.before)
    splits = replay_growth(model, codes, rows.before, rows.y_true, rows.weight, tree)
    return outline_tree(model, tree=tree, splits=splits)


def _node(outline: TreeOutline, node: TreeNode) -> str:
    """A node and, folded within it, its children."""
    if node.is_leaf:
        return f'<li class="leaf"><div class="node">{_label(node)}</div></li>'
    below = "".join(_node(outline, outline.nodes[child]) for child in node.children)
    opened = " open" if node.depth < 2 else ""
    return f'<li><details{opened}><summary class="node">{_label(node)}</summary><ul>{below}</ul></details></li>'


def _label(node: TreeNode) -> str:
    direction = "up" if node.multiplier > 1.0005 else "down" if node.multiplier < 0.9995 else "same"
    width = min(abs(math.log(max(node.multiplier, 1e-9))) / math.log(2.0), 1.0) * 50.0
    parts = [
        f'<span class="condition">{text(node.condition)}</span>',
        f'<span class="facts"><span class="multiplier {direction}" style="--size:{width:.1f}%">'
        f"× {number(node.multiplier)}</span>",
        f'<span class="fact">{node.rows:,.0f} rows</span>',
        f'<span class="fact">rate {number(node.label_rate, 3)} ± {number(node.bound, 2)}</span>',
    ]
    if node.split is not None:
        split, change = node.split, f"{100.0 * _fall(node.split):+.2g} %".replace("-", "−")
        parts.append(
            f'<span class="fact losses">split by {text(split.feature)}: '
            f'<span class="local">local {number(split.node_loss_before)} {change}</span>, '
            f'<span class="global">global {number(split.ensemble_loss, 5)}</span></span>'
        )
    return f'<span class="body">{"".join(parts)}</span></span>'


def _fall(split: SplitRecord) -> float:
    """Relative change of the split node's own loss."""
    return split.node_loss_after / split.node_loss_before - 1.0 if split.node_loss_before > 0 else 0.0


def _splits(splits: tuple[SplitRecord, ...]) -> Any:
    """A chart of splits in the order of growth."""
    shown = [
        {
            "split": i,
            "feature": s.feature,
            "rows": s.count,
            "before": s.node_loss_before,
            "after": s.node_loss_after,
            "all": s.ensemble_loss,
            "fall": _fall(s),
        }
        for i, s in enumerate(splits, start=1)
    ]
    return chart(shown)


def _global(splits: tuple[SplitRecord, ...]) -> Any:
    alt = altair()
    base = _splits(splits).encode(
        x=alt.X("split:O", title="split", axis=upright_axis()),
        y=alt.Y("all:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4, format="~g")),
    )
    tips = tooltip({"split": "split:O", "feature": "feature:N", "loss of all rows": "all:Q .6f"})
    return alt.layer(
        base.mark_line(interpolate="step", color=BEFORE, strokeWidth=2),
        base.mark_point(filled=True, size=45, color=BEFORE, opacity=1).encode(tooltip=tips),
    )


def _local(splits: tuple[SplitRecord, ...]) -> Any:
    alt = altair()
    tips = {"split": "split:O", "feature": "feature:N", "rows": "rows:Q ,.0f"}
    return (
        _splits(splits)
        .mark_bar(color=AFTER, cornerRadiusEnd=2)
        .encode(
            x=alt.X("split:O", title="split", scale=alt.Scale(padding=0.3), axis=upright_axis()),
            y=alt.Y("fall:Q", title=None, axis=alt.Axis(tickCount=4, format="~%")),
            tooltip=tooltip({**tips, "before the split": "before:Q .6f", "after it": "after:Q .6f"}),
        )
    )
