"""Chapter: the rules, strongest first, with a search."""

from mbct.evaluation.diagnostics.strongest_rules import StrongestRules, strongest_rules
from mbct.report.page import Column, Section, number, table, text
from mbct.report.scored import Scored
from mbct.report.sections import heat_map, held_out

MOST_RULES = 400
_MOST_VALUES = 6
TITLE = "The rules"


def compute(scored: Scored) -> StrongestRules | None:
    """Rules by how many positives they move; None where there are none."""
    if scored.model is None or not scored.model.trees:
        return None
    found = strongest_rules(scored.model, MOST_RULES)
    return found if found.total else None


def render(found: StrongestRules | None, scored: Scored) -> Section:
    """What held-out rows gained at the fit, a search box and the table."""
    gain = held_out.render(scored.calibrator)
    if found is None or scored.model is None:
        return Section("rules", TITLE, "This model has no rules: it leaves no tree to read.", gain)
    of = "" if found.total == len(found.rules) else f"; the {len(found.rules):,} strongest of {found.total:,} are shown"
    target = found.rules[0].applies_to
    lead = (
        f"Each tree puts a row into one bin and multiplies its {target} by that bin's factor{of}. First those that "
        "move the most positives. The bound holds for all bins of a tree at once (Theorem 1)."
    )
    columns = (
        Column("×", hint=f"factor of the {target}", alone=f"× {target}"),
        Column("predicted", number=False, hint="mean prediction of the training rows, and what the rule makes of it"),
        Column("rows"),
        Column("if", number=False),
        Column("label rate ± bound"),
        Column("tree"),
    )
    lines = [
        [
            f'<b class="{"up" if rule.multiplier > 1 else "down"}">{number(rule.multiplier)}</b>',
            f"{rule.direction}: {number(rule.mean_prediction, 3)} → {number(rule.after, 3)}",
            f"{rule.rows:,.0f}",
            " and ".join(text(each.shortened(_MOST_VALUES)) for each in rule.conditions) or "always",
            f"{number(rule.label_rate, 3)} ± {number(rule.bound, 2)}",
            f"{rule.tree + 1}",
        ]
        for rule in found.rules
    ]
    search = (
        '<p class="search"><label for="rule-search">Search</label> '
        '<input id="rule-search" type="search" placeholder="device mobile" autocomplete="off">'
        f'<output id="rule-count" aria-live="polite">{len(lines):,} rules</output></p>'
    )
    listed = table(columns, lines, name="rules-table", label="rules")
    maps = heat_map.render(heat_map.compute(scored.model, found.effect_of_tree), target)
    body = f'{gain}{maps}{search}<div class="tall">{listed}</div>'
    return Section("rules", TITLE, lead, body, folded=True)
