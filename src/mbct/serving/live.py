"""Live calibration from outcomes: PCOC and ECE over the last hour and the last day, by segment."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mbct.evaluation.monitor import ALL, BANDS, OTHER
from mbct.serving.options import FeedbackOptions
from mbct.validation import FloatArray

LiveWindow = Literal["1h", "24h"]

_SLOT_SECONDS = 300
_SLOTS: dict[LiveWindow, int] = {"1h": 12, "24h": 288}
_COUNT, _PREDICTED, _LABEL = range(3)


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
        slot = int(at) // _SLOT_SECONDS
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
        slot = int(now) // _SLOT_SECONDS
        if slot > self._slot:
            for passed in range(max(self._slot + 1, slot - len(self._sums) + 1), slot + 1):
                self._sums[passed % len(self._sums)] = 0.0
            self._slot = slot


def _metric(window: LiveWindow, segment: str, bins: np.ndarray) -> LiveMetric:
    count, predicted, label = bins.sum(axis=0).tolist()
    ece = float(np.abs(bins[:, _PREDICTED] - bins[:, _LABEL]).sum()) / count
    return LiveMetric(window, segment, int(count), predicted / label if label else math.inf, ece)
