"""A fitted ensemble as if-then rules: what each bin holds, what it multiplies by, and how sure that is."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from mbct.model.bins import Feature, NumberBins
from mbct.model.tree import CalibrationTree
from mbct.stats.theorem import label_rate_bound

if TYPE_CHECKING:
    from mbct.model.ensemble import CalibrationEnsemble


@dataclass(frozen=True)
class Condition:
    """One feature restricted to some of its codes."""

    feature: str
    intervals: tuple[tuple[float, float], ...] = ()
    """Of a number: low < x ≤ high."""
    values: tuple[str, ...] = ()
    """Of a category."""
    missing: bool = False
    unseen: bool = False

    def __str__(self) -> str:
        return self.shortened(len(self.intervals) + len(self.values))

    def shortened(self, most: int) -> str:
        """In words, with at most so many values or intervals named and the others counted.

        >>> Condition("day", intervals=((-math.inf, 2.5), (4.5, 5.5), (7.5, 9.5)), missing=True).shortened(2)
        '(day in {≤ 2.5, (4.5, 5.5], 1 more} or day is missing)'
        """
        parts = []
        if len(self.intervals) == 1:
            parts.append(_interval_text(self.feature, *self.intervals[0]))
        elif self.intervals:
            parts.append(f"{self.feature} in {_listed([_interval_in_list(*ends) for ends in self.intervals], most)}")
        if len(self.values) == 1:
            parts.append(f"{self.feature} = {self.values[0]}")
        elif self.values:
            parts.append(f"{self.feature} in {_listed(self.values, most)}")
        if self.missing:
            parts.append(f"{self.feature} is missing")
        if self.unseen:
            parts.append(f"{self.feature} is a value not seen before")
        return parts[0] if len(parts) == 1 else f"({' or '.join(parts)})" if parts else f"{self.feature} has no value"


@dataclass(frozen=True)
class Rule:
    """If all conditions hold, then multiply: one bin of one tree."""

    tree: int
    node: int
    conditions: tuple[Condition, ...]
    multiplier: float
    applies_to: Literal["probability", "odds"]
    rows: float
    label_rate: float
    mean_prediction: float
    pud: float
    """Partition underestimated degree before this tree: mean prediction over label rate, below 1 means too low."""
    bound: float
    """Theorem 1: the bin's label rate lies this near to the truth, for all bins of the tree at once."""
    fallback: bool
    """Whether the bin collects what no branch of an inner node takes: values it met in no training row."""

    def __str__(self) -> str:
        condition = " and ".join(map(str, self.conditions)) or "always"
        return (
            f"if {condition} then multiply the {self.applies_to} by {self.multiplier:.4g}  "
            f"[{self.rows:,.0f} rows, rate {self.label_rate:.4g} ± {self.bound:.2g}, PUD {self.pud:.3g}]"
        )


def rules(model: "CalibrationEnsemble") -> Iterator[Rule]:
    """All rules, tree by tree; those of one tree exclude each other and cover every row."""
    for number, tree in enumerate(model.trees):
        yield from _rules_of_tree(model, number, tree)


def _rules_of_tree(model: "CalibrationEnsemble", number: int, tree: CalibrationTree) -> Iterator[Rule]:
    n_bins = len(tree.leaves)
    pending: list[tuple[int, dict[int, frozenset[int]]]] = [(0, {})]
    while pending:
        node, path = pending.pop()
        feature = int(tree.feature[node])
        if feature < 0:
            yield _rule(model, number, tree, node, path, n_bins, fallback=False)
            continue
        allowed = path.get(feature, frozenset(range(model.bins[feature].n_codes)))
        taken: frozenset[int] = frozenset()
        below = []
        for child, codes in tree.children(node, model.bins[feature].n_codes).items():
            reachable = allowed & frozenset(codes)
            taken |= reachable
            if reachable:
                below.append((child, {**path, feature: reachable}))
        if allowed - taken:
            yield _rule(model, number, tree, node, {**path, feature: allowed - taken}, n_bins, fallback=True)
        pending.extend(reversed(below))


def _rule(
    model: "CalibrationEnsemble",
    number: int,
    tree: CalibrationTree,
    node: int,
    path: dict[int, frozenset[int]],
    n_bins: int,
    *,
    fallback: bool,
) -> Rule:
    count, label, pred = float(tree.count[node]), float(tree.label[node]), float(tree.pred[node])
    rate = label / count if count else 0.0
    step = float(tree.step[node])
    return Rule(
        tree=number,
        node=node,
        conditions=tuple(condition(model.bins[feature], codes) for feature, codes in path.items()),
        multiplier=step if model.link == "linear" else math.exp(step),
        applies_to="probability" if model.link == "linear" else "odds",
        rows=0.0 if fallback else count,
        label_rate=rate,
        mean_prediction=pred / count if count else 0.0,
        pud=pred / label if label else math.inf,
        bound=float(label_rate_bound(rate, count, n_bins, model.alpha)),
        fallback=fallback,
    )


def condition(feature: Feature, codes: frozenset[int]) -> Condition:
    """The restriction of a feature to some of its codes, in terms of raw values."""
    known = sorted(code for code in codes if code < feature.n_values)
    missing, unseen = feature.missing in codes, feature.unseen in codes
    if isinstance(feature, NumberBins):
        return Condition(feature.name, intervals=tuple(_intervals(feature, known)), missing=missing)
    return Condition(feature.name, values=tuple(feature.values[code] for code in known), missing=missing, unseen=unseen)


def _intervals(feature: NumberBins, codes: list[int]) -> Iterator[tuple[float, float]]:
    bounds = (-math.inf, *feature.edges, math.inf)
    first = 0
    for position, code in enumerate(codes):
        if position + 1 == len(codes) or codes[position + 1] != code + 1:
            yield bounds[codes[first]], bounds[code + 1]
            first = position + 1


def _interval_text(name: str, low: float, high: float) -> str:
    if math.isinf(low) and math.isinf(high):
        return f"{name} is known"
    if math.isinf(low):
        return f"{name} ≤ {high:g}"
    if math.isinf(high):
        return f"{name} > {low:g}"
    return f"{low:g} < {name} ≤ {high:g}"


def _interval_in_list(low: float, high: float) -> str:
    if math.isinf(low):
        return f"≤ {high:g}"
    return f"> {low:g}" if math.isinf(high) else f"({low:g}, {high:g}]"


def _listed(texts: Sequence[str], most: int) -> str:
    shown = [*texts[:most], f"{len(texts) - most:,} more"] if len(texts) > most else texts
    return f"{{{', '.join(shown)}}}"


def to_text(model: "CalibrationEnsemble") -> str:
    """The trees as indented text, one line a node."""
    if not model.trees:
        return "identity: predictions are returned as they are"
    lines = []
    for number, tree in enumerate(model.trees):
        lines.append(f"tree {number + 1} of {len(model.trees)}")
        lines.extend(_lines_of_node(model, tree, 0, "everything", 1))
    return "\n".join(lines)


def _lines_of_node(
    model: "CalibrationEnsemble", tree: CalibrationTree, node: int, label: str, depth: int
) -> Iterator[str]:
    step = float(tree.step[node])
    multiplier = step if model.link == "linear" else math.exp(step)
    yield f"{'  ' * depth}{label}: × {multiplier:.4g}  [{tree.count[node]:,.0f} rows]"
    feature = int(tree.feature[node])
    if feature >= 0:
        for child, codes in tree.children(node, model.bins[feature].n_codes).items():
            text = str(condition(model.bins[feature], frozenset(codes)))
            yield from _lines_of_node(model, tree, child, text, depth + 1)


def rules_as_dicts(model: "CalibrationEnsemble") -> list[dict[str, Any]]:
    """Rules as plain JSON values; infinite ends of intervals and infinite PUDs become None."""
    return [rule_as_dict(rule) for rule in rules(model)]


def rule_as_dict(rule: Rule) -> dict[str, Any]:
    """One rule as plain JSON values."""
    conditions = [
        {
            "feature": c.feature,
            "intervals": [[_finite(low), _finite(high)] for low, high in c.intervals],
            "values": list(c.values),
            "missing": c.missing,
            "unseen": c.unseen,
        }
        for c in rule.conditions
    ]
    return {**{k: v for k, v in vars(rule).items() if k != "conditions"}, "pud": _finite(rule.pud), "if": conditions}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
