"""Fits on shards, of every engine, beside fits on cells in memory."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import mbct.data.sharded_cells
from mbct import MBCTCalibrator
from mbct.errors import DataError, ParameterError

N_ROWS = 6_000
pytestmark = pytest.mark.filterwarnings(
    "ignore:rows have a date", "ignore:rows with the same", "ignore:PySpark does not yet fully support pandas"
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    p, site, hour = rng.beta(2, 5, N_ROWS).round(5), rng.integers(0, 30, N_ROWS), rng.integers(0, 24, N_ROWS)
    bias = np.random.default_rng(1).normal(0.0, 1.5, 30)[site] * (hour > 12)
    clicked = rng.random(N_ROWS) < 1.0 / (1.0 + np.exp(-np.log(p / (1.0 - p)) - bias))
    when = [datetime(2024, 1, 1) + timedelta(hours=int(h)) for h in rng.integers(0, 24 * 30, N_ROWS)]
    columns = {
        "p": p,
        "site": [f"s{s}" for s in site],
        "hour": hour,
        "when": when,
        "user": rng.integers(0, 400, N_ROWS),
    }
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pl.DataFrame({**columns, "click": clicked.astype(int)}).write_parquet(path)
    return path


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mbct.data.sharded_cells, "SHARD_ROWS", 1_300)


def _calibrator(**changes: Any) -> MBCTCalibrator:
    return MBCTCalibrator(
        "p",
        features=["site", "hour"],
        preset="fast",
        max_trees=2,
        learning_rate=1.0,
        n_threads=2,
        **{"strategy": "sharded"} | changes,
    )


@pytest.mark.parametrize("blocks", [{}, {"time": "when"}], ids=str)
def test_every_engine_gives_the_predictions_of_memory(
    rows: Path, opened_lazily: Callable[[Path], Any], blocks: dict[str, Any]
) -> None:
    frame = pl.read_parquet(rows)
    expected = _calibrator(strategy="auto", **blocks).fit(rows, "click")
    found = _calibrator(**blocks).fit(opened_lazily(rows), "click")
    assert expected.model_.trees
    assert found.form_ == expected.form_
    np.testing.assert_allclose(found.calibrate(frame), expected.calibrate(frame), atol=1e-9, rtol=0.0)
    assert found.held_out_gain_ == pytest.approx(expected.held_out_gain_)
    assert found.held_out_gain_error_ == pytest.approx(expected.held_out_gain_error_)
    assert found.fingerprint_.sketch == expected.fingerprint_.sketch


@pytest.mark.parametrize("blocks", [{"time": "when", "block": 12}, {"groups": "user"}], ids=str)
def test_stretches_and_groups_give_the_predictions_of_memory(rows: Path, blocks: dict[str, Any]) -> None:
    frame = pl.read_parquet(rows)
    expected = _calibrator(strategy="auto", **blocks).fit(rows, "click")
    found = _calibrator(**blocks).fit(rows, "click")
    assert expected.model_.trees
    np.testing.assert_allclose(found.calibrate(frame), expected.calibrate(frame), atol=1e-9, rtol=0.0)


def test_weights_of_rows_are_read(rows: Path) -> None:
    frame = pl.read_parquet(rows).with_columns(weight=pl.Series(np.arange(N_ROWS) % 3))
    expected = _calibrator(strategy="auto").fit(frame.lazy(), "click", sample_weight="weight")
    found = _calibrator().fit(frame.lazy(), "click", sample_weight="weight")
    np.testing.assert_allclose(found.calibrate(frame), expected.calibrate(frame), atol=1e-9, rtol=0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"preset": "default"}, "take preset='fast'"),
        ({"preset": "paper"}, "take preset='fast'"),
        ({"model_size": "compact"}, "leave model_size"),
        ({"rank_preservation": "preserve"}, "needs the cells in memory"),
        ({"time": "when", "groups": "user"}, "not both"),
    ],
)
def test_what_needs_cells_in_memory_is_refused(rows: Path, changes: dict[str, Any], message: str) -> None:
    calibrator = _calibrator().set_params(**{"max_trees": None, "learning_rate": None} | changes)
    with pytest.raises(ParameterError, match=message):
        calibrator.fit(rows, "click")


def test_rows_without_a_group_are_counted(rows: Path) -> None:
    missing = pl.when(pl.col("user") < 200).then(None).otherwise(pl.col("user"))
    frame = pl.read_parquet(rows).with_columns(missing.alias("user"))
    with pytest.raises(DataError, match=f"the group is missing in {frame['user'].null_count():,} rows"):
        _calibrator(groups="user").fit(frame.lazy(), "click")
