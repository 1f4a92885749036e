"""The rows of the main table: the paper's methods, its ablations, and our default."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from mbct import MBCTCalibrator
from mbct.calibrators import make
from reproduction.arrays import FloatArray
from reproduction.offline.case import ALPHA, SCORE, Case

MAX_DEPTH, MAX_TREES, SCORE_BUCKETS = 5, 8, 100
"""Section 5.1 and appendix A.1; the buckets of the prediction have equal width."""
BASE, MBCT, ONE_TREE, DEFAULT, IN_TIME = "base", "mbct", "mbct-one-tree", "mbct-default", "mbct-default-time"
TITLES = {
    BASE: "Original predictions",
    "platt": "Platt scaling",
    "beta": "Beta calibration",
    "histogram": "Histogram binning",
    "isotonic": "Isotonic regression",
    "scaling-binning": "Scaling-binning",
    MBCT: "MBCT as printed",
    ONE_TREE: "MBCT as printed, one tree",
    DEFAULT: "MBCT, our default",
    IN_TIME: "MBCT, our default, folds of time",
}
"""The last one where rows are in the order of time."""
LOSSES = {"mvce": MBCT, "ece": "mbct-ece", "ece_sweep": "mbct-ece-sweep"}
"""The training losses of the ablation and the model each gives."""
COMPETITORS: dict[str, dict[str, float]] = {
    "platt": {},
    "beta": {},
    "histogram": {"smoothing": 0.0},
    "isotonic": {"smoothing": 0.0},
    "scaling-binning": {},
}
"""As the paper had them: rates of bins and blocks are plain label rates."""


class Calibrator(Protocol):
    """What every method offers."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from rows and labels; returns itself."""

    def calibrate(self, X: Any) -> FloatArray:
        """Calibrated probabilities of rows."""


def fitted(case: Case, seed: int) -> dict[str, Calibrator]:
    """Every method by name, fitted."""
    found = {name: make().fit(case.train, case.train_label) for name, make in _calibrators(case, seed).items()}
    if case.train_block is not None:
        model = MBCTCalibrator(SCORE, categorical=_categorical(case), random_state=seed)
        found[IN_TIME] = model.fit(case.train, case.train_label, time=case.train_block)
    return found


def _calibrators(case: Case, seed: int) -> dict[str, Callable[[], Calibrator]]:
    named: dict[str, Callable[[], Calibrator]] = {BASE: lambda: make("identity", score_column=SCORE)}
    named |= {name: partial(make, name, score_column=SCORE, **given) for name, given in COMPETITORS.items()}
    named |= {model: partial(printed_mbct, case, loss) for loss, model in LOSSES.items()}
    named[ONE_TREE] = lambda: printed_mbct(case, "mvce", max_trees=1)
    named[DEFAULT] = lambda: MBCTCalibrator(SCORE, categorical=_categorical(case), random_state=seed)
    return named


def printed_mbct(case: Case, loss: str, max_trees: int = MAX_TREES) -> MBCTCalibrator:
    """MBCT with the paper's hyper-parameters."""
    return MBCTCalibrator(
        SCORE,
        preset="paper",
        min_bin_size=case.bin_size,
        categorical=_categorical(case),
        max_depth=MAX_DEPTH,
        max_trees=max_trees,
        score_bins=SCORE_BUCKETS,
        score_binning="width",
        loss=loss,
        alpha=ALPHA,
    )


def _categorical(case: Case) -> str:
    return "all" if case.dataset.discrete else "auto"
