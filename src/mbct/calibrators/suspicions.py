"""Warnings about rows that look wrong: each says what was found and what to do, once."""

import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from mbct.calibrators.inputs import TrainingData
from mbct.data.checks import find_dates, find_identifiers, find_leaks
from mbct.data.columns import Columns
from mbct.errors import MBCTWarning
from mbct.stats.divisions import atoms_by_prediction
from mbct.stats.ranking import auc_of_atoms
from mbct.validation import FloatArray

_FEWEST = 10
"""Rows of the rarer class below which nothing can be told."""
_WRONG_WAY = 4.0
"""Standard errors by which an AUC must lie below one half."""
_MOST_ROWS = 200_000
"""Rows that are looked at."""
_LEAP, _TOO_GOOD = 0.2, 0.95
"""A calibrated AUC above 0.95 that exceeds the base's by 0.2 is too good to be true."""


def warn(messages: Iterator[str] | Sequence[str], stacklevel: int) -> None:
    """One warning for each message; ``stacklevel`` counts the callers from here to the user's line."""
    for message in messages:
        warnings.warn(message, MBCTWarning, stacklevel=stacklevel + 1)


def unfit_columns(columns: Columns) -> dict[str, str]:
    """Identifiers and dates among the columns, each with the reason why it is no feature."""
    some = _some(columns)
    return {found.column: found.reason for found in (*find_identifiers(some), *find_dates(some))}


def suspicions(data: TrainingData, features: Sequence[str]) -> Iterator[str]:
    """What looks wrong about rows to fit on: leaks, decisions instead of scores, swapped labels, too few rows."""
    rows = _drawn(len(data.y_true))
    y_true, y_prob, weight = data.y_true[rows], data.y_prob[rows], data.weight[rows]
    chosen = Columns({name: data.columns.column(name)[rows] for name in features}, len(rows))
    leaks = find_leaks(chosen, y_true, y_prob=y_prob, weight=weight) if features else ()
    if leaks:
        listed = ", ".join(map(str, leaks))
        yield f"suspected leak: {listed}; leave out what is not known when predictions are made"
    if set(np.unique(y_prob).tolist()) == {0.0, 1.0}:
        yield "every score is 0 or 1: these look like decisions; pass probabilities, as predict_proba gives them"
    elif (auc := _auc_below_chance(y_prob, y_true, weight)) is not None:
        yield (
            f"the prediction ranks the labels the wrong way round (AUC {auc:.3f}): are the labels swapped, "
            "or is it the probability of the other class?"
        )
    positives = int(np.sum(data.y_true[data.weight > 0]))
    n_rows = int(np.sum(data.weight > 0))
    if min(positives, n_rows - positives) < _FEWEST:
        yield f"too few rows to tell: {n_rows:,}, {positives:,} positives; add rows before you trust a calibration"


def too_good(auc: float, base_auc: float) -> bool:
    """Whether a calibrated AUC leaps so far above the base's that a leak is likely."""
    return auc > _TOO_GOOD and auc - base_auc > _LEAP


def _auc_below_chance(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> float | None:
    """The AUC where it lies clearly below one half, else None."""
    positives = float(np.sum(y_true))
    negatives = len(y_true) - positives
    if min(positives, negatives) < _FEWEST:
        return None
    auc = auc_of_atoms(atoms_by_prediction(y_prob, y_true, np.where(weight > 0, weight, 0.0)))
    error = float(np.sqrt((positives + negatives + 1.0) / (12.0 * positives * negatives)))
    return auc if auc < 0.5 - _WRONG_WAY * error else None


def _drawn(n_rows: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    if n_rows <= _MOST_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).permutation(n_rows)[:_MOST_ROWS])


def _some(columns: Columns) -> Columns:
    """Neighbouring rows are as good as any to see identifiers and dates by; all of them where they are few."""
    return columns if columns.n_rows <= _MOST_ROWS else columns.take(_drawn(columns.n_rows))
