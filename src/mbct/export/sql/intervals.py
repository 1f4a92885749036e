"""Intervals of rows in SQL: two columns around a query that calibrates."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mbct.errors import ParameterError
from mbct.export.sql.case import WriteCondition, case_lines, indented
from mbct.export.sql.dialect import Dialect
from mbct.model.conditions import decision_of
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.intervals import RowIntervals

_ENDS = ("lower", "upper")


def with_intervals(
    query: str, model: CalibrationEnsemble, dialect: Dialect, condition: WriteCondition, output: str
) -> str:
    """The rows of a query whose column ``output`` is the calibrated prediction, with both ends of its interval."""
    if model.intervals is None:
        raise ParameterError("the model has no intervals to export: certify it (mbct certify --attach) first")
    scored, calibrated = dialect.identifier("scored"), dialect.identifier(output)
    columns = []
    for end in _ENDS:
        *lines, last = _end(model, model.intervals, dialect, condition, calibrated, end)
        columns += [
            *indented(lines),
            f"  {last} AS {dialect.identifier(f'{output}_{end}')}{',' if end != _ENDS[-1] else ''}",
        ]
    # A string of the query may hold a line break: it stays as it is.
    return "\n".join(["SELECT", f"  {scored}.*,", *columns, "FROM (", query.rstrip("\n"), f") AS {scored}"]) + "\n"


def _end(
    model: CalibrationEnsemble,
    intervals: RowIntervals,
    dialect: Dialect,
    condition: WriteCondition,
    calibrated: str,
    end: str,
) -> list[str]:
    """clip(calibrated · multiplier of its band in the leaf, 0, 1)."""
    multiplier = _multiplier(intervals, dialect, calibrated, _ENDS.index(end))
    tree = model.bin_tree
    lines = [multiplier(0.0)]
    if tree is not None:
        numbered = replace(tree, leaf_value=np.arange(tree.n_nodes, dtype=np.float64))
        # Two levels are spent on the test for a missing prediction and on the bands.
        depth = None if dialect.max_case_depth is None else max(dialect.max_case_depth - 2, 1)
        lines = list(case_lines(decision_of(model, numbered), condition, multiplier, depth))
    value = [f"{calibrated} * (", *indented(lines), ")"]
    head, tail = dialect.clip.format(low=dialect.double(0.0), high=dialect.double(1.0), value="\0").split("\0")
    return [f"CASE WHEN {calibrated} IS NULL THEN NULL ELSE", *indented([head, *indented(value), tail]), "END"]


def _multiplier(intervals: RowIntervals, dialect: Dialect, calibrated: str, end: int) -> Callable[[float], str]:
    def of_node(node: float) -> str:
        *bands, last = intervals.bands(int(node))
        if not bands:
            return dialect.double(last[1 + end])
        tests = " ".join(
            f"WHEN {calibrated} <= {dialect.double(b[0])} THEN {dialect.double(b[1 + end])}" for b in bands
        )
        return f"CASE {tests} ELSE {dialect.double(last[1 + end])} END"

    return of_node
