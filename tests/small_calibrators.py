"""Fitted calibrators of every method but those of trees alone, on few rows, for files to be saved and damaged."""

from functools import cache

import numpy as np
import pandas as pd

from mbct.calibrators import available, make

SMALL = [name for name in available() if name not in ("mbct", "lightgbm")]
"""The others' trees are checked in tests/model."""
_MANY = {"dirichlet": {}, "matrix-scaling": {}, "mbct-multiclass": {"max_trees": 3, "n_folds": 2}}


@cache
def rows(name):
    """Rows that suit a method, and their labels."""
    rng = np.random.default_rng(3)
    if name not in _MANY:
        frame = pd.DataFrame({"p": rng.random(300).round(3), "site": rng.choice(["a", "b"], 300)})
        frame = frame if name == "segment" else frame[["p"]]
        return frame, (rng.random(300) < frame["p"] ** 1.5).astype(int).to_numpy()
    scores = rng.dirichlet([1.0, 1.0, 1.0], 240)
    labels = np.array(["x", "y", "z"])[(scores.cumsum(axis=1) > rng.random((240, 1))).argmax(axis=1)]
    return pd.DataFrame(scores, columns=["a", "b", "c"]), labels


def fitted(name, **parameters):
    """A calibrator fitted on :func:`rows`."""
    own = {
        "segment": {"score_column": "p", "field": "site", "min_rows": 50},
        **{many: {"score_column": ["a", "b", "c"], **limits} for many, limits in _MANY.items()},
    }
    return make(name, **own.get(name, {"score_column": "p"}), **parameters).fit(*rows(name))
