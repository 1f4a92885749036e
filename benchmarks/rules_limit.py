"""How many numbers it takes to say an ensemble again, where 256 rules keep less than 85 % of its gain.

    python benchmarks/rules_limit.py --data ../shared/data

The full ensemble's log-odds are said again by tables: one step for every value of every feature, then also one for
every pair of values of every two features, fitted jointly to the ensemble. No sum of trees that look at one (or two)
features each can do better than such tables. Writes ``docs/benchmarks/rules-limit.md`` and ``.json``.
"""

import argparse
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from mbct import MBCTCalibrator
from mbct.data.columns import read_columns
from mbct.data.memory import encode
from mbct.stats.logodds import logit, sigmoid
from quality import OUT, thirds
from quality_peers import row_losses
from rules import measured

PAIRS = (("French claims", "strong"), ("flights", "strong"), ("flights", "weak"))
PASSES = 20
RIDGE = 0.2


def in_tables(
    taught: np.ndarray, judged: np.ndarray, start: tuple[np.ndarray, np.ndarray], target: np.ndarray, columns: list[Any]
) -> tuple[np.ndarray, int]:
    """Log-odds of the judging rows by tables fitted to the target, and how many numbers the tables hold.

    ``taught`` and ``judged`` hold codes, ``start`` the log-odds of their rows; each table is over some ``columns``.
    """
    both = np.concatenate([taught, judged]).astype(np.int64)
    n = len(taught)
    entries = []
    for several in columns:
        key = np.zeros(len(both), dtype=np.int64)
        for j in several:
            key = key * (both[:, j].max() + 1) + both[:, j]
        entries.append(np.unique(key, return_inverse=True)[1])
    steps = [np.zeros(int(entry.max()) + 1) for entry in entries]
    z = np.concatenate(start)
    for _ in range(PASSES):
        for entry, step in zip(entries, steps, strict=True):
            q = sigmoid(z[:n])
            g, h = (np.bincount(entry[:n], amount, len(step)) for amount in (target - q, q * (1.0 - q)))
            change = np.clip((g - RIDGE * step) / (h + RIDGE), -1.0, 1.0)
            step += change
            z += change[entry]
    return z[n:], sum(len(step) for step in steps)


def measure(name: str, kind: str, folder: Path) -> dict[str, Any]:
    """What the full ensemble gains on the judging rows, and what tables and the compact size keep of it."""
    (fitting, label), (judging, y) = thirds(name, kind, 0, folder)
    full, compact = (
        MBCTCalibrator(score_column="score", size=size).fit(fitting, label) for size in ("full", "compact")
    )
    codes = [encode(read_columns(rows), full.model_.bins, rows["score"].to_numpy()) for rows in (fitting, judging)]
    log_odds = [logit(rows["score"].to_numpy()) for rows in (fitting, judging)]
    losses = {
        "no rule": row_losses(judging["score"].to_numpy(), y).mean(),
        "full": row_losses(full.calibrate(judging), y).mean(),
        "compact": row_losses(compact.calibrate(judging), y).mean(),
    }
    numbers = {"full": full.model_.n_rules, "compact": compact.model_.n_rules}
    single = [(j,) for j in range(codes[0].shape[1])]
    for what, columns in (("values", single), ("pairs", [*single, *combinations(range(codes[0].shape[1]), 2)])):
        z, numbers[what] = in_tables(*codes, tuple(log_odds), full.calibrate(fitting), columns)
        losses[what] = row_losses(sigmoid(z), y).mean()
    gain = losses["no rule"] - losses["full"]
    kept = {what: float((losses["no rule"] - losses[what]) / gain) for what in ("compact", "values", "pairs")}
    return {"data": name, "base": kind, "gain": float(gain), "kept": kept, "numbers": numbers}


def page(results: list[dict[str, Any]]) -> str:
    """A line for each data set and base."""
    said = (
        'Where `size="compact"` keeps less than 85 % of what the full ensemble gains on held-out rows, could other '
        "rules keep more? Tables are fitted to the ensemble: a number for every value of every feature, then also one "
        "for every pair of values of every two features. In brackets how many rules or numbers; one split. Made by "
        "`python benchmarks/rules_limit.py`."
    )
    lines = ["| data, base | compact | every value | every pair of values | full |", "|---|---|---|---|---|"]
    for r in results:
        cells = [f"{r['kept'][what]:.0%} ({r['numbers'][what]:,})" for what in ("compact", "values", "pairs")]
        lines.append(f"| {r['data']}, {r['base']} | {' | '.join(cells)} | 100% ({r['numbers']['full']:,}) |")
    most = max(r["kept"]["pairs"] for r in results)
    end = (
        "What is learnt there lies in how several features act together: eight trees of 32 leaves look at several "
        f"each. A number for every pair of values keeps at most {most:.0%}."
    )
    return f"# What few rules cannot say\n\n{said}\n\n" + "\n".join(lines) + f"\n\n{end}\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--write", action="store_true", help="measure nothing: the page from rules-limit.json")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    kept = OUT / "rules-limit.json"
    if not arguments.write:
        kept.write_text(json.dumps(measured(measure, list(PAIRS), arguments.data), indent=1) + "\n")
    results = json.loads(kept.read_text())
    (OUT / "rules-limit.md").write_text(page(results))
    print(page(results))


if __name__ == "__main__":
    main()
