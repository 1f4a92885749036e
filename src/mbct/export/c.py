"""The model as one C99 file: constant tables and a walk over them, no allocation, no global state."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

from mbct.errors import ParameterError
from mbct.export import c_source
from mbct.export.spelling import identifiers, is_int64, number_of
from mbct.model.bins import CategoryBins, Feature, NumberBins
from mbct.model.conditions import RunNode, run_nodes, used_features
from mbct.model.ensemble import CalibrationEnsemble
from mbct.stats.probabilities import EPSILON

_LONGEST_LITERAL = 4000
"""C99 promises string literals of 4,095 characters and no more."""
_PER_LINE = 12


@dataclass(frozen=True)
class Field:
    """One member of the row."""

    bins: Feature
    name: str
    kind: str
    """One of ``c_source.KINDS``."""


def to_c(model: CalibrationEnsemble, prefix: str = "mbct") -> str:
    """C99 source with ``struct <prefix>_row`` and ``double <prefix>_calibrate(const struct <prefix>_row *row)``.

    The struct has a member for every feature, used or not, so that a refitted model takes the same rows.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", prefix):
        raise ParameterError(f"prefix={prefix!r} must be a C identifier, for example 'mbct'")
    names = identifiers(model.bins.names)
    fields = [Field(bins, name, _kind(bins)) for bins, name in zip(model.bins, names, strict=True)]
    declarations = c_source.DECLARATIONS.format(prefix=prefix, guard=prefix.upper(), members=_members(fields))
    identity = c_source.IDENTITY.format(prefix=prefix, score=names[0])
    body = _walk(model, fields, prefix) if model.trees else [identity]
    return "\n".join([declarations, *body, "#endif"]) + "\n"


def _kind(bins: Feature) -> str:
    if isinstance(bins, NumberBins):
        return "number"
    if bins.value_type == "integer" and all(map(is_int64, bins.values)):
        return "integer"
    return {"number": "real", "boolean": "flag"}.get(bins.value_type, "text")


def _members(fields: list[Field]) -> str:
    lines = []
    for field in fields:
        kind = c_source.KINDS[field.kind]
        what = "the prediction" if field is fields[0] else f"{kind.missing} where missing"
        lines.append(f"    {kind.declared}{field.name}; /* {_comment(field.bins.name)}: {what} */")
    return "\n".join(lines)


def _walk(model: CalibrationEnsemble, every: list[Field], prefix: str) -> list[str]:
    used = used_features(model)
    fields = [every[j] for j in used]
    searched = [kind for kind in c_source.KINDS if kind != "number" and any(field.kind == kind for field in fields)]
    codes = [f"    code[{i}] = {_encoder_call(field)};" for i, field in enumerate(fields)]
    walk = {"prefix": prefix, "score": fields[0].name, "n_features": len(fields), "codes": "\n".join(codes)}
    return [
        *(line for field in fields for line in _tables_of_field(field)),
        *_tables_of_trees(model, {feature: i for i, feature in enumerate(used)}),
        c_source.CODE_OF_NUMBER,
        *(c_source.CODE_OF_KEY.format(name=kind, kind=c_source.KINDS[kind]) for kind in searched),
        c_source.WALK.format(**walk, move=c_source.MOVES[model.link].format(epsilon=EPSILON)),
    ]


def _encoder_call(field: Field) -> str:
    bins, value = field.bins, f"row->{field.name}"
    if isinstance(bins, NumberBins):
        return f"code_of_number({value}, edges_{field.name}, {len(bins.edges)})"
    known = (value, f"keys_{field.name}", f"codes_{field.name}", len(_known(field.kind, bins)), bins.n_values)
    return f"code_of_{field.kind}({', '.join(map(str, known))})"


def _tables_of_field(field: Field) -> Iterator[str]:
    bins, kind = field.bins, field.kind
    if isinstance(bins, NumberBins):
        yield from _array("double", f"edges_{field.name}", map(_double, bins.edges))
        return
    known = _known(kind, bins)
    if kind == "text":
        yield from _text_table(field.name, list(known))
    else:
        yield from _array(
            c_source.KINDS[kind].key, f"keys_{field.name}", map(_double if kind == "real" else _integer, known)
        )
    yield from _array("int", f"codes_{field.name}", map(str, known.values()))


def _known(kind: str, bins: CategoryBins) -> dict[Any, int]:
    """Codes of known values as C compares them, sorted; a text with a zero byte inside is no C string."""
    if kind == "text":
        keys = {text.encode(): code for text, code in bins.code_of.items() if text is not None and "\0" not in text}
    else:
        readers: dict[str, Callable[[str], Any]] = {"integer": int, "flag": "true".__eq__}
        read = readers.get(kind, partial(number_of, bins))
        keys = {read(value): code for code, value in enumerate(bins.values)}
    return dict(sorted(keys.items()))


def _tables_of_trees(model: CalibrationEnsemble, position: dict[int, int]) -> Iterator[str]:
    roots: list[int] = []
    nodes: list[RunNode] = []
    children: list[int] = []
    for tree in model.trees:
        root = len(nodes)
        roots.append(root)
        nodes += run_nodes(model, tree)
        children += [child if child < 0 else child + root for node in nodes[root:] for child in node.children]
    first_run = accumulate((len(node.starts) for node in nodes), initial=0)
    yield from _array("int", "tree_root", map(str, roots))
    yield from _array("int", "node_feature", (str(position.get(node.feature, -1)) for node in nodes))
    yield from _array("double", "node_step", (_double(node.leaf_value) for node in nodes))
    yield from _array("int", "node_first_run", map(str, first_run))
    yield from _array("int", "run_start", (str(start) for node in nodes for start in node.starts))
    yield from _array("int", "run_child", map(str, children))
    yield f"enum {{ N_TREES = {len(roots)} }};"


def _array(kind: str, name: str, values: Iterable[str]) -> Iterator[str]:
    """A constant array; C has no empty ones, so one unread zero stands in."""
    items = list(values) or ["0"]
    yield f"static const {kind} {name}[] = {{"
    for i in range(0, len(items), _PER_LINE):
        yield f"    {', '.join(items[i : i + _PER_LINE])},"
    yield "};"


def _text_table(name: str, keys: list[bytes]) -> Iterator[str]:
    literals = []
    for i, key in enumerate(keys):
        if len(key) > _LONGEST_LITERAL:
            yield from _array(
                "char", f"long_{name}_{i}", [*(str(byte) if byte < 128 else f"(char){byte}" for byte in key), "0"]
            )
            literals.append(f"long_{name}_{i}")
        else:
            literals.append(_text(key))
    yield from _array("char *const", f"keys_{name}", literals)


def _text(value: bytes) -> str:
    r"""A string literal of printable ASCII; a question mark is escaped because ``??/`` would be a trigraph.

    >>> print(_text("naïve?".encode()))
    "na\303\257ve\?"
    """
    special = {ord('"'): '\\"', ord("\\"): "\\\\", ord("?"): "\\?"}
    return '"' + "".join(special.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in value) + '"'


def _comment(name: str) -> str:
    """A name inside a comment, which it can neither end nor open."""
    return _text(name.encode()).replace("/", "\\057")


def _double(value: float) -> str:
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def _integer(value: float) -> str:
    """A literal; the smallest number has none, for C reads the minus as an operator."""
    return f"{value:d}LL" if value > -(2**63) else f"({int(value) + 1}LL - 1)"
