"""Training on shards finds what training on the same cells in memory finds, wherever the shards end."""

from typing import Any

import numpy as np
import pytest

from mbct.data.columns import encode, fit_bins, read_columns
from mbct.training.binning import BinningOptions
from mbct.training.cells import Cells, build_cells
from mbct.training.folds import BlockOptions
from mbct.training.sharded.shards import FileShards
from mbct.training.sharded.trainer import train_shards
from mbct.training.trainer import Constraints, TrainingConfig, TrainingResult, preset, train_cells

N_ROWS = 6_000
N_SITES, N_DAYS = 40, 20


def _rows(kind: str) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Columns, labels and days; ``kind`` says where the prediction is off."""
    rng = np.random.default_rng(0)
    n_sites = 800 if kind == "values" else N_SITES
    columns = {
        "p": rng.beta(2, 5, N_ROWS),
        "site": rng.integers(0, n_sites, N_ROWS).astype(str),
        "hour": rng.integers(0, 24, N_ROWS),
    }
    day = rng.integers(0, N_DAYS, N_ROWS).astype(np.int32)
    columns["week"] = day // 7
    z = np.log(columns["p"] / (1.0 - columns["p"]))
    bias = np.random.default_rng(1).normal(0.0, 1.5 if kind == "values" else 0.7, n_sites)[columns["site"].astype(int)]
    after_noon = columns["hour"] > 12
    moved = {"nothing": z, "line": 2.0 * z + 0.5, "values": z + bias, "trees": 0.8 * z + bias * after_noon}[kind]
    return columns, (rng.random(N_ROWS) < 1.0 / (1.0 + np.exp(-moved))).astype(float), day


def _trained_twice(
    kind: str, shard_rows: int, options: BlockOptions | None = None, weighted: bool = False, **changes: Any
) -> tuple[TrainingResult, TrainingResult, np.ndarray, np.ndarray]:
    """The result in memory, that of shards, and both calibrated predictions."""
    columns, label, day = _rows(kind)
    weight = np.random.default_rng(2).integers(1, 4, N_ROWS) * 1.5 if weighted else None
    bins = fit_bins(
        read_columns(columns), "p", ["site", "hour", "week"], columns["p"], label, weight, "auto", BinningOptions()
    )
    codes = encode(read_columns(columns), bins, columns["p"])
    block = None if options is None else day
    cells = build_cells(codes, columns["p"], label, weight, bins, "score", block)
    constraints = Constraints(negative_sampling_rate=changes.pop("rate", 1.0))
    config = TrainingConfig(preset("fast", changes), constraints, options or BlockOptions(), 0.05, 2)
    in_memory = train_cells(cells, bins, config)
    with FileShards(2) as shards:
        for begin in range(0, len(cells), shard_rows):
            shards.append(_columns(cells.select(np.arange(begin, min(begin + shard_rows, len(cells))))))
        sharded = train_shards(shards, 0 if options is None else N_DAYS, bins, config)
        folder = shards.folder
    assert not folder.exists()
    calibrated = [result.model.calibrate_codes(codes, columns["p"]) for result in (in_memory, sharded)]
    return in_memory, sharded, calibrated[0], calibrated[1]


def _columns(cells: Cells) -> dict[str, Any]:
    found = {"codes": cells.codes, "weight": cells.sums.count, "label": cells.sums.label}
    found["y_prob"] = cells.sums.pred / cells.sums.count
    return found if cells.block is None else found | {"block": cells.block}


@pytest.mark.parametrize("shard_rows", [999, 2_500, N_ROWS])
def test_shards_of_any_size_give_the_model_of_memory(shard_rows: int) -> None:
    in_memory, sharded, expected, found = _trained_twice("trees", shard_rows)
    assert in_memory.model.trees
    np.testing.assert_allclose(found, expected, atol=1e-9, rtol=0.0)
    assert sharded.form == in_memory.form
    assert sharded.rows.sketch == in_memory.rows.sketch
    assert sharded.reorder_rate == pytest.approx(in_memory.reorder_rate)
    assert sharded.held_out is not None
    assert in_memory.held_out is not None
    assert sharded.held_out.value == pytest.approx(in_memory.held_out.value)
    assert sharded.held_out.standard_error == pytest.approx(in_memory.held_out.standard_error)
    assert sharded.held_out.by_feature == pytest.approx(in_memory.held_out.by_feature)
    for own, other in zip(sharded.model.trees, in_memory.model.trees, strict=True):
        np.testing.assert_allclose(own.count, other.count)
        np.testing.assert_allclose(own.label, other.label)
        np.testing.assert_allclose(own.pred, other.pred, rtol=1e-5)


@pytest.mark.parametrize(
    "options", [BlockOptions(), BlockOptions(gap=1, half_life=4.0), BlockOptions(kind="groups")], ids=str
)
@pytest.mark.parametrize("kind", ["trees", "line", "nothing"])
def test_blocks_give_the_model_of_memory(kind: str, options: BlockOptions) -> None:
    in_memory, sharded, expected, found = _trained_twice(kind, 1_500, options)
    assert bool(in_memory.model.trees) == (kind != "nothing")
    assert sharded.excluded == in_memory.excluded == (("week",) if options.kind == "time" else ())
    np.testing.assert_allclose(found, expected, atol=1e-9, rtol=0.0)
    assert sharded.held_out is not None
    assert in_memory.held_out is not None
    assert sharded.held_out.standard_error == pytest.approx(in_memory.held_out.standard_error)


@pytest.mark.parametrize(("kind", "has_trees"), [("nothing", False), ("line", True), ("values", True)])
def test_the_line_and_offsets_give_the_model_of_memory(kind: str, has_trees: bool) -> None:
    in_memory, sharded, expected, found = _trained_twice(kind, 2_500)
    assert bool(in_memory.model.trees) == has_trees
    np.testing.assert_allclose(found, expected, atol=1e-9, rtol=0.0)
    assert sharded.form == in_memory.form


@pytest.mark.parametrize("weighted", [True, False])
def test_weights_and_sampled_negatives_give_the_model_of_memory(weighted: bool) -> None:
    _, _, expected, found = _trained_twice("trees", 2_500, weighted=weighted, rate=0.5)
    np.testing.assert_allclose(found, expected, atol=1e-9, rtol=0.0)


def test_only_full_ensembles_grow_on_shards() -> None:
    columns, label, _ = _rows("nothing")
    bins = fit_bins(read_columns(columns), "p", [], columns["p"], label, None, "auto", BinningOptions())
    config = TrainingConfig(preset("paper", {}), Constraints(), BlockOptions(), 0.05, 1)
    with FileShards() as shards, pytest.raises(TypeError, match="only full ensembles"):
        train_shards(shards, 0, bins, config)
