"""Fit many methods on the same folds and score each on the rows it has not seen."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from mbct.calibrators.base import Calibrator
from mbct.calibrators.folds import cross_validation_folds, row_keys
from mbct.calibrators.inputs import TrainingData, training_data
from mbct.calibrators.registry import available, make
from mbct.data.columns import Columns
from mbct.errors import DataError, MissingDependencyError, ParameterError
from mbct.progress import track
from mbct.stats.divisions import atoms_by_prediction
from mbct.stats.expected_error import ece_of_atoms
from mbct.stats.multi_view import closed_form_mvce
from mbct.stats.ranking import auc_of_atoms
from mbct.stats.scores import log_losses
from mbct.validation import FloatArray

_ECE_BINS = 15
_MVCE_BINS = 20
_BASE = "identity"

Methods = Sequence[str | Calibrator] | Mapping[str, str | Calibrator]


@dataclass(frozen=True)
class MethodScore:
    """Held-out scores of one method: means over the folds, weighted by their rows.

    ``log_loss_difference`` and ``brier_difference`` are to the base, negative where the method is better; their
    standard errors come from the rows' paired losses. Times do not count in comparisons of two results.
    """

    name: str
    log_loss: float
    brier: float
    auc: float
    ece: float
    mvce: float
    log_loss_difference: float
    log_loss_standard_error: float
    brier_difference: float
    brier_standard_error: float
    fit_seconds: float = field(compare=False)
    predict_seconds: float = field(compare=False)

    @property
    def z(self) -> float:
        """Gain in log loss over the base, in standard errors."""
        se = self.log_loss_standard_error
        return -self.log_loss_difference / se if se > 0.0 else 0.0


@dataclass(frozen=True)
class Failure:
    """A method that could not be fitted, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Methods by held-out log loss, best first; ``print`` shows the table and which method to take."""

    methods: tuple[MethodScore, ...]
    failures: tuple[Failure, ...]
    n_rows: int
    n_folds: int
    base: str = "identity"

    def __getitem__(self, name: str) -> MethodScore:
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(f"{name!r} was not compared; there are {', '.join(m.name for m in self.methods)}")

    @property
    def best(self) -> MethodScore:
        """The method to take: the lowest log loss, if it beats the base by two standard errors, else the base."""
        first = self.methods[0]
        return first if first.z >= _CLEAR else self[self.base]

    @property
    def recommendation(self) -> str:
        """Which method to take, in one line."""
        best, first = self.best, self.methods[0]
        if best.name == self.base:
            if first.name == self.base:
                return "Leave the base as it is: no method has a lower held-out log loss."
            return (
                f"Leave the base as it is: the best method, {first.name}, lowers the log loss by "
                f"{-first.log_loss_difference:.5f} ± {first.log_loss_standard_error:.5f}, which may be chance."
            )
        return (
            f"Take {best.name}: it lowers the held-out log loss by {-best.log_loss_difference:.5f} "
            f"± {best.log_loss_standard_error:.5f} ({self[self.base].log_loss:.5f} → {best.log_loss:.5f})."
        )

    def __str__(self) -> str:
        width = max(len("method"), *(len(m.name) for m in self.methods))
        header = _columns(width, "method", "log loss", "difference ± s.e.", "Brier", "AUC", "ECE", "MVCE", "fit s")
        lines = [f"{self.n_rows:,} rows, {self.n_folds} folds, held-out scores", header, "-" * len(header)]
        lines += [_line(m, width, is_base=m.name == self.base) for m in self.methods]
        lines += [f"{failure.name}: not compared, {failure.reason}" for failure in self.failures]
        return "\n".join([*lines, "", self.recommendation])


def _line(m: MethodScore, width: int, *, is_base: bool) -> str:
    difference = "(base)" if is_base else f"{m.log_loss_difference:+.5f} ± {m.log_loss_standard_error:.5f}"
    scores = (f"{score:.5f}" for score in (m.brier, m.auc, m.ece, m.mvce))
    return _columns(width, m.name, f"{m.log_loss:.5f}", difference, *scores, f"{m.fit_seconds:.2f}")


def _columns(width: int, name: str, log_loss: str, difference: str, *others: str) -> str:
    fixed = "  ".join(f"{text:<7}" for text in others[:-1])
    return f"{name:<{width}}  {log_loss:<8}  {difference:<18}  {fixed}  {others[-1]:>6}"


@dataclass(frozen=True)
class _HeldOut:
    """Held-out predictions of one method, and how long it took."""

    y_prob: FloatArray
    fit_seconds: float
    predict_seconds: float


def compare(
    X: Any,
    y: Any,
    *,
    score_column: str | int | None = None,
    methods: Methods | None = None,
    cv: int = 5,
    sample_weight: Any = None,
    y_prob: Any = None,
    random_state: int = 0,
) -> Comparison:
    """Table of held-out scores of calibration methods, with paired differences to the base.

    ``methods`` are names, calibrators, or a mapping of names to either; None takes every registered method that
    needs no setting (LightGBM if it is installed). The identity, that is the base itself, always takes part. All
    methods see the same ``cv`` folds, which depend on what rows hold and on ``random_state``, not on their order.
    Standard errors treat rows as independent. Log loss keeps predictions 2e-16 from 0 and 1; ECE has 15 uniform-mass
    bins, MVCE is the closed form with bins of a twentieth of a fold.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.05, 0.95, 2000)
    >>> y = rng.uniform(size=2000) < p**2
    >>> compare({"p": p}, y, score_column="p", methods=["platt", "temperature"]).best.name
    'platt'
    """
    calibrators = _chosen(methods)
    data = training_data(X, y, sample_weight, y_prob, score_column).counted()
    keys = row_keys(Columns({**data.columns.by_name, " score": data.y_prob}, len(data.y_prob)), random_state)
    fold = cross_validation_folds(keys, data.y_true, cv)
    results, failures = _run(data, calibrators, fold)
    base = results[_BASE].y_prob
    scores = [_score(name, held_out, base, data, fold) for name, held_out in results.items()]
    # The base first among equals: nothing is recommended that changes nothing.
    scores.sort(key=lambda m: (m.log_loss, m.name != _BASE))
    return Comparison(tuple(scores), tuple(failures), len(data.y_prob), len(np.unique(fold)), _BASE)


def default_methods() -> list[str]:
    """Names of the methods that need no setting and whose packages are installed."""
    absent = {"segment"} if find_spec("lightgbm") else {"segment", "lightgbm"}
    return [name for name in available() if name not in absent]


def _chosen(methods: Methods | None) -> dict[str, Calibrator]:
    if isinstance(methods, str):
        raise ParameterError(f"methods must be a list, got the text {methods!r}; write [{methods!r}]")
    named: list[tuple[str, str | Calibrator]]
    if isinstance(methods, Mapping):
        named = list(methods.items())
    else:
        chosen = default_methods() if methods is None else methods
        named = [(m if isinstance(m, str) else getattr(m, "method", repr(m)), m) for m in chosen]
    calibrators: dict[str, Calibrator] = {_BASE: make(_BASE)}
    for name, method in named:
        if name in calibrators and name != _BASE:
            raise ParameterError(f"two methods are called {name!r}: pass a mapping with a name for each")
        if not isinstance(method, str | Calibrator):
            raise ParameterError(f"a method is a name or a calibrator, got {method!r}")
        calibrators[name] = make(method) if isinstance(method, str) else clone(method)
    return calibrators


def _run(
    data: TrainingData, calibrators: dict[str, Calibrator], fold: npt.NDArray[np.intp]
) -> tuple[dict[str, _HeldOut], list[Failure]]:
    results, failures = {}, []
    for name in track(list(calibrators), "comparing methods"):
        try:
            results[name] = _held_out(calibrators[name], data, fold)
        except (DataError, MissingDependencyError) as error:
            failures.append(Failure(name, str(error)))
    return results, failures


def _held_out(calibrator: Calibrator, data: TrainingData, fold: npt.NDArray[np.intp]) -> _HeldOut:
    calibrated = np.empty(len(fold))
    fit_seconds = predict_seconds = 0.0
    for k in np.unique(fold):
        rest, held = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        start = time.perf_counter()
        fitted = clone(calibrator).fit_data(data.take(rest))
        middle = time.perf_counter()
        calibrated[held] = fitted.calibrate_columns(data.columns.take(held), data.y_prob[held])
        fit_seconds += middle - start
        predict_seconds += time.perf_counter() - middle
    return _HeldOut(calibrated, fit_seconds, predict_seconds)


def _score(
    name: str, held_out: _HeldOut, base: FloatArray, data: TrainingData, fold: npt.NDArray[np.intp]
) -> MethodScore:
    label, weight, q = data.y_true, data.weight, held_out.y_prob
    parts = [_fold_scores(q[fold == k], label[fold == k], weight[fold == k]) for k in np.unique(fold)]
    mass = [float(np.sum(weight[fold == k])) for k in np.unique(fold)]
    log_loss, brier, auc, ece, mvce = np.average(np.array(parts), axis=0, weights=mass).tolist()
    log_loss_difference = _paired(log_losses(q, label) - log_losses(base, label), weight)
    brier_difference = _paired((q - label) ** 2 - (base - label) ** 2, weight)
    seconds = held_out.fit_seconds, held_out.predict_seconds
    return MethodScore(name, log_loss, brier, auc, ece, mvce, *log_loss_difference, *brier_difference, *seconds)


def _fold_scores(y_prob: FloatArray, label: FloatArray, weight: FloatArray) -> tuple[float, ...]:
    atoms = atoms_by_prediction(y_prob, label, weight)
    residual = y_prob - label
    mass = float(np.sum(weight))
    squared = float(np.sum(weight * residual**2))
    mvce = closed_form_mvce(mass, np.sum(weight * residual), squared, bin_size=mass / _MVCE_BINS)
    log_loss = float(np.average(log_losses(y_prob, label), weights=weight))
    return log_loss, squared / mass, auc_of_atoms(atoms), ece_of_atoms(atoms, _ECE_BINS, 1.0), float(mvce)


def _paired(difference: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Weighted mean and its standard error, √Σw²(d − d̄)² / Σw."""
    mean = float(np.average(difference, weights=weight))
    return mean, float(np.sqrt(np.sum((weight * (difference - mean)) ** 2)) / np.sum(weight))


_CLEAR = 2.0
"""Standard errors by which a method must beat the base to be recommended."""
