"""The whole model as one expression, a SELECT or a VIEW, with the intervals of its rows where they are asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from mbct.errors import ParameterError
from mbct.export.sql.case import WriteCondition, case_lines, indented
from mbct.export.sql.conditions import interval_conditions, membership, missing_condition
from mbct.export.sql.dialects import DIALECTS, Dialect, dialect_of
from mbct.export.sql.feature_table import FeatureTable, listed_tables
from mbct.export.sql.tables import JoinedTables, case_leaves, joined_tables, worth_joining
from mbct.model.bins import CategoryBins, NumberBins
from mbct.model.conditions import CodeBranch, decision_of, used_features
from mbct.model.ensemble import CalibrationEnsemble
from mbct.stats.probabilities import EPSILON

Form = Literal["expression", "select", "view", "tables", "auto"]
FORMS: tuple[Form, ...] = ("expression", "select", "view", "tables", "auto")
_LARGEST_EXPONENT = 600.0
"""exp(±600) is a normal float64; some engines raise an error where it over- or underflows."""
_TERMS_IN_A_ROW = 40
"""Engines bound the depth of an expression, and a + b + c is as deep as it is long."""


def to_sql(
    model: CalibrationEnsemble,
    dialect: str = "duckdb",
    form: Form = "expression",
    *,
    table: str | Sequence[str] = "predictions",
    view: str | Sequence[str] = "calibrated_predictions",
    output: str = "calibrated",
    columns: Mapping[str, str] | None = None,
    interval: bool = False,
) -> str:
    """The calibrated prediction in SQL, binning of the raw columns included.

    ``table`` and ``view`` may be qualified (``"shop.clicks"``, or a sequence of names that may hold points);
    ``columns`` maps features to columns of another name. A missing prediction gives NULL. ``interval`` adds the ends
    of each row's interval, of a certified model, as two columns.
    """
    if form not in FORMS:
        raise ParameterError(f"form={form!r} must be one of {', '.join(FORMS)}")
    found = dialect_of(dialect)
    if form == "auto":
        form = "tables" if found.rows_table and worth_joining(model, found) else "view"
    if form == "tables" and not found.rows_table:
        tried = ", ".join(name for name, each in DIALECTS.items() if each.rows_table)
        raise ParameterError(f"form='tables' is for {tried}; for {found.name} use form='view'")
    if form == "expression":
        if interval:
            raise ParameterError("interval adds two columns, an expression is one: use form='select' or form='view'")
        _refuse_size(model, found)
        names = column_names(model, found, columns)
        return "\n".join(_expression(model, found, names, condition_writer(model, found, names, {}), {})) + "\n"
    view_parts = _parts(view, "view")
    query, creates = query_and_tables(
        model,
        found,
        ".".join(map(found.identifier, _parts(table, "table"))),
        view_parts if form == "tables" else None,
        output=output,
        columns=columns,
        interval=interval,
    )
    if form == "select":
        return query
    name = ".".join(map(found.identifier, view_parts))
    create_view = found.create_view.format(name=name, query=query)
    if form == "view":
        return create_view
    statements = [f"DROP VIEW IF EXISTS {name}", *creates, create_view]
    return "".join(f"{statement.rstrip()};\n" for statement in statements)


def query_and_tables(
    model: CalibrationEnsemble,
    dialect: Dialect,
    source: str,
    tables_name: Sequence[str] | None,
    *,
    output: str,
    columns: Mapping[str, str] | None,
    interval: bool,
) -> tuple[str, list[str]]:
    """The SELECT over ``source``, SQL for a table, and the statements that create the tables that it joins.

    Large trees are tables only where ``tables_name`` says what theirs are called after.
    """
    if tables_name is None:
        _refuse_size(model, dialect)
    names, alias = column_names(model, dialect, columns), dialect.identifier("source")
    of_source = [f"{alias}.{column}" for column in names]
    plain = joined = JoinedTables([], [], {}, condition_writer(model, dialect, names, {}))
    if tables_name is not None:
        joined = joined_tables(model, dialect, of_source, tables_name)
    elif listed := listed_tables(model, of_source):
        joins = [line for each in listed.values() for line in each.join_values(dialect)]
        joined = JoinedTables([], joins, {}, condition_writer(model, dialect, of_source, listed))
    every, start, read = ("*", source, names) if joined is plain else (f"{alias}.*", f"{source} AS {alias}", of_source)
    *lines, last = indented(_expression(model, dialect, read, joined.condition, joined.steps))
    selected = [f"  {every},", *lines, f"{last} AS {dialect.identifier(output)}"]
    query = "\n".join(["SELECT", *selected, f"FROM {start}", *joined.joins]) + "\n"
    if interval:
        query = _with_intervals(query, model, dialect, plain.condition, output)
    return query, joined.creates


def _refuse_size(model: CalibrationEnsemble, dialect: Dialect) -> None:
    """What an engine would not compile is not written."""
    written, most = sum(len(tree.leaves) for tree in model.trees), dialect.most_case_leaves
    if written <= most:
        return
    if dialect.rows_table and worth_joining(model, dialect) and case_leaves(model) <= most:
        remedy = "use form='tables', which joins them"
    else:
        remedy = "fit with model_size='rules' (tables, which form='tables' joins) or model_size='compact' (256 rules)"
    raise ParameterError(
        f"{written:,} leaves of {len(model.trees):,} trees as CASE are more than {dialect.name} compiles (at most "
        f"{most:,}): {remedy}"
    )


def column_names(model: CalibrationEnsemble, dialect: Dialect, columns: Mapping[str, str] | None = None) -> list[str]:
    """The quoted column of each feature; those that differ in case only are refused."""
    renamed = dict(columns or {})
    if unknown := sorted(set(renamed) - set(model.bins.names)):
        raise ParameterError(f"columns names {unknown}, but the features are {list(model.bins.names)}")
    names = [renamed.get(name, name) for name in model.bins.names]
    read = [names[j] for j in used_features(model)]
    if alike := [name for name in read if sum(name.lower() == other.lower() for other in read) > 1]:
        raise ParameterError(
            f"columns {', '.join(map(repr, alike))} differ in case only, which most databases do not tell apart: "
            "rename one of them, and say so with columns={…}"
        )
    return [dialect.identifier(name) for name in names]


def _parts(name: str | Sequence[str], argument: str) -> list[str]:
    parts = name.split(".") if isinstance(name, str) else list(name)
    if not parts or not all(parts):
        raise ParameterError(f"{argument}={name!r} is no name; pass 'name', 'schema.name' or a list of names")
    return parts


def _expression(
    model: CalibrationEnsemble,
    dialect: Dialect,
    columns: list[str],
    condition: WriteCondition,
    joined: Mapping[int, str],
) -> list[str]:
    """The calibrated prediction; the steps of some trees are ``joined``, the others are CASE expressions."""
    if not model.trees:
        return [dialect.as_double.format(columns[0])]
    prediction = (dialect.known_double or dialect.as_double).format(columns[0])
    steps = tree_steps(model, dialect, condition, joined)
    moved = _multiplied(dialect, prediction, steps)
    if model.link == "odds":
        bound = sum(float(np.abs(tree.leaf_value).max()) for tree in model.trees)
        moved = _moved_in_odds(dialect, prediction, steps, bound)
    missing = missing_condition(dialect, model.bins[0], columns[0])
    return [f"CASE WHEN {missing} THEN NULL ELSE", *indented(moved), "END"]


def tree_steps(
    model: CalibrationEnsemble, dialect: Dialect, condition: WriteCondition, joined: Mapping[int, str]
) -> list[list[str]]:
    """The leaf value of each tree: ``joined``, or a CASE expression."""
    # One level is spent on the test for a missing prediction.
    max_depth = None if dialect.max_case_depth is None else dialect.max_case_depth - 1
    return [
        [joined[t]] if t in joined else list(case_lines(decision_of(model, tree), condition, dialect.double, max_depth))
        for t, tree in enumerate(model.trees)
    ]


def condition_writer(
    model: CalibrationEnsemble, dialect: Dialect, columns: list[str], tables: dict[int, FeatureTable]
) -> WriteCondition:
    """Conditions on raw columns, or on the bits of joined ``tables``."""

    def condition(branch: CodeBranch, position: int) -> str:
        if branch.feature in tables:
            return tables[branch.feature].condition(dialect, branch, position)
        bins, column, codes = model.bins[branch.feature], columns[branch.feature], branch.cases[position].codes
        parts: list[str | None] = [membership(dialect, bins, column, codes)] if isinstance(bins, CategoryBins) else []
        if isinstance(bins, NumberBins):
            parts += interval_conditions(dialect, bins, column, branch, position)
        if bins.missing in codes:
            parts.append(missing_condition(dialect, bins, column))
        return " OR ".join(filter(None, parts)) or "1 = 0"

    return condition


def _multiplied(dialect: Dialect, prediction: str, trees: list[list[str]]) -> list[str]:
    """clip(p · Π k, 0, 1)."""
    return _clipped(dialect, 0.0, 1.0, [f"{prediction} * (", *indented(in_groups(trees, "*")), ")"])


def _moved_in_odds(dialect: Dialect, prediction: str, trees: list[list[str]], bound: float) -> list[str]:
    """σ(logit(p) + s) = p / (p + (1 − p)·exp(−s)), with p held inside [ε, 1 − ε]."""
    low, high, one = map(dialect.double, (EPSILON, 1.0 - EPSILON, 1.0))
    held = f"CASE WHEN {prediction} < {low} THEN {low} WHEN {prediction} > {high} THEN {high} ELSE {prediction} END"
    total = in_groups(trees, "+")
    if bound > _LARGEST_EXPONENT:
        total = _clipped(dialect, -_LARGEST_EXPONENT, _LARGEST_EXPONENT, total)
    return [held, f"/ ({held}", f"+ ({one} - {held})", "* EXP(-(", *indented(total), ")))"]


def _clipped(dialect: Dialect, low: float, high: float, lines: list[str]) -> list[str]:
    head, tail = dialect.clip.format(low=dialect.double(low), high=dialect.double(high), value="\0").split("\0")
    return [head, *indented(lines), tail]


def in_groups(terms: list[list[str]], operator: str) -> list[str]:
    """Terms joined by an associative operator, in groups so that the expression stays shallow."""
    while len(terms) > _TERMS_IN_A_ROW:
        groups = [terms[i : i + _TERMS_IN_A_ROW] for i in range(0, len(terms), _TERMS_IN_A_ROW)]
        terms = [["(", *indented(in_groups(group, operator)), ")"] for group in groups]
    (first, *rest) = terms
    return [*first, *(line for lines in rest for line in (f"{operator} {lines[0]}", *lines[1:]))]


def _with_intervals(
    query: str, model: CalibrationEnsemble, dialect: Dialect, condition: WriteCondition, output: str
) -> str:
    """The rows of a query whose column ``output`` is the calibrated prediction, with both ends of its interval.

    An end is clip(calibrated · multiplier of its band in the leaf, 0, 1).
    """
    if (intervals := model.intervals) is None:
        raise ParameterError("the model has no intervals to export: certify it (mbct certify --attach) first")
    scored, calibrated, number = dialect.identifier("scored"), dialect.identifier(output), dialect.double
    # Two levels are spent on the test for a missing prediction and on the bands.
    depth = None if dialect.max_case_depth is None else max(dialect.max_case_depth - 2, 1)
    ends = []
    for column, name in enumerate(("lower", "upper"), start=1):

        def multiplier(node: float, column: int = column) -> str:
            *bands, last = intervals.bands(int(node))
            tests = " ".join(f"WHEN {calibrated} <= {number(band[0])} THEN {number(band[column])}" for band in bands)
            return f"CASE {tests} ELSE {number(last[column])} END" if bands else number(last[column])

        lines = [multiplier(0.0)]
        if (tree := model.bin_tree) is not None:
            numbered = replace(tree, leaf_value=np.arange(tree.n_nodes, dtype=np.float64))
            lines = list(case_lines(decision_of(model, numbered), condition, multiplier, depth))
        clipped = _clipped(dialect, 0.0, 1.0, [f"{calibrated} * (", *indented(lines), ")"])
        named = f"END AS {dialect.identifier(f'{output}_{name}')}"
        ends.append("\n".join(indented([f"CASE WHEN {calibrated} IS NULL THEN NULL ELSE", *indented(clipped), named])))
    # A string of the query may hold a line break: it stays as it is.
    query = query.rstrip("\n")
    return f"SELECT\n  {scored}.*,\n" + ",\n".join(ends) + f"\nFROM (\n{query}\n) AS {scored}\n"
