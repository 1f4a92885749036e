"""Calibrators that the quality benchmark compares in time order and by groups, MBCT among them.

Every method takes a `Split` and returns its probabilities for the rows that evaluate. Boosted peers start from the
base's log-odds and see them as a feature too. Their ensembles of five folds stop each fold early on the rows it leaves
out and average log-odds: folds of blocks (stretches of time, or groups) are what a careful user does by hand.
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from mbct.calibrators.inputs import binned_cells, prepared_rows, training_data
from mbct.calibrators.registry import make
from mbct.data.columns import encode, read_columns
from mbct.model.bins import FeatureBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.training.boosting import BoostingOptions
from mbct.training.cells import Cells
from mbct.training.default import CrossFittedModel, distill_ensemble, fit_cross_fitted
from mbct.training.folds import BlockColumns
from mbct.training.trainer import PRESETS, Constraints, ModelSize
from mbct.validation import thread_count
from quality_data import N_THREADS, Split, contiguous_folds, group_folds

METHODS = (
    "identity",
    "platt",
    "isotonic",
    "lightgbm, block folds",
    "catboost, block folds",
    "lightgbm",
    "lightgbm, random folds",
    "catboost",
    "catboost, random folds",
    "mcgrad",
    "mbct",
    "mbct rules",
    "mbct compact",
    "mbct full",
)
OURS = "mbct"
SIZES: dict[str, ModelSize] = {"mbct": "auto", "mbct rules": "rules", "mbct compact": "compact", "mbct full": "full"}
"""Our methods, and the size of the model that each is."""
OPTIONAL = ("lightgbm", "catboost", "mcgrad")
N_FOLDS = 5
MAX_TREES = 500
PATIENCE = 30
Booster = Callable[[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray, pd.DataFrame], tuple[np.ndarray, np.ndarray]]
"""Trains on rows and labels, stops early on others; log-odds added for those and for the rows that evaluate."""


def installed(methods: Iterable[str]) -> list[str]:
    """Those methods whose library is installed; a line on the terminal names the others."""
    methods = list(methods)
    libraries = {m: m.partition(",")[0] for m in methods}
    missing = {m for m in methods if libraries[m] in OPTIONAL and find_spec(libraries[m]) is None}
    if missing:
        print(f"not installed, left out: {', '.join(sorted(missing))} (extra bench)")
    return [m for m in methods if m not in missing]


def run(method: str, split: Split, order: str, seed: int = 0) -> tuple[np.ndarray, dict[str, Any]]:
    """Probabilities of one method for the rows that evaluate, and what else is worth keeping of its fit."""
    if method in SIZES:
        return mbct_sizes(split, order, seed, [method])[method]
    if method == "mcgrad":
        return mcgrad(split), {}
    library, _, kind = method.partition(", ")
    if library == "catboost" or kind:
        return boosted(library, folds_of(kind, split, order, seed), split), {}
    columns = list(split.fit_frame) if method == "lightgbm" else ["score"]
    calibrator = make(method, score_column="score")
    calibrator.fit(split.fit_frame[columns], split.fit_label)
    return np.asarray(calibrator.calibrate(split.eval_frame[columns])), {}


@dataclass(frozen=True)
class GrownModel:
    """The default preset's full ensemble with the cells that it was grown on; ``usable``: features it may split by."""

    bins: FeatureBins
    cells: Cells
    whole: CrossFittedModel
    seconds: float

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Whether the codes of each feature have an order."""
        return tuple(feature.ordered for feature in self.bins)

    @property
    def usable(self) -> list[int]:
        """Features that do not identify the time."""
        return [j for j in range(len(self.ordered)) if j not in self.whole.excluded]

    def encoded(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Codes and scores of rows."""
        scores = frame["score"].to_numpy()
        return encode(read_columns(frame), self.bins, scores), scores


def grow(split: Split, order: str, seed: int) -> GrownModel:
    """Grow the default preset as :class:`mbct.MBCTCalibrator` does."""
    started = time.perf_counter()
    kind = "groups" if order == "groups" else "time"
    blocks = BlockColumns() if split.fit_block is None else BlockColumns(**{kind: split.fit_block})
    data = training_data(split.fit_frame, split.fit_label, None, None, "score", blocks=blocks)
    bins, cells = binned_cells(prepared_rows(data, None, stacklevel=1), None, "auto", PRESETS["default"])
    ordered = tuple(feature.ordered for feature in bins)
    options = BoostingOptions(seed=seed)
    whole = fit_cross_fitted(cells, ordered, options, thread_count(None), block_options=blocks.options)
    return GrownModel(bins, cells, whole, time.perf_counter() - started)


def mbct_sizes(
    split: Split, order: str, seed: int, sizes: Iterable[str]
) -> dict[str, tuple[np.ndarray, dict[str, Any]]]:
    """Probabilities of the default preset in some of its sizes, which share one growth; what each cost and holds."""
    grown = grow(split, order, seed)
    codes, scores = grown.encoded(split.eval_frame)
    found = {}
    for name in sizes:
        started = time.perf_counter()
        constraints = Constraints(SIZES[name])
        shipped = distill_ensemble(grown.whole, grown.cells, grown.ordered, constraints, usable=grown.usable)
        model = CalibrationEnsemble("score", "odds", grown.bins, shipped.trees)
        found[name] = (
            model.calibrate_codes(codes, scores),
            {
                "trees": len(shipped.trees),
                "rules": model.n_rules,
                "fidelity": round(shipped.fidelity, 5),
                "bytes": len(json.dumps(model.to_dict(), separators=(",", ":"))),
                "seconds": round(grown.seconds + time.perf_counter() - started, 2),
            },
        )
    return found


def folds_of(kind: str, split: Split, order: str, seed: int) -> np.ndarray:
    """Held-out fold of each row to calibrate on; a single fit holds out a random fifth, the fold 0 of two."""
    random = np.random.default_rng(seed).permutation(len(split.fit_label)) % N_FOLDS
    if kind == "block folds" and split.fit_block is not None:
        by_groups = order == "groups"
        return group_folds(split.fit_block, seed) if by_groups else contiguous_folds(split.fit_block)
    return random if kind else np.minimum(random, 1)


def boosted(library: str, fold: np.ndarray, split: Split) -> np.ndarray:
    """Mean over folds, in log-odds, of trees that were added to the base's log-odds; two folds are a single fit."""
    train, kinds = {"lightgbm": (lightgbm_trees, np.float64), "catboost": (catboost_trees, object)}[library]
    fit, evaluate = _matrices(split, kinds is object)
    base, label = logit(split.fit_frame["score"]), split.fit_label
    held_out_folds = [0] if fold.max() == 1 else list(range(int(fold.max()) + 1))
    added = np.zeros(len(evaluate))
    for k in held_out_folds:
        rows, held_out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        on_held_out, on_eval = train(fit.iloc[rows], label[rows], fit.iloc[held_out], label[held_out], evaluate)
        start, y = base[held_out], label[held_out]
        # A first tree that does not help on the held-out rows is left out, as early stopping would like to.
        if row_losses(sigmoid(start + on_held_out), y).sum() < row_losses(sigmoid(start), y).sum():
            added += on_eval / len(held_out_folds)
    return sigmoid(logit(split.eval_frame["score"]) + added)


def lightgbm_trees(
    fit: pd.DataFrame, label: np.ndarray, held_out: pd.DataFrame, held_out_label: np.ndarray, evaluate: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    """LightGBM with the settings of the package's own LightGBM calibrator."""
    import lightgbm

    settings = {"objective": "binary", "metric": "binary_logloss", "boost_from_average": False, "verbosity": -1}
    settings |= {"learning_rate": 0.05, "num_leaves": 15, "min_data_in_leaf": 50, "num_threads": N_THREADS, "seed": 0}
    train = lightgbm.Dataset(fit, label, init_score=fit["logit"].to_numpy())
    valid = lightgbm.Dataset(held_out, held_out_label, init_score=held_out["logit"].to_numpy(), reference=train)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    model = lightgbm.train(settings, train, MAX_TREES, valid_sets=[valid], callbacks=[stop])
    return model.predict(held_out, raw_score=True), model.predict(evaluate, raw_score=True)


def catboost_trees(
    fit: pd.DataFrame, label: np.ndarray, held_out: pd.DataFrame, held_out_label: np.ndarray, evaluate: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    """CatBoost, symmetric trees of depth 6 at rate 0.1."""
    from catboost import CatBoostClassifier, Pool

    categories = [name for name in fit if fit[name].dtype.kind not in "iuf"]
    train = Pool(fit, label, cat_features=categories, baseline=fit["logit"].to_numpy())
    valid = Pool(held_out, held_out_label, cat_features=categories, baseline=held_out["logit"].to_numpy())
    model = CatBoostClassifier(
        iterations=MAX_TREES,
        learning_rate=0.1,
        depth=6,
        early_stopping_rounds=PATIENCE,
        thread_count=N_THREADS,
        random_seed=0,
        verbose=False,
        allow_writing_files=False,
    )
    model.fit(train, eval_set=valid, use_best_model=True)
    # Rows without a baseline get the trees' sum alone.
    on_held_out, on_eval = (model.predict(rows, prediction_type="RawFormulaVal") for rows in (held_out, evaluate))
    return on_held_out, on_eval


def mcgrad(split: Split) -> np.ndarray:
    """MCGrad with its defaults."""
    from mcgrad.methods import MCGrad

    names = [c for c in split.fit_frame if c != "score"]
    categories = [c for c in names if split.fit_frame[c].dtype.kind not in "iuf"]
    columns = {
        "prediction_column_name": "score",
        "categorical_feature_column_names": categories,
        "numerical_feature_column_names": [c for c in names if c not in categories],
    }
    model = MCGrad()
    model.fit(df_train=split.fit_frame.assign(label=split.fit_label), label_column_name="label", **columns)
    return np.asarray(model.predict(df=split.eval_frame, **columns))


def logit(p: Any) -> np.ndarray:
    """Log-odds of clipped probabilities."""
    p = np.clip(np.asarray(p, float), 1e-9, 1 - 1e-9)
    return np.log(p / (1 - p))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Probabilities of log-odds."""
    return 1 / (1 + np.exp(-x))


def row_losses(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log loss of each row."""
    p = np.clip(p, 1e-9, 1 - 1e-9)
    return -np.where(y == 1, np.log(p), np.log1p(-p))


def _matrices(split: Split, as_text: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Features and the base's log-odds of both parts; categories as text, or as codes with unseen values missing."""
    fit = split.fit_frame.drop(columns="score").assign(logit=logit(split.fit_frame["score"]))
    evaluate = split.eval_frame.drop(columns="score").assign(logit=logit(split.eval_frame["score"]))
    if not as_text:
        for name in [c for c in fit if fit[c].dtype.kind not in "iuf"]:
            values = pd.CategoricalDtype(sorted(fit[name].unique()))
            fit[name], evaluate[name] = fit[name].astype(values), evaluate[name].astype(values)
    return fit, evaluate
