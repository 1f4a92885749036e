"""Rules for people and for machines: text, or JSON that ``docs/rules.schema.json`` describes."""

import json
from itertools import groupby
from typing import Literal

from mbct.errors import ParameterError
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.rules import rule_as_dict, rules

FORMAT = "mbct-rules"
VERSION = 2


def to_rules(model: CalibrationEnsemble, form: Literal["text", "json"] = "text") -> str:
    """The model as if-then rules: of each tree exactly one applies to a row."""
    if form not in ("text", "json"):
        raise ParameterError(f"form={form!r} must be 'text' or 'json'")
    return _text(model) if form == "text" else _json(model)


def _text(model: CalibrationEnsemble) -> str:
    """One line a rule, tree by tree, under a heading that says how the rules act together."""
    if not model.trees:
        return f"No rules: {model.score_column} is returned as it is.\n"
    target = f"the odds of {model.score_column}" if model.link == "odds" else model.score_column
    lines = [
        f"{model.n_rules:,} rules in {len(model.trees):,} trees. In each tree one rule applies to a row; "
        f"the factors (×) of all trees multiply {target}.",
        "The arrow goes from the mean prediction of a rule's training rows to what the rule makes of it.",
    ]
    for number, group in groupby(rules(model), key=lambda rule: rule.tree):
        lines.append(f"\nTree {number + 1}")
        lines.extend(f"  {rule}" for rule in group)
    return "\n".join(lines) + "\n"


def _json(model: CalibrationEnsemble) -> str:
    """All rules with their conditions, multiplier, rows, PUD and bound; equal models give equal text.

    ``fallbacks`` are those of no training row: they apply to values that training did not see.
    """
    every = list(rules(model, fallbacks=True))
    document = {
        "format": FORMAT,
        "version": VERSION,
        "score_column": model.score_column,
        "link": model.link,
        "alpha": model.alpha,
        "n_trees": len(model.trees),
        "features": [
            {"name": feature.name, "kind": feature.kind, "type": getattr(feature, "value_type", "number")}
            for feature in model.bins
        ],
        "rules": [rule_as_dict(rule) for rule in every if rule.rows > 0.0],
        "fallbacks": [rule_as_dict(rule) for rule in every if rule.rows == 0.0],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1, sort_keys=True) + "\n"
