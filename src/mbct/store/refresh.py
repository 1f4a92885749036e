"""Refresh: refit from the cells of a store, compare on its newest days, promote what is not worse, keep a record."""

import datetime
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

from mbct import __version__
from mbct.calibrators.mbct import MBCTCalibrator
from mbct.calibrators.persistence import dumps, loads
from mbct.errors import DataError, ParameterError
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import parse_document
from mbct.stats.blocks import error_of_total
from mbct.stats.probabilities import log_loss_of_logodds, logit, sigmoid
from mbct.stats.testing import PairedGain, paired_gain
from mbct.store.cell_store import CellStore, Window
from mbct.store.manifest import as_day, days_between
from mbct.store.maturity import MaturityOption, complete_shares, matured
from mbct.store.model_registry import FileBackend, ModelRegistry
from mbct.training.cells import Cells
from mbct.validation import FloatArray

Require = Literal["not worse", "better"]
_HOLDOUT_DAYS = 7
_LEAST_BLOCKS = 5  # Days from which on the candidate is cross-validated by whole days; fewer cannot tell days from rows


@dataclass(frozen=True)
class CellMetrics:
    """Log loss, and the ratio of predicted to observed positives (1 is unbiased)."""

    log_loss: float
    prediction_ratio: float


@dataclass(frozen=True)
class Refresh:
    """What a refresh found and did; the record in the store says the same.

    Attributes
    ----------
    promoted : bool
        Whether the candidate was put into service.
    decision, reason : str
        "promoted" or "kept", and why.
    candidate : str
        Version of the refitted model.
    in_service, previous : str or None
        Version in service after and before.
    comparison : PairedGain
        Fall of the mean log loss from the old model to the candidate on the holdout, and its standard error.
    p_worse : float
        Chance of a gain this low if the candidate were as good, by Student's t of the holdout days.
    metrics : dict of str to CellMetrics
        Metrics of each model on the holdout.
    record : int
        Number of the record in the store.
    """

    promoted: bool
    decision: str
    reason: str
    candidate: str
    in_service: str | None
    previous: str | None
    comparison: PairedGain
    p_worse: float
    metrics: dict[str, CellMetrics]
    record: int


def refresh(
    store: CellStore,
    calibrator: MBCTCalibrator | None = None,
    *,
    holdout: str | datetime.date = "newest day",
    holdout_days: int | None = None,
    days: int | None = None,
    half_life: float | None = None,
    require: Require = "not worse",
    level: float = 0.05,
    maturity: MaturityOption = None,
) -> Refresh:
    """Refit from the days before the holdout and put the model into service unless the holdout days show it is worse.

    The candidate that was compared is the one that is promoted; it has not seen the holdout. From five training days
    on its own folds and evidence go by whole days too; with fewer they go by rows, and the reason says so.

    Parameters
    ----------
    store : CellStore
        Cells by day, which keeps a record of what was found.
    calibrator : MBCTCalibrator or None, default=None
        Whose parameters the candidate has; None takes those of the model in service.
    holdout, holdout_days : str or date, default="newest day"; int or None, default=None
        Last day to evaluate on, and how many days: None takes 7, or a third of the days where the store holds fewer
        than 21.
    days, half_life : as in :meth:`~mbct.store.cell_store.CellStore.window`
        Days before the holdout to fit on, and after how many a row counts one half.
    require : {"not worse", "better"}, default="not worse"
        "not worse" promotes unless the candidate's log loss is higher than that of the model in service (or, before
        there is one, of the predictions as they came) with one-sided significance ``level``; "better" only if it is
        lower with that significance. The standard error is that of the holdout days' sums, the test Student's t.
    level : float, default=0.05
        Significance.
    maturity : "auto", int or None, default=None
        Labels that come late: a number of days leaves out days whose labels were last seen at a younger age; "auto"
        estimates from days that were replaced what share of positives has arrived by each age, leaves out days with
        fewer than half of them, and completes the others by that share. None takes labels as they are.

    Returns
    -------
    result : Refresh
        The decision, its reason, the versions, and the gain on the holdout days.
    """
    if require not in get_args(Require):
        raise ParameterError(f"require={require!r} must be 'not worse' or 'better'")
    if not 0.0 < level < 0.5:
        raise ParameterError(f"level={level!r} must lie between 0 and 0.5")
    if holdout_days is not None and holdout_days < 1:
        raise ParameterError(f"holdout_days={holdout_days!r} must be at least 1")
    files = FileBackend(store.storage)
    registry = ModelRegistry(files)
    number, previous = files.newest()
    shares = complete_shares(store, maturity)
    evaluation, training = _windows(store, holdout, holdout_days, days, half_life, shares)
    parameters = _unfitted(registry, calibrator, previous).get_params()
    candidate = _fitted(parameters, training)
    log_odds = {
        "uncalibrated": log_odds_of_cells(None, evaluation.cells),
        "in service": log_odds_of_cells(None if previous is None else registry.ensemble(previous), evaluation.cells),
        "candidate": log_odds_of_cells(candidate.model_, evaluation.cells),
    }
    metrics = {name: metrics_of_cells(values, evaluation.cells) for name, values in log_odds.items()}
    comparison = compare_on_cells(log_odds["in service"], log_odds["candidate"], evaluation.cells, evaluation.day)
    # Few days estimate their own spread roughly, which Student's t allows for; one day has its rows alone.
    n_days = len({batch.day for batch in evaluation.batches})
    p_worse = comparison.p_worse if n_days < 2 else float(stdtr(n_days - 1, comparison.z))
    promoted, reason = _decide(comparison, p_worse, require, level, previous)
    if training.cells.block is None:
        reason += f"; fitted with random folds of rows, as there are fewer than {_LEAST_BLOCKS} training days"
    content = dumps(candidate)
    model = registry.add(content)
    decision = "promoted" if promoted else "kept"
    incomplete = {day: share for day, share in sorted(shares.items()) if share < 1.0}
    details = {
        "previous": previous,
        "candidate": model,
        "reason": reason,
        "require": require,
        "level": level,
        "parameters": parse_document(content)["parameters"],
        "maturity": None if maturity is None else {"option": maturity, "shares": incomplete},
        "training": _described(training),
        "holdout": _described(evaluation),
        "metrics": {name: asdict(found) for name, found in metrics.items()},
        "comparison": {**asdict(comparison), "z": comparison.z, "p_worse": p_worse},
        "mbct": __version__,
    }
    in_service = model if promoted else previous
    record = files.decide(number, decision, in_service, details)
    return Refresh(promoted, decision, reason, model, in_service, previous, comparison, p_worse, metrics, record)


def _windows(
    store: CellStore,
    holdout: str | datetime.date,
    holdout_days: int | None,
    days: int | None,
    half_life: float | None,
    shares: Mapping[str, float],
) -> tuple[Window, Window]:
    """The days to evaluate on and the days to fit on, all of the bins of the last one."""
    batches = [batch for batch in store.manifest().batches if shares.get(batch.day, 1.0) > 0.0]
    if not batches:
        remedy = "none that is old enough: wait, or lower maturity" if shares else "append some first"
        raise DataError(f"{store.storage.url} holds no cells: {remedy}")
    last = batches[-1].day if holdout == "newest day" else as_day(holdout)
    of_last = [batch.fingerprint for batch in batches if batch.day == last]
    if not of_last:
        raise DataError(f"holdout day {last} has no cells; the store holds {batches[0].day} to {batches[-1].day}")
    known = sorted({batch.day for batch in batches if batch.day <= last and batch.fingerprint == of_last[-1]})
    n_days = holdout_days or max(1, min(_HOLDOUT_DAYS, len(known) // 3))
    if len(known) <= n_days:
        raise DataError(
            f"no day before the holdout of {n_days} days up to {last}: the store holds {len(known)} days up to then, "
            f"{n_days + 1} are needed"
        )
    first = known[-n_days]
    evaluation = store.window(days_between(first, last) + 1, until=last, fingerprint=of_last[-1], by_day=True)
    before = datetime.date.fromisoformat(first) - datetime.timedelta(days=1)
    training = matured(store.window(days, half_life, until=before, fingerprint=of_last[-1], by_day=True), shares)
    if len({batch.day for batch in training.batches}) < _LEAST_BLOCKS:
        training = replace(training, cells=replace(training.cells, block=None).canonical(), day=None)
    return matured(evaluation, shares), training


def _fitted(parameters: Mapping[str, Any], training: Window) -> MBCTCalibrator:
    """A calibrator of these parameters, which keeps what they say of blocks where too few days allow for none."""
    independent = {"time": None, "groups": None, "gap": 0, "half_life": None} if training.cells.block is None else {}
    candidate = MBCTCalibrator(**{**parameters, **independent}).fit_cells(training.cells, training.bins)
    candidate.set_params(**parameters)
    return candidate


def _unfitted(registry: ModelRegistry, calibrator: MBCTCalibrator | None, previous: str | None) -> MBCTCalibrator:
    if calibrator is not None:
        return calibrator
    if previous is None:
        return MBCTCalibrator()
    loaded = loads(registry.read(previous), previous)
    if not isinstance(loaded, MBCTCalibrator):
        raise DataError(f"the model in service, {previous}, is no MBCTCalibrator: pass the calibrator to refit")
    return loaded


def _decide(
    comparison: PairedGain, p_worse: float, require: Require, level: float, previous: str | None
) -> tuple[bool, str]:
    other = "the model in service" if previous is not None else "the predictions as they came"
    kept = "" if previous is not None else "; no model is in service, so predictions pass unchanged"
    if not (math.isfinite(comparison.gain) and math.isfinite(comparison.error)):
        return False, f"the comparison with {other} is not a number: check the cells{kept}"
    change = "falls" if comparison.gain >= 0.0 else "rises"
    found = f"log loss {change} by {abs(comparison.gain):.3g} ± {comparison.error:.2g} (z = {comparison.z:.2f})"
    if p_worse < level:
        return False, f"worse than {other}: {found}{kept}"
    if p_worse > 1.0 - level:
        return True, f"better than {other}: {found}"
    promoted = require == "not worse"
    return promoted, f"no difference to {other} at level {level:g}: {found}{'' if promoted else kept}"


def _described(window: Window) -> dict[str, Any]:
    total = window.cells.total
    return {
        "first_day": window.first_day,
        "last_day": window.last_day,
        "half_life": window.half_life,
        "bins": window.bins.fingerprint,
        "cells": len(window.cells),
        "rows": float(total.count),
        "positives": float(total.label),
        "batches": {i: batch.sha256 for batch in window.batches for i in batch.ids},
    }


def log_odds_of_cells(model: CalibrationEnsemble | None, cells: Cells) -> FloatArray:
    """Calibrated log-odds of each cell, all its rows taken at their mean; None leaves the predictions as they came.

    Exact where the rows of a cell share one prediction. The mean is that of the log-odds for the link "odds", of
    the predictions for "linear".
    """
    if model is None:
        return np.asarray(cells.sums.logit / cells.sums.count, dtype=np.float64)
    if model.bins.fingerprint != cells.fingerprint:
        raise DataError(
            f"the model was fitted on bins {model.bins.fingerprint}, the cells are of {cells.fingerprint}: "
            "aggregate the rows with the model's bins to compare"
        )
    if not model.trees:
        return log_odds_of_cells(None, cells)
    step = model.tree_total(cells.codes)
    if model.link == "odds":
        return np.asarray(cells.sums.logit / cells.sums.count + step, dtype=np.float64)
    return logit(np.clip(cells.sums.pred / cells.sums.count * step, 0.0, 1.0))


def metrics_of_cells(log_odds: FloatArray, cells: Cells) -> CellMetrics:
    """Metrics of calibrated log-odds."""
    count, label = cells.sums.count, cells.sums.label
    rate = label / count
    loss = float(np.sum(count * log_loss_of_logodds(log_odds, rate)) / np.sum(count))
    predicted, positives = float(np.sum(count * sigmoid(log_odds))), float(np.sum(label))
    return CellMetrics(loss, predicted / positives if positives > 0.0 else float("inf"))


def compare_on_cells(
    old: FloatArray, new: FloatArray, cells: Cells, day: npt.NDArray[np.int64] | None = None
) -> PairedGain:
    """Paired comparison of two calibrations of the same cells, in log loss.

    Rows of one day share what happened on it. With ``day``, the day of each cell, the standard error is that of the
    days' sums (where there are at least two), but never below that of independent rows.
    """
    by_row = paired_gain(old, new, cells.sums.count, cells.sums.label)
    if day is None:
        return by_row
    days, number = np.unique(day, return_inverse=True)
    if len(days) < 2:
        return by_row
    count = np.bincount(number, cells.sums.count)
    rate = cells.sums.label / cells.sums.count
    gain = np.bincount(number, cells.sums.count * (log_loss_of_logodds(old, rate) - log_loss_of_logodds(new, rate)))
    error = error_of_total(gain - by_row.gain * count, in_order=False) / float(count.sum())
    return PairedGain(by_row.gain, max(by_row.error, error))
