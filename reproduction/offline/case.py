"""A case: one split of one data set with its base predictions, ready for every calibrator."""

from dataclasses import dataclass, replace
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
    train_block: Rows | None = None
    test_block: Rows | None = None
    """Number of each row's stretch of time, where rows are in its order."""

    def resampled(self, seed: int, repetition: int) -> Rows:
        """Test rows of a repetition where time decides the split, which cannot be shuffled.

        The first one has all of them, the others draw whole blocks with replacement.
        """
        rows = np.arange(len(self.test_label))
        if repetition == 0 or self.dataset.order != "time":
            return rows
        numbers, starts = np.unique(rows if self.test_block is None else self.test_block, return_index=True)
        ends = np.append(starts[1:], len(rows))
        drawn = np.sort(np.random.default_rng([seed, repetition, 2]).choice(len(numbers), len(numbers)))
        return np.concatenate([np.arange(starts[i], ends[i]) for i in drawn])

    def with_test_rows(self, rows: Rows) -> "Case":
        """The case evaluated on some of its test rows."""
        return replace(self, test=self.test[rows], test_label=self.test_label[rows], test_probe=self.test_probe[rows])


def make_case(dataset: Dataset, seed: int) -> Case:
    """Split, train the base predictor, predict."""
    split = dataset.split(seed)
    test = split.test
    rows = np.concatenate([split.calibration, test])
    score = predictions(dataset, split.predictor, rows, seed)
    n_train = len(split.calibration)
    block = None if dataset.block is None else dataset.frame[dataset.block].to_numpy().astype(np.int64)
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
        *((None, None) if block is None else (block[split.calibration], block[test])),
    )


def _frame(dataset: Dataset, rows: Rows, score: FloatArray) -> Any:
    columns = dataset.frame[rows].select(dataset.calibration_features)
    return columns.with_columns(type(columns[:, 0])(SCORE, score))


def _probe(dataset: Dataset, rows: Rows) -> FloatArray:
    column = dataset.frame[dataset.probe][rows]
    return np.asarray(column.to_physical().to_numpy(), dtype=np.float64)
