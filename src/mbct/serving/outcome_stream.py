"""What is learned from outcomes: live calibration, and in the order of the journal alarms and the online layer.

For alarms and layer, outcomes are taken minute by minute, by the clock that the journal has written beside them. The
state after any number of lines depends on these lines alone: a restart that reads the last checkpoint and the lines
after it goes on exactly.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np

from mbct.calibrators.online import OnlineCalibrator
from mbct.evaluation.monitor import ALL, BANDS, OTHER, Alarm, CalibrationMonitor
from mbct.serving.journal import Joined, as_columns
from mbct.serving.options import FeedbackOptions
from mbct.validation import FloatArray

log = logging.getLogger("mbct.serving")

LiveWindow = Literal["1h", "24h"]

_LIVE_SECONDS = 300
_SLOTS: dict[LiveWindow, int] = {"1h": 12, "24h": 288}
_COUNT, _PREDICTED, _LABEL = range(3)
_SLOT_SECONDS = 60


class OutcomeStream:
    """Alarms over the outcomes of one service, and what recalibrates its model until the next one comes.

    The online layer belongs to one version of the model: the newest that scored a row with an outcome.
    """

    def __init__(self, options: FeedbackOptions) -> None:
        self._options = options
        n_segments = options.segments if options.segment else 0
        self.layer = OnlineCalibrator(segments=n_segments, max_shift=options.max_shift, calibeating=options.calibeating)
        self.layer_model = ""
        self._newest_number = -1
        self.monitor = CalibrationMonitor(level=options.alarm_level, tolerance=options.tolerance, segments=n_segments)
        self.raised = 0
        self._slot = 0
        self._logged: set[tuple[str, str]] = set()

    def take(self, lines: Sequence[Joined]) -> None:
        """Take joined outcomes, in the order of the journal."""
        for at, group in groupby(lines, key=lambda line: line.at):
            self.close_before(at)
            rows = list(group)
            self.monitor.add(*as_columns(rows))
            if self._options.online:
                self._teach(rows)

    def close_before(self, now: float) -> None:
        """Close the minute that is under way if ``now`` is past it; raised and ended alarms are logged."""
        slot = int(now) // _SLOT_SECONDS
        if slot <= self._slot:
            return
        if self._options.online:
            self.layer.advance()
        self.raised += len(self.monitor.advance(float(self._slot * _SLOT_SECONDS)))
        self._slot = slot
        on = {(alarm.kind, alarm.name): alarm for alarm in self.monitor.alarms}
        for key in on.keys() - self._logged:
            log.warning("calibration alarm: %s", on[key])
        for kind, name in self._logged - on.keys():
            log.info("calibration alarm is past: %s", name if kind == "all" else f"{kind} {name}")
        self._logged = set(on)

    @property
    def alarms(self) -> list[Alarm]:
        """Alarms that are on."""
        return self.monitor.alarms

    def adjusted(self, model: str, calibrated: FloatArray, segment: Sequence[str | None]) -> FloatArray | None:
        """Probabilities of a version after the layer; None where it has learned nothing of that version."""
        if not self._options.online or model != self.layer_model or not self.layer.enabled:
            return None
        return self.layer.apply(calibrated, segment)

    def _teach(self, rows: Sequence[Joined]) -> None:
        newest = max(rows, key=lambda line: line.scored.number).scored
        if newest.model != self.layer_model and newest.number > self._newest_number:
            self.layer.renew()
            self.layer_model = newest.model
        self._newest_number = max(self._newest_number, newest.number)
        own = [line for line in rows if line.scored.model == self.layer_model]
        if own:
            scored = [line.scored for line in own]
            frozen = np.array([s.calibrated if s.frozen is None else s.frozen for s in scored])
            self.layer.add(frozen, np.array([float(line.label) for line in own]), [s.segment for s in scored])

    def state(self) -> dict[str, Any]:
        """Everything as plain JSON."""
        return {
            "slot": self._slot,
            "raised": self.raised,
            "logged": sorted(self._logged),
            "monitor": self.monitor.to_dict(),
            "layer": self.layer.to_dict(),
            "layer_model": self.layer_model,
            "newest_number": self._newest_number,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Undo :meth:`state`."""
        self.monitor.restore(state["monitor"])
        self.layer.restore(state["layer"])
        self.layer_model, self._newest_number = state["layer_model"], state["newest_number"]
        self._slot, self.raised = state["slot"], state["raised"]
        self._logged = {(kind, name) for kind, name in state["logged"]}


@dataclass(frozen=True)
class LiveMetric:
    """Calibration of one segment over one window."""

    window: LiveWindow
    segment: str
    outcomes: int
    pcoc: float
    """Σ calibrated / Σ label: below 1 means underestimated; infinite without a positive."""
    ece: float


class LiveCalibration:
    """Sums by five-minute slot, segment and bin; nothing grows with the traffic."""

    def __init__(self, options: FeedbackOptions) -> None:
        self._segments: dict[str, int] = {}
        n_segments = (options.segments if options.segment else 0) + 2
        self._sums = np.zeros((_SLOTS["24h"], n_segments, len(BANDS) + 1, 3))
        self._slot = 0

    def add(self, at: float, calibrated: FloatArray, label: FloatArray, segment: Sequence[str | None]) -> None:
        """Count outcomes that arrived at second ``at``; what is older than a day counts no more."""
        self._advance(at)
        slot = int(at) // _LIVE_SECONDS
        if slot <= self._slot - len(self._sums):
            return
        rows = np.column_stack([np.ones(len(label)), calibrated, label])
        band = np.searchsorted(BANDS, calibrated)
        sums = self._sums[slot % len(self._sums)]
        np.add.at(sums[0], band, rows)
        position = np.array([0 if name is None else self._position(name) for name in segment], dtype=np.intp)
        known = position > 0
        np.add.at(sums, (position[known], band[known]), rows[known])

    def report(self, now: float) -> list[LiveMetric]:
        """Every window and segment that has outcomes."""
        self._advance(now)
        return [metric for window in _SLOTS for metric in self._of_window(window)]

    def _of_window(self, window: LiveWindow) -> Iterator[LiveMetric]:
        recent = (self._slot - np.arange(_SLOTS[window])) % len(self._sums)
        sums = self._sums[recent].sum(axis=0)
        names = [ALL, *self._segments, OTHER]
        for name, position in zip(names, [0, *self._segments.values(), len(sums) - 1], strict=True):
            if sums[position, :, _COUNT].any():
                yield _metric(window, name, sums[position])

    def _position(self, segment: str) -> int:
        if segment not in self._segments and len(self._segments) < self._sums.shape[1] - 2:
            self._segments[segment] = len(self._segments) + 1
        return self._segments.get(segment, self._sums.shape[1] - 1)

    def _advance(self, now: float) -> None:
        slot = int(now) // _LIVE_SECONDS
        if slot > self._slot:
            for passed in range(max(self._slot + 1, slot - len(self._sums) + 1), slot + 1):
                self._sums[passed % len(self._sums)] = 0.0
            self._slot = slot


def _metric(window: LiveWindow, segment: str, bins: np.ndarray) -> LiveMetric:
    count, predicted, label = bins.sum(axis=0).tolist()
    ece = float(np.abs(bins[:, _PREDICTED] - bins[:, _LABEL]).sum()) / count
    return LiveMetric(window, segment, int(count), predicted / label if label else math.inf, ece)
