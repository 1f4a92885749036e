import dataclasses
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mbct import compare
from mbct.calibrators import PlattCalibrator, SegmentCalibrator, available
from mbct.calibrators.folds import cross_validation_folds, row_keys
from mbct.data.columns import read_columns
from mbct.errors import DataError, ParameterError
from mbct.evaluation.compare import Comparison, Failure, MethodScore, default_methods
from mbct.metrics import auc, brier, ece, log_loss, mvce

FAST = ["platt", "temperature", "isotonic"]


def biased_sites(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, n)
    site = rng.choice(["a", "b"], n)
    y = (rng.uniform(size=n) < np.where(site == "a", p**2, p)).astype(int)
    return pd.DataFrame({"p": p, "site": site}), y


def test_scores_are_those_of_the_public_metrics_on_each_fold():
    frame, y = biased_sites()
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    result = compare(frame, y, score_column="p", methods=["platt"], sample_weight=weight, cv=4)
    keys = row_keys(read_columns({**frame, " score": frame["p"]}), 0)
    fold = cross_validation_folds(keys, y, 4)
    rows, mass = [], []
    for k in range(4):
        held = fold == k
        q = PlattCalibrator("p").fit(frame[~held], y[~held], weight[~held]).calibrate(frame[held])
        w = weight[held]
        shared = {"sample_weight": w}
        closed = mvce(y[held], q, n_bins=20, method="closed-form", **shared)
        rows.append([f(y[held], q, **shared) for f in (log_loss, brier, auc, ece)] + [closed])
        mass.append(w.sum())
    expected = np.average(np.array(rows, dtype=float), axis=0, weights=mass)
    platt = result["platt"]
    found = [platt.log_loss, platt.brier, platt.auc, platt.ece, platt.mvce]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_differences_are_paired_with_the_base():
    frame, y = biased_sites()
    result = compare(frame, y, score_column="p", methods=FAST)
    base = result["identity"]
    assert base.log_loss_difference == base.log_loss_standard_error == 0.0
    for method in result.methods:
        assert method.log_loss_difference == pytest.approx(method.log_loss - base.log_loss, abs=1e-12)
        assert method.brier_difference == pytest.approx(method.brier - base.brier, abs=1e-12)


def test_the_standard_error_is_that_of_repeated_samples():
    differences, errors = [], []
    for seed in range(40):
        frame, y = biased_sites(n=600, seed=seed)
        platt = compare(frame, y, score_column="p", methods=["platt"])["platt"]
        differences.append(platt.log_loss_difference)
        errors.append(platt.log_loss_standard_error)
    assert np.std(differences) == pytest.approx(np.mean(errors), rel=0.35)


def test_the_result_is_the_same_whatever_the_order_and_kind_of_frame():
    frame, y = biased_sites()
    result = compare(frame, y, score_column="p", methods=FAST)
    assert compare(frame, y, score_column="p", methods=FAST) == result
    assert compare(pl.DataFrame(frame.to_dict("list")), y, score_column="p", methods=FAST) == result
    order = np.random.default_rng(0).permutation(len(y))
    shuffled = compare(frame.iloc[order], y[order], score_column="p", methods=FAST)
    for method in result.methods:
        assert shuffled[method.name].log_loss == pytest.approx(method.log_loss, abs=1e-12)
    assert compare(frame, y, score_column="p", methods=FAST, random_state=1) != result


def test_a_copy_is_never_held_out_from_its_twin():
    frame, y = biased_sites(n=400)
    twice = pd.concat([frame, frame])
    doubled = compare(twice, np.tile(y, 2), score_column="p", methods=["isotonic"])
    once = compare(frame, y, score_column="p", methods=["isotonic"])
    assert doubled["isotonic"].log_loss == pytest.approx(once["isotonic"].log_loss, abs=1e-9)


def test_it_names_the_method_to_take():
    frame, y = biased_sites()
    methods = {"plain": "platt", "by site": SegmentCalibrator(field="site"), "hot": "temperature"}
    result = compare(frame, y, score_column="p", methods=methods)
    assert result.best.name == "by site"
    assert result.recommendation.startswith("Take by site: it lowers the held-out log loss by 0.0")


def test_a_perfect_base_is_left_alone():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=2000)
    result = compare(p, rng.uniform(size=2000) < p, methods=FAST)
    assert result.best.name == "identity"
    assert result.recommendation.startswith("Leave the base as it is")


def test_the_label_and_weight_may_be_columns_and_the_score_apart():
    frame, y = biased_sites()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    named = compare(frame.assign(click=y, w=weight), "click", score_column="p", sample_weight="w", methods=["platt"])
    assert named == compare(frame, y, score_column="p", sample_weight=weight, methods=["platt"])
    apart = compare(frame[["site"]], y, y_prob=frame["p"], methods=["platt"])
    inside = compare(frame, y, score_column="p", methods=["platt"])
    assert apart["platt"].log_loss == pytest.approx(inside["platt"].log_loss, rel=0.01)


def test_all_methods_that_need_no_setting_are_compared_by_default(monkeypatch):
    assert set(available()) - set(default_methods()) == {"segment"}
    frame, y = biased_sites(n=500)
    result = compare(frame, y, score_column="p", cv=2)
    assert {m.name for m in result.methods} == set(default_methods())
    assert result.failures == ()


def test_a_method_that_cannot_run_is_listed_with_the_reason(monkeypatch):
    frame, y = biased_sites(n=500)
    wide = frame.assign(other=1.0)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    result = compare(wide, y, score_column="p", methods=["platt", "segment", "lightgbm"])
    assert [m.name for m in result.methods].count("platt") == 1
    reasons = {failure.name: failure.reason for failure in result.failures}
    assert "which column holds the segments?" in reasons["segment"]
    assert "pip install 'mbct[lightgbm]'" in reasons["lightgbm"]
    assert "segment: not compared, which column" in str(result)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"methods": "platt"}, ParameterError, r"methods must be a list, got the text 'platt'; write \['platt'\]"),
        ({"methods": ["magic"]}, ParameterError, "unknown method 'magic'"),
        ({"methods": [3]}, ParameterError, "a method is a name or a calibrator, got 3"),
        ({"methods": ["platt", PlattCalibrator()]}, ParameterError, "two methods are called 'platt': pass a mapping"),
        ({"cv": 1}, ParameterError, "cv must be a number of at least 2, got 1"),
        ({"score_column": "q"}, DataError, "column 'q' is missing"),
    ],
)
def test_senseless_arguments_are_named(arguments, error, message):
    frame, y = biased_sites(n=200)
    with pytest.raises(error, match=message):
        compare(frame, y, **{"score_column": "p", "methods": FAST, **arguments})


def test_a_lonely_class_is_named():
    with pytest.raises(DataError, match="has only one sample"):
        compare(np.array([0.1, 0.2, 0.3]), np.array([0, 0, 1]), methods=FAST)


def method(name, log_loss, difference=0.0, error=0.0, seconds=1.0):
    return MethodScore(name, log_loss, 0.1, 0.8, 0.01, 0.02, difference, error, 0.0, 0.0, seconds, 0.1)


BASE = method("identity", 0.5)
BETTER = method("platt", 0.48, -0.02, 0.004)
UNSURE = method("beta", 0.49, -0.01, 0.009)


def table(*methods, failures=()):
    return Comparison(tuple(sorted(methods, key=lambda m: m.log_loss)), failures, 1000, 5)


def test_a_clear_gain_is_recommended():
    result = table(BASE, BETTER)
    assert result.best == BETTER
    assert result.recommendation == (
        "Take platt: it lowers the held-out log loss by 0.02000 ± 0.00400 (0.50000 → 0.48000)."
    )


def test_a_gain_within_the_noise_is_not():
    result = table(BASE, UNSURE)
    assert result.best == BASE
    assert "beta, lowers the log loss by 0.01000 ± 0.00900, which may be chance" in result.recommendation


def test_no_gain_at_all():
    result = table(BASE, method("histogram", 0.6, 0.1, 0.01))
    assert result.recommendation == "Leave the base as it is: no method has a lower held-out log loss."


def test_the_print_is_aligned_and_ends_with_the_advice():
    result = table(BASE, BETTER, UNSURE, failures=(Failure("lightgbm", "not installed"),))
    lines = str(result).splitlines()
    assert lines[0] == "1,000 rows, 5 folds, held-out scores"
    assert lines[1].index("Brier") == lines[3].index("0.10000")
    assert lines[1].index("AUC") == lines[3].index("0.80000")
    assert lines[3].startswith("platt")
    assert "(base)" in lines[5]
    assert lines[6] == "lightgbm: not compared, not installed"
    assert lines[-1] == result.recommendation


def test_times_do_not_count_and_nothing_can_be_changed():
    assert table(BASE, BETTER) == table(BASE, dataclasses.replace(BETTER, fit_seconds=99.0))
    assert table(BASE, BETTER) != table(BASE, UNSURE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        BASE.log_loss = 0.0


def test_an_absent_method_is_named():
    with pytest.raises(KeyError, match="'mbct' was not compared; there are platt, identity"):
        table(BASE, BETTER)["mbct"]
