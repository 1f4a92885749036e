"""Large models as tables and a view that joins them: one row a value of a feature, one row an entry of a tree.

A large tree over at most three features is an array (:mod:`mbct.model.tables`). The table of a feature says, for each
tree, how far its codes or values move the place in the array; the table of steps holds all arrays one after another. A
row costs a join a feature and one a tree, however many entries they have. Other trees stay CASE expressions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.errors import ParameterError
from mbct.export.sql.conditions import compared, literal, membership, missing_condition, spellings
from mbct.export.sql.dialect import Dialect
from mbct.export.sql.lookup import has_one_type
from mbct.model.bins import CategoryBins, Feature, NumberBins
from mbct.model.compiled import large_table
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.tables import MOST_FEATURES, table_steps
from mbct.model.tree import IntArray

_FROM_VALUES = 50
"""A category with fewer values is coded by a CASE; one with more is joined by value."""
_MOST_JOINS = 60
"""SQLite joins 64 tables at most."""
_LARGEST_PLACES = 2_000_000
"""Entries of all arrays together that are written as text."""


@dataclass(frozen=True)
class JoinedTables:
    """What to create, what to join, and the step of each tree that is a table."""

    creates: list[str]
    joins: list[str]
    steps: dict[int, str]


@dataclass(frozen=True)
class _FeatureTable:
    """The joined table of one feature: how far each of its codes moves the place in the array of each tree."""

    bins: Feature
    alias: str
    by_value: bool
    moves: dict[int, list[int]]
    """By tree."""

    def move(self, dialect: Dialect, column: str, tree: int) -> str:
        """How far a row's value moves the place."""
        found = f"{dialect.identifier(self.alias)}.{dialect.identifier(f'tree_{tree}')}"
        if not self.by_value:
            return found
        missing, unseen = (self.moves[tree][code] for code in (self.bins.missing, self.bins.unseen))
        other = f"CASE WHEN {missing_condition(dialect, self.bins, column)} THEN {missing} ELSE {unseen} END"
        return f"COALESCE({found}, {unseen if missing == unseen else other})"

    def key(self, dialect: Dialect, column: str) -> str:
        """What is looked up: the value itself, or its code."""
        if isinstance(self.bins, NumberBins):
            value = (dialect.known_double or dialect.as_double).format(column)
            number = _code_of_number(dialect, self.bins, value, 0, self.bins.n_values - 1)
            missing = missing_condition(dialect, self.bins, column)
            return f"CASE WHEN {missing} THEN {self.bins.missing} ELSE {number} END"
        if self.by_value:
            return compared(dialect, self.bins).format(column)
        tests = [(membership(dialect, self.bins, column, [code]), code) for code in range(self.bins.n_values)]
        tests.append((missing_condition(dialect, self.bins, column), self.bins.missing))
        cases = " ".join(f"WHEN {test} THEN {code}" for test, code in tests if test is not None)
        return f"CASE {cases} ELSE {self.bins.unseen} END"

    def rows(self, dialect: Dialect) -> list[str]:
        """Rows of the table, in SQL."""
        if not isinstance(self.bins, CategoryBins) or not self.by_value:
            return [self._row(str(code), code) for code in range(self.bins.n_codes)]
        keys: dict[str, int] = {}
        for code in range(self.bins.n_values):
            for value in spellings(self.bins, code):
                if (text := literal(dialect, self.bins, value)) is not None:
                    keys.setdefault(text, code)
        return [self._row(text, code) for text, code in keys.items()]

    def _row(self, key: str, code: int) -> str:
        return f"({', '.join([key, *(str(moves[code]) for moves in self.moves.values())])})"


def _code_of_number(dialect: Dialect, bins: NumberBins, value: str, first: int, last: int) -> str:
    """The code of a number by halves: as many comparisons as the number of intervals has binary digits."""
    if first == last:
        return str(first)
    middle = (first + last) // 2
    lower, upper = (_code_of_number(dialect, bins, value, *ends) for ends in ((first, middle), (middle + 1, last)))
    return f"CASE WHEN {value} <= {dialect.double(bins.edges[middle])} THEN {lower} ELSE {upper} END"


def joined_tables(
    model: CalibrationEnsemble, dialect: Dialect, columns: Sequence[str], name: Sequence[str]
) -> JoinedTables:
    """The tables of a model; those created are called after ``name``, the parts of the view's name."""
    found = {t: table for t, tree in enumerate(model.trees) if (table := large_table(tree, model.bins.n_codes))}
    joined = table_steps([model.trees[t] for t in found], list(found.values()), product=model.link == "linear")
    if len(joined.values) > _LARGEST_PLACES:
        raise ParameterError(
            f"the tables of this model have {len(joined.values):,} entries, too many for SQL (at most "
            f"{_LARGEST_PLACES:,}): fit with a smaller max_rules, or with model_size='compact'"
        )
    features = _feature_tables(model, list(found), joined.plan, joined.classes)

    def named(what: str) -> str:
        return ".".join(map(dialect.identifier, [*name[:-1], f"{name[-1]}_{what}"]))

    creates: list[str] = []
    joins: list[str] = []
    steps: dict[int, str] = {}
    for j, feature in features.items():
        listed = ", ".join(map(dialect.identifier, ("key", *(f"tree_{t}" for t in feature.moves))))
        creates += dialect.create_rows(named(feature.alias), listed, feature.rows(dialect))
        alias = dialect.identifier(feature.alias)
        key = f"{alias}.{dialect.identifier('key')} = {feature.key(dialect, columns[j])}"
        joins.append(f"LEFT JOIN {named(feature.alias)} AS {alias} ON {key}")
    if len(joined.pairs):
        creates += dialect.create_array(named("pairs"), joined.pairs.tolist(), whole=True)
    if len(joined.values):
        creates += dialect.create_array(named("steps"), joined.values.tolist(), whole=False)
    for (t, table), row in zip(found.items(), joined.plan.tolist(), strict=True):
        moves = [features[j].move(dialect, columns[j], t) for j in table.features]
        if table.pairs is not None:
            joins.append(_array_join(dialect, named("pairs"), f"pair_{t}", f"{row[-1]} + {moves[0]} + {moves[1]}"))
            moves = [_array_value(dialect, f"pair_{t}"), moves[2]]
        joins.append(_array_join(dialect, named("steps"), f"step_{t}", " + ".join(moves)))
        steps[t] = _array_value(dialect, f"step_{t}")
    if len(joins) > _MOST_JOINS:
        raise ParameterError(
            f"this model needs {len(joins)} joins, more than engines take (at most {_MOST_JOINS}): fit with "
            "model_size='rules' or model_size='compact'"
        )
    return JoinedTables(creates, joins, steps)


def _feature_tables(
    model: CalibrationEnsemble, trees: list[int], plan: npt.NDArray[np.int64], classes: IntArray
) -> dict[int, _FeatureTable]:
    found: dict[int, _FeatureTable] = {}
    for t, row in zip(trees, plan.tolist(), strict=True):
        # A feature that a table has not is its first one again: the first start of each counts.
        starts = dict(zip(row[MOST_FEATURES - 1 :: -1], row[-2 : MOST_FEATURES - 1 : -1], strict=True))
        for feature, start in starts.items():
            bins = model.bins[feature]
            by_value = isinstance(bins, CategoryBins) and bins.n_values >= _FROM_VALUES and has_one_type(bins)
            table = found.setdefault(feature, _FeatureTable(bins, f"feature_{feature}", by_value, {}))
            table.moves[t] = classes[start : start + bins.n_codes].tolist()
    return found


def _array_join(dialect: Dialect, table: str, alias: str, place: str) -> str:
    quoted = dialect.identifier(alias)
    return f"LEFT JOIN {table} AS {quoted} ON {quoted}.{dialect.identifier('place')} = {place}"


def _array_value(dialect: Dialect, alias: str) -> str:
    return f"{dialect.identifier(alias)}.{dialect.identifier('value')}"
