"""The pages of held-out quality in time order and by groups, drawn from kept results."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from quality_peers import METHODS, OURS, SIZES

BASE = "identity"
COMPARED = [method for method in METHODS if method == OURS or method not in SIZES]
"""Peers, and MBCT in its default size."""
TITLES = {
    "time": "Held-out quality in time order",
    "fresh": "Held-out quality in time order, on data kept apart",
    "groups": "Held-out quality by groups",
}
NOTES = {
    "time": "The base predictor is trained on the first stretch of time, calibrators on the second, and the third "
    "evaluates them. Every pair runs with and without the columns that identify the time (month, day, year).",
    "fresh": "Twelve data sets that were kept apart while the default preset was made, but for two constants. With "
    "five to seven years to learn from (vocabulary, parties, murders) it left their bases as they were, and the "
    "evidence that few blocks can give was revised after that was seen. And the mean of two ensembles, which was "
    "better on the development data, was as often worse here; since then it has to be ahead by a standard error. The "
    "base predictor is trained on the first third of the time, calibrators on the second, and the last evaluates them.",
    "groups": "Whole groups (students, users, persons) are drawn at random into three parts: one trains the base "
    "predictor, one the calibrators, one evaluates them.",
}
Pair = tuple[str, str, bool]
BEGIN, END = "<!-- time order, written by benchmarks/quality.py -->\n\n", "\n\n<!-- end of time order -->"
IN_README = {
    "identity": "base predictor",
    "isotonic": "isotonic",
    "lightgbm, block folds": "LightGBM, 5 folds of time",
    "catboost, block folds": "CatBoost, 5 folds of time",
    "catboost": "CatBoost, single fit",
    "mcgrad": "MCGrad",
    "mbct": "MBCT",
}


@dataclass(frozen=True)
class Results:
    """Losses of the methods on one pair, by block."""

    losses: dict[str, dict[str, Any]]

    @property
    def rows(self) -> np.ndarray:
        """Numbers of rows by block."""
        return np.asarray(self.losses[BASE]["block_rows"], float)

    def difference(self, method: str, other: str) -> tuple[float, float]:
        """Mean log loss of one method above another's, and its standard error by blocks."""
        rows = self.rows
        sums = np.subtract(self.losses[method]["block_loss"], self.losses[other]["block_loss"])
        mean = sums.sum() / rows.sum()
        n_blocks = len(rows)
        error = np.sqrt(n_blocks / (n_blocks - 1) * np.sum((sums - mean * rows) ** 2)) / rows.sum()
        return float(mean), float(error)

    def best(self, methods: list[str]) -> str:
        """The method of lowest loss."""
        return min((m for m in methods if m in self.losses), key=lambda m: self.losses[m]["log_loss"])

    def near_best(self, method: str) -> bool:
        """Whether a method has the lowest loss or is within one standard error of it."""
        mean, error = self.difference(method, self.best(COMPARED))
        return mean <= error

    def harms(self, method: str) -> bool:
        """Whether a method is worse than the base beyond two standard errors."""
        mean, error = self.difference(method, BASE)
        return mean > 2 * error and mean > 0


def block_page(results: list[dict[str, Any]], order: str) -> str:
    """Summary by method, MBCT beside base and best peer, and every loss, as Markdown."""
    found = by_pair(results)
    note = (
        f"{NOTES[order]} Made by `python benchmarks/quality.py --order {order}`. Differences are paired, in units of "
        "1e-5, ± the standard error of block sums (blocks: days, hours, years or groups). *Harmful*: worse than the "
        "base beyond two of these. *Best or near*: lowest loss, or within one of it. Block folds are five stretches of "
        "time or five sets of groups; each stops early on the part it leaves out, and log-odds are averaged. "
        "A method that ran on fewer pairs has the mean of those; seconds are of a machine that did other work too."
    )
    parts = [f"# {TITLES[order]}", note, "## By method", summary_table(found), "## MBCT on each pair", our_table(found)]
    return "\n\n".join([*parts, "## Log loss", loss_table(found), "## Sizes", sizes_note(), sizes_table(found)]) + "\n"


def by_pair(results: list[dict[str, Any]]) -> dict[Pair, Results]:
    """Results by data set, base and calendar columns; pairs without the base's own loss are left out."""
    found: dict[Pair, dict[str, Any]] = {}
    for result in results:
        found.setdefault((result["data"], result["base"], result["calendar"]), {})[result["method"]] = result
    return {pair: Results(losses) for pair, losses in found.items() if BASE in losses}


def summary_table(found: dict[Pair, Results]) -> str:
    """For each method: mean gain over the base, harmful pairs, the worst one, pairs where it is best or near."""
    lines = [
        "| method | pairs | mean gain | harmful | largest loss over base | best or near |",
        "|---|---|---|---|---|---|",
    ]
    rows = []
    for method in COMPARED:
        ran = [pair for pair in found.values() if method in pair.losses]
        if not ran or method == BASE:
            continue
        over = [pair.difference(method, BASE)[0] for pair in ran]
        near = sum(pair.near_best(method) for pair in ran)
        name = f"**{method}**" if method == OURS else method
        text = f"| {name} | {len(ran)} | {-1e5 * np.mean(over):.0f} | {sum(pair.harms(method) for pair in ran)} | "
        rows.append((-np.mean(over), f"{text}{1e5 * max(over):+.0f} | {near} ({near / len(ran):.0%}) |"))
    return "\n".join(lines + [text for _, text in sorted(rows, key=lambda row: -row[0])])


def our_table(found: dict[Pair, Results]) -> str:
    """MBCT's loss on each pair, above the base's and above the best peer's."""
    lines = ["| pair | base | MBCT | above base | best peer | above best peer | trees | rules | seconds |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for pair, results in found.items():
        if OURS not in results.losses:
            continue
        own = results.losses[OURS]
        peer = results.best([m for m in COMPARED if m != OURS])
        lines.append(
            f"| {pair_name(pair)} | {results.losses[BASE]['log_loss']:.5f} | {own['log_loss']:.5f} | "
            f"{_signed(results.difference(OURS, BASE))} | {peer} | {_signed(results.difference(OURS, peer))} | "
            f"{own.get('trees', '–')} | {own.get('rules', '–')} | {own['seconds']:.1f} |"
        )
    return "\n".join(lines)


def loss_table(found: dict[Pair, Results]) -> str:
    """Log loss of every method; in brackets its difference to the base. The lowest is bold."""
    shown = [m for m in COMPARED if any(m in results.losses for results in found.values())]
    lines = ["| pair | blocks | " + " | ".join(shown) + " |", "|---|---|" + "---|" * len(shown)]
    for pair, results in found.items():
        best = results.best(shown)
        cells = []
        for method in shown:
            if method not in results.losses:
                cells.append("–")
                continue
            text = f"{results.losses[method]['log_loss']:.5f}"
            text = f"**{text}**" if method == best else text
            cells.append(text if method == BASE else f"{text} ({_signed(results.difference(method, BASE))})")
        lines.append(f"| {pair_name(pair)} | {len(results.rows)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def sizes_note() -> str:
    """What the table of sizes shows."""
    return (
        "Share of the full ensemble's held-out gain that each `model_size` keeps; in brackets look-ups a row (trees), "
        "entries (leaves) and kilobytes of the model as JSON. "
        '`"auto"` is the default, `"rules"` has at most 16 look-ups, `"compact"` at most 256 rules; '
        "a dash stands for a size that was measured with other code."
    )


def sizes_table(found: dict[Pair, Results]) -> str:
    """What the sizes of the model keep of the full ensemble's gain, and what they hold."""
    lines = [f"| pair | gain of full | {' | '.join(SIZES.values())} |", "|---|---|" + "---|" * len(SIZES)]
    kept: dict[str, list[float]] = {}
    for pair, results in found.items():
        if not all(method in results.losses for method in SIZES):
            continue
        gain = -results.difference("mbct full", BASE)[0]
        cells = []
        for method in SIZES:
            of = results.losses[method]
            if of.get("commit") != results.losses["mbct full"].get("commit"):
                cells.append("–")
                continue
            share = -results.difference(method, BASE)[0] / gain if gain else 1.0
            kept.setdefault(method, []).append(share)
            cells.append(f"{share:.0%} ({of['trees']:,}; {of['rules']:,}; {of['bytes'] / 1e3:,.0f} kB)")
        lines.append(f"| {pair_name(pair)} | {1e5 * gain:.0f} | {' | '.join(cells)} |")
    wanted = {"mbct": 0.97, "mbct rules": 0.95, "mbct compact": 0.85}
    sentences = [
        f"`{SIZES[m]}` keeps at least {least:.0%} on {sum(share >= least for share in kept[m])} of {len(kept[m])} pairs"
        for m, least in wanted.items()
        if m in kept
    ]
    return "\n".join(lines) + ("\n\n" + "; ".join(sentences) + "." if sentences else "")


def with_time_table(readme: str, results: list[dict[str, Any]]) -> str:
    """README with today's losses in time order between its two marks."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    found = by_pair(results)
    shown = [m for m in IN_README if any(m in pair.losses for pair in found.values())]
    lines = ["| data | " + " | ".join(IN_README[m] for m in shown) + " |", "|---|" + "---|" * len(shown)]
    for (name, base, calendar), pair in found.items():
        if not calendar:
            losses = [f"{pair.losses[m]['log_loss']:.5f}" if m in pair.losses else "–" for m in shown]
            lowest = min(losses)
            cells = [f"**{loss}**" if loss == lowest else loss for loss in losses]
            lines.append(f"| {name}, {base} base | " + " | ".join(cells) + " |")
    sentences = (
        f"Over all {len(found)} pairs, half of them with calendar columns, in units of 1e-5 (*harmful*: worse than the "
        "base beyond two block standard errors; *best or near*: lowest loss, or within one of it; single fits and "
        "random folds stop early on random rows):"
    )
    more = "[All pairs](docs/benchmarks/quality-time.md), [the same by persons](docs/benchmarks/quality-groups.md)."
    lines += ["", sentences, "", summary_table(found), "", more]
    return before + BEGIN + "\n".join(lines) + END + after


def pair_name(pair: Pair) -> str:
    """Data set, base and calendar columns in words."""
    name, base, calendar = pair
    return f"{name}, {base}{', calendar' if calendar else ''}"


def _signed(difference: tuple[float, float]) -> str:
    mean, error = difference
    return f"{1e5 * mean:+.0f} ± {1e5 * error:.0f}".replace(" ", "\N{NO-BREAK SPACE}")
