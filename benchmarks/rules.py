"""What small models keep: the full ensemble's held-out gain against look-ups a row and bytes, in time order.

    python benchmarks/rules.py --data ../shared/data

One full ensemble is grown for each of some data sets of ``quality.py --order time`` with the strong base, those whose
columns act together most unless ``--sets`` names others, and distilled into 8 and 16 trees of 32 or 512 leaves, tables
over up to three features, and over up to eight, which is what is shipped. With 16 of the last the leaf
values of each are also joined to 16. Writes ``docs/benchmarks/rules.jsonl`` and ``rules.md``.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from made_with import write_page
from mbct.model.ensemble import CalibrationEnsemble, sum_trees
from mbct.model.tree import CalibrationTree
from mbct.progress import progress
from mbct.stats.probabilities import logit
from mbct.training.binned_rows import make_distillation_set
from mbct.training.cells import Cells
from mbct.training.distillation import COMPACT, DISTILLED_GROWTH, RULES, Stage, distill
from mbct.training.offsets import grouped
from quality_data import splits
from quality_peers import GrownModel, grow, row_losses, sigmoid

OUT = Path("docs/benchmarks")
STAGES = (8, 16)
HARD = ("flights 2001", "employment")
JOINED = 16
LEAVES = DISTILLED_GROWTH._replace
IDEAS = {
    "trees of 32 leaves": replace(RULES, growth=LEAVES(max_leaves=32), tables=0),
    "trees of 512 leaves": replace(RULES, tables=0),
    "tables over 3 features": replace(RULES, tables=3),
    "tables": RULES,
}
Trees = tuple[CalibrationTree, ...]


def joined(trees: Trees, cells: Cells) -> Trees:
    """Leaf values of each tree joined to a few."""
    found = []
    for tree in trees:
        node = tree.apply(cells.codes)
        weight = np.bincount(node, cells.sums.count, tree.n_nodes)
        group, mean = grouped(tree.leaf_value[tree.leaves], np.maximum(weight[tree.leaves], 1e-9), JOINED)
        value = tree.leaf_value.copy()
        value[tree.leaves] = mean[group]
        found.append(replace(tree, leaf_value=value))
    return tuple(found)


def forms(grown: GrownModel) -> Iterator[tuple[str, Trees]]:
    """Every smaller form of one ensemble, with its name."""
    cells, whole = grown.cells, grown.whole

    def tree_total(codes: np.ndarray) -> np.ndarray:
        return sum_trees(whole.trees, codes, cells.n_codes)

    rows = make_distillation_set(cells, grown.ordered, grown.usable, tree_total, 400_000, 400_000)
    for name, options in IDEAS.items():
        for stage in STAGES:
            trees = distill(rows, replace(options, stages=(Stage(stage, 0.0),))).trees
            yield name, trees
    yield f"16 tables, {JOINED} values each", joined(trees, cells)
    yield "compact", distill(rows, COMPACT).trees


def measure(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Held-out log loss, look-ups, entries and bytes of the base, the full ensemble and every smaller form."""
    split = splits(name, "strong", False, folder)
    grown = grow(split, "time", 0)
    codes, scores = grown.encoded(split.eval_frame)

    def result(form: str, trees: Trees) -> dict[str, Any]:
        p = sigmoid(logit(scores) + sum_trees(trees, codes, grown.cells.n_codes))
        model = CalibrationEnsemble("score", "odds", grown.bins, trees)
        size = len(json.dumps(model.to_dict(), separators=(",", ":")))
        loss = float(row_losses(p, split.eval_label).mean())
        return {
            "data": name,
            "form": form,
            "lookups": len(trees),
            "entries": sum(len(tree.leaves) for tree in trees),
            "bytes": size,
            "loss": loss,
        }

    yield result("base", ())
    yield result("full", grown.whole.trees)
    for form, trees in forms(grown):
        yield result(form, trees)


def share(results: list[dict[str, Any]], of: dict[str, Any]) -> float:
    """Share of the full ensemble's gain."""
    loss = {r["form"]: r["loss"] for r in results if r["data"] == of["data"] and r["form"] in ("base", "full")}
    return float((loss["base"] - of["loss"]) / (loss["base"] - loss["full"]))


def page(results: list[dict[str, Any]]) -> str:
    """The picture and every number."""
    lines = [
        "# What small models keep",
        "Share of the full ensemble's held-out gain in log loss that smaller forms of it keep, in time order with the "
        "strong base, where columns of many values act together; in brackets entries and kilobytes. A table is a tree "
        "over at most eight features with up to 2,048 entries: one look-up, however many. Made by `python "
        "benchmarks/rules.py`. Sizes on every pair: [held-out quality in time order](quality-time.md#sizes).",
    ]
    names = list(dict.fromkeys(r["data"] for r in results))
    rows: dict[str, dict[str, str]] = {}
    for r in results:
        if r["form"] != "base":
            label = f"{r['lookups']} {r['form']}" if r["form"] in IDEAS else r["form"]
            label = "full ensemble" if r["form"] == "full" else label
            size = f"{r['entries']:,}; {r['bytes'] / 1e3:,.0f} kB"
            rows.setdefault(label, {})[r["data"]] = f"{share(results, r):.0%} ({size})"
    table = ["| form | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    table += [f"| {label} | " + " | ".join(row.get(name, "–") for name in names) + " |" for label, row in rows.items()]
    return "\n\n".join([*lines, "\n".join(table)]) + "\n"


def main() -> None:
    """Measure what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", nargs="*", default=HARD)
    parser.add_argument("--again", action="store_true", help="measure all again")
    arguments = parser.parse_args()
    kept = OUT / "rules.jsonl"
    results = (
        [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() and not arguments.again else []
    )
    done = {r["data"] for r in results}
    names = [name for name in arguments.sets if name not in done]
    with progress("rules", len(names)) as advance:
        for name in names:
            results += measure(name, arguments.data)
            kept.write_text("".join(json.dumps(r) + "\n" for r in results))
            advance(1)
    write_page(OUT / "rules.md", page(results))
    print(page(results))


if __name__ == "__main__":
    main()
