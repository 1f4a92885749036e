"""Cells by way of raw values are those that bins, codes and a GROUP BY give one after the other."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import mbct.data.raw_cells as raw_groups
import mbct.data.strategy as strategy
from mbct import MBCTCalibrator
from mbct.calibrators.persistence import dumps
from mbct.data import aggregate, fit_bins
from mbct.data.raw_cells import RawRows
from mbct.data.rows import P, training_rows
from mbct.data.source import LazySource, open_source
from mbct.errors import DataError
from mbct.training.binning import BinningOptions

Open = Callable[[Path], Any]
FEATURES = ["site", "x", "single", "hour", "flag", "day", "moment", "half", "price"]
CATEGORICAL = ["hour", "half", "price"]
BY_VALUE = ["site", "hour", "flag", "day", "moment", "half", "price"]
OPTIONS = BinningOptions(numeric_bins=20, score_bins=20, score_binning="width", min_category_rows=1.0)


def _raw(data: Any, features: list[str], by_value: list[str], weight: str | None = None) -> RawRows:
    source = open_source(data)
    assert isinstance(source, LazySource)
    return RawRows(training_rows(source, "p", "label", weight, features), "p", features, set(by_value), OPTIONS)


@pytest.mark.parametrize("weight", [None, "weight"])
def test_bins_and_cells_are_those_of_memory(awkward_file: Path, opened_lazily: Open, weight: str | None) -> None:
    reference = pl.read_parquet(awkward_file)
    wanted = {"features": FEATURES, "categorical": CATEGORICAL, "options": OPTIONS}
    bins = fit_bins(reference, score_column="p", label="label", weight=weight, **wanted)
    expected = aggregate(reference, bins, label="label", weight=weight, level="cell")
    groups = _raw(opened_lazily(awkward_file), FEATURES, BY_VALUE, weight)
    grouped = groups.grouped(10_000)
    assert grouped is not None
    found_bins, found = grouped
    assert found_bins == bins
    np.testing.assert_array_equal(found.codes, expected.codes)
    assert (found.fingerprint, found.one_score) == (bins.fingerprint, False)
    for f in fields(found.sums):
        if f.name != "logit":
            np.testing.assert_allclose(getattr(found.sums, f.name), getattr(expected.sums, f.name), rtol=1e-12)
    assert abs(groups.estimate() / len(found) - 1.0) < 0.2


def test_the_predictions_bin_is_that_of_its_edges(tmp_path: Path, opened_lazily: Open) -> None:
    """Values on an edge, a hair beside it, and at both ends, for numbers of bins that are no powers of two."""
    for n_bins in (1, 3, 20, 100, 997):
        edges = np.arange(n_bins + 1) / n_bins
        p = np.r_[
            edges, np.nextafter(edges, 2.0)[:-1], np.nextafter(edges, -1.0)[1:], np.random.default_rng(0).random(500)
        ]
        path = tmp_path / f"{n_bins}.parquet"
        pl.DataFrame({"p": np.r_[p, -0.0], "label": np.arange(len(p) + 1) % 2, "a": 0}).write_parquet(path)
        options = BinningOptions(score_bins=n_bins, score_binning="width")
        lazy = open_source(opened_lazily(path))
        assert isinstance(lazy, LazySource)
        groups = RawRows(training_rows(lazy, "p", "label", None, ["a"]), "p", ["a"], {"a"}, options)
        frame = lazy.engine.collect(groups.frame)
        expected = groups.bins_of_score.encode(np.asarray(frame[P].to_numpy(), dtype=float))
        np.testing.assert_array_equal(frame[groups.keys[0]].to_numpy(), expected)


def test_too_many_groups_are_left_to_others(awkward_file: Path, opened_lazily: Open) -> None:
    groups = _raw(opened_lazily(awkward_file), ["site", "flag"], ["site", "flag"])
    found = groups.grouped(1000)
    assert found is not None
    assert groups.grouped(len(found[1])) is not None
    assert groups.grouped(len(found[1]) - 1) is None


def test_a_wrong_guess_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows of a sorted file are all alike."""
    monkeypatch.setattr(raw_groups, "_LOOKED_AT", 1000)
    monkeypatch.setattr(strategy, "MOST_GROUPS", 500)
    rng = np.random.default_rng(3)
    n = 8000
    key = np.r_[np.zeros(2000, int), rng.integers(0, 4000, n - 2000)]
    frame = pl.DataFrame({"p": rng.random(n).round(1), "label": rng.integers(0, 2, n), "key": key, "b": key % 3})
    frame.write_parquet(tmp_path / "rows.parquet")
    path = tmp_path / "rows.parquet"
    assert _raw(path, ["key"], ["key"]).look_few()
    assert not _raw(frame[2000:].lazy(), ["key"], ["key"]).look_few()
    parameters = {"score_column": "p", "preset": "paper", "min_bin_size": 300, "categorical": "all", "max_trees": 2}
    expected = MBCTCalibrator(**parameters).fit(frame, "label")
    for source in (path, pl.scan_parquet(path)):
        assert dumps(MBCTCalibrator(**parameters).fit(source, "label")) == dumps(expected)


def test_missing_and_large_whole_numbers_are_told_apart(tmp_path: Path, opened_lazily: Open) -> None:
    rng = np.random.default_rng(1)
    n = 4000
    key = rng.choice(np.array([2**53, 2**53 + 1, 7, -1]), n)
    frame = pl.DataFrame({"p": rng.random(n), "label": rng.integers(0, 2, n), "key": key}).with_columns(
        pl.when(pl.col("key") >= 0).then(pl.col("key")).alias("key"), pl.lit(None, pl.String).alias("nothing")
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    found = _raw(opened_lazily(tmp_path / "rows.parquet"), ["key", "nothing"], ["key", "nothing"]).grouped(1000)
    assert found is not None
    bins, cells = found
    assert set(bins[1].values) == {str(2**53), str(2**53 + 1), "7"}
    assert bins[1].value_type == "integer"
    assert bins[2].values == ()
    of_missing = cells.codes[:, 1] == bins[1].missing
    assert cells.sums.count[of_missing].sum() == frame["key"].null_count()


def test_columns_that_are_no_category_are_named() -> None:
    frame = pl.LazyFrame({"p": [0.1, 0.2], "label": [0, 1], "list": [[1], [2]]})
    with pytest.raises(DataError, match=r"column 'list' is .*no category"):
        MBCTCalibrator("p", preset="paper").fit(frame, "label")
