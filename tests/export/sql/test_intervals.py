"""Intervals of rows in SQL, run for real: DuckDB and SQLite return what the package itself computes."""

import contextlib
import sqlite3

import numpy as np
import pytest

from builders import random_model, random_rows
from mbct.errors import ParameterError
from mbct.export import export_model
from mbct.model.intervals import RowIntervals
from mbct.serving.batch import BatchScorer
from sql_tables import as_text, as_tuples, create_table


def certified(seed, link="odds", n_trees=3):
    """A random model with random bands at every node."""
    model = random_model(seed, link, n_trees)
    rng = np.random.default_rng(seed)
    n_nodes = 1 if model.bin_tree is None else model.bin_tree.n_nodes
    n_edges = rng.integers(0, 4, n_nodes)
    edges = np.concatenate([[*np.sort(rng.random(n)), np.inf] for n in n_edges])
    start = np.concatenate([[0], np.cumsum(n_edges + 1)])
    ends = rng.uniform(0.3, 1.1, len(edges)), rng.uniform(1.0, 3.0, len(edges))
    return model.with_intervals(RowIntervals(0.95, start, edges, *ends))


def expected(model, rows):
    scored = BatchScorer(model).score_columns(list(rows.values()))
    return np.column_stack([scored.calibrated, *model.interval_of(scored.codes, scored.calibrated)])


def found(model, rows, dialect, form):
    sql = str(export_model(model, "sql", dialect=dialect, form=form, interval=True))
    wanted = "SELECT calibrated, calibrated_lower, calibrated_upper FROM {} ORDER BY row_number"
    values = as_tuples(model, rows)
    insert = f"INSERT INTO predictions VALUES ({', '.join('?' * len(values[0]))})"
    if dialect == "sqlite":
        values = [tuple(map(as_text, row)) for row in values]
        opened = contextlib.closing(sqlite3.connect(":memory:"))
    else:
        duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'mbct[cli]'")
        opened = duckdb.connect()
    with opened as connection:
        connection.execute(create_table(model, dialect))
        connection.executemany(insert, values)
        if form == "view":
            connection.execute(sql)
        query = wanted.format("calibrated_predictions" if form == "view" else f"({sql}) AS q")
        return np.array(connection.execute(query).fetchall(), dtype=np.float64)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
@pytest.mark.parametrize(("seed", "link", "form"), [(1, "odds", "select"), (2, "linear", "view"), (3, "odds", "view")])
def test_both_ends_are_those_of_the_model(seed, link, form, dialect):
    model = certified(seed, link)
    rows = random_rows(seed, model)
    np.testing.assert_allclose(found(model, rows, dialect, form), expected(model, rows), rtol=0, atol=1e-12)


def test_a_model_without_trees_has_one_bin():
    model = certified(4, n_trees=0)
    rows = random_rows(4, model)
    np.testing.assert_allclose(found(model, rows, "duckdb", "select"), expected(model, rows), rtol=0, atol=1e-12)


def test_what_cannot_be_written_is_refused():
    with pytest.raises(ParameterError, match="interval adds two columns, an expression is one"):
        export_model(certified(1), "sql", interval=True)
    with pytest.raises(ParameterError, match="the model has no intervals to export"):
        export_model(random_model(1), "sql", form="view", interval=True)
