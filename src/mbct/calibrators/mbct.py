"""MBCT as a scikit-learn estimator: its parameters, what they mean, and how it is fitted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from mbct.calibrators.certification import split_for_certificate
from mbct.calibrators.engine_fit import EngineFit, fit_aggregated, fit_source
from mbct.calibrators.fitted_mbct import FittedMBCT
from mbct.calibrators.inputs import (
    TrainingData,
    binned_cells,
    describe_time_features,
    prepared_rows,
    refuse_other_roles,
    training_data,
    warn,
)
from mbct.data.columns import Categorical, in_memory
from mbct.data.source import is_lazy
from mbct.data.strategy import Strategy
from mbct.errors import ParameterError
from mbct.model.bins import FeatureBins
from mbct.progress import TYPICAL_ROUNDS, progress
from mbct.training.cells import Cells
from mbct.training.folds import BlockColumns, BlockSize
from mbct.training.trainer import OPTION_NAMES, Constraints, TrainingConfig, TrainingResult, preset, train_cells
from mbct.validation import thread_count


class MBCTCalibrator(FittedMBCT):
    """Multiple boosting calibration trees: rows that share a bias pattern share a multiplier.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction to calibrate, by name or by number (-1 is the last); None where ``X`` is one column or
        ``y_prob`` is passed to ``fit``.
    features : list of str or int, or None, default=None
        Columns that the trees may split by; None takes all but the score.
    preset : {"default", "fast", "paper"}, default="default"
        "default" chooses splits and the number of trees on held-out rows; "fast" is the same with one tree size and a
        larger rate, several times faster for most of the gain; "paper" is the paper's algorithm as printed.
    categorical : {"auto", "all"} or list of str or int, default="auto"
        "auto" codes everything but numbers by value, "all" every column, a list the named columns too.
    max_trees : int or None, default=None
        Most trees of an ensemble; None, here and below, takes the preset's value.
    max_depth, min_bin_size, loss : int, float or str, and str, or None, default=None
        Of preset "paper": most splits in a row, fewest rows of a bin, and the loss, "mvce", "ece" or "ece_sweep".
    numeric_bins, score_bins : int or None, default=None
        Most bins of a number, and of the prediction.
    score_binning : {"mass", "width"} or None, default=None
        Bins of the prediction of equal weight or of equal width.
    min_category_rows : float or None, default=None
        Rows below which values of a category share one code.
    model_size : {"auto", "rules", "compact", "full"}, default="auto"
        "full" keeps the whole ensemble; "auto" distills it into at most 256 rules, or else 48 tables and trees, where
        these keep its correction ("fast" skips that); "rules" into at most 16 tables and trees and "compact" into at
        most 8 trees with 256 rules, whatever they keep; not for preset "paper".
    max_rules : int or None, default=None
        Most entries of all tables together; not for preset "paper".
    rank_preservation : {"free", "within-bin", "preserve"}, default="free"
        "free" may reorder rows, "within-bin" keeps the order of rows that differ in nothing but the score, "preserve"
        that of all rows; not for preset "paper".
    negative_sampling_rate : float, default=1.0
        Share of the negatives that the data still hold; predictions are brought back to all rows.
    learning_rate, n_folds : float and int, or None, default=None
        Share of a leaf's value that is applied, and folds of held-out rows (presets "default" and "fast").
    alpha, max_relative_error : float, default=0.05 and None
        Level of Theorem 1's bounds and of the certificate, and the relative error that decides the fewest rows of a bin
        (preset "paper").
    certify, max_error : float or None, default=None
        Share of the rows (whole blocks; of time the last ones) that no tree sees and that certify the model; and the
        error that each bin is certified to be within, for which bins are merged.
    time, groups : str or None, default=None
        Column of dates, timestamps or numbers of blocks: rows of one block of time are held out together, folds being
        contiguous stretches of time; column whose values are held out whole; with both no group is on both sides of a
        fold of time. ``fit`` takes arrays instead.
    block : {"day", "week", "hour"} or int, default="day"
        Length of a block of time, or a number of equal stretches.
    gap, half_life : int, default=0; float or None, default=None
        Blocks of time next to a held-out stretch that are not trained on, and after which evidence counts half; None
        takes the length of a fold.
    validate : str or None, default=None
        "blocks" lets held-out blocks stop the trees of preset "paper".
    random_state, n_threads : int, default=0; int or None, default=None
        Seed: the same data and seed give the same model; and threads, which the model does not depend on (None: all).
    strategy : {"auto", "cells", "level-wise", "sharded"}, default="auto"
        For rows that stay in their engine: "cells" brings sums of equal codes into memory, "level-wise" (preset
        "paper") asks the engine for sums once for each level of a tree, "sharded" (preset "fast") grows on all cells in
        files or on Spark's executors, "auto" chooses by how many cells there are; the model is the same, but where
        "auto" takes a sample.
    positive : str, number, bool or None, default=None
        The class whose probability the prediction is; None takes the second in sorted order.

    Attributes
    ----------
    model_, classes_ : CalibrationEnsemble, ndarray of shape (2,)
        The frozen trees, which exports and the service use, and the classes, sorted.
    feature_names_in_, feature_importances_ : ndarray
        Columns of ``X`` at fitting, without label, weight, time and groups, and the share of each in the held-out gain;
        for ``preset="paper"``, which holds out nothing, in the correction.
    excluded_features_ : list of str
        Columns left out because their values identify the time.
    held_out_gain_, held_out_gain_error_, held_out_gain_by_fold_ : float, float and list of float, or None
        Fall of the mean log loss on held-out rows, its standard error (of whole blocks, if any), and that of each fold.
    held_out_gain_by_feature_ : dict or None
        What the offsets and splits of each feature bring of that fall, before the correction is shrunk.
    fidelity_, reorder_rate_ : float
        Share of the full ensemble's correction that a distilled model keeps, and of row pairs that changed rank, which
        is absent where the rows stayed in their engine.
    form_ : str
        How large the model is and what it keeps, in words.
    certificate_ : Certificate or None
        What held-out rows guarantee, see ``certify``.
    fingerprint_, trace_ : RowFingerprint, FitTrace
        By what the rows of the fit are known again, and how the losses fell while the trees grew.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> site, p = rng.choice(["a", "b"], 4000), rng.uniform(0.1, 0.6, 4000)
    >>> clicked = rng.uniform(size=4000) < p * np.where(site == "a", 1.5, 0.5)
    >>> calibrator = MBCTCalibrator("p", preset="fast").fit({"p": p, "site": site}, clicked)
    >>> calibrator.calibrate({"p": [0.3, 0.3], "site": ["a", "b"]}).round(1).tolist()
    [0.5, 0.1]
    """

    method: ClassVar[str] = "mbct"
    run_parameters: ClassVar[frozenset[str]] = frozenset({"n_threads", "strategy"})

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

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        y_prob: Any = None,
        trials: Any = None,
        time: Any = None,
        groups: Any = None,
    ) -> Self:
        """Learn the calibration of ``X``'s score column from labels.

        Parameters
        ----------
        X : data frame, array, mapping of columns, path, or lazy frame
            Beside what every calibrator takes, anything that :func:`mbct.data.open_source` reads in place (a path, a
            DuckDB relation, a polars LazyFrame, a PySpark data frame); all others then are names of columns.
        y, sample_weight, y_prob, trials : as in :meth:`mbct.calibrators.Calibrator.fit`
            Labels, weights, the prediction where it is no column of ``X``, and trials where ``y`` counts positives.
        time, groups : array of shape (n_rows,), str or None, default=None
            Which rows belong together, or the columns that say so; they replace the parameters of these names.
        """
        blocks = self._blocks(time, groups)
        refuse_other_roles(self.features, y=y, sample_weight=sample_weight, time=blocks.time, groups=blocks.groups)
        if not in_memory(X) and is_lazy(X):
            return self._take(fit_source(self, X, y, sample_weight, blocks, y_prob=y_prob, trials=trials))
        given = training_data(
            X, y, sample_weight, y_prob, self.score_column, positive=self.positive, blocks=blocks, trials=trials
        )
        return self.fit_data(given)

    def fit_cells(self, cells: Cells, bins: FeatureBins) -> Self:
        """Learn from cells, as :func:`mbct.data.aggregate` or a store gives.

        Parameters
        ----------
        cells, bins : Cells, FeatureBins
            The cells, and the bins that they were coded with.
        """
        return self._take(fit_aggregated(self, cells, bins))

    def _fit(self, data: TrainingData) -> None:
        config = self._config(data.blocks)
        if self.certify is None:
            self._train(data, config)
            return
        train, held_out = split_for_certificate(data, self.certify, self.negative_sampling_rate, self.random_state)
        self._train(train, config)
        self._certify(held_out, self.alpha, self.max_error)

    def _train(self, data: TrainingData, config: TrainingConfig) -> None:
        paper = self.preset == "paper"
        data = prepared_rows(data, self.features, stacklevel=5, as_given=paper)
        if paper and self.negative_sampling_rate != 1.0:
            # To the paper's trees a kept negative stands for those that were left out.
            stands_for = np.where(data.y_true == 0.0, 1.0 / self.negative_sampling_rate, 1.0)
            data = replace(data, weight=data.weight * stands_for)
        bins, cells = binned_cells(data, self.features, self.categorical, config.preset)
        with progress("growing calibration trees", about=TYPICAL_ROUNDS) as advance:
            self._keep(train_cells(cells, bins, config, advance), stacklevel=6)

    def _take(self, fitted: EngineFit) -> Self:
        """Take over what was fitted where the rows are, called by a method that the user calls."""
        result, score_column, columns, labels = fitted
        self._keep(result, stacklevel=4)
        self._remember(score_column, columns, labels)
        return self

    def _keep(self, result: TrainingResult, stacklevel: int) -> None:
        """Take over what training has found; ``stacklevel`` counts the callers from here to the user's line."""
        self.model_, self.trace_, self.fingerprint_ = result.model, result.trace, result.rows
        self.certificate_ = None
        self.fidelity_, self.form_ = result.fidelity, result.form
        self.excluded_features_ = list(result.excluded)
        gain = result.held_out
        self.held_out_gain_ = None if gain is None else gain.value
        self.held_out_gain_error_ = None if gain is None else gain.standard_error
        self.held_out_gain_by_fold_ = None if gain is None else list(gain.by_fold)
        names = result.model.bins.names
        self.held_out_gain_by_feature_ = None if gain is None else dict(zip(names, gain.by_feature, strict=True))
        if result.reorder_rate is not None:
            self.reorder_rate_ = result.reorder_rate
        warn(describe_time_features(result.excluded, kept=self.features is not None), stacklevel)

    def _config(self, blocks: BlockColumns | None = None) -> TrainingConfig:
        """The parameters checked and resolved; ``blocks`` replace those that the parameters name."""
        blocks = self._blocks() if blocks is None else blocks
        constraints = Constraints(self.model_size, self.rank_preservation, self.negative_sampling_rate, self.max_rules)  # type: ignore[arg-type]  # it checks the strings
        options = replace(blocks.options, keep_all=self.features is not None)
        resolved = preset(self.preset, self._overrides())
        return TrainingConfig(resolved, constraints, options, self.alpha, thread_count(self.n_threads))

    def _blocks(self, time: Any = None, groups: Any = None) -> BlockColumns:
        """Which rows belong together: ``time`` and ``groups`` as given to ``fit``, else as the parameters say."""
        return BlockColumns(
            self.time if time is None else time,
            self.groups if groups is None else groups,
            self.block,
            self.gap,
            self.half_life,
        )

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
        parameters = self.get_params(deep=False)
        overrides = {name: value for name, value in parameters.items() if name in OPTION_NAMES and name != "alpha"}
        if self.preset == "paper":
            if self.rank_preservation != "free":
                value = self.rank_preservation
                raise ParameterError(f"rank_preservation={value!r} has no meaning with preset='paper'; leave it out")
            return {**overrides, "alpha": self.alpha, "rate": self.learning_rate}
        return {**overrides, "rate": self.learning_rate, "seed": self.random_state}
