"""From cells in shards and a configuration to a frozen model; see :mod:`mbct.training.trainer`."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mbct.model.bins import FeatureBins
from mbct.stats.probabilities import reorder_rate
from mbct.training.binned_rows import find_duplicates, rate_by_score
from mbct.training.boosting import BoostingOptions
from mbct.training.default import counted
from mbct.training.sharded.default import fit_sharded
from mbct.training.sharded.rows import split_shards, sums_of_cells
from mbct.training.sharded.shards import Columns, Shards
from mbct.training.trainer import (
    PAIRS_OF,
    RowFingerprint,
    TrainingConfig,
    TrainingResult,
    fingerprint_of,
    joined_fingerprint,
    model_of,
    moved_trees,
    sampling_shift,
)

_WEIGHTS_OF = 1_000_000  # Cells of shards that tell what weights count


def train_shards(
    shards: Shards,
    n_blocks: int,
    bins: FeatureBins,
    config: TrainingConfig,
    advance: Callable[[int], None] = lambda _: None,
) -> TrainingResult:
    """Train preset "fast" on all cells of equal codes and prediction, which stay in their shards.

    ``n_blocks``: 0 where rows are independent. Whether weights count rows, and whether scores are those of the sample,
    is seen from the first cells, which are a random draw.
    """
    growth, limits, options = config.preset.growth, config.constraints, config.block_options
    if not isinstance(growth, BoostingOptions) or limits.model_size not in ("auto", "full"):
        raise TypeError("only full ensembles of cross-fitted trees grow on shards")
    head = shards.head(_WEIGHTS_OF)
    sums = sums_of_cells(head)
    duplicates = find_duplicates(sums.count, sums.label, rate_by_score(sums.count, sums.label, sums.logit / sums.count))
    shift = sampling_shift(sums.divided(duplicates.per_row), limits.negative_sampling_rate)
    fingerprint = shards.total(_fingerprint_of_shard, joined_fingerprint)
    rows, weight = split_shards(
        shards,
        bins,
        growth,
        None if n_blocks == 0 else (n_blocks, options),
        per_row=duplicates.per_row,
        atomic=not duplicates.uniform,
        shift=shift,
    )
    found = fit_sharded(rows, weight, growth, lambda _: advance(1), keep_all=options.keep_all)
    constant = shift + float(np.log(limits.negative_sampling_rate))
    trees = found.trees if constant == 0.0 else moved_trees(found.trees, constant, sums.total())
    form = counted(trees) if found.trees else "no tree, predictions are left unchanged"
    result = TrainingResult(model_of(bins, config, trees), found.trace, fingerprint, form=form, held_out=found.held_out)
    before = head["y_prob"][:PAIRS_OF]
    moved = reorder_rate(before, result.model.calibrate_codes(head["codes"][:PAIRS_OF], before))
    return replace(result, excluded=tuple(bins.names[j] for j in found.excluded), reorder_rate=moved)


def _fingerprint_of_shard(columns: Columns, _first: int) -> tuple[Columns, RowFingerprint]:
    return {}, fingerprint_of(columns["codes"], sums_of_cells(columns))
