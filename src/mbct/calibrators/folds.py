"""Folds that depend on what a row holds, not on where it stands.

Equal rows share a fold, so a weight of k equals k copies, shuffling changes nothing, and no copy of a training row
is ever held out.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mbct.data.columns import Columns, as_floats, factorize, is_number
from mbct.errors import DataError
from mbct.jit import kernel
from mbct.model.encoding import category_key
from mbct.stats.random_stream import mix
from mbct.training.binned_rows import Duplicates, find_duplicates, rate_by_score
from mbct.training.folds import BlockKind, BlockNumbers, folds_of_blocks, time_or_group
from mbct.validation import FloatArray, at_least

KeyArray = npt.NDArray[np.uint64]


def row_keys(columns: Columns, seed: int) -> KeyArray:
    """64 bits of each row's content: equal rows, in whatever order, have equal keys."""
    keys = np.zeros(columns.n_rows, dtype=np.uint64)
    for j, name in enumerate(columns.names):
        _add_mixed(keys, _content_bits(columns.by_name[name]), _column_bits(j, seed))
    return keys


def sparse_row_keys(matrix: Any, seed: int) -> KeyArray:
    """Keys of the rows of a scipy sparse matrix."""
    table = matrix.tocsr()
    # Copies of one type each, so that the kernel is compiled once.
    bits = np.array(table.data, dtype=np.float64).view(np.uint64)
    indptr, indices = np.array(table.indptr, dtype=np.int64), np.array(table.indices, dtype=np.int64)
    columns = np.array([_column_bits(j, seed) for j in range(table.shape[1])], dtype=np.uint64)
    return _sum_by_row(indptr, indices, bits, columns)


def stratified_folds(keys: KeyArray, label: npt.NDArray[Any], n_folds: int) -> npt.NDArray[np.intp]:
    """Fold of each row: the distinct rows of each class are dealt out in turn, in the order of their keys.

    Equal rows share a fold whatever their labels, and those of several classes are dealt out last: were the positives
    at one score held out and its negatives trained on, they would seem to contradict each other.

    >>> stratified_folds(np.array([5, 9, 5, 7], dtype=np.uint64), np.array([0, 0, 0, 1]), 2).tolist()
    [0, 1, 0, 0]
    >>> stratified_folds(np.array([5, 9, 5, 7], dtype=np.uint64), np.array([0, 0, 1, 1]), 2).tolist()
    [0, 0, 0, 1]
    """
    distinct, position = np.unique(keys, return_inverse=True)
    values, code = np.unique(label, return_inverse=True)
    lowest, highest = np.full(len(distinct), len(values)), np.full(len(distinct), -1)
    np.minimum.at(lowest, position, code)
    np.maximum.at(highest, position, code)
    order = np.argsort(np.where(lowest == highest, lowest, len(values)), kind="stable")
    fold = np.empty(len(distinct), dtype=np.intp)
    fold[order] = np.arange(len(distinct)) % n_folds
    return np.asarray(fold[position])


def cross_validation_folds(keys: KeyArray, label: npt.NDArray[Any], n_folds: Any) -> npt.NDArray[np.intp]:
    """:func:`stratified_folds`, where every fold leaves rows of each class to train on; else a clear error."""
    at_least(2, cv=n_folds)
    for value in np.unique(label):
        if len(np.unique(keys[label == value])) < 2:
            raise DataError(
                f"class {value!r} has only one sample (one distinct row): cross-validation needs two of each class; "
                "add rows, or fit without it"
            )
    return stratified_folds(keys, label, int(n_folds))


def block_folds(
    block: BlockNumbers, weight: FloatArray, n_folds: Any, seed: int, kind: BlockKind
) -> npt.NDArray[np.intp]:
    """Fold of each row where whole blocks are held out; a clear error where there are fewer blocks than folds."""
    refuse_few_blocks(block, n_folds)
    number = np.unique(block, return_inverse=True)[1]
    total = np.bincount(number, weight).astype(np.float64)
    return folds_of_blocks(total, int(n_folds), seed, kind)[number].astype(np.intp)


def refuse_few_blocks(block: BlockNumbers, n_folds: Any) -> None:
    """Refuse more folds than there are blocks, or fewer than two."""
    at_least(2, cv=n_folds)
    n_blocks = len(np.unique(time_or_group(block)))
    if n_blocks < n_folds:
        raise DataError(f"{n_blocks} blocks of rows cannot fill {n_folds} folds: take cv={n_blocks} or less")


def _content_bits(column: Any) -> KeyArray:
    if is_number(column):
        values = as_floats(column)
        # Adding zero turns −0.0 into 0.0, which equals it; one pattern stands for every NaN.
        return np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)
    distinct, position = factorize(column)
    bits = [_text_bits(category_key(value)) for value in distinct]
    return np.array(bits, dtype=np.uint64)[position]


def _text_bits(text: str | None) -> int:
    bits = 0xCBF29CE484222325  # FNV-1a, whose value does not change between runs as hash() does
    for byte in (text or "").encode("utf-8", "surrogatepass"):
        bits = ((bits ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return bits


def _column_bits(number: int, seed: int) -> np.uint64:
    return np.uint64(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])


@kernel
def _add_mixed(keys: KeyArray, bits: KeyArray, column: np.uint64) -> None:
    for i in range(len(keys)):
        keys[i] += mix(mix(bits[i]) ^ column)


@kernel
def _sum_by_row(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[np.int64], bits: KeyArray, columns: KeyArray
) -> KeyArray:
    keys = np.zeros(len(indptr) - 1, np.uint64)
    for row in range(len(keys)):
        for i in range(indptr[row], indptr[row + 1]):
            keys[row] += mix(mix(bits[i]) ^ columns[indices[i]])
    return keys


_MOST_COPIES = 10**9
"""Beyond what numpy draws without putting back; of so many, each may be drawn alone and the share still holds."""


@dataclass(frozen=True)
class JoinedRows:
    """Distinct rows of numbers and label, with the weight of each.

    A row of weight k and k copies of it, in any order, give the same rows in the same order, so whatever is fitted to
    them, or drawn for them one after the other, is the same too.
    """

    matrix: FloatArray
    label: FloatArray
    weight: FloatArray
    group: npt.NDArray[np.intp]
    """Rows that agree in all numbers, whatever their labels, share one."""

    @classmethod
    def of_rows(cls, matrix: FloatArray, label: FloatArray, weight: FloatArray, seed: int) -> Self:
        """Join rows that agree in all numbers (NaN equals NaN) and in the label.

        >>> rows = JoinedRows.of_rows(np.array([[0.1], [0.2], [0.1]]), np.array([1.0, 0.0, 1.0]), np.ones(3), seed=0)
        >>> sorted(zip(rows.matrix[:, 0].tolist(), rows.weight.tolist()))
        [(0.1, 2.0), (0.2, 1.0)]
        """
        numbers = {f"column {j}": matrix[:, j] for j in range(matrix.shape[1])}
        key = row_keys(Columns({"label": label, **numbers}, len(matrix)), seed)
        # By weight too, so that sums of fractions do not depend on the order of the rows.
        order = np.lexsort((weight, key))
        starts = np.flatnonzero(np.concatenate([[True], np.diff(key[order]) != 0]))
        first = order[starts]
        distinct = Columns({name: column[first] for name, column in numbers.items()}, len(first))
        _, group = np.unique(row_keys(distinct, seed), return_inverse=True)
        return cls(matrix[first], label[first], np.add.reduceat(weight[order], starts), group)

    def __len__(self) -> int:
        return len(self.label)

    def duplicates(self, label: FloatArray, log_odds: FloatArray) -> Duplicates:
        """Duplicates in the groups, as any label of two values and its log-odds show them."""
        score = np.empty(int(self.group.max()) + 1)
        score[self.group] = log_odds
        count, positives = (
            np.bincount(self.group, amount).astype(np.float64) for amount in (self.weight, self.weight * label)
        )
        return find_duplicates(count, positives, rate_by_score(count, positives, score))

    def parted_by_group(self, share: float, rng: np.random.Generator) -> tuple[Self, Self]:
        """A random ``share`` of the groups, each with all its rows, and the others."""
        order = rng.permutation(int(self.group.max()) + 1)
        drawn = np.where(order[self.group] < share * len(order), self.weight, 0.0)
        return self._with_weight(drawn), self._with_weight(self.weight - drawn)

    def parted(self, share: float, rng: np.random.Generator) -> tuple[Self, Self]:
        """A random ``share`` of each class, and the others; each row that a weight counts falls on its own.

        What a weight has beyond a whole number falls as one more, smaller row.
        """
        drawn = np.zeros(len(self))
        for value in (0.0, 1.0):
            rows = np.flatnonzero(self.label == value)
            whole = np.floor(self.weight[rows])
            rest = self.weight[rows] - whole
            left = np.flatnonzero(rest)
            drawn[rows] = _copies_drawn(whole.astype(np.int64), share, rng)
            drawn[rows[left]] += rest[left] * (rng.permutation(len(left)) < share * len(left))
        return self._with_weight(drawn), self._with_weight(self.weight - drawn)

    def has_two_of_each_class(self) -> bool:
        """Whether either class has two rows, distinct ones or copies of one."""
        classes = [self.weight[self.label == value] for value in (0.0, 1.0)]
        return all(max(len(weight), float(np.sum(weight))) >= 2 for weight in classes)

    def _with_weight(self, weight: FloatArray) -> Self:
        rows: npt.NDArray[np.intp] = np.flatnonzero(weight > 0)
        return type(self)(self.matrix[rows], self.label[rows], weight[rows], self.group[rows])


def _copies_drawn(copies: npt.NDArray[np.int64], share: float, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """How many of each row's copies are among a ``share`` of all, drawn without putting back."""
    total = int(copies.sum())
    if total >= _MOST_COPIES:
        return rng.binomial(copies, share)
    return rng.multivariate_hypergeometric(copies, round(share * total), method="marginals")
