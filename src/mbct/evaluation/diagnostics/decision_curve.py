"""Net benefit over thresholds: what acting on the predictions is worth, beside acting on all rows or on none."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.evaluation.metrics.calibration_curve import net_benefits
from mbct.evaluation.metrics.rows import read_rows
from mbct.validation import FloatArray

N_THRESHOLDS = 100


@dataclass(frozen=True, eq=False)
class DecisionCurve:
    """Net benefit of acting from each threshold on, and of acting on all rows."""

    name: str
    threshold: FloatArray
    net_benefit: FloatArray
    act_on_all: FloatArray


def compute_decision_curve(
    y_true: Any, y_prob: Any, *, name: str = "", thresholds: Any = None, sample_weight: Any = None
) -> DecisionCurve:
    """Net benefit at ``thresholds``; None takes 100 of them from 0 to the 99th percentile of the predictions.

    >>> curve = compute_decision_curve([0, 1, 1, 0], [0.1, 0.8, 0.6, 0.7], thresholds=[0.2, 0.5])
    >>> curve.net_benefit.tolist(), curve.act_on_all.tolist()
    ([0.4375, 0.25], [0.375, 0.0])
    """
    rows = read_rows(y_true, y_prob, sample_weight)
    highest = float(np.quantile(rows.y_prob, 0.99))
    given = np.linspace(0.0, min(highest, 0.99), N_THRESHOLDS) if thresholds is None else thresholds
    at = np.asarray(given, dtype=np.float64)
    rate = rows.label_rate
    return DecisionCurve(name, at, net_benefits(rows.atoms, at), rate - (1.0 - rate) * at / (1.0 - at))
