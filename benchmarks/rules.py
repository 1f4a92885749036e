"""What each rule buys: held-out log loss against the number of rules.

    python benchmarks/rules.py --data ../shared/data

One full ensemble of the default preset is grown for each data set and base of ``quality.py`` and said again in
1 to 96 trees of up to 32 leaves. Writes ``docs/benchmarks/rules.json``, ``rules.svg`` and ``rules.md``.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mbct import MBCTCalibrator
from mbct.calibrators.inputs import training_data
from mbct.progress import progress
from mbct.training.distillation import DISTILLED_GROWTH, DistillationOptions, distill
from quality import DATA, OUT, thirds
from quality_peers import row_losses

STAGES = (1, 2, 4, 8, 16, 32, 64, 96)


def measure(name: str, kind: str, folder: Path) -> dict[str, Any]:
    """Log loss of the base, of the full ensemble, and of each smaller model."""
    (fitting, label), (judging, y) = thirds(name, kind, 0, folder)
    model = MBCTCalibrator(score_column="score", model_size="full").fit(fitting, label)
    full = model.model_
    bins, cells = model.binned_cells(training_data(fitting, label, None, None, "score"), model.config())
    ordered = tuple(feature.ordered for feature in bins)

    def loss() -> float:
        return float(row_losses(model.calibrate(judging), y).mean())

    base = float(row_losses(judging["score"].to_numpy(), y).mean())
    found = {"data": name, "base": kind, "log_loss": base, "full": loss(), "full_rules": full.n_rules, "points": []}
    for stage in STAGES if full.trees else ():
        options = replace(DistillationOptions(), stages=(stage,), growth=DISTILLED_GROWTH)
        few = distill(cells, ordered, full.total_step, options)
        model.model_ = full.with_trees(few.trees)
        found["points"].append({"trees": stage, "rules": model.model_.n_rules, "log_loss": loss()})
    return found


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """One panel a data set, one line a base: share of the full ensemble's gain against rules."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "mbct"
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(r["data"] for r in results))
    n_lines = (len(names) + 1) // 2
    figure, axes = plt.subplots(
        n_lines, 2, figsize=(7.5, 2.6 * n_lines + 0.3), layout="constrained", sharey=True, squeeze=False
    )
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    for axis, name in zip(axes.flat, names, strict=False):
        for result in (r for r in results if r["data"] == name):
            colour, mark = ("#0072b2", "o") if result["base"] == "strong" else ("#d55e00", "s")
            gain = result["log_loss"] - result["full"]
            rules = [p["rules"] for p in result["points"]]
            kept = [(result["log_loss"] - p["log_loss"]) / gain for p in result["points"]]
            axis.plot(rules, kept, mark + "-", color=colour, ms=4, label=f"{result['base']} base")
            axis.plot(result["full_rules"], 1.0, mark, color=colour, ms=7, mfc="white")
        axis.axvline(256, color="grey", linewidth=0.8, linestyle=":")
        axis.axhline(1.0, color="black", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_title(name, fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    axes[0, 0].legend(frameon=False, fontsize=9)
    figure.supylabel("kept of the held-out gain", fontsize=10)
    figure.supxlabel("rules (white: the full ensemble; dotted: model_size='compact')", fontsize=10)
    figure.savefig(path, metadata={"Date": None})


def page(results: list[dict[str, Any]]) -> str:
    """Log loss at each size."""
    head = "| data, base | no rule | " + " | ".join(f"{s} tree{'s' * (s > 1)}" for s in STAGES) + " | full |"
    lines = [head, "|---" * (len(STAGES) + 3) + "|"]
    for r in results:
        cells = [f"{p['log_loss']:.5f} ({p['rules']:,})" for p in r["points"]] or ["–"] * len(STAGES)
        lines.append(
            f"| {r['data']}, {r['base']} | {r['log_loss']:.5f} | "
            + " | ".join(cells)
            + f" | {r['full']:.5f} ({r['full_rules']:,}) |"
        )
    said = (
        "Held-out log loss, in brackets the number of rules; one split. Made by `python benchmarks/rules.py`. Here "
        'trees are only added; `size="compact"` also replaces each of its eight in turn, and so keeps more with 256 '
        "rules ([held-out quality](quality.md)). [What few rules cannot say](rules-limit.md)."
    )
    return f"# What each rule buys\n\n{said}\n\n![kept of the gain](rules.svg)\n\n" + "\n".join(lines) + "\n"


def measured(
    measure: Callable[[str, str, Path], dict[str, Any]], pairs: list[tuple[str, str]], folder: Path
) -> list[dict[str, Any]]:
    """Each data set and base."""
    results = []
    with progress("rules", len(pairs)) as advance:
        for name, kind in pairs:
            results.append(measure(name, kind, folder))
            advance(1)
    return results


def main() -> None:
    """Measure, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", nargs="*", choices=list(DATA), default=list(DATA))
    parser.add_argument("--draw", action="store_true", help="measure nothing: page and picture from rules.json")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    kept = OUT / "rules.json"
    if not arguments.draw:
        pairs = [(name, kind) for name in arguments.only for kind in ("strong", "weak")]
        kept.write_text(json.dumps(measured(measure, pairs, arguments.data), indent=1) + "\n")
    results = json.loads(kept.read_text())
    (OUT / "rules.md").write_text(page(results))
    draw(results, OUT / "rules.svg")
    print(page(results))


if __name__ == "__main__":
    main()
