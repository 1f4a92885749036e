from collections.abc import Callable
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

from builders import random_model, random_rows
from mbct import MBCTCalibrator
from mbct.data import score
from mbct.data.columns import read_columns
from mbct.data.entry import calibrated
from mbct.errors import DataError, ParameterError
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.tree import CalibrationTree

Open = Callable[[Path], Any]


def _collected(scored: Any) -> pl.DataFrame:
    frame = nw.from_native(scored)
    return frame.collect().to_polars() if isinstance(frame, nw.LazyFrame) else frame.to_polars()


def test_columns_are_kept_and_missing_predictions_stay_missing(tmp_path: Path, opened_lazily: Open) -> None:
    model = random_model(5)
    rows = pl.DataFrame(random_rows(5, model, 60), strict=False).with_columns(pl.Series("other", range(60)))
    expected = calibrated(read_columns(rows), model)
    holes = rows.with_columns(
        pl.when(pl.col("other") == 7)
        .then(None)
        .when(pl.col("other") == 8)
        .then(float("nan"))
        .otherwise("score")
        .alias("score")
    )
    holes.write_parquet(tmp_path / "rows.parquet")
    found = _collected(score(opened_lazily(tmp_path / "rows.parquet"), model, name="q")).sort("other")
    assert found.columns == [*rows.columns, "q"]
    assert found["q"][7] is None
    assert found["q"][8] is None
    kept = np.setdiff1d(np.arange(60), [7, 8])
    np.testing.assert_allclose(found["q"].to_numpy()[kept], expected[kept], rtol=0, atol=1e-12)


def test_a_model_without_trees_gives_the_prediction_back(tmp_path: Path, opened_lazily: Open) -> None:
    model = random_model(5).with_trees(())
    pl.DataFrame({"score": [0.25, 0.75]}).write_parquet(tmp_path / "rows.parquet")
    found = _collected(score(opened_lazily(tmp_path / "rows.parquet"), model))
    assert sorted(found["calibrated"].to_list()) == [0.25, 0.75]


def test_rows_keep_their_order_in_duckdb(tmp_path: Path) -> None:
    n = 300_000
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"score": rng.random(n), "site": rng.choice(["a", "b", "c"], n), "i": np.arange(n)})
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=20_000)
    found = _collected(score(tmp_path / "rows.parquet", _site_model(("a", "b")), threads=2))
    assert found["i"].to_list() == list(range(n))


def _site_model(values: tuple[str, ...]) -> CalibrationEnsemble:
    """Step 1 for the first half of the values, −1 for the others, 0 for missing and unseen ones."""
    bins = FeatureBins((NumberBins("score", (0.5,)), CategoryBins("site", values)))
    half = len(values) // 2
    table = np.r_[np.full(half, 1), np.full(len(values) - half, 2), -1, -1].astype(np.int32)
    ones = np.ones(3)
    tree = CalibrationTree(
        np.array([1, -1, -1], np.int32), np.zeros(3, np.int64), table, np.array([0.0, 1.0, -1.0]), ones, ones, ones
    )
    return CalibrationEnsemble("score", "odds", bins, (tree,))


def test_large_vocabularies_are_looked_up_too(tmp_path: Path, opened_lazily: Open) -> None:
    values = tuple(f"site {i}'s" for i in range(12_000))
    rng = np.random.default_rng(0)
    picks = rng.integers(0, 13_000, 3000)
    frame = pl.DataFrame(
        {"score": rng.random(3000), "site": [None if i % 100 == 0 else f"site {i}'s" for i in picks], "i": range(3000)}
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    model = _site_model(values)
    found = _collected(score(opened_lazily(tmp_path / "rows.parquet"), model)).sort("i")
    np.testing.assert_allclose(found["calibrated"], calibrated(read_columns(frame), model), rtol=0, atol=1e-12)


def test_frames_in_memory_keep_their_kind_and_index() -> None:
    model = _site_model(("a", "b"))
    frame = pd.DataFrame({"score": [0.5, 0.5, 0.5], "site": ["a", "b", "z"]}, index=[7, 3, 5])
    scored = score(frame, model)
    assert isinstance(scored, pd.DataFrame)
    assert list(scored.index) == [7, 3, 5]
    np.testing.assert_allclose(scored["calibrated"], 1 / (1 + np.exp([-1.0, 1.0, 0.0])), rtol=1e-12)
    assert isinstance(score(pl.from_pandas(frame), model), pl.DataFrame)


def test_the_model_may_be_an_estimator_or_a_file(tmp_path: Path) -> None:
    frame = pl.DataFrame({"p": np.tile([0.2, 0.6], 50), "y": np.tile([0, 1, 1, 1], 25)})
    fitted = MBCTCalibrator(score_column="p", max_trees=5, n_folds=2).fit(frame, "y")
    fitted.save(tmp_path / "model.json")
    expected = fitted.calibrate(frame)
    for model in (fitted, fitted.model_, tmp_path / "model.json", str(tmp_path / "model.json")):
        np.testing.assert_allclose(score(frame, model)["calibrated"], expected, rtol=0, atol=1e-12)
    with pytest.raises(ParameterError, match="model is a dict"):
        score(frame, {})


def test_what_cannot_be_scored_is_named() -> None:
    model = _site_model(("a", "b"))
    rows = pl.LazyFrame({"score": [0.5], "site": ["a"]})
    with pytest.raises(DataError, match="has a column 'site' already"):
        score(rows, model, name="site")
    with pytest.raises(DataError, match="column is missing: 'site'"):
        score(rows.drop("site"), model)
    with pytest.raises(DataError, match="cannot add a column to a ndarray"):
        score(np.zeros((2, 2)), model)
    text = pl.LazyFrame({"score": ["0.5"], "site": ["a"]})
    with pytest.raises(DataError, match="column 'score' must be numeric"):
        score(text, model)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_missing_prediction_in_memory_stays_missing(frame: type) -> None:
    model = random_model(5)
    rows = pl.DataFrame(random_rows(5, model, 30), strict=False)
    expected = calibrated(read_columns(rows), model)
    columns = {name: rows[name].to_list() for name in rows.columns}
    columns["score"][7] = None
    found = pl.Series(score(frame(columns), model)["calibrated"].to_list()).fill_nan(None)
    assert found.is_null().to_list() == [row == 7 for row in range(30)]
    np.testing.assert_array_equal(np.delete(found.to_numpy(), 7), np.delete(expected, 7))
