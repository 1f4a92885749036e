"""Frozen bins: how each feature's values become codes, as plain data.

A feature with n values or intervals has n + 2 codes: 0 … n − 1, then ``missing``, then ``unseen``. Encoding is a
total function: any input has a code.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from mbct.errors import ModelFileError
from mbct.jit import kernel
from mbct.model.encoding import ValueType, category_key
from mbct.validation import FloatArray

CodeArray = npt.NDArray[np.unsignedinteger[Any]]
CodeMatrix = CodeArray
"""Codes of rows, one column a feature; the first is the score's."""

_WORTH_KERNEL = 10_000
"""Rows from which on numbers are coded by a kernel of our own."""
_BLOCK = 16
"""Edges compared at once."""


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


@dataclass(frozen=True)
class NumberBins:
    """Intervals (−∞, e₀], (e₀, e₁], … , (eₘ, ∞) of a number; NaN is missing, infinities fall into the outer ones."""

    name: str
    edges: tuple[float, ...]

    kind: ClassVar[Literal["number"]] = "number"
    ordered: ClassVar[bool] = True

    @property
    def n_values(self) -> int:
        """Number of intervals."""
        return len(self.edges) + 1

    @property
    def missing(self) -> int:
        """Code of a missing value."""
        return self.n_values

    @property
    def unseen(self) -> int:
        """Code of an unseen value: no number has it."""
        return self.n_values + 1

    @property
    def n_codes(self) -> int:
        """Number of codes, missing and unseen included."""
        return self.n_values + 2

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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"kind": self.kind, "name": self.name, "edges": list(self.edges)}


@dataclass(frozen=True)
class CategoryBins:
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

    @property
    def missing(self) -> int:
        """Code of a missing value."""
        return self.n_values

    @property
    def unseen(self) -> int:
        """Code of values that were not, or hardly, seen in training."""
        return self.n_values + 1

    @property
    def n_codes(self) -> int:
        """Number of codes, missing and unseen included."""
        return self.n_values + 2

    @cached_property
    def code_of(self) -> dict[str | None, int]:
        """Code of each known value and of None."""
        known: dict[str | None, int] = {value: code for code, value in enumerate(self.values)}
        known[None] = self.missing
        return known

    def encode(self, values: Iterable[Any]) -> npt.NDArray[np.intp]:
        """Codes of values of any type.

        >>> CategoryBins("carrier", ("UA", "AA")).encode(["AA", None, "ZZ"]).tolist()
        [1, 2, 3]
        """
        code_of, unseen = self.code_of, self.unseen
        return np.array([code_of.get(category_key(v), unseen) for v in values], dtype=np.intp)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"kind": self.kind, "name": self.name, "type": self.value_type, "values": list(self.values)}


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
        content = json.dumps(self.to_list(), sort_keys=True, ensure_ascii=False).encode()
        return hashlib.sha256(content).hexdigest()[:16]

    @property
    def code_type(self) -> npt.DTypeLike:
        """The narrowest unsigned integer that holds every code."""
        return np.min_scalar_type(max((*self.n_codes, 1)) - 1)

    def to_list(self) -> list[dict[str, Any]]:
        """Plain JSON."""
        return [feature.to_dict() for feature in self.features]

    @classmethod
    def from_list(cls, content: list[dict[str, Any]]) -> "FeatureBins":
        """Undo :meth:`to_list`."""
        return cls(tuple(_bins_from_dict(item) for item in content))


def _bins_from_dict(item: dict[str, Any]) -> Feature:
    if item["kind"] == NumberBins.kind:
        return NumberBins(item["name"], tuple(float(edge) for edge in item["edges"]))
    if item["kind"] == CategoryBins.kind:
        return CategoryBins(item["name"], tuple(map(str, item["values"])), item["type"])
    raise ModelFileError(f"unknown kind of bins {item['kind']!r} for feature {item.get('name')!r}")


def code_offsets(n_codes: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each feature's codes begin, and at the end the number of all codes.

    Code c of feature j stands at ``code_offsets(n_codes)[j] + c``.

    >>> code_offsets((4, 3, 5)).tolist()
    [0, 4, 7, 12]
    """
    offsets = np.zeros(len(n_codes) + 1, dtype=np.int64)
    np.cumsum(n_codes, out=offsets[1:])
    return offsets
