"""Late labels in a store: how complete each day is, and its cells as if all labels had come."""

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from mbct.errors import DataError, ParameterError
from mbct.stats.maturity import Maturity, Snapshot, maturity_of_snapshots
from mbct.stats.probabilities import logit, sigmoid
from mbct.store.cell_store import CellStore, Window
from mbct.store.manifest import day_number, days_between
from mbct.training.cells import Sums
from mbct.validation import FloatArray

MaturityOption = Literal["auto"] | int | None
_NEWTON_STEPS = 20
_LEAST_SHARE = 0.5  # Days with fewer of their positives are left out: what is missing would be mostly guessed


def store_maturity(store: CellStore) -> Maturity:
    """Share of positives that have arrived by age in days, from the days that were replaced as labels came.

    Parameters
    ----------
    store : CellStore
        A store whose days were appended again (``replace=True``) on later days.

    Returns
    -------
    maturity : Maturity
        The estimated shares.
    """
    found = store.manifest().snapshots
    if len({one.day for one in found}) == len(found):
        raise DataError(
            f"{store.storage.url} has seen no day again: replace days as their labels come (replace=True, --replace), "
            "or give the number of days to wait"
        )
    return maturity_of_snapshots(
        Snapshot(day_number(one.day), day_number(one.seen), one.rows, one.positives) for one in found
    )


def complete_shares(store: CellStore, maturity: MaturityOption) -> Mapping[str, float]:
    """Share of each day's positives that have arrived; 0 for days that are to be left out."""
    if maturity is None:
        return {}
    manifest = store.manifest()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    seen = {one.day: one.seen for one in sorted(manifest.snapshots, key=lambda one: one.seen)}
    age = {day: max(days_between(day, seen.get(day, today)), 0) for day in {batch.day for batch in manifest.batches}}
    if maturity == "auto":
        estimated = store_maturity(store)
        shares = {day: float(estimated.share(days)) for day, days in age.items()}
        return {day: share if share >= _LEAST_SHARE else 0.0 for day, share in shares.items()}
    if isinstance(maturity, bool) or not isinstance(maturity, int) or maturity < 0:
        raise ParameterError(f"maturity={maturity!r} must be 'auto', a number of days, or None")
    return {day: float(days >= maturity) for day, days in age.items()}


def matured(window: Window, shares: Mapping[str, float]) -> Window:
    """A window kept by day with the sums that its rows would have once all labels had come; days of share 0 go."""
    if window.day is None or not shares:
        return window
    by_number = {day_number(day): share for day, share in shares.items()}
    share = np.array([by_number.get(day, 1.0) for day in window.day.tolist()])
    kept = share > 0.0
    cells = window.cells.select(kept)
    batches = tuple(batch for batch in window.batches if shares.get(batch.day, 1.0) > 0.0)
    completed = cells if (share[kept] == 1.0).all() else replace(cells, sums=_completed(cells.sums, share[kept]))
    return replace(window, cells=completed, day=window.day[kept], batches=batches)


def _completed(sums: Sums, share: FloatArray) -> Sums:
    """Positives weigh 1/share; rows without a label by the chance that they stay negative.

    A row of probability p has no label yet with probability 1 − share·p; it stays negative with 1 − p. Predictions may
    be off: p are theirs with the log-odds moved so that they add up to the completed positives.
    """
    count = np.where(sums.count > 0.0, sums.count, 1.0)
    p = _at_level(sums.pred / count, count, float(np.sum(sums.label / share)))
    positive, negative = 1.0 / share, (1.0 - p) / (1.0 - share * p)
    square = sums.pred_label**2 / np.where(sums.label > 0.0, sums.label, 1.0)
    weight = sums.label * positive + (sums.count - sums.label) * negative
    return Sums(
        weight,
        sums.label * positive,
        sums.pred_label * positive + (sums.pred - sums.pred_label) * negative,
        square * positive + (sums.pred2 - square) * negative,
        sums.pred_label * positive,
        sums.logit / count * weight,
    )


def _at_level(y_prob: FloatArray, count: FloatArray, positives: float) -> FloatArray:
    """Probabilities with one offset to their log-odds, so that ``positives`` are expected of ``count`` rows."""
    z, p = logit(y_prob), y_prob
    for _ in range(_NEWTON_STEPS):
        z = z + np.clip((positives - np.sum(count * p)) / max(np.sum(count * p * (1.0 - p)), 1e-12), -1.0, 1.0)
        p = sigmoid(z)
    return np.clip(p, 0.0, 1.0 - 1e-9)
