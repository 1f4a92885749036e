import numpy as np
import pytest

from mbct.errors import ParameterError
from mbct.metrics import evaluate, ici, log_loss, net_benefit, variational_error
from peers import biased_scores


def test_ici_is_the_distance_to_the_curve_that_made_the_labels():
    p, y = biased_scores(n=60_000)
    truth = 0.1 + 0.8 * p**1.6
    distance = np.abs(p - truth)
    found = ici(y, p)
    assert float(found) == pytest.approx(distance.mean(), abs=0.004)
    assert found.e50 == pytest.approx(np.median(distance), abs=0.006)
    assert found.e90 == pytest.approx(np.quantile(distance, 0.9), abs=0.012)
    assert ici(y, truth) < 0.006
    assert "E50" in str(found)


def test_weights_are_copies_and_intervals_hold_the_value():
    p, y = biased_scores(n=400)
    weight = np.random.default_rng(0).integers(1, 4, 400)
    copies = np.repeat(np.arange(400), weight)
    for metric in (ici, net_benefit):
        assert float(metric(y, p, sample_weight=weight)) == pytest.approx(float(metric(y[copies], p[copies])), abs=1e-9)
    found = net_benefit(y, p, threshold=0.3, confidence=0.9, n_bootstrap=50)
    assert found.interval.lower < float(found) < found.interval.upper


def test_net_benefit_by_its_definition():
    p, y = biased_scores(n=500)
    for t in (0.1, 0.35, 0.8):
        acted = p >= t
        expected = (np.sum(acted & (y == 1)) - np.sum(acted & (y == 0)) * t / (1 - t)) / 500
        assert float(net_benefit(y, p, threshold=t)) == pytest.approx(expected)
    assert float(net_benefit(y, np.full(500, 0.9))) == pytest.approx(0.0)
    with pytest.raises(ParameterError, match=r"threshold must lie between 0 and 1, got 1\.0"):
        net_benefit(y, p, threshold=1.0)


def test_labels_of_one_class_have_no_curve():
    assert np.isnan(ici(np.zeros(5), np.linspace(0.1, 0.5, 5)))
    assert np.isnan(evaluate(np.zeros(5), np.linspace(0.1, 0.5, 5), metrics=["net_benefit"]).overall["net_benefit"])


def test_the_critic_finds_what_is_to_be_gained_and_no_more():
    pytest.importorskip("lightgbm", reason="install mbct[lightgbm]")
    p, y = biased_scores(n=6000)
    truth = 0.1 + 0.8 * p**1.6
    gained = float(log_loss(y, p)) - float(log_loss(y, truth))
    found = variational_error(y, p)
    assert 0.7 * gained < float(found) < gained + 2 * found.standard_error
    assert abs(float(variational_error(y, truth))) < 0.005
    assert "standard error" in str(found)


def test_the_critic_sees_columns_and_leaves_out_rows_of_no_weight():
    pytest.importorskip("lightgbm", reason="install mbct[lightgbm]")
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 4000)
    p = rng.uniform(0.3, 0.7, 4000)
    y = (rng.uniform(size=4000) < p + np.where(group == 1, 0.2, -0.2)).astype(float)
    assert float(variational_error(y, p)) < 0.01
    assert float(variational_error(y, p, {"group": group})) > 0.05
    weight = np.where(np.arange(4000) < 3000, 1.0, 0.0)
    some = variational_error(y, p, {"group": group}, sample_weight=weight)
    assert float(some) == pytest.approx(float(variational_error(y[:3000], p[:3000], {"group": group[:3000]})))


def test_the_parts_of_the_log_loss_add_up_and_are_those_of_isotonic_regression():
    from sklearn.isotonic import IsotonicRegression

    p, y = biased_scores(n=800)
    found = log_loss(y, p)
    assert float(found) == pytest.approx(found.miscalibration - found.discrimination + found.uncertainty)
    fit = np.clip(IsotonicRegression(y_min=0, y_max=1).fit(p, y).predict(p), 1e-300, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = -np.where(y == 1, np.log(fit), np.where(fit < 1, np.log1p(-fit), 0.0))
    assert found.miscalibration == pytest.approx(float(found) - losses.mean(), abs=1e-9)
    rate = y.mean()
    assert found.uncertainty == pytest.approx(-rate * np.log(rate) - (1 - rate) * np.log(1 - rate))


def test_tied_predictions_of_both_classes_do_not_lower_the_variational_error():
    """Rows of one prediction are held out together: else labels to train on would contradict those held out."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.6, 3000).round(2)
    group = rng.choice(["a", "b"], 3000)
    y = (rng.uniform(size=3000) < p * np.where(group == "a", 1.4, 0.7)).astype(int)
    assert abs(float(variational_error(y, p))) < 0.005
    assert float(variational_error(y, p, {"group": group})) > 0.02
