"""How well a model does on cells, and whether one does worse than another, with standard errors by day."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError
from mbct.model.ensemble import CalibrationEnsemble
from mbct.stats.blocks import error_of_total
from mbct.stats.logodds import log_loss_of_logodds, logit, sigmoid
from mbct.stats.testing import PairedGain, paired_gain
from mbct.training.cells import Cells
from mbct.validation import FloatArray


@dataclass(frozen=True)
class CellMetrics:
    """Log loss, and the ratio of predicted to observed positives (1 is unbiased)."""

    log_loss: float
    prediction_ratio: float


def log_odds_of_cells(model: CalibrationEnsemble | None, cells: Cells) -> FloatArray:
    """Calibrated log-odds of each cell, all its rows taken at their mean; None leaves the predictions as they came.

    Exact where the rows of a cell share one prediction. The mean is that of the log-odds for the link "odds", of
    the predictions for "linear".
    """
    if model is None:
        return np.asarray(cells.sums.logit / cells.sums.count, dtype=np.float64)
    if model.bins.fingerprint != cells.fingerprint:
        raise DataError(
            f"the model was fitted on bins {model.bins.fingerprint}, the cells are of {cells.fingerprint}: "
            "aggregate the rows with the model's bins to compare"
        )
    if not model.trees:
        return log_odds_of_cells(None, cells)
    step = model.tree_total(cells.codes)
    if model.link == "odds":
        return np.asarray(cells.sums.logit / cells.sums.count + step, dtype=np.float64)
    return logit(np.clip(cells.sums.pred / cells.sums.count * step, 0.0, 1.0))


def metrics_of_cells(log_odds: FloatArray, cells: Cells) -> CellMetrics:
    """Metrics of calibrated log-odds."""
    count, label = cells.sums.count, cells.sums.label
    rate = label / count
    loss = float(np.sum(count * log_loss_of_logodds(log_odds, rate)) / np.sum(count))
    predicted, positives = float(np.sum(count * sigmoid(log_odds))), float(np.sum(label))
    return CellMetrics(loss, predicted / positives if positives > 0.0 else float("inf"))


def compare_on_cells(
    old: FloatArray, new: FloatArray, cells: Cells, day: npt.NDArray[np.int64] | None = None
) -> PairedGain:
    """Paired comparison of two calibrations of the same cells, in log loss.

    Rows of one day share what happened on it. With ``day``, the day of each cell, the standard error is that of the
    days' sums (where there are at least two), but never below that of independent rows.
    """
    by_row = paired_gain(old, new, cells.sums.count, cells.sums.label)
    if day is None:
        return by_row
    days, number = np.unique(day, return_inverse=True)
    if len(days) < 2:
        return by_row
    count = np.bincount(number, cells.sums.count)
    rate = cells.sums.label / cells.sums.count
    gain = np.bincount(number, cells.sums.count * (log_loss_of_logodds(old, rate) - log_loss_of_logodds(new, rate)))
    error = error_of_total(gain - by_row.gain * count, in_order=False) / float(count.sum())
    return PairedGain(by_row.gain, max(by_row.error, error))
