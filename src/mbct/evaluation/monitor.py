"""Alarms over a stream of outcomes: overall, by range of probability and by segment, valid at every time."""

import datetime
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from mbct.errors import ParameterError
from mbct.stats.calibration_change import COUNT, N_SUMS, TILTS, ChangeEvidence, outcome_sums
from mbct.validation import FloatArray, as_binary_labels, as_column, as_probabilities, same_length

AlarmKind = Literal["all", "probability", "segment"]
ALL = "all"
OTHER = "other"
BANDS = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
"""Ranges of the probability: narrow where rates are low, as click rates are."""
_KEPT = 100  # Alarms that are past and still listed


@dataclass(frozen=True)
class Alarm:
    """Evidence that predicted and observed rates differ by more than the tolerance.

    Attributes
    ----------
    kind : {"all", "probability", "segment"}
        Whether all outcomes, those of a range of predicted probabilities, or those of a segment are off.
    name : str
        The range or the segment; "all" otherwise.
    direction : {"underestimated", "overestimated"}
        What the predictions do to the outcomes.
    ratio : float
        Observed over predicted positives since the change: 1.1 means 10 % more than predicted.
    changed_at, raised_at : float
        Estimated time of the change, and when the evidence was enough; seconds since 1970.
    outcomes : int
        Outcomes since the change.
    evidence : float
        Natural logarithm of the e-value.
    ended_at : float or None
        When later outcomes outweighed it.
    """

    kind: AlarmKind
    name: str
    direction: str
    ratio: float
    changed_at: float
    raised_at: float
    outcomes: int
    evidence: float
    ended_at: float | None = None

    def __str__(self) -> str:
        where = {"all": "all outcomes", "probability": f"probabilities {self.name}"}.get(
            self.kind, f"segment {self.name}"
        )
        return (
            f"{where} {self.direction}: {self.ratio:.3f} times the predicted positives in {self.outcomes:,} outcomes "
            f"since {_as_datetime(self.changed_at)}"
        )


@dataclass
class _Active:
    """An alarm that is on, its tilt, and the evidence that this tilt has gone since."""

    alarm: Alarm
    tilt: int
    recovery: float = 0.0


class CalibrationMonitor:
    """Watches outcomes against predicted probabilities and raises alarms that may be looked at at any time.

    While every outcome's odds are within the tolerance of the predicted ones, the chance that any alarm is ever raised
    is at most ``level``, over all segments together and however long it runs: a mixture of likelihood ratios over sizes
    and times of a change is compared with 1/level by Ville's inequality, with Bonferroni shares for the streams. An
    alarm ends when later outcomes are 1/level times likelier without its deviation; its test then begins anew.

    Parameters
    ----------
    level : float, default=0.01
        Chance of a false alarm, ever.
    tolerance : float, default=0.02
        Relative deviation of the odds that is none: 0.02 allows 2 %. Outcomes that share a cause, such as the weather
        of a day, deviate together: the tolerance must cover it.
    segments : int, default=0
        Number of segments with a test of their own, the first that are met; others share one. 0 for none.
    """

    def __init__(self, *, level: float = 0.01, tolerance: float = 0.02, segments: int = 0) -> None:
        if not 0.0 < level < 1.0:
            raise ParameterError(f"level={level!r} must lie between 0 and 1")
        if not 0.0 <= tolerance < 1.0:
            raise ParameterError(f"tolerance={tolerance!r} must be at least 0 and below 1")
        if segments < 0:
            raise ParameterError(f"segments={segments!r} must be at least 0")
        self._tolerance = math.log1p(tolerance)
        self._segments: dict[str, int] = {}
        self._most = segments
        n_bands = len(BANDS) + 1
        groups = [1, n_bands, segments + 1] if segments else [1, n_bands]
        share = np.concatenate([np.full(n, 1.0 / (len(groups) * n)) for n in groups])
        self._threshold = -np.log(level * share)
        self._enough = -math.log(level)
        self._evidence = ChangeEvidence.of(len(share))
        self._sums = np.zeros((len(share), N_SUMS))
        self._active: dict[int, _Active] = {}
        self._past: list[Alarm] = []

    def update(self, y_true: Any, y_prob: Any, segment: Sequence[str] | None = None, *, at: float) -> list[Alarm]:
        """Take a batch of outcomes, such as those of a minute or a day; returns the alarms that it raised.

        Parameters
        ----------
        y_true, y_prob : array-like of shape (n_outcomes,)
            Outcomes, 0 or 1, and the probabilities that were predicted before.
        segment : sequence of str or None, default=None
            The segment of each outcome.
        at : float
            End of the batch, in seconds since 1970; batches come in the order of time.

        Returns
        -------
        alarms : list of Alarm
            Those that this batch raised; empty where nothing drifts.
        """
        q, y = as_probabilities(y_prob), as_binary_labels(y_true)
        same_length(len(q), y_true=y)
        if segment is not None:
            same_length(len(q), segment=as_column(segment, "segment"))
        self.add(q, y, segment)
        return self.advance(at)

    def add(self, y_prob: FloatArray, y_true: FloatArray, segment: Sequence[str | None] | None = None) -> None:
        """Collect outcomes for the next :meth:`advance`; however they are divided into calls, the sums are the same."""
        each = outcome_sums(y_prob, y_true, self._tolerance)
        np.add.at(self._sums, np.zeros(len(each), dtype=np.intp), each)
        np.add.at(self._sums, 1 + np.searchsorted(BANDS, y_prob), each)
        if segment is not None and self._most:
            streams = np.array([-1 if name is None else self._stream(name) for name in segment], dtype=np.intp)
            np.add.at(self._sums, streams[streams >= 0], each[streams >= 0])

    def advance(self, at: float) -> list[Alarm]:
        """Close the batch of the outcomes added so far.

        Parameters
        ----------
        at : float
            End of the batch, in seconds since 1970.

        Returns
        -------
        list of Alarm
            Those that it raised.
        """
        if not self._sums[0, COUNT]:
            return []
        batch = self._evidence.advance(self._sums, at)
        self._sums[:] = 0.0
        for stream, active in list(self._active.items()):
            active.recovery = max(0.0, active.recovery - float(batch[stream, active.tilt]))
            if active.recovery >= self._enough:
                self._past = [*self._past, replace(active.alarm, ended_at=at)][-_KEPT:]
                del self._active[stream]
                self._evidence.restart(stream)
        log_e = self._evidence.log_evidence()
        raised: list[Alarm] = []
        for stream in np.flatnonzero(log_e >= self._threshold).tolist():
            tilt = int(self._evidence.log_e[stream].argmax())
            known = self._active.get(stream)
            raised_at = at if known is None else known.alarm.raised_at
            alarm = self._alarm(stream, tilt, float(log_e[stream]), raised_at)
            if known is None:
                self._active[stream] = _Active(alarm, tilt)
                raised.append(alarm)
            else:
                known.alarm = alarm
        return raised

    @property
    def alarms(self) -> list[Alarm]:
        """Alarms that are on, with their present figures; the strongest evidence first."""
        return sorted((active.alarm for active in self._active.values()), key=lambda alarm: -alarm.evidence)

    @property
    def past(self) -> list[Alarm]:
        """The last hundred alarms that have ended."""
        return list(self._past)

    def to_dict(self) -> dict[str, Any]:
        """The state as plain JSON; :meth:`restore` takes it up exactly."""
        return {
            "evidence": self._evidence.to_dict(),
            "sums": self._sums.tolist(),
            "segments": list(self._segments),
            "active": {str(stream): asdict(active) for stream, active in self._active.items()},
            "past": [asdict(alarm) for alarm in self._past],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state of a monitor with the same number of segments.

        Parameters
        ----------
        state : dict
            What :meth:`to_dict` gave.
        """
        sums = np.array(state["sums"], dtype=np.float64)
        if sums.shape != self._sums.shape:
            raise ParameterError(
                f"the saved monitor has {len(sums)} streams, this one {len(self._sums)}: keep the number of segments"
            )
        self._evidence, self._sums = ChangeEvidence.from_dict(state["evidence"]), sums
        self._segments = {}
        for name in state["segments"]:
            self._stream(name)
        self._active = {
            int(stream): _Active(Alarm(**active["alarm"]), active["tilt"], active["recovery"])
            for stream, active in state["active"].items()
        }
        self._past = [Alarm(**alarm) for alarm in state["past"]]

    def _stream(self, segment: str) -> int:
        first = 2 + len(BANDS)
        if segment not in self._segments and len(self._segments) < self._most:
            self._segments[str(segment)] = first + len(self._segments)
        return self._segments.get(segment, len(self._threshold) - 1)

    def _alarm(self, stream: int, tilt: int, evidence: float, raised_at: float) -> Alarm:
        count, label, pred = self._evidence.since[stream, tilt].tolist()
        direction = "underestimated" if TILTS[tilt] > 0.0 else "overestimated"
        changed_at = float(self._evidence.start[stream, tilt])
        kind, name = self._named(stream)
        return Alarm(kind, name, direction, label / pred, changed_at, raised_at, int(count), evidence)

    def _named(self, stream: int) -> tuple[AlarmKind, str]:
        if stream == 0:
            return "all", ALL
        if stream <= len(BANDS) + 1:
            edges = [0.0, *BANDS.tolist(), 1.0]
            return "probability", f"{edges[stream - 1]:g} to {edges[stream]:g}"
        names = list(self._segments)
        position = stream - len(BANDS) - 2
        return "segment", names[position] if position < len(names) else OTHER


def _as_datetime(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(sep=" ", timespec="minutes")[:16]
