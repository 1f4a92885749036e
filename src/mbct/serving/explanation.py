"""Why a row is calibrated as it is: the rule that applies, tree by tree."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.errors import DataError
from mbct.model.encoding import as_probability
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.rules import Rule, rule_as_dict, rules
from mbct.model.tree import moved


@dataclass(frozen=True)
class TreePath:
    """A row's way through one tree: the rule that applies and the probability after it."""

    tree: int
    rule: Rule
    after: float


@dataclass(frozen=True)
class Explanation:
    """The prediction, the calibrated probability, and how each tree moved it."""

    score: float
    calibrated: float
    trees: tuple[TreePath, ...]

    @property
    def multiplier(self) -> float:
        """The factors of all trees together."""
        return math.prod(path.rule.multiplier for path in self.trees)

    def __str__(self) -> str:
        lines = [f"prediction {self.score:.6g}"]
        for path in self.trees:
            way = " and ".join(map(str, path.rule.conditions)) or "always"
            lines.append(f"× {path.rule.multiplier:.4g} → {path.after:.6g}  {path.rule.rows:,.0f} rows: {way}")
        if self.trees:
            lines.append(f"× {self.multiplier:.4g} on the {self.trees[0].rule.applies_to} in all")
        return "\n".join([*lines, f"calibrated {self.calibrated:.6g}"])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        trees = [{"rule": rule_as_dict(path.rule), "after": path.after} for path in self.trees]
        return {"score": self.score, "calibrated": self.calibrated, "multiplier": self.multiplier, "trees": trees}


def explain(
    model: CalibrationEnsemble, row: Mapping[str, Any], rule_of: Mapping[tuple[int, int], Rule] | None = None
) -> Explanation:
    """Why one row is calibrated as it is: the rule that applies, tree by tree; ``print`` shows it.

    Parameters
    ----------
    model : CalibrationEnsemble
        As :func:`mbct.load_ensemble` gives.
    row : mapping of str to value
        The prediction and every feature by name, None where missing.
    rule_of : mapping or None, default=None
        The model's rules as :func:`rules_by_node` gives them, which saves building them each time.

    Returns
    -------
    explanation : Explanation
        ``score``, ``calibrated`` and ``trees``, and the text when printed.
    """
    if missing := [name for name in model.bins.names if name not in row]:
        raise DataError(f"the row has no {missing[0]!r}; it needs {list(model.bins.names)}, None where missing")
    rule_of = rules_by_node(model) if rule_of is None else rule_of
    score = as_probability(row[model.score_column], model.score_column)
    values = [score, *(row[name] for name in model.bins.names[1:])]
    codes = [feature.value_encoder()(value) for feature, value in zip(model.bins, values, strict=True)]
    coded = np.array([codes], dtype=model.bins.code_type)
    linear = model.link == "linear"
    total = 1.0 if linear else 0.0
    paths = []
    for number, tree in enumerate(model.trees):
        node = int(tree.apply(coded)[0])
        value = float(tree.leaf_value[node])
        total = total * value if linear else total + value
        after = moved(score, total, linear)
        paths.append(TreePath(number, rule_of[number, node], after))
    return Explanation(score, paths[-1].after if paths else score, tuple(paths))


def rules_by_node(model: CalibrationEnsemble) -> dict[tuple[int, int], Rule]:
    """Every rule by its tree and the terminal node of its rows."""
    return {(rule.tree, rule.node): rule for rule in rules(model, fallbacks=True)}
