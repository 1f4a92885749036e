"""A fitted ensemble as if-then rules: what each bin holds, what it multiplies by, and how sure that is.

Conditions are in the data's own words: ``hour 6-9``, ``bonus 0 or 7``, ``carrier other than UA or AA``.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from mbct.model.bins import Feature, NumberBins
from mbct.model.conditions import outcomes
from mbct.model.tree import NODE_SUMS, STOP, CalibrationTree, moved, runs, terminal_sums
from mbct.stats.theorem import label_rate_bound
from mbct.validation import FloatArray

if TYPE_CHECKING:
    from mbct.model.ensemble import CalibrationEnsemble


_MISSING, _UNSEEN = "missing", "unseen"
_SHORTEST_RANGE = 3  # Neighbouring values from which on a range reads better than a list
_MOST_SINGLE_VALUES = 32
"""Values of a number that are not whole, up to which single ones are named rather than intervals."""


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
    words: tuple[str, ...] = ()
    """What the feature may be, in words."""
    other_than: tuple[str, ...] = ()
    """What it may not be, where that is said faster."""

    def __str__(self) -> str:
        return self.shortened(len(self.words))

    def shortened(self, most: int) -> str:
        """In words, with about so many of them and the others counted.

        >>> Condition("day", words=("≤ 2", "5", "8-9", "missing")).shortened(2)
        'day ≤ 2, 5 or 2 more'
        >>> Condition("site", words=("a", "b"), other_than=("c",)).shortened(9)
        'site other than c'
        """
        listed = self.other_than or self.words
        if len(listed) > max(most, 1) + 1:  # "or 1 more" is no shorter than naming it
            listed = (*listed[: max(most, 1)], f"{len(listed) - max(most, 1):,} more")
        other = " other than" if self.other_than else ""
        return f"{self.feature}{other} {_listed(listed) or 'has no value'}"


def condition(feature: Feature, codes: frozenset[int]) -> Condition:
    """The restriction of a feature to some of its codes, in terms of raw values.

    >>> hour = NumberBins("hour", (0.5, 1.5, 2.5, 5.0), (0.0, 1.0, 2.0, 3.0, 7.0))
    >>> [str(condition(hour, frozenset(codes))) for codes in ([0], [1, 2, 3], [0, 4, 5], [2, 3, 4])]
    ['hour 0', 'hour 1-3', 'hour 0, 7 or missing', 'hour ≥ 2']
    """
    n_values = feature.n_values
    known = sorted(code for code in codes if code < n_values)
    missing, unseen = feature.missing in codes, feature.unseen in codes
    if isinstance(feature, NumberBins):
        intervals = tuple(_intervals(feature, known))
        named = _speaks_of_values(feature)
        words = _words_of_values(feature, known) if named else [_interval_text(*ends) for ends in intervals]
        words += [_MISSING] * missing
        if len(known) == n_values:
            words = ["anything" if missing else "known"]
        return Condition(feature.name, intervals, (), missing, unseen, tuple(words))
    values = tuple(feature.values[code] for code in known)
    words = [*map(_visible, values), *[_MISSING] * missing, *[_UNSEEN] * unseen]
    left_out = [_visible(value) for code, value in enumerate(feature.values) if code not in codes]
    left_out += [_MISSING] * (not missing)
    shorter = unseen and bool(values) and len(left_out) < len(values)
    return Condition(
        feature.name, (), values, missing, unseen, tuple(words), tuple(left_out or ["nothing"]) if shorter else ()
    )


def _visible(value: str) -> str:
    """A value in quotes where spaces at its ends would not be seen."""
    return value if value == value.strip() else repr(value)


def _speaks_of_values(feature: NumberBins) -> bool:
    whole = all(value.is_integer() for value in feature.distinct)
    return bool(feature.distinct) and (whole or len(feature.distinct) <= _MOST_SINGLE_VALUES)


def _words_of_values(feature: NumberBins, codes: Sequence[int]) -> list[str]:
    words = []
    for first, last in runs(codes):
        if last - first + 1 < _SHORTEST_RANGE:
            words += [number_text(feature.distinct[code]) for code in range(first, last + 1)]
        elif first == 0:
            words.append(f"≤ {number_text(feature.distinct[last])}")
        elif last == feature.n_values - 1:
            words.append(f"≥ {number_text(feature.distinct[first])}")
        else:
            words.append(_range(feature.distinct[first], feature.distinct[last]))
    return words


def _intervals(feature: NumberBins, codes: Sequence[int]) -> Iterator[tuple[float, float]]:
    bounds = (-math.inf, *feature.edges, math.inf)
    for first, last in runs(codes):
        yield bounds[first], bounds[last + 1]


def _interval_text(low: float, high: float) -> str:
    if math.isinf(low):
        return f"≤ {number_text(high)}"
    return f"> {number_text(low)}" if math.isinf(high) else f"{number_text(low)} to {number_text(high)}"


def _range(low: float, high: float) -> str:
    return f"{number_text(low)} to {number_text(high)}" if low < 0 else f"{number_text(low)}-{number_text(high)}"


def number_text(value: float) -> str:
    """A number with as few digits as six significant ones need; whole numbers in full.

    >>> [number_text(value) for value in (7.0, 1234567.0, 0.30000000000000004)]
    ['7', '1234567', '0.3']
    """
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def _listed(words: Iterable[str]) -> str:
    *rest, last = [*words] or [""]
    return f"{', '.join(rest)} or {last}" if rest else last


@dataclass(frozen=True)
class Rule:
    """If all conditions hold, then multiply: one bin of one tree."""

    tree: int
    node: int
    restrictions: tuple[tuple[Feature, frozenset[int]], ...]
    """Features and the codes of them that the rule is about."""
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
    """Whether the bin collects what no branch of an inner node takes: too few training rows, or none."""

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """The restrictions in words, which are found when they are asked for: of thousands of rules few are shown."""
        return tuple(condition(feature, codes) for feature, codes in self.restrictions)

    @property
    def after(self) -> float:
        """What the rule makes of the mean prediction."""
        value = self.multiplier if self.applies_to == "probability" else math.log(self.multiplier)
        return moved(self.mean_prediction, value, self.applies_to == "probability")

    @property
    def effect(self) -> float:
        """By how many positives the rule moves the predictions of its training rows; rules are sorted by it."""
        return self.rows * abs(self.after - self.mean_prediction)

    @property
    def direction(self) -> str:
        """How the prediction was, by what the rule makes of it."""
        return "too low" if self.multiplier > 1.0 else "too high" if self.multiplier < 1.0 else "right"

    @property
    def summary(self) -> str:
        """Factor, direction, rows, and the mean prediction before and after."""
        return (
            f"× {self.multiplier:.4g}, predicted {self.direction}, {self.rows:,.0f} rows, "
            f"{self.mean_prediction:.3g} → {self.after:.3g}"
        )

    def __str__(self) -> str:
        return f"{self.summary}: {' and '.join(map(str, self.conditions)) or 'always'}"

    def shortened(self, width: int) -> str:
        """On one line of so many characters: lists of values are cut first, the end of the line last."""
        most = max((len(each.words) for each in self.conditions), default=0)
        for named in (most, 8, 4, 2, 1):
            conditions = " and ".join(each.shortened(named) for each in self.conditions) or "always"
            line = f"{self.summary}: {conditions}"
            if len(line) <= width:
                return line
        return f"{line[: width - 1]}…"


def rules(model: "CalibrationEnsemble", *, fallbacks: bool = False) -> Iterator[Rule]:
    """Rules that training rows met, tree by tree; those of one tree exclude each other.

    With ``fallbacks`` also those of no training row, for values not seen there: then one of each tree holds for a row.
    """
    for number, tree in enumerate(model.trees):
        for rule in _rules_of_tree(model, number, tree):
            if fallbacks or rule.rows > 0.0:
                yield rule


def _rules_of_tree(model: "CalibrationEnsemble", number: int, tree: CalibrationTree) -> Iterator[Rule]:
    sums = terminal_sums(tree)
    n_bins = len(tree.leaves)
    pending: list[tuple[int, dict[int, frozenset[int]]]] = [(0, {})]
    while pending:
        node, path = pending.pop()
        feature = int(tree.feature[node])
        if feature < 0:
            yield rule_of_node(model, number, tree, node, path, sums, n_bins, fallback=False)
            continue
        allowed = path.get(feature, frozenset(range(model.bins[feature].n_codes)))
        paths = {child: {**path, feature: codes} for child, codes in outcomes(model, tree, node, allowed).items()}
        if STOP in paths:
            yield rule_of_node(model, number, tree, node, paths.pop(STOP), sums, n_bins, fallback=True)
        pending.extend(reversed(paths.items()))


def rule_of_node(
    model: "CalibrationEnsemble",
    number: int,
    tree: CalibrationTree,
    node: int,
    path: dict[int, frozenset[int]],
    sums: dict[str, FloatArray],
    n_bins: int,
    *,
    fallback: bool,
) -> Rule:
    """The rule of the rows that stop at a node, to which a ``path`` of codes of each feature leads."""
    count, label, pred = (float(sums[name][node]) for name in NODE_SUMS)
    rate = label / count if count else 0.0
    value = float(tree.leaf_value[node])
    return Rule(
        tree=number,
        node=node,
        restrictions=tuple((model.bins[feature], codes) for feature, codes in path.items()),
        multiplier=value if model.link == "linear" else math.exp(value),
        applies_to="probability" if model.link == "linear" else "odds",
        rows=count,
        label_rate=rate,
        mean_prediction=pred / count if count else 0.0,
        pud=pred / label if label else math.inf,
        bound=float(label_rate_bound(rate, count, n_bins, model.alpha)) if count else 1.0,
        fallback=fallback,
    )


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
    value = float(tree.leaf_value[node])
    multiplier = value if model.link == "linear" else math.exp(value)
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
    plain = {each.name: getattr(rule, each.name) for each in fields(rule) if each.name != "restrictions"}
    return {**plain, "pud": _finite(rule.pud), "if": conditions}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
