"""The same file through every engine: the same bins, cells, models and scores."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pytest

from mbct import MBCTCalibrator
from mbct.calibrators.persistence import dumps
from mbct.data import aggregate, fit_bins, score
from mbct.training.binning import BinningOptions
from mbct.training.cells import Cells

# Dates and identifiers are features here because the test names them.
pytestmark = pytest.mark.filterwarnings("ignore::mbct.errors.MBCTWarning")

Open = Callable[[Path], Any]
CATEGORICAL = ["hour", "half", "price"]
FEATURES = ["site", "x", "single", "hour", "flag", "day", "moment", "half", "price"]


def _same_cells(found: Cells, expected: Cells, tolerance: float) -> None:
    assert found.fingerprint == expected.fingerprint
    np.testing.assert_array_equal(found.codes, expected.codes)
    np.testing.assert_array_equal(found.sums.count, expected.sums.count)
    np.testing.assert_array_equal(found.sums.label, expected.sums.label)
    for f in fields(found.sums):
        np.testing.assert_allclose(getattr(found.sums, f.name), getattr(expected.sums, f.name), rtol=0, atol=tolerance)


@pytest.mark.parametrize("weight", [None, "weight"])
def test_bins_and_cells_are_those_of_memory(awkward_file: Path, opened: Open, weight: str | None) -> None:
    wanted = {
        "score_column": "p",
        "label": "label",
        "weight": weight,
        "features": FEATURES,
        "categorical": CATEGORICAL,
        "options": BinningOptions(numeric_bins=20, score_bins=20),
    }
    reference = pl.read_parquet(awkward_file)
    source = opened(awkward_file)
    bins = fit_bins(reference, **wanted)
    assert fit_bins(source, **wanted) == bins
    for level, tolerance in (("cell", 1e-12), ("score", 0.0)):
        expected = aggregate(reference, bins, label="label", weight=weight, level=level)
        _same_cells(aggregate(source, bins, label="label", weight=weight, level=level), expected, tolerance)


def test_cells_that_shrink_agree_to_1e_12(awkward_file: Path, opened: Open) -> None:
    wanted = {
        "score_column": "p",
        "label": "label",
        "features": ["site", "flag"],
        "options": BinningOptions(score_bins=4),
    }
    reference = pl.read_parquet(awkward_file)
    bins = fit_bins(reference, **wanted)
    expected = aggregate(reference, bins, label="label")
    assert len(expected) < 100
    found = aggregate(opened(awkward_file), bins, label="label")
    _same_cells(found, expected, 1e-9)
    for f in fields(found.sums):
        np.testing.assert_allclose(getattr(found.sums, f.name), getattr(expected.sums, f.name), rtol=1e-12)


MODELS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper", "min_bin_size": 300, "max_depth": 3, "max_trees": 3, "score_bins": 20},
    "default": {"max_trees": 4, "n_folds": 2, "numeric_bins": 16},
}


@pytest.mark.parametrize("kind", MODELS)
def test_every_source_gives_the_same_model_bytes_and_scores(awkward_file: Path, opened: Open, kind: str) -> None:
    parameters = {"score_column": "p", "features": FEATURES, "categorical": CATEGORICAL, **MODELS[kind]}
    reference = pl.read_parquet(awkward_file)
    expected = MBCTCalibrator(**parameters).fit(reference, "label", "weight")
    assert expected.model_.trees
    source = opened(awkward_file)
    fitted = MBCTCalibrator(**parameters).fit(source, "label", "weight")
    assert dumps(fitted) == dumps(expected)
    probabilities = expected.calibrate(reference)
    np.testing.assert_array_equal(fitted.calibrate(source), probabilities)
    np.testing.assert_allclose(_column(score(source, fitted), "calibrated"), probabilities, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "blocks",
    [
        {"time": "day"},
        {"time": "when", "block": 12},
        {"groups": "who"},
        {"time": "when", "block": 12, "groups": "shop"},
    ],
)
def test_every_engine_trains_by_the_same_blocks(
    tmp_path: Path, awkward_file: Path, opened_lazily: Open, blocks
) -> None:
    hours = pl.int_range(pl.len()) % 480
    rows = pl.read_parquet(awkward_file).with_columns(
        who=hours.cast(pl.String),
        shop=pl.when(pl.int_range(pl.len()) % 9 == 0).then(pl.int_range(pl.len()) % 37).otherwise(-hours // 20),
        when=pl.datetime(2024, 1, 1) + pl.duration(minutes=50 * hours),
    )
    rows.write_parquet(tmp_path / "rows.parquet")
    calibrator = MBCTCalibrator("p", features=["site", "x", "flag"], max_trees=20, **blocks)
    expected = calibrator.fit(rows, "label", "weight")
    assert expected.model_.trees
    fitted = MBCTCalibrator(**calibrator.get_params()).fit(opened_lazily(tmp_path / "rows.parquet"), "label", "weight")
    assert fitted.model_.to_dict() == expected.model_.to_dict()


@pytest.mark.parametrize("weight", [None, "weight"])
def test_level_wise_growth_gives_the_model_of_cells(
    awkward_file: Path, opened_lazily: Open, weight: str | None
) -> None:
    parameters = {"score_column": "p", "features": FEATURES, "categorical": CATEGORICAL, **MODELS["paper"]}
    cells = MBCTCalibrator(**parameters).fit(pl.read_parquet(awkward_file), "label", weight)
    levels = MBCTCalibrator(**parameters, strategy="level-wise").fit(opened_lazily(awkward_file), "label", weight)
    assert len(cells.model_.trees) >= 2
    assert dumps(levels) == dumps(cells)


def _column(scored: Any, name: str) -> np.ndarray:
    frame = nw.from_native(scored)
    collected = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return np.asarray(collected[name].to_numpy(), dtype=np.float64)
