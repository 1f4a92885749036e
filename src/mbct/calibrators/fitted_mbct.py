"""What a fitted MBCT does: it calibrates, explains itself, and is written to a model file and read back."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mbct.calibrators.base import Calibrator
from mbct.calibrators.certification import HeldOutRows, certify_rows
from mbct.calibrators.engine_fit import collect_features
from mbct.calibrators.inputs import TrainingData, warn
from mbct.calibrators.prevalence import shift_prevalence
from mbct.data.columns import Columns, encode
from mbct.data.source import is_lazy
from mbct.errors import ParameterError
from mbct.model.bins import CategoryBins, CodeMatrix
from mbct.model.certificate import Certificate, Method, model_hash, read_certificate
from mbct.model.ensemble import CalibrationEnsemble, feature_shares
from mbct.model.file_check import (
    LARGEST_SUM,
    MOST_FEATURES,
    number,
    numbers,
    read_ensemble,
    read_fingerprint,
    read_list,
    read_trace,
    text,
)
from mbct.model.rules import Rule
from mbct.model.tree import FitTrace
from mbct.training.trainer import RowFingerprint
from mbct.validation import FloatArray, thread_count

_FEWEST_SCORED = 20  # Rows to score below which unseen values are no sign of another spelling


class FittedMBCT(Calibrator):
    """Base of :class:`~mbct.calibrators.mbct.MBCTCalibrator`: all that it does once it is fitted."""

    feature_aware: ClassVar[bool] = True
    negative_sampling_rate: float
    n_threads: int | None
    time: str | None
    groups: str | None
    model_: CalibrationEnsemble
    trace_: FitTrace
    fingerprint_: RowFingerprint
    certificate_: Certificate | None
    fidelity_: float
    form_: str
    held_out_gain_: float | None
    held_out_gain_error_: float | None
    held_out_gain_by_fold_: list[float] | None
    held_out_gain_by_feature_: dict[str, float] | None
    excluded_features_: list[str]

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

        Returns
        -------
        calibrated : ndarray, or three of them
            One probability a row; with ``return_interval`` the lower and upper ends behind it.
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

    def _certify(self, held_out: TrainingData, alpha: float, max_error: float | None) -> None:
        codes = encode(held_out.columns, self.model_.bins, held_out.y_prob)
        calibrated = self.model_.calibrate_codes(codes, held_out.y_prob, thread_count(self.n_threads))
        rows = HeldOutRows(codes, held_out.y_prob, calibrated, held_out.y_true, held_out.block)
        # The rows were parted here: there is nothing to check, even where many equal each other.
        method: Method = "clopper-pearson" if rows.block is None else "blocks"
        certificate = certify_rows(self.model_, rows, RowFingerprint(), alpha=alpha, method=method, max_error=max_error)
        self.attach(replace(certificate, unseen=True))

    def rules(self) -> Iterator[Rule]:
        """If-then rules of the fitted model."""
        return self.model_.rules()

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of each column of ``feature_names_in_`` in the held-out gain, where it gains at all.

        Where no rows were held out, its share in the correction, by :func:`feature_shares`.
        """
        check_is_fitted(self)
        gains = self.held_out_gain_by_feature_
        if gains is None:
            gains = dict(zip(self.model_.bins.names, feature_shares(self.model_).tolist(), strict=True))
        gained = np.array([max(gains.get(name, 0.0), 0.0) for name in self.feature_names_in_])
        return gained / gained.sum() if gained.any() else gained

    def _facts(self) -> dict[str, Any]:
        if not self.__sklearn_is_fitted__():
            return super()._facts()
        shares = zip(self.feature_names_in_, self.feature_importances_, strict=True)
        named = sorted(shares, key=lambda pair: -pair[1])
        what = "correction" if self.held_out_gain_by_feature_ is None else "held-out gain"
        return {
            **super()._facts(),
            "model": self.form_,
            "held-out log loss": describe_gain(self) or "–",
            f"shares of the {what}": ", ".join(f"{name} {share:.0%}" for name, share in named if share > 0.0) or "–",
        }

    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:
        codes = encode(columns, self.model_.bins, y_prob)
        warn(unseen_values(self.model_, columns, codes), stacklevel=4)
        return self.model_.calibrate_codes(codes, y_prob, thread_count(self.n_threads))

    def _state(self) -> dict[str, Any]:
        # The intervals of the certificate stand with the model.
        kept = {} if self.certificate_ is None else self.certificate_.to_dict()
        kept.pop("intervals", None)
        by_feature = self.held_out_gain_by_feature_
        return {
            "model": self.model_.to_dict(),
            "trace": self.trace_.to_dict(),
            "fidelity": self.fidelity_,
            "form": self.form_,
            "fingerprint": self.fingerprint_.to_dict(),
            **({"certificate": kept} if kept else {}),
            "held_out_gain": self.held_out_gain_,
            "held_out_gain_error": self.held_out_gain_error_,
            "held_out_gain_by_fold": self.held_out_gain_by_fold_,
            "held_out_gain_by_feature": None if by_feature is None else list(by_feature.values()),
            "excluded_features": self.excluded_features_,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.model_ = read_ensemble(state["model"])
        self.trace_ = read_trace(state["trace"])
        self.fidelity_ = number(state["fidelity"], "fidelity", -1e9, 1e9)
        self.form_ = text(state.get("form", ""), "form")
        self.fingerprint_ = RowFingerprint(**read_fingerprint(state.get("fingerprint"), state.get("bounds")))
        self.certificate_ = read_certificate(state)
        self.held_out_gain_ = _gain(state.get("held_out_gain"))
        self.held_out_gain_error_ = _gain(state.get("held_out_gain_error"))
        by_fold = [_gain(gain) for gain in state.get("held_out_gain_by_fold") or []]
        self.held_out_gain_by_fold_ = [gain for gain in by_fold if gain is not None] or None
        self.held_out_gain_by_feature_ = None
        if (gains := state.get("held_out_gain_by_feature")) is not None:
            names = self.model_.bins.names
            gains = numbers(gains, "held_out_gain_by_feature", len(names), -LARGEST_SUM, LARGEST_SUM)
            self.held_out_gain_by_feature_ = dict(zip(names, gains.tolist(), strict=True))
        excluded = read_list(state.get("excluded_features", []), "excluded_features", MOST_FEATURES)
        self.excluded_features_ = [text(name, "excluded_features") for name in excluded]


def describe_gain(fitted: FittedMBCT) -> str:
    """Held-out log loss before and after, its fall with the standard error, and that of each fold; "" if unknown."""
    gain, error = fitted.held_out_gain_, fitted.held_out_gain_error_ or 0.0
    if gain is None:
        return ""
    rounds, by_fold = fitted.trace_.rounds, fitted.held_out_gain_by_fold_ or []
    losses = f"{rounds[0].loss_before:.5f} → {rounds[0].loss_before - gain:.5f}, " if rounds else ""
    each = ", ".join(f"{value:.5f}" for value in by_fold)
    folds = f" ({len(by_fold)} {kind_of_folds(fitted)}: {each})" if by_fold else ""
    return f"{losses}{'higher' if gain < 0.0 else 'lower'} by {abs(gain):.5f} ± {error:.5f}{folds}".replace("-", "−")


def kind_of_folds(fitted: FittedMBCT) -> str:
    """What the folds of the held-out gains are, as far as the parameters tell."""
    if fitted.time is not None:
        return "stretches of time"
    return "folds of groups" if fitted.groups is not None else "folds"


def _gain(content: Any) -> float | None:
    return None if content is None else number(content, "held_out_gain", -LARGEST_SUM, LARGEST_SUM)


def unseen_shares(model: CalibrationEnsemble, codes: CodeMatrix) -> dict[str, float]:
    """Of each category that the trees split by, the share of rows whose value training has not met."""
    used = {int(j) for tree in model.trees for j in np.unique(tree.feature) if j >= 0}
    categories = {j: model.bins[j] for j in sorted(used) if isinstance(model.bins[j], CategoryBins)}
    return {feature.name: float(np.mean(codes[:, j] == feature.unseen)) for j, feature in categories.items()}


def unseen_values(model: CalibrationEnsemble, columns: Columns, codes: CodeMatrix) -> Iterator[str]:
    """Columns that the trees split by and most of whose values at prediction training has not met."""
    if len(codes) < _FEWEST_SCORED:
        return
    for name, share in unseen_shares(model, codes).items():
        j = model.bins.names.index(name)
        feature = model.bins[j]
        if isinstance(feature, CategoryBins) and share > 0.5:
            unseen = np.flatnonzero(codes[:, j] == feature.unseen)
            values = dict.fromkeys(columns.numpy(feature.name)[unseen[:1000]].tolist())
            given, known = (", ".join(map(repr, list(some)[:3])) for some in (values, feature.values))
            yield (
                f"{share:.0%} of the rows have a value of {feature.name!r} that training has not "
                f"met ({given}; known are {known}): are they spelled differently?"
            )


def fitting_rows(known: RowFingerprint, y_true: FloatArray, y_prob: FloatArray, weight: FloatArray) -> list[str]:
    """A message where rows to evaluate on have the number, positives and sum of predictions of those of the fit."""
    given = weight.sum(), np.sum(weight * y_true), np.sum(weight * y_prob)
    if not known.same_rows(*map(float, given)):
        return []
    return [
        f"these are the {len(y_true):,} rows that the model was fitted on: they make it look better than it is; "
        "evaluate on rows that it has not seen"
    ]
