from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from mbct import MBCTCalibrator
from mbct import data as engines
from mbct.calibrators.persistence import dumps
from mbct.errors import DataError, ParameterError

FAST = {"max_trees": 10, "n_folds": 2}


@pytest.fixture
def rows() -> pl.DataFrame:
    rng = np.random.default_rng(8)
    n = 3000
    site = rng.choice(["a", "b"], n)
    p = rng.beta(1.0, 3.0, n).round(2)
    y = (rng.random(n) < np.clip(p * np.where(site == "a", 1.5, 0.5), 0, 1)).astype(int)
    return pl.DataFrame({"p": p, "site": site, "y": y})


def test_probabilities_of_a_path_come_in_the_order_of_its_rows(tmp_path: Path, rows: pl.DataFrame) -> None:
    rows.write_csv(tmp_path / "rows.csv")
    fitted = MBCTCalibrator(score_column="p", **FAST).fit(str(tmp_path / "rows.csv"), "y")
    expected = MBCTCalibrator(score_column="p", **FAST).fit(rows, "y")
    assert dumps(fitted) == dumps(expected)
    assert fitted.feature_names_in_.tolist() == ["p", "site"]
    np.testing.assert_array_equal(fitted.predict_proba(tmp_path / "rows.csv"), expected.predict_proba(rows))
    np.testing.assert_array_equal(fitted.predict(tmp_path / "rows.csv"), expected.predict(rows))


def test_cells_of_equal_scores_give_the_model_of_their_rows(rows: pl.DataFrame) -> None:
    bins = engines.fit_bins(rows, score_column="p", label="y")
    cells = engines.aggregate(rows, bins, label="y", level="score")
    fitted = MBCTCalibrator(**FAST).fit_cells(cells, bins)
    expected = MBCTCalibrator(score_column="p", **FAST).fit(rows, "y")
    assert fitted.model_.to_dict() == expected.model_.to_dict()
    np.testing.assert_array_equal(fitted.calibrate(rows), expected.calibrate(rows))


SPELT = {
    "text": pl.col("y").replace_strict({0: "No", 1: "Yes"}, return_dtype=pl.String),
    "boolean": pl.col("y").cast(pl.Boolean),
    "numbers": pl.col("y") * 2 - 1,
    "floats": pl.col("y").cast(pl.Float64) + 1.0,
    "categories": pl.col("y").replace_strict({0: "bad", 1: "good"}, return_dtype=pl.Enum(["good", "bad"])),
    "0 and 1": pl.col("y"),
}


@pytest.mark.parametrize("spelt", SPELT)
@pytest.mark.parametrize("reversed_", [False, True], ids=["second", "first"])
def test_labels_of_any_kind_are_read_by_every_engine_as_in_memory(
    rows: pl.DataFrame, tmp_path: Path, spelt: str, reversed_: bool
) -> None:
    labelled = rows.with_columns(SPELT[spelt].alias("y"))
    labelled.write_parquet(tmp_path / "rows.parquet")
    expected = MBCTCalibrator("p", **FAST).fit(labelled, "y")
    parameters = {**FAST, "positive": expected.classes_.tolist()[0]} if reversed_ else FAST
    if reversed_:
        labelled = labelled.with_columns(p=1.0 - pl.col("p"))
        labelled.write_parquet(tmp_path / "rows.parquet")
        expected = MBCTCalibrator("p", **parameters).fit(labelled, "y")
        assert expected.positive_ == 0
    relation = duckdb.connect().read_parquet(str(tmp_path / "rows.parquet"))
    for source in (str(tmp_path / "rows.parquet"), labelled.lazy(), relation):
        fitted = MBCTCalibrator("p", **parameters).fit(source, "y")
        assert dumps(fitted) == dumps(expected)
        assert fitted.classes_.tolist() == expected.classes_.tolist()
        np.testing.assert_array_equal(fitted.predict(labelled), expected.predict(labelled))


def test_labels_of_an_engine_that_are_no_two_classes_are_named(rows: pl.DataFrame) -> None:
    third = pl.when(pl.col("p") < 0.1).then(pl.lit("c")).otherwise(SPELT["text"]).alias("y")
    with pytest.raises(DataError, match="label column 'y' has 3 classes"):
        MBCTCalibrator("p").fit(rows.with_columns(third).lazy(), "y")
    with pytest.raises(DataError, match="positive='Maybe' is not among the classes of label column 'y': 'No', 'Yes'"):
        MBCTCalibrator("p", positive="Maybe").fit(rows.with_columns(SPELT["text"]).lazy(), "y")
    missing = pl.when(pl.col("p") < 0.1).then(None).otherwise(SPELT["text"]).alias("y")
    n_missing = rows.filter(pl.col("p") < 0.1).height
    with pytest.raises(DataError, match=f"label column 'y' is missing in {n_missing} rows"):
        MBCTCalibrator("p").fit(rows.with_columns(missing).lazy(), "y")
    soft = rows.with_columns(y=pl.col("y") * 0.5)
    with pytest.raises(DataError, match="is neither 0 nor 1"):
        MBCTCalibrator("p", positive=0).fit(soft.lazy(), "y")
    # A row of weight 0 leaves no trace, whatever its label.
    weighed = rows.with_columns(third, w=(pl.col("p") >= 0.1).cast(pl.Int8))
    expected = MBCTCalibrator("p", **FAST).fit(weighed, "y", "w")
    assert dumps(MBCTCalibrator("p", **FAST).fit(weighed.lazy(), "y", "w")) == dumps(expected)


def test_what_an_engine_cannot_be_given_is_named(rows: pl.DataFrame) -> None:
    lazy = rows.lazy()
    with pytest.raises(DataError, match="need the names of columns"):
        MBCTCalibrator(score_column="p").fit(lazy, rows["y"])
    with pytest.raises(DataError, match="need the names of columns"):
        MBCTCalibrator().fit(lazy, "y", y_prob=rows["p"])
    with pytest.raises(DataError, match="which column holds the prediction"):
        MBCTCalibrator().fit(lazy, "y")
    with pytest.raises(DataError, match="column is missing: 'q'"):
        MBCTCalibrator(score_column="q").fit(lazy, "y")
    with pytest.raises(DataError, match="column is missing: 'z'"):
        MBCTCalibrator(score_column="p", features=["z"]).fit(lazy, "y")
    with pytest.raises(DataError, match="the label is 1 in every row"):
        MBCTCalibrator(score_column="p").fit(lazy.filter(pl.col("y") == 1), "y")
    with pytest.raises(ParameterError, match="strategy='level-wise' needs preset='paper'"):
        MBCTCalibrator(score_column="p", strategy="level-wise").fit(lazy, "y")
    with pytest.raises(ParameterError, match="strategy='level-wise' needs preset='paper' and its closed-form"):
        MBCTCalibrator(score_column="p", preset="paper", loss="ece", strategy="level-wise").fit(lazy, "y")
    with pytest.raises(NotFittedError):
        MBCTCalibrator(score_column="p").calibrate(lazy)


def test_cells_must_fit_their_bins_and_hold_both_classes(rows: pl.DataFrame) -> None:
    bins = engines.fit_bins(rows, score_column="p", label="y")
    other = engines.fit_bins(rows, score_column="p", label="y", features=[])
    cells = engines.aggregate(rows, bins, label="y")
    with pytest.raises(DataError, match="were coded with bins"):
        MBCTCalibrator().fit_cells(cells, other)
    with pytest.raises(ParameterError, match="positive=0 has no meaning for cells"):
        MBCTCalibrator(positive=0).fit_cells(cells, bins)
    with pytest.raises(DataError, match="both classes"):
        MBCTCalibrator().fit_cells(cells.select(cells.sums.label == 0), bins)


def test_blocks_that_cells_do_not_have_are_refused(rows: pl.DataFrame) -> None:
    bins = engines.fit_bins(rows, score_column="p", label="y")
    cells = engines.aggregate(rows, bins, label="y")
    by_day = replace(cells, block=(np.arange(len(cells)) % 7).astype(np.int32))
    assert MBCTCalibrator(time="date", **FAST).fit_cells(by_day, bins).model_
    for parameters, given, message in (
        ({"time": "date"}, cells, "time='date' asks for whole blocks of time, and these cells have none"),
        ({"groups": "zz"}, by_day, "groups='zz' cannot be read from cells"),
        ({"time": "date", "block": "week"}, by_day, "block='week', but the blocks of these cells are days"),
        ({}, replace(by_day, block=np.zeros(len(cells), np.int32)), "the cells are those of one day"),
    ):
        with pytest.raises(DataError, match=message):
            MBCTCalibrator(**parameters).fit_cells(given, bins)
