import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import mbct
from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.errors import DataError, MBCTWarning, ModelFileError, ParameterError, StorageError

DATA = biased_clicks(21, 3_000)
QUICK = {"max_trees": 6, "n_folds": 2}


@pytest.fixture(scope="module")
def fitted():
    return MBCTCalibrator("p", **QUICK).fit(DATA.frame, "y")


def test_shapes_and_fitted_names(fitted):
    probabilities = fitted.predict_proba(DATA.frame)
    assert probabilities.shape == (3_000, 2)
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert np.array_equal(fitted.calibrate(DATA.frame), probabilities[:, 1])
    assert np.array_equal(fitted.predict(DATA.frame), (probabilities[:, 1] > 0.5).astype(int))
    assert set(fitted.predict(DATA.frame)) == {0, 1}
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.feature_names_in_.tolist() == ["device", "night", "site", "age", "p"]
    assert fitted.n_features_in_ == 5


def test_every_frame_gives_the_same_model(fitted):
    expected = fitted.calibrate(DATA.frame)
    for frame in (pl.from_pandas(DATA.frame), pa.Table.from_pandas(DATA.frame), DATA.frame.to_dict("series")):
        other = MBCTCalibrator("p", **QUICK).fit(frame, "y")
        assert np.array_equal(other.calibrate(frame), expected)


def test_numpy_columns_are_numbered():
    X = np.column_stack([DATA.frame["age"], DATA.p, DATA.frame["night"]]).astype(float)
    by_index = MBCTCalibrator(1, **QUICK).fit(X, DATA.y)
    named = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    assert np.array_equal(by_index.calibrate(X), MBCTCalibrator("x1", **QUICK).fit(named, DATA.y).calibrate(named))


def test_scores_may_come_apart_from_the_frame(fitted):
    rest = DATA.frame.drop(columns=["p", "y"])
    apart = MBCTCalibrator("p", **QUICK).fit(rest, DATA.y, y_prob=DATA.p)
    assert np.array_equal(apart.calibrate(rest, y_prob=DATA.p), fitted.calibrate(DATA.frame))


def test_features_can_be_chosen():
    chosen = MBCTCalibrator("p", ["device"], **QUICK).fit(DATA.frame, "y")
    assert chosen.model_.bins.names == ("p", "device")
    scrambled = DATA.frame.assign(site="x", age=0)
    assert np.array_equal(chosen.calibrate(DATA.frame), chosen.calibrate(scrambled))


def test_categorical_choices():
    by_value = MBCTCalibrator("p", categorical=["age"], **QUICK).fit(DATA.frame, "y").model_.bins
    assert {b.name: b.kind for b in by_value}["age"] == "category"
    every = MBCTCalibrator("p", categorical="all", **QUICK).fit(DATA.frame, "y").model_.bins
    assert [b.kind for b in every] == ["number"] + ["category"] * 4


def test_save_and_load_are_exact(fitted, tmp_path):
    fitted.save(tmp_path / "model.json")
    again = mbct.load_model(tmp_path / "model.json")
    assert np.array_equal(again.calibrate(DATA.frame), fitted.calibrate(DATA.frame))
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()
    assert again.trace_ == fitted.trace_


def test_scikit_learn_tools_work(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "model_")
    frame = DATA.frame.drop(columns="y")
    held_out = cross_val_predict(MBCTCalibrator("p", **QUICK), frame, DATA.y, cv=2, method="predict_proba")
    assert held_out.shape == (3_000, 2)
    paper = MBCTCalibrator("p", preset="paper", min_bin_size=200)
    grid = GridSearchCV(paper, {"features": [["age"], ["device"]]}, cv=2, scoring="neg_log_loss")
    assert grid.fit(frame, DATA.y).best_params_ == {"features": ["device"]}  # the bias is by device
    pipeline = make_pipeline(FunctionTransformer(), MBCTCalibrator("p", **QUICK)).fit(frame, DATA.y)
    assert np.array_equal(pipeline.predict_proba(frame)[:, 1], fitted.calibrate(frame))


def test_sample_weight_is_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        request = MBCTCalibrator("p").set_fit_request(sample_weight=True).get_metadata_routing()
    assert request.fit.requests["sample_weight"] is True


def test_a_refit_leaks_nothing(fitted):
    calibrator = clone(fitted).fit(biased_clicks(99, 2_000).frame, "y")
    again = calibrator.fit(DATA.frame, "y")
    assert np.array_equal(again.calibrate(DATA.frame), fitted.calibrate(DATA.frame))


def test_odd_values_at_prediction_give_finite_answers(fitted):
    n = len(DATA.frame)
    cycle = np.array([None, "new", 3, 2.5, True, pd.Timestamp("2024-01-01")], dtype=object)
    odd = pd.DataFrame(
        {
            "device": cycle[np.arange(n) % 6],
            "night": cycle[(np.arange(n) + 1) % 6],
            "site": np.where(np.arange(n) % 2, None, "s1"),
            "age": cycle[(np.arange(n) + 2) % 6],
            "p": DATA.p,
        }
    )
    with pytest.warns(MBCTWarning, match="of the rows have a value of '.*' that training has not met"):
        answer = fitted.calibrate(odd)
    assert np.all(np.isfinite(answer))


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("score", [0.0, 1.0, 1e-300])
def test_extreme_scores_are_corrected_as_far_as_the_preset_can(preset, score):
    """The default adds to clipped log-odds; the paper multiplies odds, so that nothing moves a score of 0."""
    extreme = np.arange(3_000) % 3 == 0
    frame = DATA.frame.assign(p=np.where(extreme, score, DATA.p))
    answer = MBCTCalibrator("p", preset=preset).fit(frame, "y").calibrate(frame)
    assert np.all((answer >= 0) & (answer <= 1))
    expected = 0.0 if preset == "paper" and score < 0.5 else DATA.y[extreme].mean()
    assert answer[extreme].mean() == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"preset": "magic"}, ParameterError, "preset='magic' is unknown; choose 'default' or 'fast' or 'paper'"),
        ({"max_depth": 3}, ParameterError, "max_depth=3 has no meaning with preset='default'"),
        ({"preset": "paper", "learning_rate": 0.1}, ParameterError, "rate=0.1 has no meaning with preset='paper'"),
        ({"model_size": "huge"}, ParameterError, "size='huge' must be one of 'auto', 'rules', 'compact', 'full'"),
        ({"alpha": 0}, ParameterError, "alpha=0 must lie between 0 and 1"),
        ({"n_threads": 0}, ParameterError, "n_threads=0 must be at least 1"),
        ({"numeric_bins": 0}, ParameterError, "numeric_bins=0 must be between 1 and 65000"),
        ({"score_binning": "magic"}, ParameterError, "score_binning='magic' must be 'mass' or 'width'"),
        ({"features": ["device", "colour"]}, DataError, "column is missing: 'colour'; the data has 'device'"),
        ({"features": ["device", "device"]}, DataError, "features names a column twice"),
        ({"features": "device"}, ParameterError, "features='device' must be a list"),
        ({"categorical": ["colour"]}, DataError, r"categorical names \['colour'\]"),
        ({"categorical": "some"}, ParameterError, "categorical='some' must be 'auto', 'all' or a list"),
        ({"score_column": "pctr"}, DataError, "column 'pctr' is missing; the data has 'device'"),
        ({"score_column": None}, DataError, "which column holds the prediction"),
    ],
)
def test_senseless_parameters_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        MBCTCalibrator(**{"score_column": "p", **change}).fit(DATA.frame, "y")


def test_missing_columns_at_prediction_are_named(fitted):
    with pytest.raises(DataError, match="column is missing: 'site'"):
        fitted.calibrate(DATA.frame.drop(columns="site"))
    with pytest.raises(DataError, match="column 'p' is missing"):
        fitted.calibrate(DATA.frame.drop(columns="p"))


def test_unfitted_use_is_refused():
    with pytest.raises(NotFittedError):
        MBCTCalibrator("p").calibrate(DATA.frame)


def test_damaged_files_are_refused(fitted, tmp_path):
    path = tmp_path / "model.json"
    fitted.save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ModelFileError, match="damaged"):
        mbct.load_model(path)


def test_saving_into_a_missing_folder_is_refused(fitted, tmp_path):
    with pytest.raises(StorageError, match="choose a folder that exists"):
        fitted.save(tmp_path / "nowhere" / "model.json")
