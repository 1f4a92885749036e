"""``mbct rules``: what a model does, as if-then rules."""

import math
from typing import TYPE_CHECKING

import click

from mbct.cli.options import json_option, model_argument
from mbct.cli.shell import command, print_json
from mbct.errors import ParameterError

if TYPE_CHECKING:
    from mbct.model.rules import Rule

EXAMPLES = (
    "mbct rules model.json",
    "mbct rules model.json --tree 1",
    "mbct rules model.json --top 10",
    "mbct rules model.json --json | jq '.[0]'",
)


@command(examples=EXAMPLES)
@model_argument
@click.option("--tree", type=click.IntRange(min=1), help="Only the rules of this tree; 1 is the first.")
@click.option("--top", type=click.IntRange(min=1), help="Only so many rules: those that move most.")
@click.option("--as-tree", is_flag=True, help="Indented trees instead of rules.")
@json_option
def rules(model: str, tree: int | None, top: int | None, as_tree: bool, as_json: bool) -> None:
    """Print a model as if-then rules.

    Each with its multiplier, its rows, their label rate and how sure that is (Theorem 1 of the paper).
    """
    from mbct.model.file import load_ensemble
    from mbct.model.rules import rule_as_dict

    ensemble = load_ensemble(model)
    if tree is not None:
        if tree > len(ensemble.trees):
            raise ParameterError(f"--tree {tree}: the model has {len(ensemble.trees)} trees")
        ensemble = ensemble.with_trees(ensemble.trees[tree - 1 : tree])
    if as_tree and as_json:
        raise ParameterError("--as-tree and --json exclude each other: trees are text, JSON is a list of rules")
    if as_tree or not (ensemble.trees or as_json):
        click.echo(ensemble.to_text())
        return
    found = list(ensemble.rules())
    if top is not None:
        found = sorted(found, key=weight_of, reverse=True)[:top]
    if as_json:
        print_json([rule_as_dict(rule) for rule in found])
        return
    for rule in found:
        click.echo(str(rule))


def weight_of(rule: "Rule") -> float:
    """How much a rule moves: its rows times the size of its step on the log scale."""
    return rule.rows * abs(math.log(max(rule.multiplier, 1e-12)))
