"""Tables of two features as heat maps: the factor of each combination of their values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mbct.model.bins import Feature
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.rules import condition
from mbct.model.tables import TreeTable, table_of
from mbct.model.tree import IntArray
from mbct.report.charts import altair, chart, figure, records, tooltip
from mbct.validation import FloatArray

MOST_MAPS = 2
_MOST_CLASSES = 40  # Columns or lines of a map; of a category the most frequent values come first and are kept
_LEAST_CLASSES = 3
_LEAST_FACTOR = 1e-2  # A factor of 0 has no place on a logarithmic scale
_COLOURS = ("#b35806", "#f4f4f4", "#2166ac")


@dataclass(frozen=True)
class HeatMap:
    """Factors by the values of two features, in words."""

    tree: int
    features: tuple[str, str]
    columns: tuple[str, ...]
    lines: tuple[str, ...]
    factors: tuple[tuple[float, ...], ...]
    """One tuple a line."""
    left_out: int
    """Columns and lines that are not drawn."""


def compute(model: CalibrationEnsemble, effect: FloatArray) -> tuple[HeatMap, ...]:
    """The tables of two features that move the most, at most two; ``effect``: what each tree moves."""
    found: list[HeatMap] = []
    for number in np.argsort(-effect, kind="stable").tolist():
        if len(found) == MOST_MAPS:
            break
        table = table_of(model.trees[number], model.bins.n_codes)
        if table is not None and len(table.features) == 2 and min(table.n_classes) >= _LEAST_CLASSES:
            found.append(_heat_map(model, number, table))
    return tuple(found)


def _heat_map(model: CalibrationEnsemble, number: int, table: TreeTable) -> HeatMap:
    first, second = (model.bins[feature] for feature in table.features)
    columns, lines = (_named(bins, classes) for bins, classes in zip((first, second), table.classes, strict=True))
    drawn = [list(named)[:_MOST_CLASSES] for named in (columns, lines)]
    steps = model.trees[number].leaf_value[table.terminal_nodes].reshape(table.n_classes)
    factors = (steps if model.link == "linear" else np.exp(steps))[np.ix_(*drawn)].T
    return HeatMap(
        number,
        (first.name, second.name),
        tuple(columns[position] for position in drawn[0]),
        tuple(lines[position] for position in drawn[1]),
        tuple(map(tuple, factors.tolist())),
        len(columns) + len(lines) - len(drawn[0]) - len(drawn[1]),
    )


def _named(bins: Feature, classes: IntArray) -> dict[int, str]:
    """Classes in the order of their smallest code, and what each holds in words; two never have the same name."""
    names: dict[int, str] = {}
    for position in dict.fromkeys(classes[: bins.n_values + 1].tolist()):
        codes = frozenset(np.flatnonzero(classes == position).tolist())
        name = condition(bins, codes).shortened(2).removeprefix(f"{bins.name} ")
        names[position] = name if name not in names.values() else f"{name} ({len(names) + 1})"
    return names


def render(maps: Sequence[HeatMap], target: str) -> str:
    """The maps, one below the other."""
    return "".join(_figure(each, target) for each in maps)


def _figure(found: HeatMap, target: str) -> str:
    alt = altair()
    first, second = found.features
    factors = np.array(found.factors)
    shown = records(
        x=np.array(found.columns), y=np.array(found.lines)[:, None], factor=factors, shade=factors.clip(_LEAST_FACTOR)
    )
    largest = max(float(factors.max()), 1.0 / max(float(factors.min()), _LEAST_FACTOR), 1.01)
    ends = [1.0 / largest, 1.0, largest]
    colour = alt.Scale(type="log", domain=ends, range=list(_COLOURS), clamp=True)
    legend = alt.Legend(title="factor", gradientLength=160, format=".2f", values=ends)
    drawn = (
        chart(shown)
        .mark_rect()
        .encode(
            x=alt.X("x:N", title=first, sort=list(found.columns), axis=alt.Axis(labelLimit=110, labelOverlap=True)),
            y=alt.Y("y:N", title=second, sort=list(found.lines), axis=alt.Axis(labelLimit=150, labelOverlap=True)),
            color=alt.Color("shade:Q", scale=colour, legend=legend),
            tooltip=[alt.Tooltip("x:N", title=first), *tooltip({second: "y:N", f"× {target}": "factor:Q .3g"})],
        )
    )
    more = f"; {found.left_out:,} rarer groups of values are not drawn" if found.left_out > 0 else ""
    what = f"of the {target} by {first} and {second}"
    caption = f"Tree {found.tree + 1}: the factor {what}. Blue raises, orange lowers{more}."
    height = min(max(14 * len(found.lines), 120), 420)
    return figure(f"table-{found.tree + 1}", drawn, f"Factor {what}", height=height, caption=caption)
