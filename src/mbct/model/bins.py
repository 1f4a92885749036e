"""Frozen bins: how each feature's values become codes, as plain data.

A feature with n values or intervals has n + 2 codes: 0 … n − 1, then ``missing``, then ``unseen``. Encoding is a
total function: any input has a code. ``encode`` takes columns; ``value_encoder`` makes a function for single values.
"""

import hashlib
import json
import struct
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.encoding import ValueType, as_float, category_key, key_as, other_spellings
from mbct.validation import FloatArray

CodeArray = npt.NDArray[np.unsignedinteger[Any]]
CodeMatrix = CodeArray
"""Codes of rows, one column a feature; the first is the score's."""
ValueEncoder = Callable[[Any], int]
CountUnseen = Callable[[str], None]
"""Hears the name of a feature for each unseen value."""

_WORTH_KERNEL = 10_000  # Rows from which on numbers are coded by a kernel of our own
_BLOCK = 16  # Edges compared at once


@kernel
def interval_codes(values: FloatArray, edges: FloatArray) -> npt.NDArray[np.intp]:
    """Number of edges below each value; NaN is missing. It counts: first whole blocks of edges, then within one.

    The branches of a search by halves are guessed wrong half of the time; comparing a value with a block of edges has
    none and fills the processor's vectors, which takes a third of the time.
    """
    n_edges = len(edges)
    n_blocks = n_edges // _BLOCK + 1
    within = np.full(n_blocks * _BLOCK, np.inf)
    within[:n_edges] = edges
    last_of_block = np.full(-(-n_blocks // _BLOCK) * _BLOCK, np.inf)
    last_of_block[:n_blocks] = within[_BLOCK - 1 :: _BLOCK]
    codes = np.empty(len(values), np.intp)
    for i in range(len(values)):
        value = values[i]
        block = 0
        for k in range(len(last_of_block)):
            block += last_of_block[k] < value
        code = block * _BLOCK
        for k in range(_BLOCK):
            code += within[np.uint64(block * _BLOCK + k)] < value
        codes[i] = code if value == value else n_edges + 1
    return codes


class _Coded(ABC):
    """What has a code for each of its values or intervals, then one for missing and one for unseen values."""

    @property
    @abstractmethod
    def n_values(self) -> int:
        """Number of known values, or of intervals."""

    @property
    def missing(self) -> int:
        """Code of a missing value."""
        return self.n_values

    @property
    def unseen(self) -> int:
        """Code of values that were not, or hardly, seen in training; no number has it."""
        return self.n_values + 1

    @property
    def n_codes(self) -> int:
        """Number of codes, missing and unseen included."""
        return self.n_values + 2


@dataclass(frozen=True)
class NumberBins(_Coded):
    """Intervals (−∞, e₀], (e₀, e₁], … , (eₘ, ∞) of a number; NaN is missing, infinities fall into the outer ones.

    Where each interval held one value in training, ``distinct`` names them, so that rules can speak of these.
    """

    name: str
    edges: tuple[float, ...]
    distinct: tuple[float, ...] = ()

    kind: ClassVar[Literal["number"]] = "number"
    ordered: ClassVar[bool] = True

    @property
    def n_values(self) -> int:
        """Number of intervals."""
        return len(self.edges) + 1

    def encode(self, values: FloatArray) -> npt.NDArray[np.intp]:
        """Codes of float values.

        >>> NumberBins("age", (18.0, 65.0)).encode(np.array([18.0, 18.1, np.inf, np.nan])).tolist()
        [0, 1, 2, 3]
        """
        edges = np.asarray(self.edges, dtype=np.float64)
        if len(values) >= _WORTH_KERNEL:
            return interval_codes(np.ascontiguousarray(values, dtype=np.float64), edges)
        codes = np.searchsorted(edges, values, side="left")
        codes[np.isnan(values)] = self.missing
        return codes

    def value_encoder(self, first_row: int = 0, _count_unseen: CountUnseen | None = None) -> ValueEncoder:
        """A function from a raw value to ``first_row`` plus its code."""
        # Bisecting a list and finding the row in another list costs less than adding the first row each time.
        edges, missing = list(self.edges), first_row + self.missing
        rows = list(range(first_row, first_row + self.n_values))

        def encode(value: Any) -> int:
            if type(value) is not float:
                value = as_float(value)
            return rows[bisect_left(edges, value)] if value == value else missing

        return encode

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        known = {"distinct": list(self.distinct)} if self.distinct else {}
        return {"kind": self.kind, "name": self.name, "edges": list(self.edges), **known}


@dataclass(frozen=True)
class CategoryBins(_Coded):
    """A code for each known value, by its canonical text (:func:`~mbct.model.encoding.category_key`)."""

    name: str
    values: tuple[str, ...]
    value_type: ValueType = "string"

    kind: ClassVar[Literal["category"]] = "category"
    ordered: ClassVar[bool] = False

    @property
    def n_values(self) -> int:
        """Number of known values."""
        return len(self.values)

    @cached_property
    def code_of(self) -> dict[str | None, int]:
        """Code of each known value in all its spellings, of None and of the empty text."""
        known: dict[Any, int] = {value: code for code, value in enumerate(self.values)}
        known.setdefault("", self.missing)
        return {**known, None: self.missing, **other_spellings(self.value_type, known)}

    def code(self, value: Any) -> int:
        """Code of a value of any type."""
        if not isinstance(value, str):
            return self.code_of.get(category_key(value), self.unseen)
        if value in self.code_of or self.value_type in ("string", "boolean"):
            return self.code_of.get(value, self.unseen)
        return self.code_of.get(key_as(self.value_type, value) or value, self.unseen)

    def encode(self, values: Iterable[Any]) -> npt.NDArray[np.intp]:
        """Codes of values of any type.

        >>> CategoryBins("carrier", ("UA", "AA")).encode(["AA", None, "ZZ"]).tolist()
        [1, 2, 3]
        """
        listed = values if isinstance(values, list) else list(values)
        # True is 1 to a dictionary: integers are looked up as such only where there is nothing else.
        only_integers = type(listed[0]) is not str and set(map(type, listed)) <= {int, type(None)} if listed else False
        table = self._code_of_integer if only_integers else self._code_of_text
        try:
            return packed("q", map(table.__getitem__, listed), np.empty(len(listed), np.intp))
        except TypeError:  # A value that cannot be looked up, such as a list.
            return np.array([self.code(value) for value in listed], dtype=np.intp)

    def value_encoder(self, first_row: int = 0, count_unseen: CountUnseen | None = None) -> ValueEncoder:
        """A function from a raw value to ``first_row`` plus its code; ``count_unseen`` hears of each unseen value."""
        find = {key: first_row + code for key, code in self.code_of.items()}.get
        code, name, unseen = self.code, self.name, self.unseen

        def encode(value: Any) -> int:
            found = find(value) if type(value) is str else None
            if found is not None:
                return found
            other = code(value)
            if other == unseen and count_unseen is not None:
                count_unseen(name)
            return first_row + other

        return encode

    @cached_property
    def _code_of_text(self) -> "_CodeTable":
        return _CodeTable(self.code_of, self.code)

    @cached_property
    def _code_of_integer(self) -> "_CodeTable":
        whole = ((integer_of(key), code) for key, code in self.code_of.items() if key is not None)
        return _CodeTable({**{key: code for key, code in whole if key is not None}, None: self.missing}, self.code)

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "values": self.values, "value_type": self.value_type}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"kind": self.kind, "name": self.name, "type": self.value_type, "values": list(self.values)}


class _CodeTable(dict[Any, int]):
    """Codes by value. Looking up a whole column runs in C but for values that are no known text, or integer."""

    def __init__(self, codes: Mapping[Any, int], code: ValueEncoder) -> None:
        super().__init__(codes)
        self._code = code

    def __missing__(self, value: Any) -> int:
        return self._code(value)


Feature = NumberBins | CategoryBins


@dataclass(frozen=True)
class FeatureBins:
    """Bins of all features, in the order of the code columns."""

    features: tuple[Feature, ...]

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> Feature:
        return self.features[index]

    @property
    def names(self) -> tuple[str, ...]:
        """Feature names."""
        return tuple(feature.name for feature in self.features)

    @property
    def n_codes(self) -> tuple[int, ...]:
        """Number of codes of each feature."""
        return tuple(feature.n_codes for feature in self.features)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all bins: cells with another fingerprint were coded otherwise."""
        coding = [
            replace(feature, distinct=()) if isinstance(feature, NumberBins) else feature for feature in self.features
        ]
        content = json.dumps(FeatureBins(tuple(coding)).to_list(), sort_keys=True, ensure_ascii=False).encode()
        return hashlib.sha256(content).hexdigest()[:16]

    @property
    def code_type(self) -> npt.DTypeLike:
        """The narrowest unsigned integer that holds every code."""
        return np.min_scalar_type(max((*self.n_codes, 1)) - 1)

    def to_list(self) -> list[dict[str, Any]]:
        """Plain JSON."""
        return [feature.to_dict() for feature in self.features]


def code_offsets(n_codes: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each feature's codes begin, and at the end the number of all codes.

    Code c of feature j stands at ``code_offsets(n_codes)[j] + c``.

    >>> code_offsets((4, 3, 5)).tolist()
    [0, 4, 7, 12]
    """
    offsets = np.zeros(len(n_codes) + 1, dtype=np.int64)
    np.cumsum(n_codes, out=offsets[1:])
    return offsets


def packed(kind: str, values: Any, into: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Write Python numbers into an array: a quarter of the time that numpy takes to make one of them."""
    struct.pack_into(f"{len(into)}{kind}", into.data, 0, *values)
    return into


def integer_of(key: str) -> int | None:
    """The integer whose canonical text is ``key``: that of '7' is 7, '07' has none."""
    try:
        return int(key) if str(int(key)) == key else None
    except ValueError:
        return None
