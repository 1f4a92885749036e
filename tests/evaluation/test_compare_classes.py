import numpy as np
import pandas as pd
import pytest

from mbct.calibrators import MatrixScalingCalibrator
from mbct.errors import DataError, ParameterError
from mbct.evaluation.compare_classes import compare_classes

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
    assert found.recommendation == found.best != "identity"
    table = dict(found.table.columns)
    assert table["method"][-1] == "identity"
    assert list(table["log_loss"]) == sorted(table["log_loss"])
    assert table["difference"][-1] == 0.0
    assert table["difference"][0] < -2 * table["standard_error"][0]
    assert "take " in str(found)
    right, label = rows(1.0)
    kept = compare_classes(right[SCORES], label, score_column=SCORES, methods=["matrix-scaling"], cv=3)
    assert kept.recommendation == "identity"


def test_whole_days_are_held_out_and_order_does_not_matter():
    frame, label = rows(2.5)
    options = {"score_column": SCORES, "methods": ["matrix-scaling"], "cv": 3}
    by_day = compare_classes(frame, label, time="day", **options)
    order = np.random.default_rng(1).permutation(len(label))
    shuffled = compare_classes(frame.iloc[order], label[order], time="day", **options)
    assert dict(by_day.table.columns)["log_loss"] == pytest.approx(dict(shuffled.table.columns)["log_loss"], abs=1e-9)
    with pytest.raises(DataError, match="30 blocks of rows cannot fill 40 folds"):
        compare_classes(frame, label, time="day", **{**options, "cv": 40})


def test_trees_are_named_as_for_two_classes():
    frame, label = rows(2.5, n=120)
    found = compare_classes(frame[SCORES], label, score_column=SCORES, methods=["mbct"], cv=2)
    assert set(dict(found.table.columns)["method"]) == {"identity", "mbct-multiclass"}


def test_a_method_of_one_probability_is_named():
    frame, label = rows(2.5, n=90)
    with pytest.raises(ParameterError, match="method 'platt' calibrates one probability"):
        compare_classes(frame[SCORES], label, score_column=SCORES, methods=["platt"])
