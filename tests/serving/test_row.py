"""The row scorer agrees with the batch reference, on any model and any value."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_model, random_rows, table_model
from mbct.data.columns import encode, read_columns
from mbct.errors import DataError
from mbct.model.ensemble import CalibrationEnsemble, masks_of_trees
from mbct.serving.row import RowScorer


def reference(model, columns):
    score = np.array(columns["score"], dtype=float)
    return model.calibrate_codes(encode(read_columns(columns), model.bins, score), score)


def as_rows(columns):
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    link=st.sampled_from(["odds", "linear"]),
    n_trees=st.integers(0, 6),
    n_features=st.integers(0, 8),
)
def test_equals_the_batch_prediction(seed, link, n_trees, n_features):
    model = random_model(seed, link, n_trees, n_features)
    columns = random_rows(seed + 1, model, 60)
    scorer = RowScorer(model)
    rows = as_rows(columns)
    expected = reference(model, columns)
    np.testing.assert_allclose([scorer.score_row(row) for row in rows], expected, rtol=0, atol=1e-12)
    by_value = [scorer.score_values(list(row.values())) for row in rows]
    np.testing.assert_allclose(by_value, expected, rtol=0, atol=1e-12)
    codes = encode(read_columns(columns), model.bins, np.array(columns["score"], dtype=float))
    assert scorer.last_codes().tolist() == codes[-1:].tolist()


@pytest.mark.parametrize("link", ["odds", "linear"])
def test_tables_and_binary_trees_together(link):
    model = table_model(5, link, 4, n_binary=3)
    columns = random_rows(6, model, 300)
    scorer = RowScorer(model)
    np.testing.assert_allclose(
        [scorer.score_row(row) for row in as_rows(columns)], reference(model, columns), rtol=0, atol=1e-12
    )


def test_a_model_too_large_for_masks_walks_its_trees(monkeypatch):
    model = random_model(3, n_trees=4)
    assert masks_of_trees(model.trees, model.bins.n_codes, product=False, most_bytes=10) is None
    monkeypatch.setattr("mbct.model.row.masks_of_trees", lambda *_, **__: None)
    columns = random_rows(4, model, 50)
    scorer = RowScorer(model)
    np.testing.assert_allclose(
        [scorer.score_row(row) for row in as_rows(columns)], reference(model, columns), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("score", [0, 1, 0.0, 1.0, np.float32(0.25), True])
def test_any_number_in_the_unit_interval_is_a_score(score):
    model = random_model(5, n_features=1)
    expected = reference(model, {"score": [float(score)], "number 0": [1.0]})
    assert RowScorer(model).score_row({"score": score, "number 0": 1.0}) == pytest.approx(expected[0], abs=1e-12)


@pytest.mark.parametrize("score", [None, "0.5", float("nan"), -0.1, 1.1, float("inf")])
def test_other_scores_are_refused_by_name(score):
    with pytest.raises(DataError, match="score"):
        RowScorer(random_model(5, n_features=1)).score_row({"score": score, "number 0": 1.0})


def test_an_absent_feature_is_named():
    with pytest.raises(DataError, match=r"no 'text_1'.*None where missing"):
        RowScorer(random_model(5)).score_row({"score": 0.5, "number 0": 1.0})


@pytest.mark.parametrize("value", [10**400, -(10**400), "12", "not a number", float("inf"), [1], object()])
def test_a_number_feature_takes_any_value(value):
    model = random_model(6, n_features=1)
    assert 0.0 <= RowScorer(model).score_row({"score": 0.3, "number 0": value}) <= 1.0


def test_unseen_values_are_counted_and_missing_ones_are_not():
    model = random_model(7)
    heard = []
    scorer = RowScorer(model, count_unseen=heard.append)
    row = {"score": 0.5, "number 0": 1.0, "text_1": "never seen", "whole_2": None, "flag_3": True}
    scorer.score_row(row)
    assert heard == ["text_1"]


def test_threads_do_not_disturb_each_other():
    model = random_model(8, n_trees=5)
    columns = random_rows(9, model, 300)
    rows, expected = as_rows(columns), reference(model, columns)
    scorer = RowScorer(model)
    wrong = []

    def work(offset):
        for i in range(3000):
            k = (i * 7 + offset) % len(rows)
            if abs(scorer.score_row(rows[k]) - expected[k]) > 1e-12:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_single_leaf_tree_and_no_tree_work():
    model = random_model(10, n_trees=1)
    root = CalibrationEnsemble(model.score_column, model.link, model.bins, ())
    assert RowScorer(root).score_row({name: 0.25 if name == "score" else None for name in model.bins.names}) == 0.25


def test_scoring_loads_no_scikit_learn_and_no_service_package():
    code = (
        "import sys; import mbct.serving.row, mbct.serving.batch, mbct.serving.explanation; "
        "print([m for m in ('sklearn', 'redis', 'uvicorn', 'msgspec', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
