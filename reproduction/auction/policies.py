"""What each bucket ranks by: the base, isotonic regression or MBCT, the latter two retrained every night."""

from collections import deque
from datetime import date
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mbct import MBCTCalibrator
from mbct.calibrators import make
from reproduction.arrays import FloatArray
from reproduction.auction.deployed import DeployedMBCT
from reproduction.auction.log import LABEL, SCORE

WINDOW_DAYS, HALF_LIFE_DAYS = 7, 3.0
"""Older days are left out, younger ones fade."""
MAX_DEPTH, MAX_TREES = 5, 8
"""Section 5.1."""
TITLES = {
    "none": "A: no calibration",
    "isotonic": "B: isotonic regression",
    "mbct": "C: MBCT as printed",
    "mbct-default": "D: MBCT, our default",
    "truth": "the true probabilities",
}


class Policy(Protocol):
    """Learns from each day's log of shown ads and calibrates the next day's candidates."""

    def learn(self, day: date, log: Any) -> None:
        """Take in a day's log and retrain."""

    def calibrate(self, candidates: Any) -> FloatArray:
        """The pCTR to rank by."""


class NoCalibration:
    """Bucket A."""

    def learn(self, day: date, log: Any) -> None:
        """Nothing to learn."""

    def calibrate(self, candidates: Any) -> FloatArray:
        """The predictions as they are."""
        return np.asarray(candidates[SCORE].to_numpy())


class NightlyIsotonic:
    """Bucket B: isotonic regression on the rows of the window, older ones faded."""

    def __init__(self) -> None:
        self.logs: deque[Any] = deque(maxlen=WINDOW_DAYS)
        self.model = make("isotonic", smoothing=0.0)

    def learn(self, day: date, log: Any) -> None:  # noqa: ARG002 - every Policy takes it
        """Take the new rows into the window and refit."""
        self.logs.appendleft(log)
        weights = [np.full(len(old), 0.5 ** (age / HALF_LIFE_DAYS)) for age, old in enumerate(self.logs)]
        y_prob, clicked = (np.concatenate([old[name].to_numpy() for old in self.logs]) for name in (SCORE, LABEL))
        self.model = make("isotonic", smoothing=0.0).fit(y_prob, clicked, np.concatenate(weights))

    def calibrate(self, candidates: Any) -> FloatArray:
        """The fitted steps."""
        return np.asarray(self.model.calibrate(candidates[SCORE].to_numpy()))


def policies(folder: Path, min_bin_size: int, seed: int) -> dict[str, Policy]:
    """A fresh policy for each bucket, their stores in ``folder``; the true probabilities need none."""
    printed = MBCTCalibrator(
        SCORE, preset="paper", categorical="all", min_bin_size=min_bin_size, max_depth=MAX_DEPTH, max_trees=MAX_TREES
    )
    ours = MBCTCalibrator(SCORE, categorical="all", random_state=seed)
    return {
        "none": NoCalibration(),
        "isotonic": NightlyIsotonic(),
        "mbct": DeployedMBCT(folder / "mbct", printed, WINDOW_DAYS, HALF_LIFE_DAYS),
        "mbct-default": DeployedMBCT(folder / "mbct-default", ours, WINDOW_DAYS, HALF_LIFE_DAYS),
    }
