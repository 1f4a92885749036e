"""How many of the positives have arrived by an age: Kaplan-Meier's estimate with right censoring.

Rows are born unlabelled and become positive at an unknown age, or never. A cohort of age A has been watched up to A
only: its rows are censored there. With d positives arriving at age a among n rows that were watched at that age and not
positive before, S(a) = Π (1 − d/n) is the share without a label, and (1 − S(a)) / (1 − S(A)) that of the positives that
have arrived.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError
from mbct.validation import FloatArray


@dataclass(frozen=True)
class Maturity:
    """Share of the positives that have arrived by their age.

    Parameters
    ----------
    arrived : tuple of float
        The share at an age of 0, 1, 2 … days; all have arrived by the last.
    """

    arrived: tuple[float, ...]

    def share(self, age: npt.ArrayLike) -> FloatArray:
        """Share of positives that have arrived by each ``age`` in days.

        >>> Maturity((0.5, 0.75, 1.0)).share([0, 1, 7]).tolist()
        [0.5, 0.75, 1.0]
        """
        known = np.array([0.0, *self.arrived])
        return known[np.clip(np.asarray(age, dtype=np.int64) + 1, 0, len(self.arrived))]


@dataclass(frozen=True)
class Snapshot:
    """What was known of a day's rows on a later day: how many there are, and how many are positive so far."""

    day: int
    seen: int
    rows: float
    positives: float


def maturity_of_delays(delay: npt.ArrayLike, watched: npt.ArrayLike) -> Maturity:
    """Maturity from single rows.

    Parameters
    ----------
    delay : array-like of shape (n_rows,)
        Days from the score to the positive outcome; NaN or infinity where none has come.
    watched : array-like of shape (n_rows,)
        Days that each row has been watched; a day that is not over counts as not watched.
    """
    # Whole days alone: of a day under way only the positives are known, and they would weigh too much.
    days = np.floor(np.asarray(watched, dtype=np.float64))
    arrival = np.floor(np.maximum(np.asarray(delay, dtype=np.float64), 0.0))
    positive = arrival < days
    n_ages = max(int(days.max(initial=1.0)), 1)
    events = np.bincount(arrival[positive].astype(np.int64), minlength=n_ages).astype(np.float64)
    ends = np.where(positive, arrival, days - 1.0)
    left = np.bincount(ends[ends >= 0.0].astype(np.int64), minlength=n_ages)
    at_risk = np.cumsum(left[::-1])[::-1].astype(np.float64)
    return _kaplan_meier(events, at_risk)


def maturity_of_snapshots(snapshots: Iterable[Snapshot]) -> Maturity:
    """Maturity from counts of the same cohorts on several days, as a store keeps them when days are replaced.

    A cohort that was first seen at a later age than others, as those of a backfill are, counts from that age on: when
    its labels came before is not known.
    """
    cohorts: dict[int, list[Snapshot]] = {}
    for one in sorted(snapshots, key=lambda each: (each.day, each.seen)):
        cohorts.setdefault(one.day, []).append(one)
    last = max((one.seen - one.day for seen in cohorts.values() for one in seen), default=0)
    youngest = min((seen[0].seen - seen[0].day for seen in cohorts.values()), default=0)
    events, at_risk = np.zeros(last + 1), np.zeros(last + 1)
    for seen in cohorts.values():
        before, age, rows = 0.0, -1, seen[0].rows if seen[0].seen - seen[0].day == youngest else -1.0
        for one in seen:
            if one.rows != rows:  # other rows: another cohort, whose earlier labels are not known one by one
                before, age, rows = one.positives, one.seen - one.day, one.rows
                continue
            until = one.seen - one.day
            at_risk[age + 1 : until + 1] += one.rows - before
            events[until] += max(one.positives - before, 0.0)
            before, age = one.positives, until
    return _kaplan_meier(events, at_risk)


def _kaplan_meier(events: FloatArray, at_risk: FloatArray) -> Maturity:
    if not events.sum() > 0.0:
        raise DataError("no positive arrived after its row was first seen: the age of labels cannot be estimated")
    hazard = np.divide(events, at_risk, out=np.zeros_like(events), where=at_risk > 0.0)
    positive = 1.0 - np.cumprod(1.0 - np.minimum(hazard, 1.0))
    return Maturity(tuple((positive / positive[-1]).tolist()))
