"""PUD of four sub-groups of a bin: do the rows of one bin share their bias? (Figure 6)."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mbct import MBCTCalibrator
from mbct.serving import BatchScorer
from reproduction.arrays import FloatArray
from reproduction.offline.case import SCORE, Case
from reproduction.offline.methods import Calibrator

N_BINS, N_GROUPS = 5, 4
DIVISIONS = ("prediction", "probe", "random")
"""The paper does not say how: by the base prediction, by a column that neither method saw, at random."""


def leaves(model: MBCTCalibrator, frame: Any) -> npt.NDArray[np.int64]:
    """The bin of each row: its leaf in the first tree."""
    ensemble = model.model_
    if not ensemble.trees:
        return np.zeros(len(frame), np.int64)
    scored = BatchScorer(ensemble).score_columns([frame[name].to_list() for name in ensemble.bins.names])
    return ensemble.trees[0].apply(scored.codes).astype(np.int64)


def subgroup_ratios(case: Case, fitted: dict[str, Calibrator], seed: int) -> dict[str, Any]:
    """PUD of the sub-groups of five random bins, and the mean sub-group error over all bins."""
    model = fitted["mbct"]
    assert isinstance(model, MBCTCalibrator)
    step = fitted["histogram"].calibrate(case.test)
    bins = {"mbct": leaves(model, case.test), "histogram": np.unique(step, return_inverse=True)[1]}
    calibrated = {"mbct": model.calibrate(case.test), "histogram": step}
    return {
        method: {
            division: _divided(case, calibrated[method], bins[method], _order(case, division, seed), seed)
            for division in DIVISIONS
        }
        for method in bins
    }


def _order(case: Case, division: str, seed: int) -> FloatArray:
    if division == "prediction":
        return np.asarray(case.test[SCORE].to_numpy())
    if division == "probe":
        return case.test_probe
    return np.random.default_rng([seed, 3]).random(len(case.test_label))


def _divided(
    case: Case, calibrated: FloatArray, bins: npt.NDArray[np.int64], order: FloatArray, seed: int
) -> dict[str, Any]:
    numbers, counts = np.unique(bins, return_counts=True)
    large = numbers[counts >= np.median(counts)]
    chosen = np.random.default_rng([seed, 4]).choice(large, min(N_BINS, len(large)), replace=False)
    groups = {int(b): _groups(np.flatnonzero(bins == b), order) for b in numbers[counts >= N_GROUPS]}
    errors, masses = [], []
    for rows in (part for parts in groups.values() for part in parts):
        errors.append(abs(calibrated[rows].mean() - case.test_label[rows].mean()))
        masses.append(len(rows))
    return {
        "chosen": [[_ratio(calibrated[r], case.test_label[r]) for r in groups[int(b)]] for b in np.sort(chosen)],
        "rows": [int(counts[numbers == b][0]) for b in np.sort(chosen)],
        "n_bins": len(numbers),
        "error": float(np.average(errors, weights=masses) / case.test_label.mean()),
    }


def _groups(rows: npt.NDArray[np.int64], order: FloatArray) -> list[npt.NDArray[np.int64]]:
    return np.array_split(rows[np.argsort(order[rows], kind="stable")], N_GROUPS)


def _ratio(calibrated: FloatArray, label: FloatArray) -> float | None:
    """PUD; None where the group has no positive."""
    return float(calibrated.sum() / label.sum()) if label.any() else None
