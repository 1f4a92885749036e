"""Every message that bad input can cause: it names the value, the place and the remedy."""

import contextlib
import json
import resource
import subprocess

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from mbct import load_model
from mbct.calibrators import PlattCalibrator, SegmentCalibrator, make
from mbct.errors import DataError, ModelFileError, ParameterError, StorageError

P = np.array([0.1, 0.4, 0.6, 0.9])
Y = np.array([0, 1, 0, 1])


def fitted():
    return PlattCalibrator().fit(P, Y)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (
            [0.1, np.nan, 0.6, 0.9],
            r"score column 'p' is not a number \(NaN\): nan in row 1; drop or fill the missing predictions",
        ),
        ([0.1, np.nan, np.nan, 0.9], r"is not a number \(NaN\): nan in row 1 \(and 1 more\)"),
        (
            [0.1, 0.4, 1.5, 0.9],
            r"score column 'p' lies outside \[0, 1\]: 1.5 in row 2; pass probabilities, not log-odds",
        ),
        ([0.1, -0.4, 0.6, 0.9], r"score column 'p' lies outside \[0, 1\]: -0.4 in row 1"),
        ([0.1, np.inf, 0.6, 0.9], r"score column 'p' lies outside \[0, 1\]: inf in row 1"),
        ([0.1, "high", 0.6, 0.9], r"score column 'p' must be numeric, but row 1 is 'high'; convert the column first"),
        ([0.1, 1j, 0.6, 0.9], r"Complex data not supported: score column 'p' is complex; pass real numbers"),
    ],
)
def test_bad_scores(scores, message):
    mixed = any(isinstance(value, str) for value in scores)
    frame = {"p": np.array(scores, dtype=object if mixed else None)}
    with pytest.raises(DataError, match=message):
        PlattCalibrator("p").fit(frame, Y)
    with pytest.raises(DataError, match=message):
        PlattCalibrator("p").fit({"p": P}, Y).calibrate({**frame, "x": P})


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 2, 0, 1], r"Only binary classification is supported. y has 3 classes \(0, 1, 2\)"),
        ([0, 1.5, 0, 1], r"Unknown label type: y holds 1.5, which is no class but a number"),
        ([0, np.nan, 0, 1], r"y is missing: nan in row 1; drop the rows without a label"),
        (["no", "yes", "no", None], r"y is missing: None in row 3; drop the rows without a label"),
        (["no", 1, "no", 1], r"y mixes types that cannot be sorted: make all labels text or all numbers"),
        (["no", "no", "no", "no"], r"the label is 'no' in every row: both classes are needed to see a bias"),
        ([1, 1, 1, 1], r"the label is 1 in every row: both classes are needed to see a bias"),
        ([0, 0, 0, 0], r"the label is 0 in every row"),
        ([0, 1, 0], r"y has 3 rows where 4 were expected: lengths must be equal"),
        ([[0, 1], [0, 1], [0, 1], [0, 1]], r"y must be one-dimensional, got shape \(4, 2\); pass a single column"),
        ([], r"y is empty: at least one row is needed"),
        (None, r"requires y to be passed, but the target y is None: pass the labels"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(DataError, match=message):
        PlattCalibrator().fit(P, np.array(labels, dtype=object) if labels and isinstance(labels[0], str) else labels)


def test_labels_of_one_class_after_weighting():
    with pytest.raises(DataError, match="the label is 1 in every row"):
        PlattCalibrator().fit(P, Y, sample_weight=Y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -1, 1, 1], r"sample_weight is negative: -1 in row 1; weights count rows: use 0 to leave a row out"),
        ([1, np.nan, 1, 1], r"sample_weight is not finite: nan in row 1; give every row a finite weight"),
        ([1, np.inf, 1, 1], r"sample_weight is not finite: inf in row 1"),
        ([0, 0, 0, 0], r"sample_weight is zero for every row: at least one row must count"),
        ([1, 1, 1], r"sample_weight has 3 rows where 4 were expected"),
        (["a", "b", "c", "d"], r"sample_weight must be numeric, but row 0 is 'a'"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(DataError, match=message):
        PlattCalibrator().fit(P, Y, weights)


def test_a_weight_column_is_named_in_the_message():
    with pytest.raises(DataError, match="weight column 'w' is negative: -2 in row 3"):
        PlattCalibrator("p").fit({"p": P, "w": np.array([1, 1, 1, -2])}, Y, "w")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.empty((0, 1)), r"the data is empty \(0 rows, 1 columns\)"),
        (np.empty((4, 0)), r"the data is empty \(4 rows, 0 columns\)"),
        (pl.DataFrame({"p": []}, schema={"p": pl.Float64}), r"the data is empty \(0 rows, 1 columns\)"),
        (pd.DataFrame(), r"the data is empty \(0 rows, 0 columns\)"),
        ({}, r"the data is empty \(0 rows, 0 columns\)"),
        (np.zeros((2, 2, 2)), r"expected a table \(two-dimensional\), got shape \(2, 2, 2\)"),
        ([[0.1], [0.2, 0.3]], r"cannot read a list as a table"),
        ({"p": P, "x": P[:2]}, r"the columns have unequal lengths: \[2, 4\]"),
        ("scores.csv", r"cannot read a str as a table: pass a frame, an array or a dictionary of columns"),
    ],
)
def test_bad_tables(table, message):
    with pytest.raises(DataError, match=message):
        PlattCalibrator().fit(table, Y)


def test_a_repeated_column_name():
    frame = pd.DataFrame(np.column_stack([P, P]), columns=["p", "p"])
    with pytest.raises(DataError, match=r"(?s)cannot read a DataFrame as a table: .*'p' 2 times"):
        PlattCalibrator("p").fit(frame, Y)


@pytest.mark.parametrize(
    ("score", "label", "message"),
    [
        (
            None,
            Y,
            r"which column holds the prediction\? pass score_column='name' \(or y_prob=…\); the data has 'p', 'x'",
        ),
        ("pctr", Y, r"column 'pctr' is missing; the data has 'p', 'x'"),
        ("p", "click", r"column 'click' is missing; the data has 'p', 'x'"),
        (7, Y, r"column 7 is missing: the data has 2 feature\(s\), 'p', 'x'"),
    ],
)
def test_columns_missing_at_fitting(score, label, message):
    with pytest.raises(DataError, match=message):
        PlattCalibrator(score).fit({"p": P, "x": P}, label)


def test_columns_missing_at_prediction():
    by_name = PlattCalibrator("p").fit({"p": P, "x": P}, Y)
    with pytest.raises(DataError, match="column 'p' is missing; the data has 'q', 'x'"):
        by_name.calibrate({"q": P, "x": P})
    by_field = SegmentCalibrator("p", field="site").fit({"p": P, "site": Y}, Y)
    with pytest.raises(DataError, match="column 'site' is missing; the data has 'p'"):
        by_field.calibrate({"p": P})


def test_scores_given_apart_are_needed_again():
    apart = PlattCalibrator().fit({"x": P}, Y, y_prob=P)
    np.testing.assert_array_equal(apart.calibrate({"x": P}, y_prob=P), fitted().calibrate(P))
    with pytest.raises(DataError, match=r"the scores were given apart .* pass y_prob=… here too"):
        apart.calibrate({"x": P})
    with pytest.raises(DataError, match="y_prob has 2 rows where 4 were expected"):
        apart.calibrate({"x": P}, y_prob=P[:2])


@pytest.mark.parametrize("action", ["calibrate", "predict_proba", "predict"])
def test_unfitted_use(action):
    with pytest.raises(NotFittedError, match="This PlattCalibrator instance is not fitted yet"):
        getattr(PlattCalibrator(), action)(P)


def test_saving_what_is_not_fitted(tmp_path):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        PlattCalibrator().save(tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_method():
    with pytest.raises(ParameterError, match="unknown method 'plat'; available are affine, bbq, beta, "):
        make("plat")


def test_a_truncated_model_file(tmp_path):
    path = tmp_path / "model.json"
    fitted().save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ModelFileError, match=r"model.json is damaged or no model file: .*; restore it or fit again"):
        load_model(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04\xff", b"p,y\n0.1,0\n"])
def test_a_file_that_is_no_json(content, tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="is damaged or no model file"):
        load_model(path)


@pytest.mark.parametrize("content", ["{}", "[1, 2]", '{"format": "other"}', "3"])
def test_a_foreign_json_file(content, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(content)
    with pytest.raises(ModelFileError, match=r"model.json is not a calibrator of this package"):
        load_model(path)


def changed(path, **changes):
    fitted().save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


def test_a_newer_model_file(tmp_path):
    with pytest.raises(ModelFileError, match=r"has format version 99, newer than .*: upgrade mbct to read it"):
        load_model(changed(tmp_path / "model.json", version=99))


@pytest.mark.parametrize(
    "changes",
    [
        {"state": {}},
        {"state": None},
        {"state": {"slope": 1.0}},
        {"method": "magic"},
        {"method": None},
        {"parameters": {"colour": "red"}},
        {"parameters": None},
    ],
)
def test_a_model_file_with_parts_missing_or_wrong(changes, tmp_path):
    with pytest.raises(ModelFileError, match=r"model.json(: the model)? is damaged: .*; restore it or fit again"):
        load_model(changed(tmp_path / "model.json", **changes))


def test_a_model_file_that_is_not_there(tmp_path):
    with pytest.raises(StorageError, match=r"cannot read .*absent.json: No such file or directory"):
        load_model(tmp_path / "absent.json")


def test_saving_where_there_is_no_folder(tmp_path):
    with pytest.raises(StorageError, match=r"cannot write .*: No such file or directory; choose a folder that exists"):
        fitted().save(tmp_path / "absent" / "model.json")


@contextlib.contextmanager
def no_room():
    """A limit of 100 bytes for any file this process writes, a log of the tests among them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_stops_half_way_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.json"
    fitted().save(path)
    before = path.read_bytes()
    other = PlattCalibrator().fit(P, 1 - Y)
    message = r"cannot write .*model.json \([\d,]+ bytes\): File too large; free some space"
    with pytest.raises(StorageError, match=message), no_room():
        other.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


def test_a_disk_that_is_really_full(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        scores = np.random.default_rng(0).uniform(size=2000)
        large = make("venn-abers").fit(scores, scores > 0.5)
        with pytest.raises(StorageError, match="No space left on device"):
            large.save(disk / "model.json")
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
