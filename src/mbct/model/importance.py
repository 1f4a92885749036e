"""How much of a model's correction each feature carries."""

import numpy as np

from mbct.model.ensemble import CalibrationEnsemble
from mbct.validation import FloatArray

_SMALLEST = 1e-12


def feature_shares(model: CalibrationEnsemble) -> FloatArray:
    """Share of each feature, in the order of the model's bins: Σ rows·(move of child − move of parent)² of its splits.

    A move is what a node adds to the logarithm of the prediction (link "linear") or of its odds ("odds"), and the rows
    are those of training. All shares are 0 where the model has no split.
    """
    total = np.zeros(len(model.bins))
    for tree in model.trees:
        move = np.log(np.maximum(tree.leaf_value, _SMALLEST)) if model.link == "linear" else tree.leaf_value
        for node in np.flatnonzero(tree.feature >= 0).tolist():
            children = tree.child_numbers(node)
            total[tree.feature[node]] += np.sum(tree.count[children] * (move[children] - move[node]) ** 2)
    whole = float(total.sum())
    return total / whole if whole > 0.0 else total
