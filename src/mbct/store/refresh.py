"""Refresh: refit from the cells of a store, compare on its newest day, promote what is not worse, keep a record."""

import datetime
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from sklearn.base import clone

from mbct import __version__
from mbct.calibrators.mbct import MBCTCalibrator
from mbct.calibrators.persistence import dumps, loads
from mbct.errors import DataError, ParameterError
from mbct.model.file import parse_document
from mbct.stats.testing import PairedGain
from mbct.store.cell_store import CellStore, Window
from mbct.store.gate import CellMetrics, compare_on_cells, log_odds_of_cells, metrics_of_cells
from mbct.store.manifest import as_day
from mbct.store.model_shelf import ModelShelf

Require = Literal["not worse", "better"]


@dataclass(frozen=True)
class Refresh:
    """What a refresh found and did; the record in the store says the same."""

    promoted: bool
    decision: str
    reason: str
    candidate: str
    in_service: str | None
    previous: str | None
    comparison: PairedGain
    metrics: dict[str, CellMetrics]
    record: int


def refresh(
    store: CellStore,
    calibrator: MBCTCalibrator | None = None,
    *,
    holdout: str | datetime.date = "newest day",
    days: int | None = None,
    half_life: float | None = None,
    require: Require = "not worse",
    level: float = 0.05,
) -> Refresh:
    """Refit from the days before ``holdout`` and put the model into service unless the holdout day speaks against it.

    The candidate is fitted on cells alone, from the ``days`` days before the holdout, older ones faded by
    ``half_life``; it has the parameters of ``calibrator``, or else of the model in service. On the holdout day both
    are compared row by row in log loss (before there is a model in service, with the predictions as they came).
    ``require="not worse"`` promotes unless the candidate's loss is higher with one-sided significance ``level``,
    "better" only if it is lower with that significance. The candidate that was compared is the one that is promoted.
    """
    if require not in get_args(Require):
        raise ParameterError(f"require={require!r} must be 'not worse' or 'better'")
    if not 0.0 < level < 0.5:
        raise ParameterError(f"level={level!r} must lie between 0 and 0.5")
    shelf = ModelShelf(store)
    number, body = shelf.log.newest()
    previous: str | None = body["in_service"]
    judged, training = _windows(store, holdout, days, half_life)
    unfitted = _unfitted(shelf, calibrator, previous)
    candidate = clone(unfitted).fit_cells(training.cells, training.bins)
    served = None if previous is None else shelf.ensemble(previous)
    log_odds = {
        "uncalibrated": log_odds_of_cells(None, judged.cells),
        "in service": log_odds_of_cells(served, judged.cells),
        "candidate": log_odds_of_cells(candidate.model_, judged.cells),
    }
    metrics = {name: metrics_of_cells(values, judged.cells) for name, values in log_odds.items()}
    comparison = compare_on_cells(log_odds["in service"], log_odds["candidate"], judged.cells)
    promoted, reason = _decide(comparison, require, level)
    content = dumps(candidate)
    model = shelf.put(content)
    decision = "promoted" if promoted else "kept"
    details = {
        "previous": previous,
        "candidate": model,
        "reason": reason,
        "require": require,
        "level": level,
        "parameters": parse_document(content)["parameters"],
        "training": _described(training),
        "holdout": _described(judged),
        "metrics": {name: asdict(found) for name, found in metrics.items()},
        "comparison": {**asdict(comparison), "z": comparison.z, "p_worse": comparison.p_worse},
        "mbct": __version__,
    }
    in_service = model if promoted else previous
    record = shelf.record(number, decision, in_service, details)
    return Refresh(promoted, decision, reason, model, in_service, previous, comparison, metrics, record)


def _windows(
    store: CellStore, holdout: str | datetime.date, days: int | None, half_life: float | None
) -> tuple[Window, Window]:
    """The day to judge on and the days to fit on."""
    known = store.days()
    if not known:
        raise DataError(f"{store.place.url} holds no cells: append some first")
    day = known[-1] if holdout == "newest day" else as_day(holdout)
    if day not in known:
        raise DataError(f"holdout day {day} has no cells; the store holds {known[0]} to {known[-1]}")
    if day == known[0]:
        raise DataError(f"no day before the holdout {day}: at least two days of cells are needed")
    judged = store.window(days=1, until=day)
    before = datetime.date.fromisoformat(day) - datetime.timedelta(days=1)
    return judged, store.window(days, half_life, until=before, fingerprint=judged.bins.fingerprint)


def _unfitted(shelf: ModelShelf, calibrator: MBCTCalibrator | None, previous: str | None) -> MBCTCalibrator:
    if calibrator is not None:
        return calibrator
    if previous is None:
        return MBCTCalibrator()
    loaded = loads(shelf.read(previous), previous)
    if not isinstance(loaded, MBCTCalibrator):
        raise DataError(f"the model in service, {previous}, is no MBCTCalibrator: pass the calibrator to refit")
    return loaded


def _decide(comparison: PairedGain, require: Require, level: float) -> tuple[bool, str]:
    found = f"log loss falls by {comparison.gain:.3g} ± {comparison.error:.2g} (z = {comparison.z:.2f})"
    if comparison.p_worse < level:
        return False, f"worse than what is in service: {found}"
    if comparison.p_worse > 1.0 - level:
        return True, f"better than what is in service: {found}"
    return require == "not worse", f"no difference to what is in service at level {level:g}: {found}"


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
