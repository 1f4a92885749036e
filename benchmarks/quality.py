"""Held-out quality against every peer: log loss on real data sets, strong and weak base predictors.

    python benchmarks/quality.py --order time
    python benchmarks/quality.py --order fresh
    python benchmarks/quality.py --order groups
    python benchmarks/quality.py --order random --seeds 5
    python benchmarks/quality.py --order time --only mbct

Each data set is split into three parts: one trains the base predictor, one the calibrators, one evaluates them. Parts
are consecutive stretches of time, whole groups (persons, users), or random rows. Results are kept line by line in
``docs/benchmarks/quality-ORDER.jsonl`` (``quality.jsonl`` for random order), so that an interrupted run goes on where
it stopped and ``--only mbct`` computes MBCT again beside the kept peers. The pages, and for random order the
plot and README's table, are drawn from these files. MCGrad and CatBoost take part where installed (extra ``bench``).
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from made_with import write_page
from mbct.calibrators.registry import make
from mbct.metrics import field_rce
from mbct.progress import progress
from quality_blocks import MAX_SUMS, run_order
from quality_blocks_page import block_page, with_time_table
from quality_data import RANDOM, Split, splits
from quality_fresh import ORDERS
from quality_page import METHODS, OURS, draw, kept_results, page, table, with_table
from quality_peers import METHODS as BLOCK_METHODS
from quality_peers import boosted, folds_of, installed, mbct_sizes, mcgrad, row_losses

OUT = Path("docs/benchmarks")
README = Path("README.md")
DATA = RANDOM


def thirds(name: str, kind: str, seed: int, folder: Path) -> list[tuple[pd.DataFrame, np.ndarray]]:
    """Rows and labels to fit on and to evaluate on, with the score of a base that another third has trained."""
    split = splits(name, kind, False, folder, seed)
    return [(split.fit_frame, split.fit_label), (split.eval_frame, split.eval_label)]


def fit_and_calibrate(method: str, split: Split, seed: int) -> np.ndarray:
    """Predictions of one peer for the rows that evaluate."""
    if method == "mcgrad":
        return mcgrad(split)
    if method == "lightgbm, 5 folds":
        return _lightgbm_folds(split.fit_frame, split.fit_label, split.eval_frame, seed)
    if method.startswith("catboost"):
        kind = "random folds" if method == "catboost, 5 folds" else ""
        return boosted("catboost", folds_of(kind, split, "random", seed), split)
    options = {"random_state": seed} if method == "lightgbm" else {}
    columns = list(split.fit_frame) if method == "lightgbm" else ["score"]
    calibrator = make(method, score_column="score", **options)
    calibrator.fit(split.fit_frame[columns], split.fit_label)
    return np.asarray(calibrator.calibrate(split.eval_frame[columns]))


def _lightgbm_folds(fitting: pd.DataFrame, label: np.ndarray, held_out: pd.DataFrame, seed: int) -> np.ndarray:
    """LightGBM from the base's logit on five fold complements, averaged in log-odds: the fair peer."""
    fold = np.random.default_rng(seed).permutation(len(label)) % 5
    total = np.zeros(len(held_out))
    for k in range(5):
        rows = fold != k
        calibrator = make("lightgbm", score_column="score", random_state=seed + k)
        p = calibrator.fit(fitting[rows].reset_index(drop=True), label[rows]).calibrate(held_out)
        p = np.clip(p, 1e-9, 1 - 1e-9)
        total += np.log(p / (1 - p)) / 5
    return 1 / (1 + np.exp(-total))


def centred_field_error(y: np.ndarray, p: np.ndarray, frame: pd.DataFrame) -> float:
    """Mean Field-RCE over columns of 2 to 1,000 values, after the mean prediction was set right."""
    centred = np.clip(p * y.sum() / p.sum(), 0.0, 1.0)
    fields = [c for c in frame if c != "score" and 2 <= frame[c].nunique() <= 1000]
    return float(np.mean([field_rce(y, centred, frame[c]).value for c in fields]))


def measure(name: str, kind: str, seed: int, methods: list[str], folder: Path) -> Iterator[dict[str, Any]]:
    """Every method on one data set, base and seed: log loss, and its sums over sets of rows for paired differences."""
    from sklearn.metrics import roc_auc_score

    split = splits(name, kind, False, folder, seed)
    y = split.eval_label
    ours = {}
    if any(method.startswith(OURS) for method in methods):
        ours = mbct_sizes(split, "random", seed, [method for method in methods if method.startswith(OURS)])
    for method in methods:
        started = time.perf_counter()
        if method in ours:
            p, cost = ours[method]
        else:
            p = fit_and_calibrate(method, split, seed)
            cost = {"seconds": round(time.perf_counter() - started, 2)}
        loss = row_losses(p, y)
        yield {
            "data": name,
            "base": kind,
            "seed": seed,
            "method": method,
            "log_loss": float(loss.mean()),
            "auc": float(roc_auc_score(y, p)),
            "field_rce": centred_field_error(y, p, split.eval_frame),
            "block_loss": np.bincount(np.arange(len(y)) % MAX_SUMS, loss).round(3).tolist(),
            "rows": len(y),
            **cost,
        }


def run_random(arguments: argparse.Namespace) -> None:
    """Random order: run what is missing, then write the page, its plot and README's table."""
    path = OUT / "quality.jsonl"
    kept = {(r["data"], r["base"], r["seed"], r["method"]): r for r in kept_results(path)}
    names = arguments.sets or list(DATA)
    chosen = installed(m for m in METHODS if not arguments.only or m in arguments.only)
    runs = [(n, k, s) for s in range(arguments.seeds) for n in names for k in ("strong", "weak")]
    with progress("quality", len(runs)) as advance, path.open("a") as log:
        for name, kind, seed in runs:
            missing = [m for m in chosen if m in arguments.only or (name, kind, seed, m) not in kept]
            for result in measure(name, kind, seed, missing, arguments.data) if missing else ():
                kept[name, kind, seed, result["method"]] = result
                log.write(json.dumps(result) + "\n")
                log.flush()
            advance(1)
    path.write_text("".join(json.dumps(result) + "\n" for result in kept.values()))
    results = pd.DataFrame(kept.values())
    write_page(OUT / "quality.md", page(results))
    README.write_text(with_table(README.read_text(), results))
    draw(results, OUT / "quality.svg")
    print(table(results))


def main() -> None:
    """Run what is missing in one order and write its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", choices=list(ORDERS), default="time")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=5, help="of random order; 0 only writes the page")
    parser.add_argument("--sets", nargs="*", default=[], help="data sets to run; all by default")
    parser.add_argument("--only", nargs="*", default=[], help="methods to compute again, kept results or not")
    parser.add_argument(
        "--methods", nargs="*", default=list(BLOCK_METHODS), help="of time and groups; none only writes the page"
    )
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    if arguments.order == "random":
        run_random(arguments)
        return
    path = OUT / f"quality-{arguments.order}.jsonl"
    methods = installed(arguments.only or arguments.methods)
    results = run_order(arguments.order, arguments.data, path, methods, arguments.only, arguments.sets)
    text = block_page(results, arguments.order)
    write_page(path.with_suffix(".md"), text)
    if arguments.order == "time":
        README.write_text(with_time_table(README.read_text(), results))
    print(text)


if __name__ == "__main__":
    main()
