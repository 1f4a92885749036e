"""Folds that depend on what a row holds, not on where it stands.

Equal rows share a fold, so a weight of k equals k copies, shuffling changes nothing, and no copy of a training row
is ever held out.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.binning.keys import category_key
from mbct.engines.columns import Columns
from mbct.engines.factorize import as_floats, factorize, is_number
from mbct.errors import DataError
from mbct.jit import kernel
from mbct.stats.random_stream import mixed
from mbct.validation import at_least

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

    >>> stratified_folds(np.array([5, 9, 5, 7], dtype=np.uint64), np.array([0, 0, 0, 1]), 2).tolist()
    [0, 1, 0, 0]
    """
    fold = np.empty(len(keys), dtype=np.intp)
    dealt = 0
    for value in np.unique(label):
        rows = np.flatnonzero(label == value)
        distinct, rank = np.unique(keys[rows], return_inverse=True)
        fold[rows] = (rank + dealt) % n_folds
        dealt += len(distinct)
    return fold


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
        keys[i] += mixed(mixed(bits[i]) ^ column)


@kernel
def _sum_by_row(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[np.int64], bits: KeyArray, columns: KeyArray
) -> KeyArray:
    keys = np.zeros(len(indptr) - 1, np.uint64)
    for row in range(len(keys)):
        for i in range(indptr[row], indptr[row + 1]):
            keys[row] += mixed(mixed(bits[i]) ^ columns[indices[i]])
    return keys
