from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbct.data import aggregate, fit_bins
from mbct.data.binning import fit_bins_of_rows
from mbct.data.rows import training_rows
from mbct.data.source import LazySource, open_source
from mbct.errors import DataError, ParameterError
from mbct.training.binning import BinningOptions

Open = Callable[[Path], Any]


@pytest.fixture
def few_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbct.data.binning.MOST_DISTINCT", 1000)


@pytest.mark.usefixtures("few_distinct")
def test_columns_of_many_values_are_cut_by_quantiles_of_the_engine(tmp_path: Path, opened_lazily: Open) -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    x = np.where(rng.random(n) < 0.6, 0.0, rng.lognormal(size=n))  # most rows are zero
    frame = pl.DataFrame({"p": rng.random(n), "y": rng.integers(0, 2, n), "x": x})
    frame.write_parquet(tmp_path / "rows.parquet")
    source = open_source(opened_lazily(tmp_path / "rows.parquet"))
    assert isinstance(source, LazySource)
    rows = training_rows(source, "p", "y", None, ["x"])
    options = BinningOptions(numeric_bins=16, score_bins=16)
    exact = fit_bins(frame, score_column="p", label="y", options=options)
    found = fit_bins_of_rows(rows, "p", ["x"], "auto", options)
    for bins, values in zip(found, (frame["p"], frame["x"]), strict=True):
        assert 8 <= len(bins.edges) <= 15
        reference = next(b for b in exact if b.name == bins.name)
        shares = [np.searchsorted(np.sort(values.to_numpy()), b.edges) / n for b in (bins, reference)]
        for share in shares[0]:
            above_zero = bins.name == "x" and share > 0.6  # where few rows are left, engines cut elsewhere
            assert np.abs(shares[1] - share).min() < 0.02 or above_zero
    assert 0.0 < found[1].edges[0] < 0.2  # zero has a bin of its own


@pytest.mark.usefixtures("few_distinct")
def test_quantiles_of_sorted_columns_do_not_hang_on_engine_threads_or_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 400_000
    frame = pl.DataFrame({"p": rng.random(n), "y": rng.integers(0, 2, n), "x": rng.lognormal(size=n)})
    path = tmp_path / "rows.parquet"
    frame.write_parquet(path, row_group_size=20_000)
    found = []
    for source in (
        open_source(path, threads=1),
        *(open_source(path, threads=4) for _ in range(3)),
        open_source(frame.lazy()),
    ):
        assert isinstance(source, LazySource)
        rows = training_rows(source, "p", "y", None, ["x"])
        found.append(fit_bins_of_rows(rows, "p", ["x"], "auto", BinningOptions()))
    assert len(set(found)) == 1
    in_order = np.sort(frame["x"].to_numpy())
    edges = np.searchsorted(in_order, found[0][1].edges) / n
    np.testing.assert_allclose(edges, np.arange(1, 128) / 128, atol=1 / 4096)


def test_nan_in_parquet_is_missing_whatever_its_statistics_say(tmp_path: Path, opened_lazily: Open) -> None:
    """Parquet statistics leave NaN out; an engine that trusts them takes NaN for a number."""
    n = 300
    x = np.tile([0.0, 0.5, np.nan], n // 3)
    table = pa.table(
        {"p": np.linspace(0.1, 0.9, n), "y": np.tile([0, 1], n // 2), "x": x, "single": x.astype(np.float32)}
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    for categorical in ("auto", ["x", "single"]):
        bins = fit_bins(table, score_column="p", label="y", categorical=categorical)
        source = opened_lazily(tmp_path / "rows.parquet")
        assert fit_bins(source, score_column="p", label="y", categorical=categorical) == bins
        found = aggregate(source, bins, label="y")
        for j in (1, 2):
            missing = found.codes[:, j] == bins[j].missing
            assert found.sums.count[missing].sum() == 100


def test_categories_can_be_chosen(tmp_path: Path) -> None:
    rows = pl.LazyFrame({"p": [0.1, 0.2, 0.3, 0.4], "y": [0, 1, 0, 1], "k": [1, 2, 1, 2], "s": ["a", "b", "a", "b"]})
    kinds = {c: [b.kind for b in fit_bins(rows, score_column="p", label="y", categorical=c)] for c in ("auto", "all")}
    assert kinds == {"auto": ["number", "number", "category"], "all": ["number", "category", "category"]}
    named = fit_bins(rows, score_column="p", label="y", categorical=["k"])
    assert [b.kind for b in named] == ["number", "category", "category"]
    with pytest.raises(ParameterError, match="categorical='some'"):
        fit_bins(rows, score_column="p", label="y", categorical="some")
    with pytest.raises(DataError, match=r"categorical names \['z'\]"):
        fit_bins(rows, score_column="p", label="y", categorical=["z"])


def test_columns_of_nothing_and_of_rare_values_agree_with_memory(tmp_path: Path, opened_lazily: Open) -> None:
    n = 40
    frame = pl.DataFrame(
        {
            "p": np.linspace(0.1, 0.9, n),
            "y": np.tile([0, 1], n // 2),
            "nothing": pl.Series([None] * n, dtype=pl.Int64),
            "no text": pl.Series([None] * n, dtype=pl.String),
            "all rare": np.arange(n),
            "rare text": [f"v{i}" for i in range(n)],
        }
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    wanted = {"score_column": "p", "label": "y", "categorical": ["all rare"]}
    bins = fit_bins(frame, **wanted)
    source = opened_lazily(tmp_path / "rows.parquet")
    assert fit_bins(source, **wanted) == bins
    np.testing.assert_array_equal(aggregate(source, bins, label="y").codes, aggregate(frame, bins, label="y").codes)


def test_values_that_weights_sort_by_label_keep_their_codes_in_every_engine(
    tmp_path: Path, opened_lazily: Open
) -> None:
    rng = np.random.default_rng(5)
    n = 300
    label = (rng.random(n) < 0.3).astype(int)
    frame = pl.DataFrame(
        {
            "p": rng.uniform(0.1, 0.5, n),
            "y": label,
            "w": np.where(label == 1, 1.0, 4.0),
            "user": [f"u{i}" for i in rng.integers(0, 2 * n, n)],
            "code": rng.integers(0, 2 * n, n),
        }
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    wanted = {"score_column": "p", "label": "y", "weight": "w", "categorical": ["code"]}
    bins = fit_bins(frame, **wanted)
    assert [feature.n_values for feature in bins[1:]] == [frame["user"].n_unique(), frame["code"].n_unique()]
    assert fit_bins(opened_lazily(tmp_path / "rows.parquet"), **wanted) == bins


@pytest.mark.parametrize(("dtype", "message"), [(pl.Time, "which is no category"), (pl.Binary, "which is no category")])
def test_types_that_are_no_categories_are_named(dtype: Any, message: str) -> None:
    rows = pl.LazyFrame({"p": [0.1, 0.2], "y": [0, 1], "odd": pl.Series([None, None], dtype=dtype)})
    with pytest.raises(DataError, match=f"column 'odd' .*{message}"):
        fit_bins(rows, score_column="p", label="y")
