from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from mbct.data.levels import EngineLevels
from mbct.data.rows import training_rows
from mbct.data.source import open_source
from mbct.data.strategy import cells_of_rows, coded_rows, prepare, sampled_rows
from mbct.errors import MBCTWarning, ParameterError
from mbct.training.binning import BinningOptions
from mbct.training.cells import Cells


def _prepared(path: Path, **changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "score_column": "p",
        "label": "label",
        "weight": None,
        "features": ["site", "flag"],
        "categorical": "auto",
        "options": BinningOptions(score_bins=4),
        "strategy": "auto",
        "level_wise": True,
    }
    with prepare(open_source(pl.scan_parquet(path)), **(arguments | changes)) as prepared:
        return prepared.rows


def test_cells_are_taken_while_they_fit(awkward_file: Path) -> None:
    cells = _prepared(awkward_file)
    assert isinstance(cells, Cells)
    assert not cells.one_score
    assert len(cells) < 100


def test_rows_stay_in_the_engine_where_cells_do_not_fit(awkward_file: Path) -> None:
    assert isinstance(_prepared(awkward_file, most_cells=1000), Cells)
    assert isinstance(_prepared(awkward_file, most_cells=10), EngineLevels)
    assert isinstance(_prepared(awkward_file, strategy="level-wise"), EngineLevels)
    assert isinstance(_prepared(awkward_file, most_cells=10, strategy="cells"), Cells)


def test_trees_of_the_default_take_equal_scores_then_cells_then_a_sample(awkward_file: Path) -> None:
    whole = _prepared(awkward_file, level_wise=False)
    assert whole.one_score
    assert not _prepared(awkward_file, level_wise=False, most_cells=1000).one_score
    with pytest.warns(MBCTWarning, match=r"grow on 0\.2% of the rows"):
        assert 0 < len(_prepared(awkward_file, level_wise=False, most_cells=10)) < 40
    assert isinstance(_prepared(awkward_file, level_wise=False, most_cells=10, strategy="cells"), Cells)


def test_a_sample_has_the_same_rows_in_every_engine_and_the_mean_of_all(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n_rows = 40_000
    frame = pl.DataFrame(
        {"p": rng.random(n_rows).round(4), "y": rng.integers(0, 2, n_rows), "key": rng.integers(0, 30, n_rows)}
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    roles = {"score_column": "p", "label": "y", "weight": None, "features": ["key"], "categorical": "auto"}
    found = []
    for rows in (pl.scan_parquet(tmp_path / "rows.parquet"), tmp_path / "rows.parquet"):
        source = open_source(rows)
        with prepare(source, **roles, options=BinningOptions(), strategy="auto", level_wise=False) as prepared:
            coded = coded_rows(training_rows(source, "p", "y", None, ["key"], None), prepared.bins)
            with pytest.warns(MBCTWarning, match=r"10\.0% of the rows"):
                found.append(cells_of_rows(sampled_rows(coded, prepared.bins, 0.1), prepared.bins, "score"))
    assert found[0].codes.tolist() == found[1].codes.tolist()
    total = found[0].total
    assert total.count == pytest.approx(n_rows / 10, rel=0.1)
    assert total.label / total.count == pytest.approx(0.5, abs=0.04)
    assert total.pred / total.count == pytest.approx(0.5, abs=0.02)


def test_strategies_that_make_no_sense_are_named(awkward_file: Path) -> None:
    with pytest.raises(ParameterError, match="strategy='rows' must be one of"):
        _prepared(awkward_file, strategy="rows")
    with pytest.raises(ParameterError, match="needs preset='paper'"):
        _prepared(awkward_file, strategy="level-wise", level_wise=False)
