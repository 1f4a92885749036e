"""Large models as tables and a view that joins them: one row a value of a feature, one row an entry of a tree.

A large tree over at most three features is an array (:mod:`mbct.model.tables`). The table of a feature says, for each
tree, how far its codes or values move the place in the array; the table of steps holds all arrays one after another.
Trees over more features are masks (:mod:`mbct.model.masks`): the table of a feature has their words, whose AND leaves
one bit, and the table of leaves the step of each bit. A row costs a join a feature and one a tree, however many entries
they have. Trees of a few leaves stay CASE expressions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mbct.errors import ParameterError
from mbct.export.sql.conditions import compared, empty_is_missing, literal, membership, missing_condition, spellings
from mbct.export.sql.dialect import Dialect
from mbct.export.sql.lookup import has_one_type
from mbct.model.bins import CategoryBins, Feature, NumberBins, code_offsets
from mbct.model.conditions import used_features
from mbct.model.ensemble import CalibrationEnsemble, large_table
from mbct.model.masks import stops_of_tree, words_of_tree
from mbct.model.tables import MOST_FEATURES, table_steps

_FROM_VALUES = 6
"""A category with fewer values is coded by a CASE; one with more is joined by value."""
_FEW_LEAVES = 16
"""Trees of no more leaves are CASE expressions."""
_BITS, _MOST_WORDS = 50, 4096
"""Bits of a word and words of all masks. Word w counts 2·w + 1 times: no two bits have one number, all fit 63 bits."""
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
    moves: dict[str, list[int]]
    """By column: how far each code moves the place, or its word."""

    def move(self, dialect: Dialect, column: str, name: str) -> str:
        """How far a row's value moves the place, or its word."""
        found = f"{dialect.identifier(self.alias)}.{dialect.identifier(name)}"
        if not self.by_value:
            return found
        missing, unseen = (self.moves[name][code] for code in (self.bins.missing, self.bins.unseen))
        if missing == unseen or empty_is_missing(self.bins):
            return f"COALESCE({found}, {unseen})"
        other = f"CASE WHEN {missing_condition(dialect, self.bins, column)} THEN {missing} ELSE {unseen} END"
        return f"COALESCE({found}, {other})"

    def key(self, dialect: Dialect, column: str) -> str:
        """What is looked up: the value itself, or its code."""
        if isinstance(self.bins, NumberBins):
            value = (dialect.known_double or dialect.as_double).format(column)
            number = _code_of_number(dialect, self.bins, value, 0, self.bins.n_values - 1)
            missing = missing_condition(dialect, self.bins, column)
            return f"CASE WHEN {missing} THEN {self.bins.missing} ELSE {number} END"
        if self.by_value:
            value = compared(dialect, self.bins).format(column)
            return f"COALESCE({value}, {dialect.text(dialect.suffix)})" if empty_is_missing(self.bins) else value
        tests = [(membership(dialect, self.bins, column, [code]), code) for code in range(self.bins.n_values)]
        tests.append((missing_condition(dialect, self.bins, column), self.bins.missing))
        cases = " ".join(f"WHEN {test} THEN {code}" for test, code in tests if test is not None)
        return f"CASE {cases} ELSE {self.bins.unseen} END"

    def rows(self, dialect: Dialect) -> list[str]:
        """Rows of the table, in SQL."""
        if not isinstance(self.bins, CategoryBins) or not self.by_value:
            return [self._row(str(code), code) for code in range(self.bins.n_codes)]
        empty = dialect.text(dialect.suffix)
        keys: dict[str, int] = {empty: self.bins.missing} if empty and empty_is_missing(self.bins) else {}
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
    features: dict[int, _FeatureTable] = {}
    for t, row in zip(found, joined.plan.tolist(), strict=True):
        # A feature that a table has not is its first one again: the first start of each counts.
        starts = dict(zip(row[MOST_FEATURES - 1 :: -1], row[-2 : MOST_FEATURES - 1 : -1], strict=True))
        for j, start in starts.items():
            moves = joined.classes[start : start + model.bins[j].n_codes].tolist()
            _table_of_feature(features, model, j).moves[f"tree_{t}"] = moves
    masks = _Masks(model, features)
    for t, is_joined in enumerate(joined_trees(model)):
        if is_joined and t not in found:
            masks.add(t)

    def named(what: str) -> str:
        return ".".join(map(dialect.identifier, [*name[:-1], f"{name[-1]}_{what}"]))

    creates: list[str] = []
    joins: list[str] = []
    steps: dict[int, str] = {}
    for j, feature in features.items():
        listed = ", ".join(map(dialect.identifier, ("key", *feature.moves)))
        creates += dialect.create_rows(named(feature.alias), listed, feature.rows(dialect))
        alias = dialect.identifier(feature.alias)
        key = f"{alias}.{dialect.identifier('key')} = {feature.key(dialect, columns[j])}"
        joins.append(f"LEFT JOIN {named(feature.alias)} AS {alias} ON {key}")
    if len(joined.pairs):
        creates += dialect.create_array(named("pairs"), joined.pairs.tolist(), whole=True)
    if len(joined.values):
        creates += dialect.create_array(named("steps"), joined.values.tolist(), whole=False)
    for (t, table), row in zip(found.items(), joined.plan.tolist(), strict=True):
        moves = [features[j].move(dialect, columns[j], f"tree_{t}") for j in table.features]
        if table.pairs is not None:
            joins.append(_array_join(dialect, named("pairs"), f"pair_{t}", f"{row[-1]} + {moves[0]} + {moves[1]}"))
            moves = [_array_value(dialect, f"pair_{t}"), moves[2]]
        joins.append(_array_join(dialect, named("steps"), f"step_{t}", " + ".join(moves)))
        steps[t] = _array_value(dialect, f"step_{t}")
    for t, words in masks.words.items():
        bits = []
        for word, used in words.items():
            reached = " & ".join(features[j].move(dialect, columns[j], f"word_{word}") for j in used)
            bits.append(f"CAST({2 * word + 1} AS BIGINT) * ({reached})")
        joins.append(_array_join(dialect, named("leaves"), f"step_{t}", " + ".join(bits), "key"))
        steps[t] = _array_value(dialect, f"step_{t}")
    if masks.values:
        rows = [f"({key}, {dialect.double(value)})" for key, value in masks.values.items()]
        creates += dialect.create_rows(named("leaves"), ", ".join(map(dialect.identifier, ("key", "value"))), rows)
    if len(joins) > dialect.most_joins:
        raise ParameterError(
            f"this model needs {len(joins)} joins, more than {dialect.name} takes (at most {dialect.most_joins}): fit "
            "with model_size='rules' or model_size='compact'"
        )
    return JoinedTables(creates, joins, steps)


def joined_trees(model: CalibrationEnsemble) -> list[bool]:
    """Which trees are joined; the others are CASE expressions."""
    return [len(tree.leaves) > _FEW_LEAVES for tree in model.trees]


def worth_joining(model: CalibrationEnsemble, dialect: Dialect) -> bool:
    """Whether there are trees to be joined, and no more than the engine takes."""
    joined = joined_trees(model)
    return any(joined) and sum(joined) + len(used_features(model)) <= dialect.most_joins


def _table_of_feature(found: dict[int, _FeatureTable], model: CalibrationEnsemble, feature: int) -> _FeatureTable:
    bins = model.bins[feature]
    by_value = isinstance(bins, CategoryBins) and bins.n_values >= _FROM_VALUES and has_one_type(bins)
    return found.setdefault(feature, _FeatureTable(bins, f"feature_{feature}", by_value, {}))


class _Masks:
    """Adds the words of trees to the tables of features; has the step of each bit, and the features of each word."""

    def __init__(self, model: CalibrationEnsemble, features: dict[int, _FeatureTable]):
        self.model, self.features = model, features
        self.n_codes = np.array(model.bins.n_codes, dtype=np.int64)
        self.values: dict[int, float] = {}
        self.words: dict[int, dict[int, list[int]]] = {}
        self.n_words = 0

    def add(self, number: int) -> None:
        """Add one tree."""
        tree, first_row = self.model.trees[number], code_offsets(self.n_codes)
        arrays = (tree.feature, tree.table_start, tree.table, self.n_codes)
        stops = stops_of_tree(*arrays)
        self.words[number] = {}
        for begin in range(0, len(stops), _BITS):
            some = stops[begin : begin + _BITS]
            of_code = words_of_tree(*arrays, first_row, some)
            used = self.words[number][self.n_words] = []
            for j in np.unique(tree.feature[tree.feature >= 0]).tolist():
                own = of_code[first_row[j] : first_row[j + 1]].tolist()
                if len(set(own)) > 1:
                    _table_of_feature(self.features, self.model, j).moves[f"word_{self.n_words}"] = own
                    used.append(j)
            multiplier = 2 * self.n_words + 1
            self.values |= {multiplier << bit: float(tree.leaf_value[stop]) for bit, stop in enumerate(some)}
            self.n_words += 1
        if self.n_words > _MOST_WORDS:
            raise ParameterError(
                f"the masks of this model have more than {_MOST_WORDS} words, too many for SQL: fit with "
                "model_size='rules' or model_size='compact'"
            )


def _array_join(dialect: Dialect, table: str, alias: str, place: str, key: str = "place") -> str:
    quoted = dialect.identifier(alias)
    return f"LEFT JOIN {table} AS {quoted} ON {quoted}.{dialect.identifier(key)} = {place}"


def _array_value(dialect: Dialect, alias: str) -> str:
    return f"{dialect.identifier(alias)}.{dialect.identifier('value')}"
