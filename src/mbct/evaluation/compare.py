"""Fit many methods on the same splits and score each on the rows it has not seen."""

import time as clock
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import TrainingData, suspicions, training_data, unfit_columns, warn
from mbct.calibrators.registry import available, make
from mbct.data.checks import leaps
from mbct.errors import DataError, MBCTWarning, MissingDependencyError, ParameterError
from mbct.evaluation.comparison import Comparison, Failure, MethodScore
from mbct.evaluation.metrics.evaluation import METRICS
from mbct.evaluation.metrics.multi_view import closed_form_of_rows
from mbct.evaluation.metrics.rows import Rows
from mbct.evaluation.splits import Split, make_splits
from mbct.progress import track
from mbct.stats.scores import log_losses
from mbct.training.folds import BlockColumns, BlockSize
from mbct.validation import FloatArray

_MVCE_BINS = 20
_BASE = "identity"

Methods = Sequence[str | Calibrator] | Mapping[str, str | Calibrator]


def compare(
    X: Any,
    y: Any,
    *,
    score_column: str | int | None = None,
    methods: Methods | None = None,
    cv: Any = 5,
    time: Any = None,
    groups: Any = None,
    block: BlockSize = "day",
    sample_weight: Any = None,
    y_prob: Any = None,
    positive: Any = None,
    random_state: int = 0,
) -> Comparison:
    """Held-out scores of calibration methods, with paired differences to the base and to the best.

    Log loss keeps predictions 2e-16 from 0 and 1; ECE has 15 uniform-mass bins, MVCE is the closed form with bins of a
    twentieth of a fold.

    Parameters
    ----------
    X, y, sample_weight, y_prob : as in :meth:`mbct.calibrators.Calibrator.fit`
        Labelled rows.
    score_column : str, int or None, default=None
        Column of the prediction; may be left out where ``X`` has one column or ``y_prob`` is given.
    methods : list of str or calibrators, mapping of names to either, or None, default=None
        None takes every registered method that needs no setting (LightGBM if it is installed). The identity, that is
        the base itself, always takes part.
    cv : int, splitter or list of splits, default=5
        Number of folds, any splitter of scikit-learn, or pairs of row numbers to fit on and to hold out. Folds depend
        on what rows hold and on ``random_state``, not on their order.
    time : array, str or None, default=None
        Dates, timestamps or numbers of blocks, or the column that holds them: folds are contiguous stretches of blocks,
        standard errors those of whole blocks, and methods that take blocks are trained by them. The column is no
        feature.
    groups : array, str or None, default=None
        Which rows belong together (a person, a shop), or the column that says so: groups are held out whole, and
        standard errors are those of whole groups. A splitter by groups receives them.
    block : "day", "week", "hour" or int, default="day"
        Length of a block of time, or a number of equal stretches.
    positive : str, number, bool or None, default=None
        The positive class, whose probability the prediction is; None takes the second in sorted order.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    comparison : Comparison
        Methods by rising held-out log loss, what ties with the best and what to take.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.05, 0.95, 2000)
    >>> y = rng.uniform(size=2000) < p**2
    >>> compare({"p": p}, y, score_column="p", methods=["platt", "temperature"]).best.name
    'platt'
    """
    calibrators = _chosen(methods)
    blocks = BlockColumns(time, groups, block)
    data = training_data(X, y, sample_weight, y_prob, score_column, positive=positive, blocks=blocks)
    splits = make_splits(data, cv, random_state)
    others = data.columns.without(data.score)
    unfit = [f"{name} ({reason})" for name, reason in unfit_columns(others).items()]
    left_out = (
        [f"no features, mbct leaves them out, drop them for the other methods: {', '.join(unfit)}"] if unfit else []
    )
    warn([*left_out, *suspicions(data, others.names)], stacklevel=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MBCTWarning)  # what is said of the rows is said once, not by every fit
        results, failures = _run(data, calibrators, splits)
    held_out = _HeldOutRows.of_splits(data, splits)
    scores = _scores(results, held_out)
    base = next(score for score in scores if score.name == _BASE)
    suspect = [f"{s.name} (AUC {base.auc:.3f} → {s.auc:.3f})" for s in scores if leaps(s.auc, base.auc)]
    if suspect:
        warn([f"suspiciously good, a column may hold the label: {', '.join(suspect)}"], stacklevel=2)
    kind = blocks.options.kind if blocks.given else None
    n_rows = len(np.unique(held_out.row))
    return Comparison(tuple(scores), tuple(failures), n_rows, len(splits), _BASE, kind)


def default_methods() -> list[str]:
    """Names of the methods that need no setting and whose packages are installed."""
    absent = {"segment"} if find_spec("lightgbm") else {"segment", "lightgbm"}
    return [name for name in available() if name not in absent]


@dataclass(frozen=True)
class _HeldOut:
    """Held-out predictions of one method, split after split, and how long it took."""

    y_prob: FloatArray
    fit_seconds: float
    predict_seconds: float


@dataclass(frozen=True)
class _HeldOutRows:
    """The held-out rows of all splits, one after the other; ``block`` is a row's own number where it stands alone."""

    row: npt.NDArray[np.intp]
    split: npt.NDArray[np.intp]
    block: npt.NDArray[np.int64]
    y_true: FloatArray
    weight: FloatArray

    @classmethod
    def of_splits(cls, data: TrainingData, splits: list[Split]) -> "_HeldOutRows":
        row = np.concatenate([split.held_out for split in splits])
        number = np.repeat(np.arange(len(splits)), [len(split.held_out) for split in splits])
        blocks = (row if data.block is None else data.block[row]).astype(np.int64)
        return cls(row, number, blocks, data.y_true[row], data.weight[row])

    def paired(self, difference: FloatArray) -> tuple[float, float]:
        """Weighted mean d̄ and its standard error √Σ_b(Σ_{i∈b} w(d − d̄))² / Σw, b the blocks."""
        mean = float(np.average(difference, weights=self.weight))
        number = np.unique(self.block, return_inverse=True)[1]
        sums = np.bincount(number, self.weight * (difference - mean))
        few = len(sums) / (len(sums) - 1.0) if len(sums) > 1 else 1.0
        return mean, float(np.sqrt(few * np.sum(sums**2)) / np.sum(self.weight))


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
    data: TrainingData, calibrators: dict[str, Calibrator], splits: list[Split]
) -> tuple[dict[str, _HeldOut], list[Failure]]:
    results, failures = {}, []
    for name in track(list(calibrators), "comparing methods"):
        try:
            results[name] = _held_out(calibrators[name], data, splits)
        except (DataError, MissingDependencyError) as error:
            failures.append(Failure(name, str(error)))
    return results, failures


def _held_out(calibrator: Calibrator, data: TrainingData, splits: list[Split]) -> _HeldOut:
    calibrated = []
    fit_seconds = predict_seconds = 0.0
    for split in splits:
        start = clock.perf_counter()
        fitted = clone(calibrator).fit_data(data.take(split.train))
        middle = clock.perf_counter()
        held_out = data.columns.take(split.held_out)
        calibrated.append(fitted.calibrate_columns(held_out, data.y_prob[split.held_out]))
        fit_seconds += middle - start
        predict_seconds += clock.perf_counter() - middle
    return _HeldOut(np.concatenate(calibrated), fit_seconds, predict_seconds)


def _scores(results: dict[str, _HeldOut], rows: _HeldOutRows) -> list[MethodScore]:
    """Scores of all methods by rising log loss; the base first among equals, as nothing else changes less."""
    means = {name: _mean_scores(found.y_prob, rows) for name, found in results.items()}
    order = sorted(results, key=lambda name: (means[name][0], name != _BASE))
    losses = {name: log_losses(found.y_prob, rows.y_true) for name, found in results.items()}
    base = results[_BASE].y_prob
    scores = []
    for name in order:
        found = results[name]
        log_loss, brier, auc, ece, mvce = means[name]
        squares = (found.y_prob - rows.y_true) ** 2 - (base - rows.y_true) ** 2
        scores.append(
            MethodScore(
                name,
                *(log_loss, brier, auc, ece, mvce),
                *rows.paired(losses[name] - losses[_BASE]),
                *rows.paired(squares),
                *rows.paired(losses[name] - losses[order[0]]),
                found.fit_seconds,
                found.predict_seconds,
            )
        )
    return scores


def _mean_scores(y_prob: FloatArray, rows: _HeldOutRows) -> list[float]:
    """Log loss, Brier score, AUC, ECE and MVCE, means over the splits weighted by their rows."""
    parts, weights = [], []
    for k in np.unique(rows.split):
        here = rows.split == k
        split = Rows(y_prob[here], rows.y_true[here], rows.weight[here])
        scores = [METRICS[name](split) for name in ("log_loss", "brier", "auc", "ece")]
        parts.append([*scores, closed_form_of_rows(split, _MVCE_BINS, 2.0)])
        weights.append(float(split.weight.sum()))
    # A held-out part of one class ranks nothing: its AUC is left out.
    return [
        float(np.average(column[ok := ~np.isnan(column)], weights=np.array(weights)[ok]))
        for column in np.array(parts).T
    ]
