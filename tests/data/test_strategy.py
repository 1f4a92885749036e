from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mbct.data.levels import EngineLevels
from mbct.data.source import open_source
from mbct.data.strategy import prepare
from mbct.errors import DataError, ParameterError
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


def test_trees_of_the_default_take_equal_scores_then_cells_then_refuse(awkward_file: Path) -> None:
    assert _prepared(awkward_file, level_wise=False).one_score
    assert not _prepared(awkward_file, level_wise=False, most_cells=1000).one_score
    with pytest.raises(DataError, match=r"6,000 rows make more than 10 cells.*strategy='cells'"):
        _prepared(awkward_file, level_wise=False, most_cells=10)
    assert isinstance(_prepared(awkward_file, level_wise=False, most_cells=10, strategy="cells"), Cells)


def test_strategies_that_make_no_sense_are_named(awkward_file: Path) -> None:
    with pytest.raises(ParameterError, match="strategy='rows' must be one of"):
        _prepared(awkward_file, strategy="rows")
    with pytest.raises(ParameterError, match="needs preset='paper'"):
        _prepared(awkward_file, strategy="level-wise", level_wise=False)
