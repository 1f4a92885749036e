"""Trees that LightGBM grew, as plain arrays of our own: no model file ever reaches LightGBM's parser, which aborts.

A node sends x ≤ threshold to the left, or those categories whose bit is set; a child below zero is leaf −1 − child.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.errors import ModelFileError
from mbct.jit import kernel
from mbct.model.file_check import LARGEST_LOG, MOST_NODES, fault, numbers, read_list, read_object
from mbct.validation import FloatArray

Integers = npt.NDArray[np.int64]

_CATEGORY, _DEFAULT_LEFT, _MISSING_IS_ZERO, _MISSING_IS_NAN = 1, 2, 4, 8
"""Bits of a node's ``decision_type``; a value is missing where it is zero, where it is NaN, or never."""
_ZERO = float(np.float32(1e-35))
_WORD = 32
_INTEGERS = ("split_feature", "decision_type", "left_child", "right_child", "cat_boundaries", "cat_threshold")
_FLOATS = ("threshold", "leaf_value")
_SIDES = ("left", "right")
_LARGEST = sys.float_info.max


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """All trees joined: children are numbers of nodes, or −1 − the number of a leaf, counted over all trees."""

    root: Integers
    split_feature: Integers
    threshold: FloatArray
    decision_type: Integers
    left_child: Integers
    right_child: Integers
    first_word: Integers
    """Of a node by category, where its bits begin in ``words``; as many words follow as ``n_words`` says."""
    n_words: Integers
    words: Integers
    leaf_value: FloatArray

    def predict(self, matrix: FloatArray) -> FloatArray:
        """Sum of the leaf values of each row, added up in the order of the trees: LightGBM's raw score to the bit."""
        rows = np.ascontiguousarray(matrix, dtype=np.float64)
        return _predict(rows, *(getattr(self, name) for name in self.__dataclass_fields__))


def trees_of_text(text: str) -> list[dict[str, list[Any]]]:
    """The trees in LightGBM's text as plain JSON; nothing where the text is empty."""
    blocks = text.split("end of trees")[0].split("\nTree=")[1:]
    trees = []
    for block in blocks:
        fields = dict(line.split("=", 1) for line in block.splitlines()[1:] if "=" in line)
        try:
            tree: dict[str, list[Any]] = {name: list(map(int, fields.get(name, "").split())) for name in _INTEGERS}
            tree |= {name: list(map(float, fields.get(name, "").split())) for name in _FLOATS}
        except ValueError as error:
            raise ModelFileError(f"the text of LightGBM's model is damaged: {error}; fit again") from error
        # A split between missing and known values is at infinity, which JSON cannot say.
        tree["threshold"] = [min(max(value, -_LARGEST), _LARGEST) for value in tree["threshold"]]
        trees.append(tree)
    return trees


def read_boosted(content: Any, n_features: int, place: str = "trees") -> BoostedTrees:
    """Check plain JSON and join its trees."""
    columns: dict[str, list[Any]] = {name: [] for name in BoostedTrees.__dataclass_fields__}
    largest = 0.0
    for i, item in enumerate(read_list(content, place, MOST_NODES)):
        largest += _add_tree(read_object(item, f"{place}[{i}]", (*_INTEGERS, *_FLOATS)), n_features, columns, place)
        if largest > LARGEST_LOG or len(columns["leaf_value"]) > MOST_NODES:
            raise fault(f"{place}[{i}]", largest, "trees whose leaf values stay finite, and no more than can be held")
    arrays: dict[str, Any] = {
        name: np.array(values, dtype=np.float64 if name in _FLOATS else np.int64) for name, values in columns.items()
    }
    return BoostedTrees(**arrays)


def _add_tree(tree: dict[str, Any], n_features: int, columns: dict[str, list[Any]], place: str) -> float:
    """Append one checked tree; returns the largest of its leaf values."""
    n_inner = len(read_list(tree["split_feature"], f"{place}.split_feature", MOST_NODES))
    features = _integers(tree, "split_feature", n_inner, 0, n_features - 1, place)
    kinds = _integers(tree, "decision_type", n_inner, 0, 15, place)
    left, right = (_integers(tree, f"{side}_child", n_inner, -1 - n_inner, n_inner - 1, place) for side in _SIDES)
    thresholds = numbers(tree["threshold"], f"{place}.threshold", n_inner, -_LARGEST, _LARGEST)
    values = numbers(tree["leaf_value"], f"{place}.leaf_value", n_inner + 1, -LARGEST_LOG, LARGEST_LOG)
    children = sorted([*left, *right])
    if children != sorted({*range(1, n_inner), *range(-1 - n_inner, 0)} if n_inner else ()) or any(
        0 <= child <= node for side in (left, right) for node, child in enumerate(side)
    ):
        raise fault(place, children, "each node and leaf below one earlier node")
    first_node, first_leaf = len(columns["split_feature"]), len(columns["leaf_value"])
    columns["root"].append(first_node if n_inner else -1 - first_leaf)
    for name, side in (("left_child", left), ("right_child", right)):
        columns[name] += [child + first_node if child >= 0 else child - first_leaf for child in side]
    columns["split_feature"] += features
    columns["decision_type"] += kinds
    columns["threshold"] += thresholds.tolist()
    columns["leaf_value"] += values.tolist()
    _add_sets(tree, kinds, thresholds.tolist(), columns, place)
    return float(np.abs(values).max())


def _add_sets(
    tree: dict[str, Any], kinds: list[int], thresholds: list[float], columns: dict[str, list[Any]], place: str
) -> None:
    """The sets of categories; the threshold of a node by category is the number of its set."""
    n_words = len(read_list(tree["cat_threshold"], f"{place}.cat_threshold", MOST_NODES))
    words = _integers(tree, "cat_threshold", n_words, 0, 2**_WORD - 1, place)
    n_ends = len(read_list(tree["cat_boundaries"], f"{place}.cat_boundaries", MOST_NODES))
    ends = _integers(tree, "cat_boundaries", n_ends, 0, n_words, place)
    if ends != sorted(ends):
        raise fault(f"{place}.cat_boundaries", ends, "numbers that do not fall")
    first = len(columns["words"])
    for kind, threshold in zip(kinds, thresholds, strict=True):
        number = int(threshold) if kind & _CATEGORY else 0
        if kind & _CATEGORY and not (0 <= number < n_ends - 1 and number == threshold):
            raise fault(f"{place}.threshold", threshold, f"the number of one of {max(n_ends - 1, 0)} sets")
        columns["first_word"].append(first + ends[number] if kind & _CATEGORY else 0)
        columns["n_words"].append(ends[number + 1] - ends[number] if kind & _CATEGORY else 0)
    columns["words"] += words


def _integers(tree: dict[str, Any], name: str, length: int, least: int, most: int, place: str) -> list[int]:
    values: Sequence[Any] = read_list(tree[name], f"{place}.{name}", length, least=length)
    if any(type(value) is not int or not least <= value <= most for value in values):
        raise fault(f"{place}.{name}", values, f"integers from {least} to {most}")
    return list(values)


@kernel
def _predict(
    matrix: FloatArray,
    root: Integers,
    split_feature: Integers,
    threshold: FloatArray,
    decision_type: Integers,
    left_child: Integers,
    right_child: Integers,
    first_word: Integers,
    n_words: Integers,
    words: Integers,
    leaf_value: FloatArray,
) -> FloatArray:
    total = np.zeros(len(matrix))
    for i in range(len(matrix)):
        for t in range(len(root)):
            node = root[t]
            while node >= 0:
                value = matrix[i, split_feature[node]]
                kind = decision_type[node]
                if kind & _CATEGORY:
                    goes_left = False
                    if 0.0 <= value < n_words[node] * _WORD:
                        code = int(value)
                        goes_left = (words[first_word[node] + code // _WORD] >> (code % _WORD)) & 1 == 1
                else:
                    if math.isnan(value) and not kind & _MISSING_IS_NAN:
                        value = 0.0
                    missing = math.isnan(value) or (kind & _MISSING_IS_ZERO != 0 and -_ZERO <= value <= _ZERO)
                    goes_left = (kind & _DEFAULT_LEFT) != 0 if missing else value <= threshold[node]
                node = left_child[node] if goes_left else right_child[node]
            total[i] += leaf_value[-1 - node]
    return total
