"""What is learned from outcomes in the order in which they were journalled: alarms, and the online layer.

Outcomes are taken minute by minute, by the clock that the journal has written beside them. The state after any number
of lines depends on these lines alone: a restart that reads the last checkpoint and the lines after it goes on exactly.
"""

import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from mbct.calibrators.online import OnlineCalibrator
from mbct.evaluation.monitor import Alarm, CalibrationMonitor
from mbct.serving.journal import Joined, as_columns
from mbct.serving.options import FeedbackOptions
from mbct.validation import FloatArray

log = logging.getLogger("mbct.serving")

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
