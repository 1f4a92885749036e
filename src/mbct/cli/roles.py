"""What each column is for: the label, the score, the weight, features, and what is left out and why."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mbct.errors import DataError

if TYPE_CHECKING:
    from mbct.cli.sources import Data

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
_MANY_ROWS = 1_000_000
"""In more rows than this distinct values are counted by a sketch, a few per cent off."""
_INTEGERS = frozenset(f"{sign}{size}int" for sign in ("", "u") for size in ("tiny", "small", "", "big", "huge"))
_INTEGERS |= {"integer", "uinteger"}
_FRACTIONS = frozenset({"float", "double", "decimal"})
_NO_SEGMENTS = frozenset(
    {"list", "array", "struct", "map", "union", "null", "sqlnull", "blob", "bit", "interval", "time"}
    | {"time with time zone", "timestamp with time zone"}
)
"""Types whose values a model cannot distinguish."""


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
        lines = [f"{role}: {name}{' (guessed)' if role in self.guessed else ''}" for role, name in self._named()]
        if self.features is not None:
            lines.append(f"features: {', '.join(self.features) or 'none'}")
        return lines + [f"left out: {name} ({reason})" for name, reason in self.excluded]

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

    @property
    def columns(self) -> list[str]:
        """The features, the score, the label and the weight, where there are such."""
        return [name for name in (*(self.features or ()), self.score, self.label, self.weight) if name is not None]

    def _named(self) -> Iterable[tuple[str, str]]:
        named = (("label", self.label), ("score", self.score), ("weight", self.weight))
        return ((role, name) for role, name in named if name is not None)


def assign(
    data: "Data",
    *,
    label: str | None = None,
    score: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
) -> Roles:
    """Roles of the columns of ``data``; label and score are guessed where they are not named.

    ``features`` names them; an empty list takes every column that is fit to be one; None wants none.
    """
    named = [name for name in (label, score, weight) if name is not None]
    n_rows = data.count()
    data.require([*named, *(features or ()), *exclude])
    guessed = tuple(role for role, name in (("label", label), ("score", score)) if name is None)
    label = label or _guess_label(data, set(named))
    score = score or _guess_score(data, {*named, label})
    taken = [name for name in (label, score, weight) if name is not None]
    if len(set(taken)) < len(taken):
        raise DataError(f"label, score and weight must be different columns, got {', '.join(taken)}")
    if features is None or features:
        kept = None if features is None else tuple(name for name in features if name not in (*taken, *exclude))
        return Roles(label, score, kept, weight, (), guessed)
    others = [name for name in data.names if name not in taken]
    useless = _useless(data, n_rows, [name for name in others if name not in exclude])
    reasons = {name: "as asked" if name in exclude else useless.get(name) for name in others}
    left_out = tuple((name, reason) for name, reason in reasons.items() if reason is not None)
    return Roles(label, score, tuple(n for n in others if reasons[n] is None), weight, left_out, guessed)


def _guess_label(data: "Data", taken: set[str]) -> str:
    likely = _named_like(data, LABEL_NAMES.__contains__, taken)
    types = data.types
    numbers = [name for name in likely if types[name].id in _INTEGERS | _FRACTIONS]
    binary = data.each("bool_and({} IN (0, 1))", numbers)
    found = [name for name in likely if types[name].id == "boolean" or binary.get(name)]
    return _only(data, found, "label", "a column of 0 and 1")


def _guess_score(data: "Data", taken: set[str]) -> str:
    def like_a_score(name: str) -> bool:
        return name in SCORE_NAMES or _SCORE_PATTERN.search(name) is not None

    types = data.types
    likely = [name for name in _named_like(data, like_a_score, taken) if types[name].id in _FRACTIONS]
    # DuckDB takes NaN for the greatest of numbers; a score with some is refused later, by name.
    inside = data.each("bool_and({} BETWEEN 0 AND 1 OR isnan({}::DOUBLE))", likely)
    return _only(data, [name for name, yes in inside.items() if yes], "score", "predicted probabilities")


def _named_like(data: "Data", fits: Callable[[str], bool], taken: set[str]) -> list[str]:
    return [name for name in data.names if name not in taken and fits(name.lower())]


def _only(data: "Data", found: list[str], role: str, meaning: str) -> str:
    if len(found) == 1:
        return found[0]
    if found:
        raise DataError(f"which column is the {role}? {', '.join(found)} all look like it: pass --{role} {found[0]}")
    raise DataError(f"which column is the {role} ({meaning})? pass --{role} NAME; the data has {', '.join(data.names)}")


def _useless(data: "Data", n_rows: int, names: Sequence[str]) -> dict[str, str]:
    """Why columns cannot tell segments apart; those that can are not named."""
    types = data.types
    reasons = {name: f"of type {types[name]}" for name in names if types[name].id in _NO_SEGMENTS}
    if n_rows < _FEW_ROWS:
        return reasons
    doubtful = [name for name in names if name not in reasons and _may_be_identifier(name, types[name].id)]
    exact = n_rows <= _MANY_ROWS
    counted = data.each("count(DISTINCT {})" if exact else "approx_count_distinct({})", doubtful)
    for name, distinct in counted.items():
        if distinct >= _ID_SHARE * n_rows:
            about = "" if exact else "about "
            reasons[name] = f"{about}{distinct:,} distinct values in {n_rows:,} rows: looks like an identifier"
    return reasons


def _may_be_identifier(name: str, kind: str) -> bool:
    if kind in _FRACTIONS or kind == "boolean":
        return False
    return kind not in _INTEGERS or _ID_PATTERN.search(name) is not None
