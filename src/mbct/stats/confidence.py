"""Intervals for the error of a bin that was fixed before its labels were seen: E[Y] − mean prediction.

=================  =====================================================  ==========================================
function           holds for                                              conditions
=================  =====================================================  ==========================================
:func:`rate_ends`  the mean of E[Y|x] over the bin's rows, and the rate   labels independent given the rows; rates
                   of the population that the rows were drawn from        may differ from row to row; exact
:func:`betting`    E[Y − prediction] of the population                    rows drawn independently; exact
:func:`by_blocks`  E[Y − prediction] over new blocks                      blocks independent; approximate
=================  =====================================================  ==========================================

Theorem 1 of the paper is :func:`mbct.stats.theorem.label_rate_bound`.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, stdtrit

from mbct.jit import kernel
from mbct.stats.blocks import totals_by_block
from mbct.validation import FloatArray

_LARGEST_BET = 0.75  # Share of the capital that a bet may lose at most; Waudby-Smith & Ramdas take 1/2 or 3/4
_HALVINGS = 30  # Halvings that find an end of the betting interval to 1e-9


def rate_ends(positives: FloatArray, rows: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Clopper and Pearson's ends for the mean rate of independent labels, which may have different rates.

    By Hoeffding (1956, theorem 5) a sum of such labels is no farther from its mean, beyond one, than the binomial one
    of the same mean; nearer than one to the mean lies no binomial tail below 1/4 (Greenberg & Mohri 2014) but the one
    of a single positive where less than one is expected, and there P(S ≥ 1) ≤ n·rate is used instead. So the interval
    covers with probability 1 − α for every α ≤ 1/2, whatever the rates. No rows: [0, 1].

    >>> low, high = rate_ends(np.array([0.0, 5.0]), np.array([100.0, 100.0]), 0.05)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.0164], [0.0362, 0.1128])
    """

    def low(successes: FloatArray) -> FloatArray:
        some = np.clip(successes, 1.0, np.maximum(rows, 1.0))
        end = betaincinv(some, rows - some + 1.0, alpha / 2.0)
        single = alpha / 2.0 / np.maximum(rows, 1.0)
        return np.asarray(np.where(successes < 1.0, 0.0, np.where(successes == 1.0, np.minimum(end, single), end)))

    present = rows > 0
    return np.where(present, low(positives), 0.0), np.where(present, 1.0 - low(rows - positives), 1.0)


def betting(
    residual: FloatArray, division: npt.NDArray[np.integer], variance: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Waudby-Smith & Ramdas' (2024) hedged-capital interval of the mean residual y − p of each bin.

    ``division`` numbers the bin of each row, −1 for none; ``variance`` is a guess of each bin's variance that no label
    has touched, such as the mean of p(1 − p): a poor guess widens the interval and does not invalidate it. Rows must
    come in an order that does not depend on their labels.
    """
    order = np.argsort(division, kind="stable")
    start = np.searchsorted(division[order], np.arange(len(variance) + 1))
    lower, upper = _hedged(residual[order], start, np.maximum(variance, 1e-6), math.log(2.0 / alpha))
    return lower, upper


def by_blocks(
    residual: FloatArray, division: npt.NDArray[np.integer], n_bins: int, block: npt.NDArray[np.integer], alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Student's interval of the mean residual of each bin, with the variance of the sums of blocks.

    The degrees of freedom are the effective number of blocks of the bin, (Σn)²/Σn², less one. [−1, 1] where fewer than
    two blocks are in effect. Approximate: sums of blocks are taken for normal.
    """
    counted = division >= 0
    rows = residual[counted]
    found = totals_by_block(rows, np.ones(len(rows)), division[counted], n_bins, block[counted], in_order=False)
    size = np.maximum(np.bincount(division[counted], minlength=n_bins), 1.0)
    mean, error, effective = found.total / size, found.error / size, found.effective
    enough = effective >= 2.0
    width = np.where(enough, -stdtrit(np.where(enough, effective - 1.0, 1.0), alpha / 2.0) * error, 2.0)
    return np.maximum(mean - width, -1.0), np.minimum(mean + width, 1.0)


@kernel
def _log_capital(x: FloatArray, mean: float, variance: float, log_threshold: float, rising: bool) -> bool:
    """Whether bets on x above ``mean`` ("rising") or below it ever multiply the capital by 2/α.

    Bets follow equation (26) there: λ_t = √(2·ln(2/α)/(n·σ̂²_{t−1})), cut off where one row could lose too much.
    """
    most = _LARGEST_BET / (mean if rising else 1.0 - mean)
    squares, centre, total, capital = variance, 0.5, 0.5, 0.0
    for t in range(len(x)):
        bet = min(math.sqrt(2.0 * log_threshold * (t + 1.0) / (len(x) * squares)), most)
        gain = x[t] - mean if rising else mean - x[t]
        capital += math.log(1.0 + bet * gain)
        if capital >= log_threshold:
            return True
        total += x[t]
        centre = total / (t + 2.0)
        squares += (x[t] - centre) ** 2
    return False


@kernel
def _hedged(
    residual: FloatArray, start: npt.NDArray[np.int64], variance: FloatArray, log_threshold: float
) -> tuple[FloatArray, FloatArray]:
    n_bins = len(start) - 1
    lower, upper = np.full(n_bins, -1.0), np.full(n_bins, 1.0)
    for b in range(n_bins):
        x = (residual[start[b] : start[b + 1]] + 1.0) / 2.0
        if len(x) == 0:
            continue
        # The means that bets do not refute are an interval around the sample's: both ends by halving.
        middle = min(max(x.mean(), 1e-9), 1.0 - 1e-9)
        for end, rising in ((lower, True), (upper, False)):
            refuted, kept = 0.0 if rising else 1.0, middle
            for _ in range(_HALVINGS):
                half = (refuted + kept) / 2.0
                if _log_capital(x, half, variance[b] / 4.0, log_threshold, rising):
                    refuted = half
                else:
                    kept = half
            end[b] = 2.0 * refuted - 1.0
    return lower, upper
