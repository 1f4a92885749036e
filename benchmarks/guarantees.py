"""Do certificates hold? Coverage and width where the truth is known, and later rates on real data.

    python benchmarks/guarantees.py --data ../shared/data

Part "independent" draws 500 data sets of 10 to 500 bins of very different sizes, with label rates from 0.1 % to 60
% that differ within bins and predictions that are off; part "shocks" gives every day a shock in the log-odds; part
"merged" certifies one fitted model on 500 samples with a requested error. Part "real" takes 20 splits of French
claims and 20 stretches of flights in time order: fit, certify on the rows that follow, compare with the rows after
those. Results go into ``docs/benchmarks/guarantees.json`` and ``guarantees.md``; without ``--data`` part "real" is
kept.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from guarantees_page import page
from made_with import write_page
from mbct import MBCTCalibrator, certify
from mbct.calibrators.certification import HeldOutRows, bounds, certify_rows
from mbct.data.columns import encode, read_columns
from mbct.errors import MBCTWarning
from mbct.progress import track
from mbct.simulation import simulate
from mbct.stats.confidence import rate_ends
from mbct.stats.probabilities import logit, sigmoid
from mbct.stats.theorem import label_rate_bound
from mbct.training.trainer import RowFingerprint
from quality_data import splits

OUT = Path("docs/benchmarks")
ALPHA = 0.05
DATA_SETS, SPLITS = 500, 20
EXACT = ("clopper-pearson", "betting", "theorem-1")
BINS = (10, 30, 100, 500)
RATES = (0.001, 0.01, 0.1, 0.6)
SPREAD = 0.4
"""Standard deviation of a day's shock in the log-odds."""


def held(y_true: Any, y_prob: Any, block: Any = None) -> HeldOutRows:
    """Rows without a model: the prediction is the calibrated one."""
    return HeldOutRows(np.zeros((len(y_true), 1), np.uint8), y_prob, y_prob, y_true, block)


def independent(seed: int) -> dict[str, Any]:
    """One data set of independent labels: whether all bins hold at once, and the mean half-width over bins."""
    rng = np.random.default_rng(seed)
    n_bins, rate = BINS[seed % 4], RATES[seed // 4 % 4]
    n_rows = int(10 ** rng.uniform(4.0, 5.0))
    share = 1.0 / np.arange(1, n_bins + 1) ** rng.uniform(0.0, 1.5)
    division = np.searchsorted(np.cumsum(share / share.sum())[:-1], rng.random(n_rows))
    truth = np.minimum(rate * rng.lognormal(0.0, 0.3, n_bins)[division] * rng.lognormal(-0.2, 0.6, n_rows), 0.95)
    y_prob = np.minimum(truth * rng.lognormal(0.0, 0.2, n_bins)[division] * rng.lognormal(0.0, 0.2, n_rows), 1.0)
    y_true = (rng.random(n_rows) < truth).astype(float)
    found = {method: bounds(held(y_true, y_prob), division, n_bins, n_bins, ALPHA, method) for method in EXACT}
    size = np.bincount(division, minlength=n_bins)
    gap = np.bincount(division, truth - y_prob, n_bins) / np.maximum(size, 1)
    counted = size > 0
    width = label_rate_bound(found["theorem-1"].label / np.maximum(size, 1), size, n_bins, ALPHA)[counted]
    result: dict[str, Any] = {"bins": n_bins, "rate": rate}
    for method, each in found.items():
        result[method] = bool(np.all(((each.lower <= gap) & (gap <= each.upper))[counted]))
        result[f"{method} width"] = float(np.mean((each.upper - each.lower)[counted] / 2))
    half = ((found["clopper-pearson"].upper - found["clopper-pearson"].lower) / 2)[counted]
    result |= {"theorem width": float(width.mean()), "ratio": float(np.median(half / width))}
    return result


def shocks(seed: int) -> dict[str, Any]:
    """One data set of days with a shock each; the truth is that of a day that is still to come."""
    rng = np.random.default_rng(seed)
    n_bins, n_days = (10, 30, 100)[seed % 3], (30, 60, 200)[seed // 3 % 3]
    day = np.repeat(np.arange(n_days), 500).astype(np.int32)
    division = rng.integers(0, n_bins, len(day))
    y_prob = sigmoid(rng.normal(-2.0, 1.0, len(day)))
    point, weight = np.polynomial.hermite_e.hermegauss(15)
    truth = sum(w * sigmoid(logit(y_prob) + SPREAD * z) for z, w in zip(point, weight / weight.sum(), strict=True))
    chance = sigmoid(logit(y_prob) + rng.normal(0.0, SPREAD, n_days)[day])
    y_true = (rng.random(len(day)) < chance).astype(float)
    gap = np.bincount(division, truth - y_prob, n_bins) / np.bincount(division, minlength=n_bins)
    result: dict[str, Any] = {"bins": n_bins, "days": n_days}
    for method in ("clopper-pearson", "blocks"):
        each = bounds(held(y_true, y_prob, day), division, n_bins, n_bins, ALPHA, method)
        result[method] = bool(np.all((each.lower <= gap) & (gap <= each.upper)))
        result[f"{method} width"] = float(np.mean(each.upper - each.lower) / 2)
    return result


def merged(model: MBCTCalibrator, seed: int, max_error: float | None) -> dict[str, Any]:
    """One sample that certifies a fitted model: bins that were merged by its labels, and the intervals of its rows."""
    frame, truth, label = simulate_clicks(seed, 8_000)
    codes = encode(read_columns(frame), model.model_.bins, frame["pctr"])
    calibrated = model.calibrate(frame)
    sample = HeldOutRows(codes, frame["pctr"], calibrated, label)
    certificate = certify_rows(
        model.model_, sample, RowFingerprint(), alpha=ALPHA, method="clopper-pearson", max_error=max_error
    )
    tree = model.model_.bin_tree
    node = np.zeros(len(label), np.int32) if tree is None else tree.apply(codes)
    lower, upper = certificate.intervals.of_rows(node, calibrated)
    bin_of_row = certificate.intervals.bins_of_rows(node, calibrated)
    sums = [np.bincount(bin_of_row, values) for values in (lower, truth, upper)]
    return {
        "bins": len(certificate.group("partition")),
        "held": bool(np.all((sums[0] <= sums[1]) & (sums[1] <= sums[2]))),
        "rows inside": float(np.mean((lower <= truth) & (truth <= upper))),
        "width": float(np.mean(upper - lower) / 2),
    }


def simulate_clicks(seed: int, n_rows: int) -> tuple[dict[str, Any], Any, Any]:
    """Columns, true probability and label of simulated clicks."""
    found = simulate(n_rows=n_rows, seed=seed)
    columns = {name: column for name, column in found.columns.items() if name != found.label}
    return columns, found.truth, found.columns[found.label].astype(float)


def real(name: str, split: int, pool: Any) -> dict[str, Any]:
    """Fit, certify on the rows that follow, compare with the rows after those."""
    frame, label, block = pool
    rng = np.random.default_rng(split)
    if block is None:
        order = rng.permutation(len(label))[:80_000]
        parts = np.split(order, [30_000, 50_000])
    else:
        days = np.unique(block)
        first = days[0] + split * (len(days) - 120) // (SPLITS - 1)
        kept = rng.random(len(label)) < 0.5
        edges = ((first, first + 60), (first + 60, first + 90), (first + 90, first + 120))
        parts = [np.flatnonzero(kept & (block >= low) & (block < high)) for low, high in edges]
    fit, held_out, later = ((frame.iloc[p].reset_index(drop=True), label[p]) for p in parts)
    blocks = {} if block is None else {"time": block[parts[0]]}
    model = MBCTCalibrator("score", preset="fast", max_trees=20, model_size="compact").fit(*fit, **blocks)
    result: dict[str, Any] = {"data": name, "split": split, "rules": model.model_.n_rules}
    for method in ("clopper-pearson",) if block is None else ("clopper-pearson", "blocks"):
        time = None if block is None else block[parts[1]]
        model.attach(certify(model, *held_out, method=method, time=time))
        calibrated, lower, upper = model.calibrate(later[0], return_interval=True)
        tree, codes = model.model_.bin_tree, encode(read_columns(later[0]), model.model_.bins, later[0]["score"])
        node = np.zeros(len(calibrated), np.int32) if tree is None else tree.apply(codes)
        _, bin_of_row = np.unique(model.model_.intervals.bins_of_rows(node, calibrated), return_inverse=True)
        size = np.bincount(bin_of_row)
        low, rate, high = (np.bincount(bin_of_row, values) / size for values in (lower, later[1], upper))
        least, most = rate_ends(rate * size, size.astype(float), ALPHA / len(size))
        result[method] = {
            "bins": len(size),
            "outside": float(np.mean((rate < low) | (rate > high))),
            "surely outside": float(np.mean((most < low) | (least > high))),
            "width": float(np.mean(upper - lower) / 2),
        }
    return result


def _compact(record: dict[str, Any]) -> str:
    return json.dumps(json.loads(json.dumps(record), parse_float=lambda text: float(f"{float(text):.4g}")))


def main() -> None:
    """Run the parts and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the data sets, for the part on real data")
    parser.add_argument("--only", choices=["simulated", "real"], help="run one part, keep the other")
    arguments = parser.parse_args()
    path = OUT / "guarantees.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    if arguments.only != "real":
        results["independent"] = [independent(seed) for seed in track(range(DATA_SETS), "independent")]
        results["shocks"] = [shocks(seed) for seed in track(range(DATA_SETS), "shocks")]
        columns, _, label = simulate_clicks(0, 20_000)
        model = MBCTCalibrator("pctr", preset="fast", max_trees=20).fit(columns, label)
        for name, max_error in (("all bins", None), ("merged", 0.05)):
            results[name] = [merged(model, s, max_error) for s in track(range(1, DATA_SETS + 1), name)]
    if arguments.data is not None and arguments.only != "simulated":
        results["real"] = []
        for name in ("French claims", "flights 2013"):
            pair = splits(name, "weak", False, arguments.data)
            block = None if pair.fit_block is None else np.concatenate([pair.fit_block, pair.eval_block])
            frame = pd.concat([pair.fit_frame, pair.eval_frame], ignore_index=True)
            pool = frame, np.concatenate([pair.fit_label, pair.eval_label]), block
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MBCTWarning)
                results["real"] += [real(name, s, pool) for s in track(range(SPLITS), name)]
    lines = (f'"{name}": [\n' + ",\n".join(map(_compact, records)) + "\n]" for name, records in results.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    write_page(OUT / "guarantees.md", page(results))


if __name__ == "__main__":
    main()
