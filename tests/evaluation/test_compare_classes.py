import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

from mbct.calibrators import MatrixScalingCalibrator, MulticlassCalibrator
from mbct.errors import DataError, ParameterError
from mbct.evaluation.compare_classes import compare_classes
from mbct.metrics import evaluate_classes

SCORES = ["a", "b", "c"]


def rows(sharpness, n=900, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    truth = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    p = np.exp(sharpness * z) / np.exp(sharpness * z).sum(axis=1, keepdims=True)
    label = np.array(["x", "y", "z"])[(rng.uniform(size=(n, 1)) > truth.cumsum(axis=1)).sum(axis=1)]
    return pd.DataFrame(p, columns=SCORES).assign(day=np.arange(n) // 30), label


def test_a_base_that_is_too_sure_is_beaten_and_a_right_one_is_kept():
    frame, label = rows(2.5)
    plain = MatrixScalingCalibrator(structure="temperature")
    found = compare_classes(frame[SCORES], label, score_column=SCORES, methods=["matrix-scaling", plain], cv=3)
    assert found.best.name != "identity"
    assert [method.name for method in found.methods][-1] == "identity"
    assert [method.log_loss for method in found.methods] == sorted(method.log_loss for method in found.methods)
    assert found["identity"].log_loss_difference == 0.0
    assert found.best.z > 2.0
    assert found.to_frame().index.tolist() == [method.name for method in found.methods]
    assert "matrix-scaling lowers the held-out log loss" in found._repr_html_()
    right, label = rows(1.0)
    kept = compare_classes(right[SCORES], label, score_column=SCORES, methods=["matrix-scaling"], cv=3)
    assert kept.best.name == "identity"


def test_scores_are_those_of_the_public_metrics_on_each_fold():
    frame, label = rows(2.5)
    weight = np.random.default_rng(1).integers(0, 4, len(label)).astype(float)
    splits = list(KFold(3).split(frame))
    found = compare_classes(
        frame[SCORES], label, score_column=SCORES, methods=["dirichlet"], cv=splits, sample_weight=weight
    )
    p = frame[SCORES].to_numpy()
    each = [
        evaluate_classes(label[test][counted], p[test][counted], sample_weight=weight[test][counted])
        for _, test in splits
        for counted in [weight[test] > 0]
    ]
    mass = [weight[test].sum() for _, test in splits]
    base = found["identity"]
    for name, value in {"log_loss": base.log_loss, "brier": base.brier, "classwise_ece": base.ece}.items():
        assert value == pytest.approx(np.average([one.overall[name] for one in each], weights=mass), rel=1e-9), name
    aucs = [np.mean(one.segments["auc"][1:]) for one in each]
    assert base.auc == pytest.approx(np.average(aucs, weights=mass), rel=1e-9)


def test_whole_days_are_held_out_and_order_does_not_matter():
    frame, label = rows(2.5)
    options = {"score_column": SCORES, "methods": ["matrix-scaling"], "cv": 3}
    by_day = compare_classes(frame, label, time="day", **options)
    order = np.random.default_rng(1).permutation(len(label))
    shuffled = compare_classes(frame.iloc[order], label[order], time="day", **options)
    assert "whole blocks of time held out" in str(by_day)
    for method in by_day.methods:
        assert method.log_loss == pytest.approx(shuffled[method.name].log_loss, abs=1e-9)
        assert method.log_loss_standard_error == pytest.approx(shuffled[method.name].log_loss_standard_error, abs=1e-9)
    with pytest.raises(DataError, match="30 blocks of rows cannot fill 40 folds"):
        compare_classes(frame, label, time="day", **{**options, "cv": 40})


def test_with_time_and_groups_only_held_out_rows_are_scored():
    frame, label = rows(2.5)
    shop = np.random.default_rng(2).integers(0, 30, len(label))
    options = {"score_column": SCORES, "methods": ["matrix-scaling"], "cv": 3, "time": "day"}
    by_day, both = (compare_classes(frame, label, **options, **more) for more in ({}, {"groups": shop}))
    assert both.best.name == by_day.best.name == "matrix-scaling"
    assert (by_day.n_rows, both.blocks) == (len(label), "time and groups")
    assert both.n_rows < 0.5 * len(label)
    assert "whole blocks of time held out, no group on both sides" in str(both)
    errors = [found["matrix-scaling"].log_loss_standard_error for found in (by_day, both)]
    assert errors[1] > 1.3 * errors[0]


def test_trees_are_named_as_for_two_classes():
    frame, label = rows(2.5, n=120)
    found = compare_classes(frame[SCORES], label, score_column=SCORES, methods=["mbct"], cv=2)
    assert {method.name for method in found.methods} == {"identity", "mbct-multiclass"}


def test_trees_are_fitted_by_the_days_of_the_comparison_or_by_their_own():
    frame, label = rows(2.5)
    frame["shop"] = np.random.default_rng(2).integers(0, 20, len(label))
    train, held_out = np.arange(600), np.arange(600, 900)
    plain = MulticlassCalibrator(max_trees=5, n_folds=3)
    by_shop = clone(plain).set_params(groups="shop")
    found = compare_classes(
        frame, label, score_column=SCORES, methods=[plain, by_shop], time="day", cv=[(train, held_out)]
    )
    for method, model, seen in (
        (str(plain), clone(plain).set_params(time="day"), frame),
        (str(by_shop), by_shop, frame.drop(columns="day")),
    ):
        fitted = model.set_params(score_column=SCORES).fit(seen.iloc[train], label[train])
        p = fitted.calibrate(seen.iloc[held_out])
        expected = evaluate_classes(label[held_out], p).overall["log_loss"]
        assert found[method].log_loss == pytest.approx(expected, abs=1e-12), method


def test_a_method_of_one_probability_is_named():
    frame, label = rows(2.5, n=90)
    with pytest.raises(ParameterError, match="method 'platt' calibrates one probability"):
        compare_classes(frame[SCORES], label, score_column=SCORES, methods=["platt"])
