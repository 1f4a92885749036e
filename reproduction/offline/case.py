"""A case: one split of one data set with its base predictions, ready for every calibrator."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.arrays import FloatArray
from reproduction.datasets import Dataset
from reproduction.datasets.dataset import Rows
from reproduction.offline.predictor import predictions

SCORE = "prediction"
ALPHA, MAX_RELATIVE_ERROR = 0.05, 0.1
"""α and e of the paper's Section 5.1."""
LEAST_BINS = 30
"""A sample too small for this many bins of the printed size gets smaller bins."""


@dataclass(frozen=True)
class Case:
    """Calibration features and base predictions (one frame), labels and probe of the two calibration parts."""

    dataset: Dataset
    n_predictor: int
    train: Any
    train_label: FloatArray
    test: Any
    test_label: FloatArray
    test_probe: FloatArray
    bin_size: int


def make_case(dataset: Dataset, seed: int, repetition: int) -> Case:
    """Split, train the base predictor, predict.

    Where time decides the split a repetition cannot shuffle it: all but the first draw the test rows with replacement.
    """
    split = dataset.split(seed + repetition)
    test = split.test
    if dataset.order == "time" and repetition > 0:
        test = np.sort(np.random.default_rng([seed, repetition, 2]).choice(test, len(test)))
    rows = np.concatenate([split.calibration, test])
    score = predictions(dataset, split.predictor, rows, seed + repetition)
    n_train = len(split.calibration)
    label = dataset.frame[dataset.label].to_numpy().astype(np.float64)
    return Case(
        dataset,
        len(split.predictor),
        _frame(dataset, split.calibration, score[:n_train]),
        label[split.calibration],
        _frame(dataset, test, score[n_train:]),
        label[test],
        _probe(dataset, test),
        min(dataset.printed_bin_size, n_train // LEAST_BINS),
    )


def _frame(dataset: Dataset, rows: Rows, score: FloatArray) -> Any:
    columns = dataset.frame[rows].select(dataset.calibration_features)
    return columns.with_columns(type(columns[:, 0])(SCORE, score))


def _probe(dataset: Dataset, rows: Rows) -> FloatArray:
    column = dataset.frame[dataset.probe][rows]
    return np.asarray(column.to_physical().to_numpy(), dtype=np.float64)
