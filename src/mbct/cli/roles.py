"""What each column is for: the label, the score, the weight, features, and what is left out and why."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mbct.errors import DataError

_LABEL_NAMES = """
    click clicked is_click label target y y_true outcome event converted conversion is_conversion claim default
    purchase churn churned died readmitted fraud
"""
_SCORE_NAMES = """
    p pctr pcvr score prob proba probability prediction pred predicted y_prob y_pred y_score y_hat p_hat phat risk
"""
LABEL_NAMES = frozenset(_LABEL_NAMES.split())
SCORE_NAMES = frozenset(_SCORE_NAMES.split())
_SCORE_PATTERN = re.compile(r"^(p|pred|prob|score)_|_(p|pred|prob|proba|probability|score|prediction)$")
_ID_PATTERN = re.compile(r"(^|_)(id|uuid|guid|key|index|rowid|row|number|nr)$|^id_|Id$|ID$")
_ID_SHARE = 0.9
"""A column of text with more distinct values than this share of the rows tells rows apart, not segments."""
_FEW_ROWS = 50


@dataclass(frozen=True)
class Roles:
    """The columns to use; ``excluded`` says why each of the others is left out, ``guessed`` what nobody named.

    ``features`` is None where none are wanted.
    """

    label: str
    score: str
    features: tuple[str, ...] | None
    weight: str | None = None
    excluded: tuple[tuple[str, str], ...] = ()
    guessed: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The choice in words, one line a role."""
        said = [f"{role}: {name}{' (guessed)' if role in self.guessed else ''}" for role, name in self._named()]
        if self.features is not None:
            said.append(f"features: {', '.join(self.features) or 'none'}")
        return said + [f"left out: {name} ({reason})" for name, reason in self.excluded]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        excluded = [{"column": name, "reason": reason} for name, reason in self.excluded]
        chosen = {
            "label": self.label,
            "score": self.score,
            "weight": self.weight,
            "features": list(self.features or ()),
        }
        return {**chosen, "excluded": excluded, "guessed": list(self.guessed)}

    def _named(self) -> Iterable[tuple[str, str]]:
        named = (("label", self.label), ("score", self.score), ("weight", self.weight))
        return ((role, name) for role, name in named if name is not None)


def assign(
    table: Any,
    *,
    label: str | None = None,
    score: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
) -> Roles:
    """Roles of the columns of an Arrow table; label and score are guessed where they are not named.

    ``features`` names them; an empty list takes every column that is fit to be one; None wants none.
    """
    named = [name for name in (label, score, weight) if name is not None]
    require(table, [*named, *(features or ()), *exclude])
    guessed = tuple(role for role, name in (("label", label), ("score", score)) if name is None)
    label = label or _guess_label(table, set(named))
    score = score or _guess_score(table, {*named, label})
    taken = [name for name in (label, score, weight) if name is not None]
    if len(set(taken)) < len(taken):
        raise DataError(f"label, score and weight must be different columns, got {', '.join(taken)}")
    if features is None or features:
        kept = None if features is None else tuple(name for name in features if name not in (*taken, *exclude))
        return Roles(label, score, kept, weight, (), guessed)
    others = [name for name in table.column_names if name not in taken]
    reasons = {name: "as asked" if name in exclude else _useless(table, name) for name in others}
    left_out = tuple((name, reason) for name, reason in reasons.items() if reason is not None)
    return Roles(label, score, tuple(n for n in others if reasons[n] is None), weight, left_out, guessed)


def _guess_label(table: Any, taken: set[str]) -> str:
    found = [name for name in _named_like(table, LABEL_NAMES.__contains__, taken) if _is_binary(table[name])]
    return _only(table, found, "label", "a column of 0 and 1")


def _guess_score(table: Any, taken: set[str]) -> str:
    def like_a_score(name: str) -> bool:
        return name in SCORE_NAMES or _SCORE_PATTERN.search(name) is not None

    found = [name for name in _named_like(table, like_a_score, taken) if _is_probability(table[name])]
    return _only(table, found, "score", "predicted probabilities")


def _named_like(table: Any, fits: Callable[[str], bool], taken: set[str]) -> list[str]:
    return [name for name in table.column_names if name not in taken and fits(name.lower())]


def _only(table: Any, found: list[str], role: str, meaning: str) -> str:
    if len(found) == 1:
        return found[0]
    if found:
        raise DataError(f"which column is the {role}? {', '.join(found)} all look like it: pass --{role} {found[0]}")
    raise DataError(
        f"which column is the {role} ({meaning})? pass --{role} NAME; the data has {', '.join(table.column_names)}"
    )


def require(table: Any, names: Sequence[str]) -> None:
    """Raise unless every name is a column."""
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise DataError(f"no column {missing[0]!r}; the data has {', '.join(table.column_names)}")


def _is_binary(column: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type):
        return True
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return False
    return set(pc.unique(column).to_pylist()) <= {0, 1}


def _is_probability(column: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(column.type):
        return False
    ends = pc.min_max(column).as_py()
    return ends["min"] is not None and ends["min"] >= 0.0 and ends["max"] <= 1.0


def _useless(table: Any, name: str) -> str | None:
    """Why a column cannot tell segments apart; None where it can."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table[name]
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return f"of type {column.type}"
    if pa.types.is_floating(column.type) or pa.types.is_boolean(column.type) or table.num_rows < _FEW_ROWS:
        return None
    if pa.types.is_integer(column.type) and not _ID_PATTERN.search(name):
        return None
    distinct = pc.count_distinct(column, mode="only_valid").as_py()
    if distinct < _ID_SHARE * table.num_rows:
        return None
    return f"{distinct:,} distinct values in {table.num_rows:,} rows: looks like an identifier"
