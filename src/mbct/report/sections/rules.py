"""Chapter: the rules, strongest first, with a search."""

import math
from dataclasses import dataclass

from mbct.evaluation.diagnostics.tree_outline import short_condition
from mbct.model.rules import Rule
from mbct.report.page import Column, Section, number, table, text
from mbct.report.scored import Scored

MOST_RULES = 400
TITLE = "The rules"


@dataclass(frozen=True)
class RuleList:
    """The strongest rules and how many there are."""

    rules: tuple[Rule, ...]
    total: int


def compute(scored: Scored) -> RuleList | None:
    """Rules by rows × |log multiplier|; those of no training row are left out."""
    if scored.model is None or not scored.model.trees:
        return None
    every = [rule for rule in scored.model.rules() if not rule.fallback]
    ordered = sorted(every, key=lambda rule: (-_strength(rule), rule.tree, rule.node))
    return RuleList(tuple(ordered[:MOST_RULES]), len(every))


def _strength(rule: Rule) -> float:
    return rule.rows * abs(math.log(max(rule.multiplier, 1e-9)))


def render(found: RuleList | None) -> Section:
    """A search box and the table."""
    if found is None:
        return Section("rules", TITLE, "This model has no rules: it leaves no tree to read.", "")
    of = "" if found.total == len(found.rules) else f"; the {len(found.rules):,} strongest of {found.total:,} are shown"
    target = found.rules[0].applies_to
    lead = (
        f"Each tree puts a row into one bin and multiplies its {target} by that bin's factor{of}. Strongest first: "
        "rows × |log multiplier|. The bound holds for all bins of a tree at once (Theorem 1)."
    )
    columns = (
        Column("tree"),
        Column("if", number=False),
        Column("×", hint=f"multiplier of the {target}", alone=f"× {target}"),
        Column("rows"),
        Column("label rate ± bound"),
        Column("PUD", hint="mean prediction / label rate before this tree"),
    )
    lines = [
        [
            f"{rule.tree + 1}",
            " and ".join(text(short_condition(each)) for each in rule.conditions) or "always",
            f'<b class="{"up" if rule.multiplier > 1 else "down"}">{number(rule.multiplier)}</b>',
            f"{rule.rows:,.0f}",
            f"{number(rule.label_rate, 3)} ± {number(rule.bound, 2)}",
            number(rule.pud, 3),
        ]
        for rule in found.rules
    ]
    search = (
        '<p class="search"><label for="rule-search">Search</label> '
        '<input id="rule-search" type="search" placeholder="device mobile" autocomplete="off">'
        f'<output id="rule-count" aria-live="polite">{len(lines):,} rules</output></p>'
    )
    return Section(
        "rules",
        TITLE,
        lead,
        f'{search}<div class="tall">{table(columns, lines, name="rules-table", label="rules")}</div>',
        folded=True,
    )
