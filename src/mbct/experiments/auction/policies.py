"""What each bucket ranks by: the base, isotonic regression or MBCT, the latter two retrained every night."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from mbct.binning.features import FeatureBins
from mbct.boosting.honest import HonestOptions, boost_honest
from mbct.boosting.model import CalibrationEnsemble
from mbct.boosting.paper import PaperOptions, boost_cells
from mbct.boosting.presets import preset
from mbct.calibrators import make
from mbct.cells.build import build_cells
from mbct.cells.cells import Cells
from mbct.cells.group import CodeMatrix
from mbct.engines.columns import Columns
from mbct.engines.memory import encode, fit_bins
from mbct.validation import FloatArray

SCORE = "pctr"
NIGHTLY_DEFAULT = {"n_folds": 3, "rate": 0.3, "max_trees": 80, "leaves": (15,)}
"""The default preset in fewer and larger steps: a night's retraining in seconds."""
HALF_LIFE_DAYS = 3.0
DECAY = 0.5 ** (1.0 / HALF_LIFE_DAYS)
Features = dict[str, npt.NDArray[np.int64]]


class Policy(Protocol):
    """Learns from each day's log of shown ads and calibrates the next day's candidates."""

    def learn(self, features: Features, y_prob: FloatArray, clicked: FloatArray) -> None:
        """Take in a day's log and retrain."""

    def calibrate(self, features: Features, y_prob: FloatArray) -> FloatArray:
        """The pCTR to rank by."""


class NoCalibration:
    """Bucket A."""

    def learn(self, features: Features, y_prob: FloatArray, clicked: FloatArray) -> None:
        """Nothing to learn."""

    def calibrate(self, features: Features, y_prob: FloatArray) -> FloatArray:  # noqa: ARG002
        """The predictions as they are."""
        return y_prob


class NightlyIsotonic:
    """Bucket B: isotonic regression on all days, older ones faded."""

    def __init__(self) -> None:
        self.y_prob = self.clicked = self.weight = np.empty(0)
        self.model = make("isotonic")

    def learn(self, features: Features, y_prob: FloatArray, clicked: FloatArray) -> None:  # noqa: ARG002
        """Fade the old rows, add the new, refit."""
        self.weight = np.concatenate([DECAY * self.weight, np.ones(len(y_prob))])
        self.y_prob = np.concatenate([self.y_prob, y_prob])
        self.clicked = np.concatenate([self.clicked, clicked])
        self.model = make("isotonic").fit(self.y_prob, self.clicked, self.weight)

    def calibrate(self, features: Features, y_prob: FloatArray) -> FloatArray:  # noqa: ARG002
        """The fitted steps."""
        return self.model.calibrate(y_prob)


class NightlyMBCT:
    """Buckets C and D: bins from the first day; then only cells are kept, faded and added to, and trees grown anew."""

    def __init__(self, preset_name: str, options: dict[str, object]) -> None:
        self.preset = preset(preset_name, options)
        self.bins: FeatureBins | None = None
        self.cells: Cells | None = None
        self.model: CalibrationEnsemble | None = None

    def learn(self, features: Features, y_prob: FloatArray, clicked: FloatArray) -> None:
        """Aggregate the day's log into cells, fade and merge the window, regrow the trees."""
        columns = Columns(dict(features), len(y_prob))
        if self.bins is None:
            names = list(features)
            self.bins = fit_bins(columns, SCORE, names, y_prob, clicked, None, "all", self.preset.binning)
        codes = encode(columns, self.bins, y_prob)
        today = build_cells(codes, y_prob, clicked, None, self.bins, "cell")
        self.cells = today if self.cells is None else self.cells.decay(DECAY).merge(today)
        self.model = self._grown(self.bins, self.cells)

    def _grown(self, bins: FeatureBins, cells: Cells) -> CalibrationEnsemble:
        growth = self.preset.growth
        if isinstance(growth, PaperOptions):
            trees, _ = boost_cells(cells, bins.names, growth, 2)
        else:
            trees, _ = _honest(cells, bins, growth)
        return CalibrationEnsemble(SCORE, self.preset.pattern, bins, trees)

    def calibrate(self, features: Features, y_prob: FloatArray) -> FloatArray:
        """Walk the trees."""
        if self.model is None:
            return y_prob
        codes: CodeMatrix = encode(Columns(dict(features), len(y_prob)), self.model.bins, y_prob)
        return self.model.calibrate_codes(codes, y_prob)


def _honest(cells: Cells, bins: FeatureBins, growth: HonestOptions):  # type: ignore[no-untyped-def]
    ordered = tuple(feature.ordered for feature in bins)
    return boost_honest(cells.canonical(), ordered, growth, 2, lambda _: None)


TITLES = {
    "none": "A: no calibration",
    "isotonic": "B: isotonic regression",
    "mbct": "C: MBCT as printed",
    "mbct-default": "D: MBCT, our default",
    "truth": "the true probabilities",
}


def policies(min_bin_size: int, seed: int) -> dict[str, Policy]:
    """A fresh policy for each bucket; the true probabilities need none."""
    return {
        "none": NoCalibration(),
        "isotonic": NightlyIsotonic(),
        "mbct": NightlyMBCT("paper", {"min_bin_size": min_bin_size, "max_depth": 5, "max_trees": 8}),
        "mbct-default": NightlyMBCT("default", {**NIGHTLY_DEFAULT, "seed": seed}),
    }
