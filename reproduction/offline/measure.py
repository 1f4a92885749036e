"""Fit every method on every case and measure it on the rows left out."""

from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from mbct import MBCTCalibrator
from mbct.metrics import auc, ece, log_loss, mvce
from reproduction.arrays import FloatArray
from reproduction.datasets import load, present
from reproduction.offline.case import Case, make_case
from reproduction.offline.methods import MAX_DEPTH, MAX_TREES, MBCT, SCORE_BUCKETS, TITLES, Calibrator, fitted
from reproduction.offline.predictor import SETTINGS
from reproduction.offline.subgroups import subgroup_ratios
from reproduction.parts import Part
from reproduction.settings import Settings

EXPERIMENT = "offline"
VIEWS = 100
"""r of the paper."""
TOP_LAYERS = 3
_BIN_SIZES = (25, 50, 100, 200, 400, 800, 1600, 3200)
_QUICK_ROWS, _FULL_ROWS = 15_000, 200_000
"""Rows taken at most, evenly spaced; the paper's own files, if they are all there, are taken whole in a full run."""
_COSTS = {
    "porto-seguro": 25.0,
    "avazu": 8.0,
    "french-claims": 35.0,
    "criteo": 18.0,
    "flights": 45.0,
    "flights-2001": 90.0,
    "employment": 20.0,
}
_COST, _QUICK_COST = 3600.0, 4.0
"""Seconds, as measured; of CACTRDC's twelve million rows only a guess."""


def parts(settings: Settings) -> list[Part]:
    """One part for each data set and repetition."""
    return [
        _part(settings, name, digest, repetition)
        for repetition in range(settings.repetitions)
        for name, digest in present(settings.data).items()
    ]


def _part(settings: Settings, name: str, digest: str, repetition: int) -> Part:
    parameters = {
        "dataset": name,
        "file": digest,
        "n_rows": _QUICK_ROWS if settings.quick else _FULL_ROWS,
        "thin_whole": settings.quick,
        "repetition": repetition,
        "seed": settings.seed,
        "predictor": SETTINGS,
        "max_depth": MAX_DEPTH,
        "max_trees": MAX_TREES,
        "score_buckets": SCORE_BUCKETS,
        "views": VIEWS,
    }
    cost = _QUICK_COST if settings.quick else _COSTS.get(name, _COST)
    return Part(
        EXPERIMENT, f"{name}-{repetition}", parameters, partial(_measure, settings.data, parameters), __name__, cost
    )


def _measure(data: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    name, seed, repetition = (parameters[key] for key in ("dataset", "seed", "repetition"))
    case, models = _fitted(name, data, parameters["n_rows"], parameters["thin_whole"], seed, repetition)
    rows = case.resampled(seed, repetition)
    calibrated = {method: model.calibrate(case.test)[rows] for method, model in models.items()}
    case = case.with_test_rows(rows)
    result = {
        "dataset": _described(case),
        "methods": {
            name: _scores(case, calibrated[name], seed) | _training_score(case, models[name])
            for name in TITLES
            if name in models
        },
        "mvce_by_bin_size": _by_bin_size(case, calibrated),
    }
    if repetition == 0:
        result["subgroups"] = subgroup_ratios(case, models, seed)
        result["growth"] = _growth(models[MBCT])
    return result


def _fitted(
    name: str, data: Path, n_rows: int, thin_whole: bool, seed: int, repetition: int
) -> tuple[Case, dict[str, Calibrator]]:
    """The case of a repetition and its fitted methods; where time decides the split, all share those of the first."""
    dataset = load(name, data, n_rows, thin_whole=thin_whole)
    if dataset.order == "time":
        return _fitted_in_time(name, data, n_rows, thin_whole, seed)
    case = make_case(dataset, seed + repetition)
    return case, fitted(case, seed)


@lru_cache(maxsize=3)
def _fitted_in_time(
    name: str, data: Path, n_rows: int, thin_whole: bool, seed: int
) -> tuple[Case, dict[str, Calibrator]]:
    case = make_case(load(name, data, n_rows, thin_whole=thin_whole), seed)
    return case, fitted(case, seed)


def _described(case: Case) -> dict[str, Any]:
    dataset = case.dataset
    return {
        "title": dataset.title,
        "origin": dataset.origin,
        "order": dataset.order,
        "rows": [case.n_predictor, len(case.train_label), len(case.test_label)],
        "label_rate": float(case.train_label.mean()),
        "bin_size": case.bin_size,
        "printed_bin_size": dataset.printed_bin_size,
        "features": list(dataset.calibration_features),
        "probe": dataset.probe,
        "whole": dataset.whole,
    }


def _scores(case: Case, y_prob: FloatArray, seed: int) -> dict[str, float]:
    label = case.test_label
    features = case.test.select(case.dataset.calibration_features)
    return {
        "mvce": float(mvce(label, y_prob, bin_size=case.bin_size, n_views=VIEWS, seed=seed)),
        "auc": float(auc(label, y_prob)),
        "log_loss": float(log_loss(label, y_prob)),
        "ece": float(ece(label, y_prob)),
        "field_error": float(mvce(label, y_prob, views="features", features=features, norm=1)),
    }


def _training_score(case: Case, method: Calibrator) -> dict[str, float]:
    """Log loss on the rows that the method learnt from."""
    return {"training_log_loss": float(log_loss(case.train_label, method.calibrate(case.train)))}


def _by_bin_size(case: Case, calibrated: dict[str, FloatArray]) -> dict[str, Any]:
    """MVCE over all shuffles (closed form) at many bin sizes."""
    label = case.test_label
    sizes = [size for size in _BIN_SIZES if size <= len(label) // 2]
    return {
        "sizes": sizes,
        "methods": {
            name: [float(mvce(label, y_prob, bin_size=size, method="closed-form")) for size in sizes]
            for name, y_prob in calibrated.items()
        },
    }


def _growth(model: Calibrator) -> dict[str, Any]:
    """The splits in the top layers of the first tree with their children, and the loss around each tree."""
    assert isinstance(model, MBCTCalibrator)
    trace, ensemble = model.trace_, model.model_
    splits = []
    for record in trace.splits:
        if record.tree > 0 or record.depth >= TOP_LAYERS:
            continue
        tree = ensemble.trees[0]
        children = tree.children(record.node, ensemble.bins.n_codes[int(tree.feature[record.node])])
        rates = (tree.count[list(children)], tree.leaf_value[list(children)])
        splits.append(
            {
                **asdict(record),
                "children": list(children),
                "child_rows": np.asarray(rates[0]).tolist(),
                "child_multipliers": np.asarray(rates[1]).tolist(),
            }
        )
    return {"splits": splits, "rounds": [asdict(record) for record in trace.rounds]}
