"""Where a model comes from: how the losses fell while its trees grew, and the fingerprint of the rows it was fitted on.

A fingerprint is enough to see the rows again, too little to rebuild them: three sums and a sketch, the smallest hashes
of the rows that no other row equals. Hashes are as good as random, so the share of the sketch that other rows contain
is the share of the fit's rows among them.
"""

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import rounded
from mbct.stats.random_stream import mix, next_state
from mbct.stats.sums import Sums
from mbct.validation import FloatArray

_SKETCH = 512
_ENOUGH = 10.0  # Hashes of the sketch that must be expected among rows of the fit, to tell rows of the fit from others
_BEYOND_CHANCE, _AT_LEAST = 4.0, 3.0
"""Standard errors above what rows that equal each other by chance explain, and a number above it."""
_MOSTLY_TWINS = 0.5  # Share of rows with a twin from which on equal rows say nothing

_SAME = 1e-8  # Relative difference of sums that rounding explains: models keep nine digits

HashArray = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class _Record:
    """Losses keep nine significant digits, so that the order of summation cannot reach a model's bytes."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float):
                object.__setattr__(self, name, float(f"{value:.9g}"))


@dataclass(frozen=True)
class SplitRecord(_Record):
    """One split: where, by what, and the losses around it."""

    tree: int
    node: int
    depth: int
    feature: str
    count: float
    n_children: int
    node_loss_before: float
    node_loss_after: float
    ensemble_loss: float


@dataclass(frozen=True)
class RoundRecord(_Record):
    """One boosting round: the loss over all data before and after, and whether the tree was kept."""

    tree: int
    loss_before: float
    loss_after: float
    kept: bool


@dataclass(frozen=True)
class FitTrace:
    """All splits and rounds of a fit, in the order in which they happened."""

    loss: str
    splits: tuple[SplitRecord, ...] = ()
    rounds: tuple[RoundRecord, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "loss": self.loss,
            "splits": [vars(record) for record in self.splits],
            "rounds": [vars(record) for record in self.rounds],
        }


@dataclass(frozen=True)
class RowFingerprint:
    """Sums of the rows of a fit before the first tree, the number of rows that are unique, and hashes of some."""

    count: float = 0.0
    label: float = 0.0
    pred: float = 0.0
    unique: int = 0
    sketch: tuple[int, ...] = ()

    def same_rows(self, count: float, label: float, pred: float) -> bool:
        """Whether rows with these sums are those of the fit."""
        return bool(np.allclose((count, label, pred), (self.count, self.label, self.pred), rtol=_SAME, atol=0.0))

    def seen(self, hashes: HashArray) -> bool | None:
        """Whether rows of the fit are among these; None where it cannot be told."""
        _, times = np.unique(hashes, return_counts=True)
        twins = float(times[times > 1].sum()) / max(len(hashes), 1)
        expected = min(len(hashes) / max(self.unique, 1), 1.0) * len(self.sketch)
        if expected < _ENOUGH or twins > _MOSTLY_TWINS:
            return None
        by_chance = twins * len(self.sketch)
        found = int(np.isin(np.array(self.sketch, dtype=np.uint64), hashes).sum())
        return found > by_chance + _BEYOND_CHANCE * math.sqrt(by_chance) + _AT_LEAST

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**vars(self), "sketch": list(self.sketch)}


def fingerprint_of(codes: CodeMatrix, sums: Sums) -> RowFingerprint:
    """The fingerprint of the rows of some cells."""
    alone = np.flatnonzero(sums.count == 1.0)
    hashes = np.sort(row_hashes(codes[alone], sums.pred[alone], sums.label[alone]))
    total = sums.total()
    known = fingerprint_of_sums(np.array([total.count, total.label, total.pred]))
    return RowFingerprint(known.count, known.label, known.pred, len(hashes), tuple(hashes[:_SKETCH].tolist()))


def joined_fingerprint(left: RowFingerprint, right: RowFingerprint) -> RowFingerprint:
    """The fingerprint of the rows of both."""
    amounts = (left.count + right.count, left.label + right.label, left.pred + right.pred)
    sketch = sorted((*left.sketch, *right.sketch))[:_SKETCH]
    return replace(fingerprint_of_sums(np.array(amounts)), unique=left.unique + right.unique, sketch=tuple(sketch))


def fingerprint_of_sums(total: FloatArray, negative_sampling_rate: float = 1.0) -> RowFingerprint:
    """The fingerprint of rows of which only count, label and prediction are known; a negative counts 1/rate times."""
    count, label, pred = (float(value) for value in total)
    return RowFingerprint(*rounded(np.array([label + (count - label) * negative_sampling_rate, label, pred])).tolist())


def row_hashes(codes: CodeMatrix, y_prob: FloatArray, y_true: FloatArray) -> HashArray:
    """53 bits of codes, prediction and label of each row: whole numbers that JSON keeps."""
    return _mixed(codes, np.ascontiguousarray(y_prob, dtype=np.float64).view(np.uint64), y_true) >> np.uint64(11)


def data_hash(hashes: HashArray) -> str:
    """Digest of rows in whatever order."""
    return hashlib.sha256(np.sort(hashes).tobytes()).hexdigest()[:16]


@kernel
def _mixed(codes: CodeMatrix, score: HashArray, y_true: FloatArray) -> HashArray:
    """Splitmix64 over the columns of each row."""
    hashed = np.empty(len(codes), np.uint64)
    for i in range(len(codes)):
        value = score[i] ^ np.uint64(y_true[i])
        for j in range(codes.shape[1]):
            value = mix(next_state(value) + np.uint64(codes[i, j]))
        hashed[i] = value
    return hashed
