"""Where the truth is known: whether a calibrated base is harmed, and how near a biased one comes to its truth.

    python benchmarks/known_truth.py

Part "harm" fits 200 simulated bases that are calibrated already and measures the log loss on fresh rows, part "weights"
100 whose rows are weighted. Part "truth" fits bases with sparse biases by segment, of which the peers see as much, and
measures TCE₂ = √mean((q − P(Y=1|x))²).
Results go line by line into ``docs/benchmarks/known-truth.jsonl``; an interrupted run goes on where it stopped.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from made_with import write_page
from mbct import MBCTCalibrator
from mbct.progress import progress
from quality import fit_and_calibrate
from quality_data import Split
from quality_page import METHODS, kept_results
from quality_peers import row_losses

OUT = Path("docs/benchmarks")
SIZES = (5_000, 20_000, 50_000)
CARDINALITIES = (2, 8, 40, 400, 4000)
FRESH_ROWS = 200_000
SEEDS = {"harm": 200, "weights": 100, "truth": 8}
FIRST_SEED = 1_000
"""The recipe was chosen with smaller seeds in view; the page shows none of those."""


def features(rng: np.random.Generator, n_rows: int) -> pd.DataFrame:
    """Categories of 2 to 4,000 values, frequent and rare ones, and two numbers."""
    columns: dict[str, Any] = {}
    for cardinality in CARDINALITIES:
        value = np.floor(cardinality * rng.random(n_rows) ** 2.5).astype(int)
        columns[f"of {cardinality}"] = np.char.add("v", value.astype(str))
    columns["number"] = rng.normal(size=n_rows)
    columns["count"] = rng.poisson(3.0, n_rows)
    return pd.DataFrame(columns)


def logit(p: np.ndarray) -> np.ndarray:
    """Log-odds."""
    return np.log(p / (1 - p))


def sigmoid(z: np.ndarray) -> np.ndarray:
    """Probability of log-odds."""
    return 1 / (1 + np.exp(-z))


def calibrated_base(seed: int, n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose score is their true probability; rates from 0.1 % to 60 %."""
    rng = np.random.default_rng(seed)
    centre = logit(np.array([0.001, 0.01, 0.1, 0.3, 0.6])[seed % 5])
    frame = features(rng, n_rows)
    frame["score"] = sigmoid(centre + rng.normal(0.0, 1.0, n_rows))
    return frame, frame["score"].to_numpy()


def biased_base(seed: int, n_rows: int, part: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose score misses sparse effects: of some values, of a pair of features and of a range of a number."""
    effects = np.random.default_rng([seed, 77])
    rng = np.random.default_rng([seed, part])
    frame = features(rng, n_rows)
    bias = np.zeros(n_rows)
    for cardinality in CARDINALITIES:
        effect = np.where(effects.random(cardinality) < 0.3, effects.normal(0.0, 0.5, cardinality), 0.0)
        bias += effect[frame[f"of {cardinality}"].str[1:].astype(int)]
    pair = (frame["of 2"] == "v1") & (frame["of 8"].isin(["v0", "v3"]))
    bias += 0.6 * pair - 0.5 * (frame["number"] > 1.0) * (frame["count"] < 3)
    score = sigmoid(-2.0 + rng.normal(0.0, 1.0, n_rows))
    frame["score"] = score
    return frame, sigmoid(logit(score) + bias)


def weighted(seed: int, rows: pd.DataFrame, label: np.ndarray) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows, labels and weights under which the score is still right, of four kinds in turn."""
    rng = np.random.default_rng([seed, 4])
    if seed % 4 == 0:
        kept = (label == 1) | (rng.random(len(label)) < 0.2)
        return rows[kept].reset_index(drop=True), label[kept], np.where(label[kept] == 1, 1.0, 5.0)
    n = len(label)
    return rows, label, [np.full(n, 3.0), rng.integers(1, 6, n).astype(float), rng.lognormal(0.0, 1.0, n)][seed % 4 - 1]


def harm(part: str, seed: int) -> Iterator[dict[str, Any]]:
    """The default preset on a base that needs no correction."""
    fitting, truth = calibrated_base(seed, SIZES[seed % 3])
    label = (np.random.default_rng([seed, 1]).random(len(truth)) < truth).astype(float)
    held_out, fresh = calibrated_base(10_000 + 5 * seed + seed % 5, FRESH_ROWS)
    y = (np.random.default_rng([seed, 2]).random(len(fresh)) < fresh).astype(float)
    weight = None
    if part == "weights":
        fitting, label, weight = weighted(seed, fitting, label)
    model = MBCTCalibrator(score_column="score", random_state=seed).fit(fitting, label, sample_weight=weight)
    p = model.calibrate(held_out)
    difference = row_losses(p, y) - row_losses(fresh, y)
    expected = fresh * (np.log(fresh) - np.log(p)) + (1 - fresh) * (np.log1p(-fresh) - np.log1p(-p))
    yield {
        "part": part,
        "seed": seed,
        "method": "mbct",
        "difference": float(difference.mean()),
        "standard_error": float(difference.std() / np.sqrt(len(y))),
        "expected": float(expected.mean()),
        "trees": len(model.model_.trees),
    }


def truth(seed: int, methods: list[str]) -> Iterator[dict[str, Any]]:
    """Every method on one biased base."""
    fitting, p_true = biased_base(seed, 200_000, 0)
    label = (np.random.default_rng([seed, 3]).random(len(p_true)) < p_true).astype(float)
    held_out, fresh = biased_base(seed, FRESH_ROWS, 1)
    for method in methods:
        if method == "mbct":
            p = MBCTCalibrator(score_column="score", random_state=seed).fit(fitting, label).calibrate(held_out)
        else:
            p = fit_and_calibrate(method, Split(fitting, label, None, held_out, fresh, None), seed)
        yield {"part": "truth", "seed": seed, "method": method, "tce": float(np.sqrt(np.mean((p - fresh) ** 2)))}


def page(results: pd.DataFrame) -> str:
    """All parts as Markdown."""
    made = "Made by `python benchmarks/known_truth.py`; the data are simulated, from seeds that no choice was made on."
    parts = ["# Where the truth is known", made]
    harmed, weighty = (results[results["part"] == part] for part in ("harm", "weights"))
    if len(harmed):
        parts += ["## Bases that need no correction", f"{_counted(len(harmed), 'base')}, {harm_text(harmed)}"]
    if len(weighty):
        kinds = "weight 3 throughout, 1 to 5 at random, log-normal ones, or a fifth of the negatives with weight 5"
        parts += [f"With weights ({kinds}), {_counted(len(weighty), 'base')}, {harm_text(weighty)}"]
    known = results[results["part"] == "truth"]
    if len(known):
        by_method = known.groupby("method", sort=False)["tce"].agg(["mean", "std", "count"])
        on_all_seeds = by_method["count"] == by_method["count"].max()
        peers = by_method[on_all_seeds].drop(index="mbct")["mean"]
        best = f"MBCT's is {by_method.loc['mbct', 'mean'] / peers.min():.3f} of the best peer's ({peers.idxmin()})."
        seeds = _counted(known["seed"].nunique(), "seed")
        parts += ["## Bases with sparse biases", f"200,000 rows to fit, {seeds}. {best}", truth_table(by_method)]
    return "\n\n".join(parts) + "\n"


def harm_text(harmed: pd.DataFrame) -> str:
    """What was done to bases that need nothing."""
    z = harmed["difference"] / harmed["standard_error"].where(harmed["standard_error"] > 0, np.inf)
    return (
        f"5,000 to 50,000 rows, rates of 0.1 % to 60 %. Log loss after minus before on {FRESH_ROWS:,} fresh rows: mean "
        f"{harmed['difference'].mean():.2e}, expected under the truth {harmed['expected'].mean():.2e}, worst "
        f"{harmed['difference'].max():.2e} ({z.max():.2f} standard errors; {(z > 2).sum()} of {len(harmed)} above "
        f"two). {(harmed['trees'] == 0).sum()} of them were returned unchanged."
    )


def truth_table(by_method: pd.DataFrame) -> str:
    """TCE₂ of each method; its spread where some method ran on more than one seed."""
    if by_method["count"].max() == 1:
        return "\n".join(
            ["| method | TCE₂ |", "|---|---|", *(f"| {m} | {v:.5f} |" for m, v in by_method["mean"].items())]
        )
    lines = ["| method | TCE₂ | spread over seeds | seeds |", "|---|---|---|---|"]
    for method, row in by_method.iterrows():
        spread = f"{row['std']:.5f}" if row["count"] > 1 else "–"
        lines.append(f"| {method} | {row['mean']:.5f} | {spread} | {row['count']:.0f} |")
    return "\n".join(lines)


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=list(SEEDS), default=list(SEEDS))
    for part, n_seeds in SEEDS.items():
        parser.add_argument(f"--{part}-seeds", type=int, default=n_seeds)
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    kept = OUT / "known-truth.jsonl"
    done = kept_results(kept)
    seen = {(r["part"], r["seed"], r["method"]) for r in done}
    peers = [m for m in METHODS if m not in ("mbct full", "mbct compact")]
    n_seeds = {part: getattr(arguments, f"{part}_seeds") for part in arguments.parts}
    with progress("known truth", sum(n_seeds.values())) as advance, kept.open("a") as log:
        for part in n_seeds:
            for seed in range(FIRST_SEED, FIRST_SEED + n_seeds[part]):
                wanted = peers if part == "truth" else ["mbct"]
                missing = [m for m in wanted if (part, seed, m) not in seen]
                for result in (truth(seed, missing) if part == "truth" else harm(part, seed)) if missing else ():
                    done.append(result)
                    log.write(json.dumps(result) + "\n")
                    log.flush()
                advance(1)
    text = page(pd.DataFrame(done))
    write_page(OUT / "known-truth.md", text)
    print(text)


if __name__ == "__main__":
    main()
