"""What is learned from outcomes in the order in which they were journalled: alarms.

Outcomes are taken minute by minute, by the clock that the journal has written beside them. The state after any number
of lines depends on these lines alone: a restart that reads the last checkpoint and the lines after it goes on exactly.
"""

import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from mbct.evaluation.monitor import Alarm, CalibrationMonitor
from mbct.serving.journal import Joined
from mbct.serving.options import FeedbackOptions

log = logging.getLogger("mbct.serving")

_SLOT_SECONDS = 60


class OutcomeStream:
    """Alarms over the outcomes of one service."""

    def __init__(self, options: FeedbackOptions) -> None:
        self.monitor = CalibrationMonitor(
            level=options.alarm_level, tolerance=options.tolerance, segments=options.segments if options.segment else 0
        )
        self.raised = 0
        self._slot = 0
        self._logged: set[tuple[str, str]] = set()

    def take(self, lines: Sequence[Joined]) -> None:
        """Take joined outcomes, in the order of the journal."""
        for at, group in groupby(lines, key=lambda line: line.at):
            self.close_before(at)
            rows = list(group)
            calibrated = np.array([line.scored.calibrated for line in rows])
            label = np.array([float(line.label) for line in rows])
            self.monitor.add(calibrated, label, [line.scored.segment for line in rows])

    def close_before(self, now: float) -> None:
        """Close the minute that is under way if ``now`` is past it; raised and ended alarms are logged."""
        slot = int(now) // _SLOT_SECONDS
        if slot <= self._slot:
            return
        self.raised += len(self.monitor.advance(float(self._slot * _SLOT_SECONDS)))
        self._slot = slot
        on = {(alarm.kind, alarm.name): alarm for alarm in self.monitor.alarms}
        for place in on.keys() - self._logged:
            log.warning("calibration alarm: %s", on[place])
        for kind, name in self._logged - on.keys():
            log.info("calibration alarm is past: %s", name if kind == "all" else f"{kind} {name}")
        self._logged = set(on)

    @property
    def alarms(self) -> list[Alarm]:
        """Alarms that are on."""
        return self.monitor.alarms

    def state(self) -> dict[str, Any]:
        """Everything as plain JSON."""
        logged = sorted(self._logged)
        return {"slot": self._slot, "raised": self.raised, "logged": logged, "monitor": self.monitor.to_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Undo :meth:`state`."""
        self.monitor.restore(state["monitor"])
        self._slot, self.raised = state["slot"], state["raised"]
        self._logged = {(kind, name) for kind, name in state["logged"]}
