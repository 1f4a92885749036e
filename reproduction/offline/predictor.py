"""The base predictor: a gradient-boosted forest, as the paper has for its public data."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.errors import MissingDependencyError
from reproduction.arrays import FloatArray
from reproduction.datasets import Dataset
from reproduction.datasets.dataset import Rows

SETTINGS = {"num_boost_round": 100, "learning_rate": 0.1, "num_leaves": 31, "min_data_in_leaf": 20}
"""The paper names no settings: these are LightGBM's own defaults, fixed before any result was seen."""
_PARAMETERS = {"objective": "binary", "verbosity": -1, "deterministic": True, "force_row_wise": True, "num_threads": 2}


def predictions(dataset: Dataset, train: Rows, rows: Rows, seed: int) -> FloatArray:
    """Predictions for ``rows`` of a predictor trained on ``train``, or those that came with the data."""
    if dataset.score is not None:
        return np.asarray(dataset.frame[dataset.score].to_numpy()[rows], dtype=np.float64)
    lightgbm = _lightgbm()
    matrix = _matrix(dataset, train)
    label = dataset.frame[dataset.label].to_numpy().astype(np.float64)
    categories = [dataset.predictor_features.index(name) for name in dataset.predictor_categories]
    data = lightgbm.Dataset(
        matrix[train], label[train], categorical_feature=categories, free_raw_data=True, params={"verbosity": -1}
    )
    booster = lightgbm.train({**_PARAMETERS, **SETTINGS, "seed": seed}, data)
    return np.asarray(booster.predict(matrix[rows], num_threads=2), dtype=np.float64)


def _matrix(dataset: Dataset, train: Rows) -> FloatArray:
    """Features as floats; a category is the number of its value among those seen in training, else missing."""
    matrix = np.empty((dataset.n_rows, len(dataset.predictor_features)))
    for j, name in enumerate(dataset.predictor_features):
        column = dataset.frame[name]
        array = column.to_physical().to_numpy()
        matrix[:, j] = _codes(array, train) if name in dataset.predictor_categories else array
    return matrix


def _codes(values: npt.NDArray[Any], train: Rows) -> FloatArray:
    known = np.unique(values[train])
    position = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[position] == values, position.astype(np.float64), np.nan)


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise MissingDependencyError(
            "the base predictor is LightGBM, which is not installed: pip install 'mbct[reproduce]'"
        ) from error
    return lightgbm
