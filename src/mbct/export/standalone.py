"""Calibrated probabilities from raw values: one file, the standard library alone.

``calibrate(row)`` takes a dictionary of raw values and returns the calibrated probability. Run as a program, the file
reads JSON lines (from the files named on the command line, or from standard input) and prints one number a line.
None and NaN are missing values; a value that training did not know is treated as unseen.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Node = tuple[float, int, Sequence[int], Sequence[int]]
Feature = tuple[str, Sequence[float] | None, "dict[str, int]", int, str]

BOOLEANS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}

# The model
LINK = "odds"
EPSILON = 1e-9
# For each feature that the trees look at, the prediction first: (name, edges of a number or None, codes of values in
# all their spellings, number of values, their type).
FEATURES: Sequence[Feature] = ()
# For each tree its nodes: (step, feature or -1, first code of each run, child of each run or -1 to stop here).
TREES: Sequence[Sequence[Node]] = ()
# End of the model


def calibrate(row: dict[str, Any]) -> float:
    """Calibrated probability of one row of raw values."""
    name = FEATURES[0][0]
    p = _number(_value(row, name))
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name!r} must be a probability between 0 and 1, got {row[name]!r}")
    if not TREES:
        return p
    codes = [_code(p if i == 0 else _value(row, f[0]), f) for i, f in enumerate(FEATURES)]
    steps = [_step(nodes, codes) for nodes in TREES]
    if LINK == "linear":
        return min(max(p * math.prod(steps), 0.0), 1.0)
    total = 0.0
    for step in steps:  # in this order, which sum() would not keep
        total += step
    held = min(max(p, EPSILON), 1.0 - EPSILON)
    z = math.log(held) - math.log1p(-held) + total
    small = math.exp(-abs(z))
    return (1.0 if z >= 0.0 else small) / (1.0 + small)


def _step(nodes: Sequence[Node], codes: list[int]) -> float:
    node = 0
    while True:
        step, feature, starts, children = nodes[node]
        if feature < 0:
            return step
        node = children[bisect_right(starts, codes[feature]) - 1]
        if node < 0:
            return step


def _value(row: dict[str, Any], name: str) -> Any:
    if name not in row:
        raise KeyError(f"the row has no {name!r}: pass None (null) where the value is missing")
    return row[name]


def _code(value: Any, feature: Feature) -> int:
    _, edges, codes, n_values, kind = feature
    if edges is not None:
        number = _number(value)
        return len(edges) + 1 if math.isnan(number) else bisect_left(edges, number)
    if isinstance(value, str):
        text: str | None = value if value in codes else _text_of_type(value, kind)
    else:
        text = _text(value)
    return n_values if text is None else codes.get(text, n_values + 1)


def _text_of_type(text: str, kind: str) -> str:
    """Canonical text of a number or a date that arrived as text."""
    try:
        if kind in ("integer", "number"):
            return _text(float(text)) or text
        if kind in ("date", "datetime"):
            return _text(datetime.datetime.fromisoformat(text)) or text
    except (ValueError, OverflowError):
        pass
    return text


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def _text(value: Any) -> str | None:
    """Canonical text of a category: 3 and 3.0 are '3', True is 'true', dates are in ISO format and UTC."""
    if isinstance(value, str):
        return BOOLEANS.get(value, str(value)) or None
    if _is_missing(value):
        return None
    if type(value).__module__ == "numpy":
        value = value.astype("datetime64[us]").item() if type(value).__name__ == "datetime64" else value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, decimal.Decimal):
        value = int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 2.0**53
        return str(int(value)) if whole else repr(float(value))
    if isinstance(value, datetime.datetime):
        value = value.astimezone(datetime.UTC) if value.tzinfo is not None else value
        microseconds = f".{value.microsecond:06}" if value.microsecond else ""
        return f"{value.date()} {value:%H:%M:%S}{microseconds}".removesuffix(" 00:00:00")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


def main(paths: list[str]) -> int:
    """Calibrate JSON lines; the first line that cannot be calibrated ends the run and is named."""
    for path in paths or ["-"]:
        with sys.stdin if path == "-" else Path(path).open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    try:
                        result = calibrate(json.loads(line))
                    except (ValueError, KeyError, TypeError) as error:
                        sys.stderr.write(f"{path}, line {number}: {error.args[0]}\n")
                        return 2
                    sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
