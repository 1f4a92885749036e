"""MBCT as a scikit-learn estimator."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mbct.calibrators.certification import HeldOutRows, certify_rows
from mbct.calibrators.engine_fit import check_cells, collect_features, fit_source
from mbct.calibrators.inputs import ClassLabels, TrainingData, training_data
from mbct.calibrators.mbct_parameters import MBCTParameters
from mbct.calibrators.prevalence import shift_prevalence
from mbct.calibrators.suspicions import describe_time_features, suspicions, unseen_values, warn
from mbct.data.checks import find_dependence
from mbct.data.columns import Columns
from mbct.data.memory import encode
from mbct.data.source import is_lazy
from mbct.errors import ParameterError
from mbct.model.bins import FeatureBins
from mbct.model.certificate import Certificate, Method, model_hash, read_certificate
from mbct.model.ensemble import CalibrationEnsemble, feature_shares
from mbct.model.file_check import (
    LARGEST_SUM,
    MOST_FEATURES,
    number,
    read_ensemble,
    read_fingerprint,
    read_list,
    read_trace,
    text,
)
from mbct.model.provenance import RowFingerprint
from mbct.model.rules import Rule
from mbct.progress import TYPICAL_ROUNDS, progress
from mbct.training.cells import Cells
from mbct.training.trainer import TrainingConfig, TrainingResult, train_cells
from mbct.validation import FloatArray


class MBCTCalibrator(MBCTParameters):
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
        contiguous stretches of time; column whose values are held out whole. ``fit`` takes arrays instead.
    block : {"day", "week", "hour"} or int, default="day"
        Length of a block of time, or a number of equal stretches.
    gap, half_life : int, default=0; float or None, default=None
        Blocks of time next to a held-out stretch that are not trained on, and after which evidence counts half; None
        takes the length of a fold.
    validate : str or None, default=None
        "blocks" lets held-out blocks stop the trees of preset "paper".
    random_state, n_threads : int, default=0; int or None, default=None
        Seed: the same data and seed give the same model; and threads, which the model does not depend on (None: all).
    strategy : {"auto", "cells", "level-wise"}, default="auto"
        For rows that stay in their engine: "cells" brings sums of equal codes into memory, "level-wise" (preset
        "paper") asks the engine for sums once for each level of a tree, "auto" chooses by how many cells there are; the
        model is the same.
    positive : str, number, bool or None, default=None
        The class whose probability the prediction is; None takes the second in sorted order.

    Attributes
    ----------
    model_, classes_ : CalibrationEnsemble, ndarray of shape (2,)
        The frozen trees, which exports and the service use, and the classes, sorted.
    feature_names_in_, feature_importances_ : ndarray
        Columns of ``X`` at fitting, without label, weight, time and groups, and the share of each in the correction.
    excluded_features_ : list of str
        Columns left out because their values identify the time.
    held_out_gain_, held_out_gain_error_, held_out_gain_by_fold_ : float, float and list of float, or None
        Fall of the mean log loss on held-out rows, its standard error (of whole blocks, if any), and that of each fold.
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
    feature_aware: ClassVar[bool] = True
    run_parameters: ClassVar[frozenset[str]] = frozenset({"n_threads", "strategy"})
    model_: CalibrationEnsemble
    certificate_: Certificate | None

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
            Labels, weights, the prediction where it is no column of ``X``, and trials where ``y`` counts positives;
            rows that stay in their engine have labels of 0 and 1.
        time, groups : array of shape (n_rows,), str or None, default=None
            Which rows belong together, or the columns that say so; they replace the parameters of these names.
        """
        blocks = self.block_columns(time, groups)
        if is_lazy(X):
            if trials is not None:
                raise ParameterError("trials are for rows in memory: pass a frame, or a row a class with its weight")
            result, columns = fit_source(self, X, y, sample_weight, y_prob, blocks)
            self._keep(result)
            self._remember(result.model.score_column, columns, ClassLabels())
            return self
        given = training_data(
            X, y, sample_weight, y_prob, self.score_column, positive=self.positive, blocks=blocks, trials=trials
        )
        return self.fit_data(given)

    def fit_cells(self, cells: Cells, bins: FeatureBins) -> Self:
        """Learn from ``cells``, such as :func:`mbct.data.aggregate` or a store gives, coded with ``bins``."""
        check_cells(self, cells, bins)
        # Cells of one score are told apart by it: their order is that of their content already.
        ordered = cells if cells.one_score else cells.canonical()
        with progress("growing calibration trees", about=TYPICAL_ROUNDS) as advance:
            self._keep(train_cells(ordered, bins, self.config(), advance))
        self._remember(bins.names[0], list(bins.names), ClassLabels())
        return self

    @overload
    def calibrate(
        self, X: Any, *, y_prob: Any = None, prevalence: float | None = None, return_interval: Literal[False] = False
    ) -> FloatArray: ...

    @overload
    def calibrate(
        self, X: Any, *, y_prob: Any = None, prevalence: float | None = None, return_interval: Literal[True]
    ) -> tuple[FloatArray, FloatArray, FloatArray]: ...

    def calibrate(
        self, X: Any, *, y_prob: Any = None, prevalence: float | None = None, return_interval: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray, FloatArray]:
        """Calibrated probability of the positive class, with ``return_interval`` also lower and upper ends.

        Parameters
        ----------
        X, y_prob : as in :meth:`fit`
            Rows with the columns of the fit, others are ignored; and the prediction, where it is no column of ``X``.
        prevalence : float or None, default=None
            Label rate of these rows, where it is known to differ from :attr:`prevalence_` and rows of each class look
            as they did (prior shift): odds are multiplied by the ratio of the two rates' odds.
        return_interval : bool, default=False
            Whether to return both ends of each row's interval too, which a certified model has: with probability
            1 − ``alpha`` the rates of all certified bins lie between the means of their rows' ends.
        """
        check_is_fitted(self)
        columns, scores = self._read(collect_features(X, self.model_) if is_lazy(X) else X, y_prob)
        calibrated = self.calibrate_columns(columns, scores)
        if return_interval:
            if prevalence is not None:
                raise ParameterError(
                    "intervals are certified at the label rate of the certified rows: drop prevalence="
                )
            return calibrated, *self.model_.interval_of(encode(columns, self.model_.bins, scores), calibrated)
        return calibrated if prevalence is None else shift_prevalence(calibrated, self.prevalence_, prevalence)

    @property
    def prevalence_(self) -> float:
        """Label rate of the rows of the fit; where negatives were sampled, of the population."""
        check_is_fitted(self)
        count, label = self.fingerprint_.count, self.fingerprint_.label
        return label / (label + (count - label) / self.negative_sampling_rate)

    def attach(self, certificate: Certificate) -> Self:
        """Keep the ``certificate`` of this very model with it: it is saved, served and printed with the rules."""
        if certificate.model != (own := model_hash(self.model_)):
            raise ParameterError(f"the certificate is of model {certificate.model}, this is {own}: certify this one")
        self.model_ = self.model_.with_intervals(certificate.intervals)
        self.certificate_ = certificate
        return self

    def rules(self) -> Iterator[Rule]:
        """If-then rules of the fitted model."""
        return self.model_.rules()

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of each column of ``feature_names_in_`` in the correction, by :func:`feature_shares`."""
        check_is_fitted(self)
        shares = dict(zip(self.model_.bins.names, feature_shares(self.model_).tolist(), strict=True))
        return np.array([shares.get(name, 0.0) for name in self.feature_names_in_])

    def _facts(self) -> dict[str, Any]:
        if not self.__sklearn_is_fitted__():
            return super()._facts()
        shares = zip(self.feature_names_in_, self.feature_importances_, strict=True)
        named = sorted(shares, key=lambda pair: -pair[1])
        gain, error = self.held_out_gain_, self.held_out_gain_error_
        return {
            **super()._facts(),
            "model": self.form_,
            "held-out gain in log loss": "–" if gain is None else f"{gain:.5f} ± {error or 0.0:.5f}",
            "shares of the correction": ", ".join(f"{name} {share:.0%}" for name, share in named if share > 0.0) or "–",
        }

    def _fit(self, data: TrainingData) -> None:
        config = self.config(data.blocks)
        if self.certify is None:
            self._train(data, config)
            return
        train, held_out = self.split_for_certificate(data)
        self._train(train, config)
        codes = encode(held_out.columns, self.model_.bins, held_out.y_prob)
        calibrated = self.model_.calibrate_codes(codes, held_out.y_prob, self.threads())
        rows = HeldOutRows(codes, held_out.y_prob, calibrated, held_out.y_true, held_out.block)
        # The rows were parted here: there is nothing to check, even where many equal each other.
        method: Method = "clopper-pearson" if rows.block is None else "blocks"
        certificate = certify_rows(
            self.model_, rows, RowFingerprint(), alpha=self.alpha, method=method, max_error=self.max_error
        )
        self.attach(replace(certificate, unseen=True))

    def _train(self, data: TrainingData, config: TrainingConfig) -> None:
        advice = None
        if data.block is None and self.preset != "paper":
            advice = find_dependence(data.columns.without(data.score), data.y_true, data.y_prob)
        data = self.without_unfit(data, stacklevel=5, advice=advice)
        warn(suspicions(data, self.feature_columns(data.columns, data.score)), stacklevel=5)
        bins, cells = self.binned_cells(self.unsampled(data) if self.preset == "paper" else data, config)
        with progress("growing calibration trees", about=TYPICAL_ROUNDS) as advance:
            self._keep(train_cells(cells, bins, config, advance))

    def _keep(self, result: TrainingResult) -> None:
        """Take over what training has found."""
        self.model_, self.trace_, self.fingerprint_ = result.model, result.trace, result.rows
        self.certificate_ = None
        self.fidelity_, self.form_ = result.fidelity, result.form
        self.excluded_features_ = list(result.excluded)
        gain = result.held_out
        self.held_out_gain_ = None if gain is None else gain.value
        self.held_out_gain_error_ = None if gain is None else gain.standard_error
        self.held_out_gain_by_fold_ = None if gain is None else list(gain.by_fold)
        if result.reorder_rate is not None:
            self.reorder_rate_ = result.reorder_rate
        warn(describe_time_features(result.excluded, kept=self.features is not None), stacklevel=4)

    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:
        codes = encode(columns, self.model_.bins, y_prob)
        warn(unseen_values(self.model_, columns, codes), stacklevel=4)
        return self.model_.calibrate_codes(codes, y_prob, self.threads())

    def _state(self) -> dict[str, Any]:
        return {
            "model": self.model_.to_dict(),
            "trace": self.trace_.to_dict(),
            "fidelity": self.fidelity_,
            "form": self.form_,
            "fingerprint": self.fingerprint_.to_dict(),
            **({} if self.certificate_ is None else {"certificate": _without_intervals(self.certificate_)}),
            "held_out_gain": self.held_out_gain_,
            "held_out_gain_error": self.held_out_gain_error_,
            "held_out_gain_by_fold": self.held_out_gain_by_fold_,
            "excluded_features": self.excluded_features_,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.model_ = read_ensemble(state["model"])
        self.trace_ = read_trace(state["trace"])
        self.fidelity_ = number(state["fidelity"], "fidelity", -1e9, 1e9)
        self.form_ = text(state.get("form", ""), "form")
        self.fingerprint_ = read_fingerprint(state.get("fingerprint"), state.get("bounds"))
        self.certificate_ = read_certificate(state)
        self.held_out_gain_ = _gain(state.get("held_out_gain"))
        self.held_out_gain_error_ = _gain(state.get("held_out_gain_error"))
        by_fold = [_gain(gain) for gain in state.get("held_out_gain_by_fold") or []]
        self.held_out_gain_by_fold_ = [gain for gain in by_fold if gain is not None] or None
        excluded = read_list(state.get("excluded_features", []), "excluded_features", MOST_FEATURES)
        self.excluded_features_ = [text(name, "excluded_features") for name in excluded]


def _gain(content: Any) -> float | None:
    return None if content is None else number(content, "held_out_gain", -LARGEST_SUM, LARGEST_SUM)


def _without_intervals(certificate: Certificate) -> dict[str, Any]:
    """A certificate beside its model, which has the intervals."""
    return {name: value for name, value in certificate.to_dict().items() if name != "intervals"}
