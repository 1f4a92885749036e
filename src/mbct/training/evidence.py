"""Evidence: when a correction is kept and how much of it. Every threshold of trust in the data is in this file.

A correction is fitted on some rows and evaluated on others. Where the evaluation shows no significant gain the
predictions stay as they are; where it does, the correction is shrunk by how uncertain the gain is.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.training.binned_rows import BinnedRows
from mbct.validation import FloatArray

LIKELIHOOD_RATIO = 200.0
"""Held-out likelihood ratio from which a correction is kept: a rule, not a guarantee (see :class:`Gain`)."""
TOTAL_GAIN = 16.0
"""Held-out log-likelihood gain of all folds from which it is kept as well: each of many folds may see a little."""
RECALIBRATION_CHI2 = 13.816
"""Twice the log-likelihood that a logit recalibration must gain: χ² of two degrees exceeds it once in a thousand."""
OFFSETS_AHEAD = 3.0
"""Standard errors by which per-value offsets must be ahead of the first trees, which need fewer assumptions."""
FEATURE_RANKED = 2.0
"""Standard errors that a feature's gain must exceed to count."""
LEAST_PROGRESS = 1e-8
"""Fall of the mean held-out loss that counts as progress of boosting."""
LEAST_OFFSET_PROGRESS = 1e-7
"""Fall of the mean held-out loss for which another pass over the offsets is worth its time."""


@dataclass(frozen=True)
class Gain:
    """Fall of the mean held-out log loss, its standard error, and the evidence that it is not chance.

    ``evidence`` is log mean_k exp(G_k), with G_k the log-likelihood that fold k's rows gain from a model not fitted on
    them. Under a calibrated base, and for a model fixed without fold k, exp(G_k) is a likelihood ratio of mean 1; so is
    the mean over folds, which by Markov's inequality would exceed 200 in at most one data set in 200. Here that holds
    only approximately: the number of trees, their size, offsets or none and the ranking are chosen on the same held-out
    rows, which lifts G_k. So 200 is a rule, not a guarantee, and what it does was measured
    (``benchmarks/known_truth.py``): of 200 fresh calibrated bases none was changed. Of 400 earlier ones, in view of
    which the rule was made, the largest was 161 to 1, the next 29 to 1.

    ``total`` is the sum of the G_k. The folds' models share rows, so it is not the logarithm of a likelihood ratio, and
    its limit is a rule as well: of 350 calibrated bases, in view of which it was chosen, the largest had 11.7, the next
    7.3.
    """

    value: float
    standard_error: float
    evidence: float
    total: float

    @property
    def is_significant(self) -> bool:
        """Whether a correction with this gain is kept at all."""
        likely = self.evidence >= np.log(LIKELIHOOD_RATIO) or self.total >= TOTAL_GAIN
        return bool(likely and self.value > self.standard_error)

    @property
    def shrinkage(self) -> float:
        """Share of a correction to keep: 1 − 1/z² at z standard errors, 0 where it is not significant."""
        return 1.0 - (self.standard_error / self.value) ** 2 if self.is_significant else 0.0


def gain_of_rows(gain: FloatArray, square: FloatArray, weight: float, fold: npt.NDArray[np.uint8]) -> Gain:
    """Gain from each part's summed gain and summed squared gain of its rows."""
    mean = float(np.sum(gain)) / weight
    variance = max(float(np.sum(square)) / weight - mean * mean, 0.0)
    by_fold = np.bincount(fold, gain)
    top = float(by_fold.max())
    evidence = top + float(np.log(np.mean(np.exp(by_fold - top))))
    return Gain(mean, float(np.sqrt(variance / weight)), evidence, float(by_fold.sum()))


def held_out_gain(rows: BinnedRows, before: FloatArray, after: FloatArray) -> Gain:
    """Fall of the log loss from the log-odds ``before`` to ``after``; the rows of a cell count one by one."""
    if_positive = np.logaddexp(0.0, -before) - np.logaddexp(0.0, -after)
    if_negative = np.logaddexp(0.0, before) - np.logaddexp(0.0, after)
    negatives = rows.weight - rows.label
    return gain_of_rows(
        rows.label * if_positive + negatives * if_negative,
        rows.label * if_positive**2 + negatives * if_negative**2,
        float(rows.weight.sum()),
        rows.fold,
    )
