"""Large models as tables and a view that joins them, so that a row's values are looked up once for all trees.

Each feature has a table of its values (:mod:`~mbct.export.sql.feature_table`). A tree over a few features is an array
(:mod:`mbct.model.tables`), however many leaves it has: the tables of its features say how far a value moves the place.
Other trees are CASE expressions on codes and bits of those tables, which cost as much as they are
deep. A row costs a join a feature, and no join a tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mbct.errors import ParameterError
from mbct.export.sql.case import WriteCondition
from mbct.export.sql.dialects import Dialect
from mbct.export.sql.feature_table import FeatureTable, asked_sets
from mbct.model.conditions import CodeBranch, decision_of, used_features
from mbct.model.ensemble import CalibrationEnsemble, large_table
from mbct.model.tables import FIRST, TreeTable, stack_tables

_FEW_LEAVES = 16
"""Trees of no more leaves need no joined tables."""
_LARGEST_PLACES = 4_000_000
"""Entries of all arrays together that are written as text."""
_REPEATED = 4
"""Values that an array repeats more often on average are numbered: a third of the text for one more look-up."""


class Arrays:
    """The arrays of one model, whose numbers are looked up by place without a join of their own.

    Each engine has its own fastest way: a literal (PostgreSQL and Spark keep it in the plan), a column of lists in a
    table of one row (DuckDB), a table of places (SQLite). Over 200,000 rows PostgreSQL took 0.3 s for 16 literals of
    50,000 numbers and 5.5 s for as many joins. ``name`` is that of the table, where the engine needs one.
    """

    def __init__(self, dialect: Dialect, name: str):
        self.dialect, self.name = dialect, name
        self._columns: list[str] = []
        self._values: list[str] = []

    def item(self, values: Sequence[float], place: str, *, whole: bool = False) -> str:
        """Add an array; returns its number at a place, from 0 on, as an expression."""
        dialect = self.dialect
        texts = list(map(repr, values))
        parts = {
            "name": self.name,
            "arrays": dialect.identifier("arrays"),
            "array": dialect.identifier(f"array_{len(self._columns)}"),
            "kind": dialect.array_types[0 if whole else 1],
            "first": len(self._values),
        }
        literal = ",".join(texts)
        self._columns.append(dialect.array_column.format(**parts, values=literal))
        self._values += texts
        return dialect.array_item.format(**parts, values=literal, place=place)

    @property
    def n_values(self) -> int:
        """Numbers of all arrays together."""
        return len(self._values)

    def creates(self) -> list[str]:
        """Statements that create the table of arrays."""
        if not self._values or not self.dialect.array_table:
            return []
        parts = {"name": self.name, "columns": ",\n  ".join(self._columns), "values": ",".join(self._values)}
        created = (statement.format(**parts) for statement in self.dialect.array_table)
        return [f"DROP TABLE IF EXISTS {self.name}", *created]

    def joins(self) -> list[str]:
        """What brings the arrays into a query."""
        if not self._values or not self.dialect.array_join:
            return []
        return [self.dialect.array_join.format(name=self.name, arrays=self.dialect.identifier("arrays"))]


@dataclass(frozen=True)
class JoinedTables:
    """What to create, what to join, the step of each tree that is an array, and conditions for the other trees."""

    creates: list[str]
    joins: list[str]
    steps: dict[int, str]
    condition: WriteCondition


def joined_tables(
    model: CalibrationEnsemble, dialect: Dialect, columns: Sequence[str], name: Sequence[str]
) -> JoinedTables:
    """The tables of a model; those created are called after ``name``, the parts of the view's name."""

    def named(what: str) -> str:
        return ".".join(map(dialect.identifier, [*name[:-1], f"{name[-1]}_{what}"]))

    features: dict[int, FeatureTable] = {}

    def feature(number: int) -> FeatureTable:
        new = FeatureTable(model.bins[number], columns[number], f"feature_{number}")
        return features.setdefault(number, new)

    arrays = Arrays(dialect, named("arrays"))
    found = _array_trees(model)
    steps = {}
    for t, table in found.items():
        steps[t] = _step(model, t, table, arrays, [feature(j) for j in table.features])
    for j, sets in asked_sets(decision_of(model, tree) for t, tree in enumerate(model.trees) if t not in found).items():
        feature(j).ask(sets)
    _refuse_size(model, found, arrays, features, dialect)

    def condition(branch: CodeBranch, position: int) -> str:
        return features[branch.feature].condition(dialect, branch, position)

    tables = [(each, named(each.alias)) for _, each in sorted(features.items())]
    creates = [statement for each, its_name in tables for statement in each.creates(dialect, its_name)]
    joins = [each.join(dialect, its_name) for each, its_name in tables]
    return JoinedTables([*creates, *arrays.creates()], [*joins, *arrays.joins()], steps, condition)


def _array_trees(model: CalibrationEnsemble) -> dict[int, TreeTable]:
    """The trees that are arrays, by number."""
    tables = {t: large_table(tree, model.bins.n_codes) for t, tree in enumerate(model.trees)}
    return {t: table for t, table in tables.items() if table is not None}


def case_leaves(model: CalibrationEnsemble) -> int:
    """Leaves of the trees that are CASE expressions beside arrays."""
    return _leaves_without(model, _array_trees(model))


def _leaves_without(model: CalibrationEnsemble, found: dict[int, TreeTable]) -> int:
    return sum(len(tree.leaves) for t, tree in enumerate(model.trees) if t not in found)


def worth_joining(model: CalibrationEnsemble, dialect: Dialect) -> bool:
    """Whether there are trees of many leaves, and no more features than the engine joins."""
    large = any(len(tree.leaves) > _FEW_LEAVES for tree in model.trees)
    return large and len(used_features(model)) < dialect.most_joins


def _step(
    model: CalibrationEnsemble, number: int, table: TreeTable, arrays: Arrays, features: Sequence[FeatureTable]
) -> str:
    """The step of one tree that is an array; its features get a column that says how far their codes move the place."""
    joined = stack_tables([model.trees[number]], [table], product=model.link == "linear")
    starts = joined.plan[0, FIRST + 1 :: 2].tolist()
    moves = []
    for each, start in zip(features, starts, strict=True):
        each.columns[f"tree_{number}"] = joined.classes[start : start + each.bins.n_codes].tolist()
        moves.append(each.number(arrays.dialect, f"tree_{number}"))
    if table.pairs is not None:
        moves = [arrays.item(joined.pairs.tolist(), " + ".join(moves[:2]), whole=True), moves[2]]
    place = " + ".join(moves)
    distinct, numbers = np.unique(joined.values, return_inverse=True)
    if len(numbers) > _REPEATED * len(distinct):
        place = arrays.item(numbers.reshape(-1).tolist(), place, whole=True)
        return arrays.item(distinct.tolist(), place)
    return arrays.item(joined.values.tolist(), place)


def _refuse_size(
    model: CalibrationEnsemble,
    found: dict[int, TreeTable],
    arrays: Arrays,
    features: dict[int, FeatureTable],
    dialect: Dialect,
) -> None:
    """What an engine would not compile is not written."""
    if (written := _leaves_without(model, found)) > dialect.most_case_leaves:
        raise ParameterError(
            f"{written:,} leaves of trees over many features as CASE are more than {dialect.name} compiles (at most "
            f"{dialect.most_case_leaves:,}): fit with model_size='rules' (tables) or model_size='compact' (256 rules)"
        )
    if arrays.n_values > _LARGEST_PLACES:
        raise ParameterError(
            f"the tables of this model have {arrays.n_values:,} entries, too many for SQL (at most "
            f"{_LARGEST_PLACES:,}): fit with a smaller max_rules, or with model_size='compact'"
        )
    if len(features) >= dialect.most_joins:
        raise ParameterError(
            f"this model needs {len(features)} joins, more than {dialect.name} takes (at most {dialect.most_joins}): "
            "use form='view' if it is small, or fit with fewer features"
        )
