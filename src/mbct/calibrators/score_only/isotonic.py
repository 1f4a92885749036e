"""Isotonic regression: the best non-decreasing map, and a strictly increasing one made from its blocks."""

import numpy as np
from sklearn.isotonic import isotonic_regression

from mbct.calibrators.score_only.counts import ScoreCounts
from mbct.calibrators.score_only.score_map import LinearMap, ScoreCalibrator
from mbct.validation import FloatArray


def pool(counts: ScoreCounts) -> FloatArray:
    """Non-decreasing rates nearest to the observed ones in weighted squares (pool adjacent violators)."""
    fitted = isotonic_regression(counts.rate, sample_weight=counts.total, y_min=0.0, y_max=1.0)
    return np.asarray(np.maximum.accumulate(fitted), dtype=np.float64)


class IsotonicCalibrator(ScoreCalibrator):
    """Isotonic regression (Zadrozny and Elkan 2002), scikit-learn's solver.

    Constant on blocks of scores, straight between blocks, constant beyond the scores seen.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.

    Attributes
    ----------
    map_ : LinearMap
        Ends of the blocks and their rates.
    """

    method = "isotonic"
    map_type = LinearMap
    monotone = True

    def __init__(self, score_column: str | int | None = None):
        self.score_column = score_column

    def fit_map(self, counts: ScoreCounts) -> LinearMap:
        """Pool violators; of each block only the two ends are kept."""
        value = pool(counts)
        inner = (value[1:-1] == value[:-2]) & (value[1:-1] == value[2:])
        ends = np.ones(len(value), dtype=bool)
        ends[1:-1] = ~inner
        return LinearMap(counts.score[ends], value[ends])


class CentredIsotonicCalibrator(ScoreCalibrator):
    """Centred isotonic regression (Oron and Flournoy 2017): strictly increasing on the whole of [0, 1].

    Each block of the isotonic fit becomes one knot at its mean score, with straight lines between. Rates are
    drawn to the overall rate r by the weight of one row, v → (W·v + r)/(W + 1), which keeps their order and keeps
    them from 0 and 1; beyond the outermost knots the lines run to (0, 0) and (1, 1).

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.

    Attributes
    ----------
    map_ : LinearMap
        Knots and their rates.
    """

    method = "centred-isotonic"
    map_type = LinearMap
    monotone = True
    strict = True

    def __init__(self, score_column: str | int | None = None):
        self.score_column = score_column

    def fit_map(self, counts: ScoreCounts) -> LinearMap:
        """Pool violators, then join the centres of the blocks."""
        value = pool(counts)
        starts = np.flatnonzero(np.concatenate([[True], value[1:] > value[:-1]]))
        weight = np.add.reduceat(counts.total, starts)
        centre = np.add.reduceat(counts.total * counts.score, starts) / weight
        total = float(np.sum(weight))
        rate = float(np.sum(counts.positive)) / total
        knot = (total * value[starts] + rate) / (total + 1.0)
        # Centres of neighbouring blocks can coincide only by rounding; the ends may already be knots.
        keep = np.concatenate([[True], (np.diff(centre) > 0) & (np.diff(knot) > 0)])
        centre, knot = centre[keep], knot[keep]
        if centre[0] > 0.0:
            centre, knot = np.concatenate([[0.0], centre]), np.concatenate([[0.0], knot])
        if centre[-1] < 1.0:
            centre, knot = np.concatenate([centre, [1.0]]), np.concatenate([knot, [1.0]])
        return LinearMap(centre, knot)
