"""Gates: conditions such as ``ece > 0.01`` that make a command answer no."""

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mbct.errors import ParameterError

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_GATE = re.compile(r"\s*([A-Za-z_]\w*)\s*(>=|<=|==|!=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")


@dataclass(frozen=True)
class Gate:
    """The check fails if ``metric`` stands to ``limit`` as ``sign`` says, or if the metric has no value."""

    metric: str
    sign: str
    limit: float

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.limit:g}"

    def judge(self, values: Mapping[str, Any]) -> "Verdict":
        """Compare with the measured value."""
        if self.metric not in values:
            raise ParameterError(f"--fail-if names {self.metric!r}; measured were {', '.join(values)}")
        value = values[self.metric]
        known = value is not None and not math.isnan(value)
        return Verdict(self, float(value) if known else None, not known or _OPERATORS[self.sign](value, self.limit))


@dataclass(frozen=True)
class Verdict:
    """What a gate found; ``value`` is None where the metric is not defined on these rows."""

    gate: Gate
    value: float | None
    failed: bool

    def __str__(self) -> str:
        value = "not defined" if self.value is None else f"{self.value:.6g}"
        return f"{'failed' if self.failed else 'passed'}: {self.gate.metric} is {value}, fails if {self.gate}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"fail_if": str(self.gate), "value": self.value, "failed": self.failed}


def parse_gate(text: str) -> Gate:
    """Read ``METRIC SIGN NUMBER``; nothing is evaluated.

    >>> str(parse_gate("ece>1e-2"))
    'ece > 0.01'
    """
    found = _GATE.fullmatch(text)
    if found is None:
        raise ParameterError(f"cannot read --fail-if {text!r}: write METRIC SIGN NUMBER, such as 'ece > 0.01'")
    return Gate(found[1], found[2], float(found[3]))
