"""Warnings about rows that look wrong: each says what was found and what to do, once."""

import warnings
from collections.abc import Iterator, Sequence

import narwhals.stable.v2 as nw
import numpy as np

from mbct.calibrators.inputs import TrainingData
from mbct.data.checks import find_dates, find_earlier_runs, find_identifiers, find_leaks, identifier_reason
from mbct.data.columns import Columns, read_columns
from mbct.data.source import LazySource
from mbct.errors import MBCTWarning
from mbct.model.bins import CategoryBins, CodeMatrix
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.provenance import RowFingerprint
from mbct.stats.scores import auc_of_rows
from mbct.validation import FloatArray

FEWEST = 10  # Rows of the rarer class below which nothing can be told
_WRONG_WAY = 4.0  # Standard errors by which an AUC must lie below one half
MOST_ROWS = 200_000  # Rows that are looked at
_ROWS = " rows"
_FEWEST_SCORED = 20  # Rows to score below which unseen values are no sign of another spelling
_TEXTS_READ = 1_000  # Distinct texts that are tried as dates


def warn(messages: Iterator[str] | Sequence[str], stacklevel: int) -> None:
    """One warning for each message; ``stacklevel`` counts the callers from here to the user's line."""
    for message in messages:
        warnings.warn(message, MBCTWarning, stacklevel=stacklevel + 1)


def unfit_columns(columns: Columns) -> dict[str, str]:
    """Identifiers, dates and earlier results among the columns, each with the reason why it is no feature."""
    found = (*find_identifiers(columns), *find_dates(columns), *find_earlier_runs(columns.names))
    return {each.column: each.reason for each in found}


def unfit_in_engine(source: LazySource, names: Sequence[str]) -> dict[str, str]:
    """:func:`unfit_columns` of rows that stay in their engine: one query for the counts, one for each text."""
    schema = source.frame.collect_schema()
    texts = [name for name in names if schema[name] == nw.String]
    temporal = [name for name in names if isinstance(schema[name], nw.Date | nw.Datetime)]
    counted = [name for name in names if schema[name].is_integer() or name in texts]
    distinct = (nw.col(name).n_unique().alias(name) for name in counted)
    counts = source.engine.collect(source.frame.select(nw.len().alias(_ROWS), *distinct))
    n_rows = int(counts.get_column(_ROWS)[0])
    reasons = {
        name: identifier_reason(int(counts.get_column(name)[0]), n_rows, integer=name not in texts) for name in counted
    }
    found = {each.column: each.reason for each in find_earlier_runs(names)}
    found |= {name: reason for name, reason in reasons.items() if reason is not None}
    for name in (*temporal, *(name for name in texts if name not in found)):
        some = source.engine.collect(source.frame.select(name).unique().head(_TEXTS_READ))
        found |= {each.column: each.reason for each in find_dates(read_columns(some.to_native()))}
    return found


def describe_unfit(unfit: dict[str, str], *, kept: bool, advice: str | None = None) -> list[str]:
    """One message about identifiers and dates, where there are any, and ``advice``; ``kept`` if the user names them."""
    what = "kept as features=[…] asks" if kept else "left out, features=[…] would keep them"
    listed = ", ".join(f"{name} ({reason})" for name, reason in unfit.items())
    lines = [*([f"{what}: {listed}"] if unfit else []), *([] if advice is None else [advice])]
    return ["; ".join(lines)] if lines else []


def describe_time_features(excluded: Sequence[str], *, kept: bool) -> list[str]:
    """One message about features that identify the time, where there are any; ``kept`` if the user names them."""
    what = "left out of the rules, because their values identify the time (features=[…] would keep them)"
    if kept:
        what = "features that identify the time, kept because features=[…] names them"
    return [f"{what}: {', '.join(map(repr, excluded))}"] if excluded else []


def suspicions(data: TrainingData, features: Sequence[str], *, whole: bool = True) -> Iterator[str]:
    """What looks wrong about rows to fit on: leaks, decisions instead of scores, swapped labels, too few rows.

    Where they are not the ``whole``, there may be more of them.
    """
    rows = _drawn(len(data.y_true))
    y_true, y_prob, weight = data.y_true[rows], data.y_prob[rows], data.weight[rows]
    chosen = data.columns.only(features).take(rows)
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
    if whole and min(positives, n_rows - positives) < FEWEST:
        yield f"too few rows to tell: {n_rows:,}, {positives:,} positives; add rows before you trust a calibration"


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


def _auc_below_chance(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> float | None:
    """The AUC where it is clearly below one half, else None."""
    positives = float(np.sum(y_true))
    negatives = len(y_true) - positives
    if min(positives, negatives) < FEWEST:
        return None
    auc = auc_of_rows(y_prob, y_true, weight)
    error = float(np.sqrt((positives + negatives + 1.0) / (12.0 * positives * negatives)))
    return auc if auc < 0.5 - _WRONG_WAY * error else None


def _drawn(n_rows: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    if n_rows <= MOST_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).permutation(n_rows)[:MOST_ROWS])
