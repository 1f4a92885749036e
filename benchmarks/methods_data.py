"""Predictions for the comparison of methods: data sets of packages and public ones, each with several base models.

A third of the rows trains the base, a third calibrates, a third evaluates; at most 4,000 rows each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import quality_data

MAX_ROWS = 12_000
FOLDER = Path("../shared/data")
"""Of the public data sets that no package holds: employment and claims."""


@dataclass(frozen=True)
class Predictions:
    """Scores and labels (numbers of classes) of the rows that calibrate and of those that evaluate."""

    data: str
    base: str
    p_fit: np.ndarray
    y_fit: np.ndarray
    p_eval: np.ndarray
    y_eval: np.ndarray


def _above_median() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_diabetes(return_X_y=True)
    return X, y > np.median(y)


def _of_table(table: Callable[[Path], quality_data.Table]) -> tuple[pd.DataFrame, np.ndarray]:
    found = table(FOLDER)
    return found.frame, found.label


def _ratings() -> tuple[pd.DataFrame, np.ndarray]:
    table = quality_data.r_table("lme4", "InstEval")
    return table.drop(columns="y"), table["y"].to_numpy()


def _diamonds() -> tuple[pd.DataFrame, np.ndarray]:
    table = quality_data.r_table("ggplot2", "diamonds")
    return table.drop(columns="cut"), table["cut"].to_numpy(str)


def _delays() -> tuple[pd.DataFrame, np.ndarray]:
    table = quality_data._flights_2013()
    late = table["dep_delay"].to_numpy()
    names = ["month", "day", "hour", "carrier", "origin", "dest", "distance"]
    return table[names], np.where(late < 0, "early", np.where(late < 15, "on time", "late"))


BINARY: dict[str, Callable[[], tuple[Any, Any]]] = {
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "diabetes above median": _above_median,
    "digits, even": lambda: (load_digits().data, load_digits().target % 2 == 0),
    "digits, eight": lambda: (load_digits().data, load_digits().target == 8),
    "flights": lambda: _of_table(quality_data.flights),
    "police stops": lambda: _of_table(quality_data.police_stops),
    "abortion survey": lambda: _of_table(quality_data.abortion_survey),
    "union": lambda: _of_table(quality_data.union_members),
    "movies": lambda: _of_table(quality_data.movies),
    "employment": lambda: _of_table(quality_data.employment),
    "claims": lambda: _of_table(quality_data.claims),
}
MANY: dict[str, Callable[[], tuple[Any, Any]]] = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "flights": _delays,
    "ratings": _ratings,
    "diamonds": _diamonds,
}


def _bases(seed: int) -> dict[str, Any]:
    import lightgbm

    return {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "naive Bayes": make_pipeline(StandardScaler(), GaussianNB()),
        "forest": RandomForestClassifier(100, random_state=seed, n_jobs=1),
        "boosting": lightgbm.LGBMClassifier(n_estimators=60, random_state=seed, n_jobs=1, verbosity=-1),
    }


def predictions(tables: dict[str, Callable[[], tuple[Any, Any]]], seed: int = 0) -> Iterator[Predictions]:
    """Every data set with every base."""
    for data, load in tables.items():
        X, y = load()
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(y))[:MAX_ROWS]
        matrix, code = _numbers(X)[rows], np.unique(np.asarray(y)[rows], return_inverse=True)[1]
        part = np.arange(len(rows)) % 3
        for base, model in _bases(seed).items():
            p = model.fit(matrix[part == 0], code[part == 0]).predict_proba(matrix)
            if p.shape[1] == code.max() + 1:
                yield Predictions(data, base, p[part == 1], code[part == 1], p[part == 2], code[part == 2])


def _numbers(X: Any) -> np.ndarray:
    """Categories as the rank of their frequency, missing numbers as the median."""
    frame = pd.DataFrame(X)
    columns = []
    for name in frame:
        column = frame[name]
        if column.dtype.kind not in "iufb":
            column = column.astype(str)
            column = column.map({value: rank for rank, value in enumerate(column.value_counts().index)})
        columns.append(column.astype(float).fillna(column.astype(float).median()).to_numpy())
    return np.column_stack(columns)
