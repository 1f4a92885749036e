"""Functions of rows joined by prediction: distance to a smooth calibration curve, net benefit at thresholds."""

import numpy as np

from mbct.calibrators.score_only.counts import ScoreCounts
from mbct.calibrators.score_only.spline import fit_spline, mass_knots
from mbct.stats.divisions import Bins, uniform_mass
from mbct.validation import FloatArray

_KNOTS = 5  # Knots of the curve, at Harrell's quantiles
_MOST_ATOMS = 1000


def curve_distances(atoms: Bins) -> tuple[float, float, float]:
    """Mean, median and 90th percentile of |p − c(p)|, c a monotone spline of five knots in the log-odds."""
    merged = uniform_mass(atoms, _MOST_ATOMS) if len(atoms) > _MOST_ATOMS else atoms
    p = merged.pred / merged.count
    if not 0.0 < merged.label.sum() < merged.count.sum():
        return (float("nan"),) * 3
    counts = ScoreCounts(p, merged.label, merged.count)
    distance = np.abs(p - fit_spline(counts, mass_knots(counts, _KNOTS), 1.0)(p))
    order = np.argsort(distance, kind="stable")
    share = np.cumsum(merged.count[order]) / merged.count.sum()
    middle, most = (float(distance[order][np.searchsorted(share, q - 1e-12)]) for q in (0.5, 0.9))
    return float(np.average(distance, weights=merged.count)), middle, most


def net_benefits(atoms: Bins, threshold: FloatArray) -> FloatArray:
    """(true positives − false positives·t/(1 − t)) per row of acting where p ≥ t, for each threshold t."""
    p = atoms.pred / atoms.count
    first = np.searchsorted(p, threshold, side="left")
    acted, positive = (sums[-1] - sums[first] for sums in atoms.cumulated[:2])
    benefit = positive - (acted - positive) * threshold / (1.0 - threshold)
    return np.asarray(benefit / atoms.cumulated[0][-1], dtype=np.float64)
