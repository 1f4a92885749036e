"""The page, the picture and README's table of held-out quality, drawn from the results that were kept."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

METHODS = ("identity", "platt", "beta", "isotonic", "lightgbm", "lightgbm, 5 folds", "catboost", "catboost, 5 folds")
METHODS += ("mcgrad", "mbct", "mbct rules", "mbct compact", "mbct full")
OURS = "mbct"
BESIDE_PEERS = (OURS, *(method for method in METHODS if not method.startswith(OURS)))
"""Columns of the page's first table: ours first, where a narrow screen shows it."""
TICKS = (-30, 0, 30, 300, 3000)
"""Of the picture's axis, in units of 1e-5; even up to ±30, logarithmic beyond."""
IN_README = {
    "base predictor": ("identity",),
    "best of Platt, beta, isotonic": ("platt", "beta", "isotonic"),
    "LightGBM": ("lightgbm",),
    "LightGBM, 5 folds": ("lightgbm, 5 folds",),
    "MCGrad": ("mcgrad",),
    "MBCT": (OURS,),
}
"""Columns of README's table, and of which methods each shows the best."""
BEGIN, END = "<!-- held-out quality, written by benchmarks/quality.py -->\n\n", "\n\n<!-- end of held-out quality -->"
NOTE = (
    "Held-out log loss, mean over seeds; made by `python benchmarks/quality.py --order random`, which goes on where it "
    "stopped (`--seeds 0` only writes this page). In brackets: above MBCT's on the same seeds, ×1e-5, "
    "± standard error. Bold is the lowest. A method that ran on fewer seeds says so; its mean is of those seeds."
)


def kept_results(path: Path) -> list[dict[str, Any]]:
    """Results kept line by line; none where nothing ran."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def with_differences(results: pd.DataFrame) -> pd.DataFrame:
    """Results with their paired difference to MBCT's on the same seed and its standard error.

    The error comes from sums of loss over the same sets of rows where both methods kept them; otherwise it is the one
    that was kept with the result.
    """
    keys = ["data", "base", "seed"]
    ours = results[results["method"] == OURS].drop_duplicates(keys, keep="last").set_index(keys)
    found = []
    for result in results.to_dict("records"):
        at = tuple(result[k] for k in keys)
        own = ours.loc[at] if at in ours.index else None
        if own is not None:
            result["minus_mbct"] = result["log_loss"] - own["log_loss"]
            sums, own_sums = result.get("block_loss"), own.get("block_loss")
            if isinstance(sums, list) and isinstance(own_sums, list):
                difference = np.subtract(sums, own_sums)
                result["standard_error"] = float(difference.std(ddof=1) * np.sqrt(len(difference)) / result["rows"])
        found.append(result)
    return pd.DataFrame(found)


def page(results: pd.DataFrame) -> str:
    """All tables as one page of Markdown."""
    parts = [f"# Held-out quality\n\n{NOTE}", table(results), "![distances](quality.svg)"]
    if {"identity", "mbct full", "mbct compact"} <= set(results["method"]):
        parts += ["## What fewer rules keep", kept_table(results), "## Ranking and fields", side_table(results)]
    return "\n\n".join(parts) + "\n"


def with_table(readme: str, results: pd.DataFrame) -> str:
    """README with today's table between its two marks."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + readme_table(results) + END + after


def readme_table(results: pd.DataFrame) -> str:
    """Mean log loss of the methods that ran on all seeds of a data set and base; the lowest as shown is bold."""
    lines = ["| data | seeds | " + " | ".join(IN_README) + " |", "|---|---|" + "---|" * len(IN_README)]
    for (name, kind), group in results.groupby(["data", "base"], sort=False):
        seeds = group["seed"].nunique()
        by_method = group.groupby("method")["log_loss"].agg(["mean", "count"])
        mean = by_method.loc[by_method["count"] == seeds, "mean"]
        shown = [mean.reindex(methods).min() for methods in IN_README.values()]
        lowest = f"{np.nanmin(shown):.5f}"
        cells = ["–" if np.isnan(value) else f"{value:.5f}" for value in shown]
        cells = [f"**{cell}**" if cell == lowest else cell for cell in cells]
        lines.append(f"| {name}, {kind} base | {seeds} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def table(results: pd.DataFrame) -> str:
    """Mean log loss over seeds; in brackets the distance to MBCT in units of 1e-5 ± its standard error."""
    results = with_differences(results)
    shown = [method for method in BESIDE_PEERS if (results["method"] == method).any()]
    lines = ["| data, base | seeds | " + " | ".join(shown) + " |", "|---|---|" + "---|" * len(shown)]
    for (name, kind), group in results.groupby(["data", "base"], sort=False):
        cells = []
        best = group[group["method"].isin(shown)].groupby("method")["log_loss"].mean().min()
        for method in shown:
            rows = group[group["method"] == method]
            if rows.empty:
                cells.append("–")
                continue
            mean = rows["log_loss"].mean()
            text = f"**{mean:.5f}**" if mean <= best + 1e-12 else f"{mean:.5f}"
            if method != OURS:
                error = np.sqrt((rows["standard_error"] ** 2).sum()) / len(rows)
                distance = f"({1e5 * rows['minus_mbct'].mean():+.0f} ± {1e5 * error:.0f})"
                text += " " + distance.replace(" ", "\N{NO-BREAK SPACE}")
            seeds = rows["seed"].nunique()
            cells.append(text if seeds == group["seed"].nunique() else f"{text}, {seeds} seed{'s' * (seeds > 1)}")
        lines.append(f"| {name}, {kind} | {group['seed'].nunique()} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def kept_table(results: pd.DataFrame) -> str:
    """What the default and the compact model keep of the full ensemble's held-out gain, and in how many rules."""
    lines = ["| data | base | gain of full ×1e5 | default keeps | rules | compact keeps | rules | full's rules |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for (name, kind), group in results.groupby(["data", "base"], sort=False):
        mean = group.groupby("method")["log_loss"].mean()
        rules = group.groupby("method")["rules"].mean()
        gain = mean["identity"] - mean["mbct full"]
        kept = {m: (mean["identity"] - mean[m]) / gain for m in ("mbct", "mbct compact")}
        lines.append(
            f"| {name} | {kind} | {1e5 * gain:.0f} | {kept['mbct']:.1%} | {rules['mbct']:,.0f} | "
            f"{kept['mbct compact']:.1%} | {rules['mbct compact']:,.0f} | {rules['mbct full']:,.0f} |"
        )
    return "\n".join(lines)


def side_table(results: pd.DataFrame) -> str:
    """AUC and centred Field-RCE of the base and of the default preset, with the spread of their difference."""
    lines = ["| data | base | AUC before | after | Field-RCE before | after | difference ± standard error |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for (name, kind), group in results.groupby(["data", "base"], sort=False):
        before, after = (group[group["method"] == m].set_index("seed") for m in ("identity", OURS))
        difference = after["field_rce"] - before["field_rce"]
        error = f" ± {difference.std() / np.sqrt(len(difference)):.4f}" if len(difference) > 1 else ""
        lines.append(
            f"| {name} | {kind} | {before['auc'].mean():.4f} | {after['auc'].mean():.4f} | "
            f"{before['field_rce'].mean():.4f} | {after['field_rce'].mean():.4f} | "
            f"{difference.mean():+.4f}{error} |"
        )
    return "\n".join(lines)


def draw(results: pd.DataFrame, path: Path) -> None:
    """Each method's log loss above MBCT's, by data set and base."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "mbct"
    import matplotlib.pyplot as plt

    results = with_differences(results)
    pairs = list(results.groupby(["data", "base"], sort=False).groups)
    peers = [m for m in BESIDE_PEERS if m != OURS and (results["method"] == m).any()]
    n_lines = (len(pairs) + 1) // 2
    figure, axes = plt.subplots(
        n_lines, 2, figsize=(7.5, 2.0 * n_lines + 0.5), layout="constrained", sharex=True, sharey=True, squeeze=False
    )
    for axis, (name, kind) in zip(axes.flat, pairs, strict=False):
        group = results[(results["data"] == name) & (results["base"] == kind)]
        for position, method in enumerate(peers):
            rows = group[group["method"] == method]
            if rows.empty:
                continue
            error = 2 * np.sqrt((rows["standard_error"] ** 2).sum()) / len(rows)
            axis.errorbar(1e5 * rows["minus_mbct"].mean(), position, xerr=1e5 * error, fmt="o", color="#0072b2", ms=5)
        axis.axvline(0, color="black", linewidth=1)
        axis.set_xscale("symlog", linthresh=30)
        axis.set_xticks(TICKS, [f"{tick:,}" for tick in TICKS])
        axis.grid(axis="x", color="#e5e7eb", linewidth=0.8)
        axis.set_axisbelow(True)
        axis.set_title(f"{name}, {kind} base", fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_yticks(range(len(peers)), peers)
    figure.supxlabel("log loss above MBCT's, ×1e-5 (right of the line: worse; bars: two standard errors)", fontsize=10)
    figure.savefig(path, metadata={"Date": None})
