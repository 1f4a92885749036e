import math

import numpy as np
import pytest

from mbct.calibrators import BBQCalibrator
from mbct.errors import ParameterError
from peers import biased_scores


def log_beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def bbq_by_hand(p, y, score, spread=10.0, strength=2.0):
    """The paper's average over binnings, row by row and bin by bin.

    (netcal's BBQ is another method: it weighs the binnings by an information criterion, without the Beta prior.)
    """
    n = len(p)
    order = np.argsort(p)
    p, y = p[order], y[order]
    fewest, most = max(1, int(n ** (1 / 3) / spread)), int(n ** (1 / 3) * spread)
    evidence, prediction = [], []
    for n_bins in range(fewest, min(most, n) + 1):
        cuts = [math.ceil(n * j / n_bins - 0.5) for j in range(1, n_bins)]
        edges = [0.0, *((p[c - 1] + p[c]) / 2 for c in cuts), 1.0]
        log_evidence, value = 0.0, None
        for low, high, first, last in zip(edges, edges[1:], [0, *cuts], [*cuts, n], strict=False):
            middle = (low + high) / 2
            alpha, beta = strength / n_bins * middle, strength / n_bins * (1 - middle)
            m, total = y[first:last].sum(), last - first
            log_evidence += log_beta(m + alpha, total - m + beta) - log_beta(alpha, beta)
            if value is None and score <= high:
                value = (m + alpha) / (total + strength / n_bins)
        evidence.append(log_evidence)
        prediction.append(value)
    share = np.exp(np.array(evidence) - max(evidence))
    return float(np.sum(share * prediction) / np.sum(share))


def test_agrees_with_the_formulas_by_hand():
    p, y = biased_scores(n=400)
    fitted = BBQCalibrator().fit(p, y)
    scores = np.random.default_rng(0).uniform(size=25)
    expected = [bbq_by_hand(p, y, s) for s in scores]
    np.testing.assert_allclose(fitted.calibrate(scores), expected, rtol=1e-11)


def test_it_nears_the_truth_as_fast_as_histograms_can():
    # Steps of the best width err by about n^(−1/3): ten times the rows halve the error, 10^(−1/3) = 0.46.
    fresh = np.linspace(0.05, 0.8, 200)
    sizes = (2_000, 20_000, 200_000)
    errors = []
    for n in sizes:
        fits = [BBQCalibrator().fit(*biased_scores(seed, n=n)).calibrate(fresh) for seed in range(3)]
        errors.append(np.mean(np.abs(np.array(fits) - (0.1 + 0.8 * fresh**1.6))))
    assert errors[2] < 0.015
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert slope == pytest.approx(-1 / 3, abs=0.1)


@pytest.mark.parametrize(("parameter", "value"), [("spread", 0.5), ("prior_strength", 0.0), ("spread", float("nan"))])
def test_senseless_parameters_are_named(parameter, value):
    with pytest.raises(ParameterError, match=parameter):
        BBQCalibrator(**{parameter: value}).fit(*biased_scores(n=50))
