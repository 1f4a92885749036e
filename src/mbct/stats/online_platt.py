"""Online Platt scaling: intercept and slope of the log-odds, learned from outcomes as they arrive, with forgetting.

An expert keeps the discounted sums of a logistic regression of the outcomes on x = (1, z − centre) with offset z, the
log-odds of the frozen model, linearised at its own estimate: the online Newton step with forgetting factor
exp(−information/memory). Its ridge draws it back to the identity, so what is forgotten is forgotten towards no change.
Experts of several memories, and the identity, are weighted by how well each predicted outcomes before it learned from
them; the layer's shift is their weighted mean. A segment's own offset is learned on top in the same way.
Gupta and Ramdas, "Online Platt scaling with calibeating", 2023.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.stats.probabilities import log_loss_of_logodds, logit, sigmoid
from mbct.validation import FloatArray

MEMORIES: FloatArray = np.array([100.0, 1_000.0, 10_000.0, 100_000.0])
"""Information Σq(1 − q), about the expected positives, after which an outcome counts 1/e."""
N_EXPERTS = len(MEMORIES)
_GAIN_MEMORY = 10_000.0  # Over how much information experts are compared
_RIDGE = np.array([10.0, 10.0])
_SEGMENT_RIDGE = 20.0
_IDENTITY, _SEGMENT_IDENTITY = 0.8, 0.95
"""Weight of no change before any outcome: a segment needs more evidence of its own."""
_BANDS = np.array([-6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
"""Edges of the calibrated log-odds between which calibeating compares outcomes with predictions."""
_BAND_RIDGE = 100.0
_GLOBAL_SUMS = 6 * N_EXPERTS + 1
_SEGMENT_SUMS = 3 * N_EXPERTS + 1


@dataclass(frozen=True, eq=False)
class LogOddsShift:
    """What the layer does to log-odds at one time; ``offsets`` are those of the segments, 0 last for rows of none."""

    centre: float
    intercept: float
    slope: float
    offsets: FloatArray
    max_shift: float
    band_residual: FloatArray | None = None
    """Mean of outcome less prediction by band, for calibeating."""

    def apply(self, z: FloatArray, segment: npt.NDArray[np.intp]) -> FloatArray:
        """Log-odds after the layer; ``segment`` is −1 where a row has none."""
        shift = self.intercept + (self.slope - 1.0) * (z - self.centre) + self.offsets[segment]
        if self.band_residual is not None:
            moved = z + np.clip(shift, -self.max_shift, self.max_shift)
            shift = logit(sigmoid(moved) + self.band_residual[np.searchsorted(_BANDS, moved)]) - z
        return np.asarray(z + np.clip(shift, -self.max_shift, self.max_shift))


@dataclass
class OnlinePlatt:
    """State of the layer: plain arrays; the first axis of ``segment_…`` is the segment."""

    n_segments: int
    max_shift: float
    centre: float | None
    curvature: FloatArray
    response: FloatArray
    estimate: FloatArray
    gain: FloatArray
    segment_curvature: FloatArray
    segment_response: FloatArray
    segment_estimate: FloatArray
    segment_gain: FloatArray
    band_sums: FloatArray
    pending: FloatArray
    segment_pending: FloatArray
    band_pending: FloatArray

    @classmethod
    def of(cls, n_segments: int, max_shift: float) -> "OnlinePlatt":
        """The identity."""
        one, two = (n_segments, N_EXPERTS), (N_EXPERTS, 2)
        sums = [np.zeros((N_EXPERTS, 2, 2)), np.zeros(two), np.zeros(two), np.zeros(N_EXPERTS)]
        segments = [np.zeros(one), np.zeros(one), np.zeros(one), np.zeros(one)]
        bands = (len(_BANDS) + 1, 2)
        pending = [np.zeros(_GLOBAL_SUMS), np.zeros((n_segments, _SEGMENT_SUMS)), np.zeros(bands)]
        arrays: list[FloatArray] = [*sums, *segments, np.zeros(bands), *pending]
        return cls(n_segments, max_shift, None, *arrays)

    def shift(self, *, calibeating: bool = False) -> LogOddsShift:
        """What the layer does now: a copy, which later outcomes leave alone."""
        intercept, slope = (_weights(self.gain, _IDENTITY) @ self.estimate).tolist()
        offsets = (_weights(self.segment_gain, _SEGMENT_IDENTITY) * self.segment_estimate).sum(axis=1)
        residual = self.band_sums[:, 0] / (self.band_sums[:, 1] + _BAND_RIDGE) if calibeating else None
        centre = 0.0 if self.centre is None else self.centre
        return LogOddsShift(centre, intercept, 1.0 + slope, np.append(offsets, 0.0), self.max_shift, residual)

    def add(self, z: FloatArray, label: FloatArray, segment: npt.NDArray[np.intp]) -> None:
        """Collect outcomes for the next :meth:`advance`; however they are divided into calls, the sums are the same."""
        q = sigmoid(z)
        information = (q * (1.0 - q))[:, None]
        shift = self.shift()
        x = z - shift.centre
        own = self.estimate[:, 0] + x[:, None] * self.estimate[:, 1]
        p, v, gain = _against(z[:, None], own, label[:, None])
        working = v * own + label[:, None] - p
        each = [v, v * z[:, None], v * z[:, None] ** 2, working, working * z[:, None], gain, information]
        # Sums along the first axis are taken row by row, so the order of calls alone decides their last digit.
        self.pending = np.add.reduce(np.vstack([self.pending, np.hstack(each)]), axis=0)
        base = z + shift.intercept + (shift.slope - 1.0) * x
        known = segment >= 0
        own = self.segment_estimate[segment[known]]
        p, v, gain = _against(base[known, None], own, label[known, None])
        each = [v, v * own + label[known, None] - p, gain, information[known]]
        np.add.at(self.segment_pending, segment[known], np.hstack(each))
        moved = shift.apply(z, segment)
        p = sigmoid(moved)
        np.add.at(self.band_pending, np.searchsorted(_BANDS, moved), np.column_stack([label - p, np.ones(len(z))]))

    def advance(self) -> None:
        """Learn from what was collected: forget, add, solve."""
        v, vz, vzz, r, rz, gain = self.pending[:-1].reshape(6, N_EXPERTS)
        information = self.pending[-1]
        if self.centre is None and information > 0.0:
            self.centre = float(vz[0] / v[0])
        c = self.centre or 0.0
        vx, vxx, rx = vz - c * v, vzz - 2.0 * c * vz + c * c * v, rz - c * r
        keep = np.exp(-information / MEMORIES)
        grown = np.stack([np.stack([v, vx], axis=1), np.stack([vx, vxx], axis=1)], axis=1)
        self.curvature = keep[:, None, None] * self.curvature + grown
        self.response = keep[:, None] * self.response + np.stack([r, rx], axis=1)
        solved = np.linalg.solve(self.curvature + np.diag(_RIDGE), self.response[..., None])[..., 0]
        self.estimate = np.clip(solved, -self.max_shift, self.max_shift)
        self.gain = np.exp(-information / _GAIN_MEMORY) * self.gain + gain
        v, r, gain = np.moveaxis(self.segment_pending[:, :-1].reshape(-1, 3, N_EXPERTS), 1, 0)
        passed = self.segment_pending[:, -1:]
        keep = np.exp(-passed / MEMORIES)
        self.segment_curvature = keep * self.segment_curvature + v
        self.segment_response = keep * self.segment_response + r
        solved = self.segment_response / (self.segment_curvature + _SEGMENT_RIDGE)
        self.segment_estimate = np.clip(solved, -self.max_shift, self.max_shift)
        self.segment_gain = np.exp(-passed / _GAIN_MEMORY) * self.segment_gain + gain
        self.band_sums = np.exp(-information / _GAIN_MEMORY) * self.band_sums + self.band_pending
        self.pending[:] = 0.0
        self.segment_pending[:] = 0.0
        self.band_pending[:] = 0.0

    def renewed(self) -> "OnlinePlatt":
        """The identity again, for another model; which memories were good is remembered by half."""
        new = OnlinePlatt.of(self.n_segments, self.max_shift)
        new.gain, new.segment_gain = 0.5 * self.gain, 0.5 * self.segment_gain
        return new

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; numbers come back as they were."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "OnlinePlatt":
        """Undo :meth:`to_dict`."""
        new = cls.of(state["n_segments"], state["max_shift"])
        for field in fields(cls):
            value = state[field.name]
            if isinstance(getattr(new, field.name), np.ndarray):
                value = np.array(value, dtype=np.float64).reshape(getattr(new, field.name).shape)
            setattr(new, field.name, value)
        return new


def _weights(gain: FloatArray, identity: float) -> FloatArray:
    """Weight of each expert; what is missing to 1 is the identity's."""
    most = np.maximum(gain.max(axis=-1, keepdims=True), 0.0)
    expert = (1.0 - identity) / N_EXPERTS * np.exp(gain - most)
    return np.asarray(expert / (identity * np.exp(-most) + expert.sum(axis=-1, keepdims=True)))


def _against(z: FloatArray, shift: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Probability after each expert's shift, its variance, and the fall of the log loss."""
    p = sigmoid(z + shift)
    return p, p * (1.0 - p), log_loss_of_logodds(z, label) - log_loss_of_logodds(z + shift, label)
