"""What the parameters of MBCT mean: checked, resolved to a configuration, and applied to the columns of a fit."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import TrainingData
from mbct.calibrators.suspicions import describe_unfit, unfit_columns, warn
from mbct.data.blocks import BlockColumns, BlockSize
from mbct.data.columns import Columns
from mbct.data.memory import Categorical, encode, fit_bins
from mbct.data.strategy import Strategy
from mbct.errors import DataError, ParameterError
from mbct.model.bins import FeatureBins
from mbct.training.cells import Cells, Level, build_cells
from mbct.training.paper.trainer import PaperOptions
from mbct.training.trainer import Constraints, TrainingConfig, preset

_OVERRIDES = (
    "max_trees",
    "max_depth",
    "min_bin_size",
    "loss",
    "numeric_bins",
    "score_bins",
    "score_binning",
    "min_category_rows",
    "n_folds",
    "max_relative_error",
    "validate",
)
"""Parameters handed to the preset under their own names."""


class MBCTParameters(Calibrator):
    """Base of :class:`~mbct.calibrators.mbct.MBCTCalibrator`: its parameters, and what follows from them."""

    def __init__(
        self,
        score_column: str | int | None = None,
        features: Sequence[str | int] | None = None,
        preset: str = "default",
        *,
        categorical: Categorical = "auto",
        max_trees: int | None = None,
        max_depth: int | None = None,
        min_bin_size: float | str | None = None,
        loss: str | None = None,
        numeric_bins: int | None = None,
        score_bins: int | None = None,
        score_binning: str | None = None,
        min_category_rows: float | None = None,
        model_size: str = "auto",
        max_rules: int | None = None,
        rank_preservation: str = "free",
        negative_sampling_rate: float = 1.0,
        learning_rate: float | None = None,
        n_folds: int | None = None,
        alpha: float = 0.05,
        certify: float | None = None,
        max_error: float | None = None,
        max_relative_error: float | None = None,
        time: str | None = None,
        groups: str | None = None,
        block: BlockSize = "day",
        gap: int = 0,
        half_life: float | None = None,
        validate: str | None = None,
        random_state: int = 0,
        n_threads: int | None = None,
        strategy: Strategy = "auto",
        positive: str | float | bool | None = None,
    ):
        self.score_column = score_column
        self.features = features
        self.preset = preset
        self.categorical = categorical
        self.max_trees = max_trees
        self.max_depth = max_depth
        self.min_bin_size = min_bin_size
        self.loss = loss
        self.numeric_bins = numeric_bins
        self.score_bins = score_bins
        self.score_binning = score_binning
        self.min_category_rows = min_category_rows
        self.model_size = model_size
        self.max_rules = max_rules
        self.rank_preservation = rank_preservation
        self.negative_sampling_rate = negative_sampling_rate
        self.learning_rate = learning_rate
        self.n_folds = n_folds
        self.alpha = alpha
        self.certify = certify
        self.max_error = max_error
        self.max_relative_error = max_relative_error
        self.time = time
        self.groups = groups
        self.block = block
        self.gap = gap
        self.half_life = half_life
        self.validate = validate
        self.random_state = random_state
        self.n_threads = n_threads
        self.strategy = strategy
        self.positive = positive

    def without_unfit(self, data: TrainingData, stacklevel: int, advice: str | None = None) -> TrainingData:
        """The rows without identifiers and dates, no features unless they are named; one warning, with ``advice``."""
        chosen = self.feature_columns(data.columns, data.score)
        unfit = {} if self.preset == "paper" else unfit_columns(data.columns.only(chosen))
        warn(describe_unfit(unfit, kept=self.features is not None, advice=advice), stacklevel + 1)
        return data if self.features is not None else replace(data, columns=data.columns.without(*unfit))

    def config(self, blocks: BlockColumns | None = None) -> TrainingConfig:
        """The parameters checked and resolved; ``blocks`` replace those that the parameters name."""
        blocks = self.block_columns() if blocks is None else blocks
        constraints = Constraints(self.model_size, self.rank_preservation, self.negative_sampling_rate, self.max_rules)  # type: ignore[arg-type]  # it checks the strings
        options = replace(blocks.options, keep_all=self.features is not None)
        resolved = preset(self.preset, self._overrides())
        return TrainingConfig(resolved, constraints, options, self.alpha, self.threads())

    def block_columns(self, time: Any = None, groups: Any = None) -> BlockColumns:
        """Which rows belong together: as given to ``fit``, else as the parameters say."""
        return BlockColumns(
            self.time if time is None else time,
            self.groups if groups is None else groups,
            self.block,
            self.gap,
            self.half_life,
        )

    def binned_cells(self, data: TrainingData, config: TrainingConfig) -> tuple[FeatureBins, Cells]:
        """Bins of the columns, and the rows joined by their codes."""
        data = data.counted()
        weight = None if np.all(data.weight == 1.0) else data.weight
        names = self.feature_columns(data.columns, data.score)
        binning = config.preset.binning
        bins = fit_bins(data.columns, data.score, names, data.y_prob, data.y_true, weight, self.categorical, binning)
        codes = encode(data.columns, bins, data.y_prob)
        level: Level = "auto" if isinstance(config.preset.growth, PaperOptions) else "score"
        return bins, build_cells(codes, data.y_prob, data.y_true, weight, bins, level, data.block)

    def split_for_certificate(self, data: TrainingData) -> tuple[TrainingData, TrainingData]:
        """Rows to fit on, and the share ``certify`` of them to certify with: whole blocks, of time the last ones."""
        data = data.counted()
        if np.any(data.weight != 1.0) or self.negative_sampling_rate != 1.0:
            raise ParameterError("certify counts every row once: leave out sample_weight and negative_sampling_rate")
        share, n_rows = float(self.certify or 0.0), len(data.y_true)
        block = np.arange(n_rows) if data.block is None else data.block
        size = np.bincount(block)
        order = np.arange(len(size))
        if data.block is None or data.blocks is None or data.blocks.options.kind == "groups":
            order = np.random.default_rng(self.random_state).permutation(len(size))
        last = np.cumsum(size[order]) > (1.0 - share) * n_rows
        if last.all() or not last.any():
            raise DataError(
                f"certify={share:g} leaves {len(size):,} blocks no two parts: take shorter blocks or another share"
            )
        held_out = np.isin(block, order[last])
        return data.take(np.flatnonzero(~held_out)), data.take(np.flatnonzero(held_out))

    def unsampled(self, data: TrainingData) -> TrainingData:
        """Rows for the paper's trees: a kept negative stands for those that were left out."""
        if self.negative_sampling_rate == 1.0:
            return data
        return replace(data, weight=data.weight * np.where(data.y_true == 0.0, 1.0 / self.negative_sampling_rate, 1.0))

    def _overrides(self) -> dict[str, Any]:
        if not 0.0 < self.alpha < 1.0:
            raise ParameterError(f"alpha={self.alpha!r} must lie between 0 and 1")
        if self.certify is not None and self.alpha > 0.5:
            raise ParameterError(f"alpha={self.alpha!r} must be at most 0.5 for certify")
        if self.certify is not None and not 0.0 < self.certify < 1.0:
            raise ParameterError(f"certify={self.certify!r} must lie between 0 and 1: the share of rows held out")
        if self.max_error is not None and (self.certify is None or self.max_error <= 0.0):
            raise ParameterError(
                f"max_error={self.max_error!r} must be above 0, and needs certify=0.2 or another share"
            )
        overrides = {name: getattr(self, name) for name in _OVERRIDES}
        if self.preset == "paper":
            if self.rank_preservation != "free":
                value = self.rank_preservation
                raise ParameterError(f"rank_preservation={value!r} has no meaning with preset='paper'; leave it out")
            return {**overrides, "alpha": self.alpha, "rate": self.learning_rate}
        return {**overrides, "rate": self.learning_rate, "seed": self.random_state}

    def feature_columns(self, columns: Columns, score_column: str) -> list[str]:
        """Names of the columns that trees may split by."""
        if self.features is None:
            return [name for name in columns.names if name != score_column]
        if isinstance(self.features, str):
            raise ParameterError(f"features={self.features!r} must be a list of columns, not one name")
        names = [columns.name_of(name) for name in self.features]
        if len(set(names)) < len(names):
            raise DataError(f"features names a column twice: {names}")
        columns.require(names)
        return [name for name in names if name != score_column]

    def threads(self) -> int:
        """Number of threads to use."""
        if self.n_threads is None:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if self.n_threads < 1:
            raise ParameterError(f"n_threads={self.n_threads!r} must be at least 1, or None for all processors")
        return int(self.n_threads)
