import numpy as np
import pytest

from mbct.calibrators import EnsembleCalibrator, make
from mbct.calibrators.score_only.counts import ScoreCounts
from mbct.calibrators.score_only.ensemble import best_shares
from mbct.errors import ParameterError
from peers import biased_scores


def log_loss(q, y):
    q = np.clip(q, 1e-12, 1 - 1e-12)
    return -np.mean(y * np.log(q) + (1 - y) * np.log(1 - q))


def test_the_shares_are_the_best_of_a_grid():
    rng = np.random.default_rng(0)
    p = np.sort(rng.uniform(0.05, 0.95, 500))
    y = (rng.uniform(size=500) < 0.6 * p + 0.2).astype(float)
    counts = ScoreCounts(p, y, np.ones(500))
    predicted = np.array([p, np.full(500, 0.5), p**2])
    found = best_shares(predicted, counts)
    assert found.sum() == pytest.approx(1.0)
    grid = [(a, b, 1 - a - b) for a in np.linspace(0, 1, 101) for b in np.linspace(0, 1 - a, 101)]
    assert log_loss(found @ predicted, y) <= min(log_loss(np.array(s) @ predicted, y) for s in grid) + 1e-12


def test_it_is_no_worse_than_its_best_member_on_fresh_rows():
    p, y = biased_scores(n=4000)
    fresh_p, fresh_y = biased_scores(seed=9, n=40_000)
    members = ("identity", "temperature", "beta", "isotonic")
    alone = [log_loss(make(m).fit(p, y).calibrate(fresh_p), fresh_y) for m in members]
    together = log_loss(EnsembleCalibrator(methods=members).fit(p, y).calibrate(fresh_p), fresh_y)
    assert together < min(alone) + 1e-3


def test_a_member_that_memorises_earns_little():
    """Isotonic regression of 100 rows that are calibrated already: on the rows themselves it would earn everything."""
    members, in_sample, earned = ("identity", "isotonic"), [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = np.sort(rng.uniform(0.1, 0.9, 100))
        y = (rng.uniform(size=100) < p).astype(float)
        memorised = np.array([make(member).fit(p, y).calibrate(p) for member in members])
        in_sample.append(best_shares(memorised, ScoreCounts(p, y, np.ones(100)))[1])
        earned.append(EnsembleCalibrator(methods=members).fit(p, y).map_.shares[1])
    assert min(in_sample) > 0.999
    assert np.median(earned) < 0.05
    assert np.mean(earned) < 0.25


def test_few_scores_share_equally():
    p, y = np.repeat([0.2, 0.8], 20), np.tile([0, 1], 20)
    assert EnsembleCalibrator(methods=("identity", "platt")).fit(p, y).map_.shares == (0.5, 0.5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"methods": ("platt", "segment")}, "method 'segment' cannot be in an ensemble"),
        ({"methods": ("ensemble",)}, "method 'ensemble' cannot be in an ensemble"),
        ({"methods": "platt"}, "methods must be a list of method names, got 'platt'"),
        ({"methods": ()}, "methods must be a list"),
        ({"methods": ("nonsense",)}, "unknown method 'nonsense'; available are"),
        ({"n_folds": 1}, "n_folds must be a number of at least 2, got 1"),
    ],
)
def test_senseless_parameters_are_named(parameters, message):
    with pytest.raises(ParameterError, match=message):
        EnsembleCalibrator(**parameters).fit(*biased_scores(n=50))
