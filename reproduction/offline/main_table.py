"""The README's section on the main table."""

from pathlib import Path
from typing import Any

from reproduction import printed
from reproduction.markdown import listed, table
from reproduction.offline.case import ALPHA, LEAST_BINS, MAX_RELATIVE_ERROR
from reproduction.offline.inequality import bin_size
from reproduction.offline.methods import COMPETITORS, DEFAULT, IN_TIME, MBCT, ONE_TREE, TITLES
from reproduction.offline.results import Repetitions, by_dataset, gain, is_by_time, methods_of, score
from reproduction.parts import Finished, write
from reproduction.spread import Spread

_COLUMNS = {"mvce": ("MVCE", 5), "auc": ("AUC", 4), "log_loss": ("log loss", 5), "ece": ("ECE", 4)}
_POSITIVES = {"porto-seguro": (21_694, 595_212), "avazu": (6_865_066, 40_428_967)}
"""Positives and rows of the two Kaggle files."""


def report(finished: dict[str, Finished], out: Path) -> str:
    """Write the tables and return the section."""
    datasets = by_dataset(finished)
    sections = [_introduction(datasets, next(iter(finished.values())).parameters), _sizes(datasets)]
    for name, repetitions in datasets.items():
        text = _table(name, repetitions)
        write(out / "tables" / f"main-{name}.md", text + "\n")
        sections.append(f"### {repetitions[0]['dataset']['title']}\n\n{text}\n\n{_words(repetitions)}")
    sections += [_verdict(datasets), _optimism(datasets, out), _bin_sizes(out)]
    return "\n\n".join(sections)


def _introduction(datasets: dict[str, Repetitions], parameters: dict[str, Any]) -> str:
    forest = parameters["predictor"]
    return (
        "## 2. The main table (Section 5.4)\n\n"
        f"A gradient-boosted forest ({forest['num_boost_round']} trees of {forest['num_leaves']} leaves, learning rate "
        f"{forest['learning_rate']}: the paper names no settings, so these are LightGBM's defaults, fixed beforehand) "
        "is trained on the first part of each data set, the calibrators on the second, and all numbers are from the "
        f"third. MBCT as printed has depth {parameters['max_depth']}, at most {parameters['max_trees']} trees, the "
        f"printed bin size, the prediction in {parameters['score_buckets']} equal-width buckets. MVCE uses "
        f"{parameters['views']} shuffled views "
        f"with bins of that size. {_intervals(datasets)} "
        "The field error is the mean absolute bias over the values of the calibration features: what shuffled bins "
        "cannot see. Where the paper has the data set, its numbers stand beside ours; they come from all rows and "
        "another base predictor, so only the order of the methods can be compared."
    )


def _intervals(datasets: dict[str, Repetitions]) -> str:
    """How the repetitions were made, and what “±” means."""
    n = max((len(repetitions) for repetitions in datasets.values()), default=0)
    if n < 2:
        return "Each data set was split once, so no interval is given."
    by_time = [r[0]["dataset"]["title"] for r in datasets.values() if is_by_time(r)]
    bootstraps = (
        f" Data in the order of time ({listed(by_time)}) can be split in one way only: the numbers are those of their "
        f"test rows, and “±” comes from {n - 1} bootstraps of whole hours, days or stretches of a year. There the "
        "default runs twice, with random folds and with folds of time."
        if by_time
        else ""
    )
    return (
        f"Each data set was split {n} times at random; the numbers are means, “±” is their 95 % interval, widened "
        f"because splits share rows (Nadeau and Bengio).{bootstraps}"
    )


def _sizes(datasets: dict[str, Repetitions]) -> str:
    rows = []
    for repetitions in datasets.values():
        d = repetitions[0]["dataset"]
        sizes = [f"{count:,}" for count in d["rows"]]
        rows.append([d["title"], *sizes, f"{d['label_rate']:.2%}", f"{d['bin_size']:,}", listed(d["features"])])
    header = ["data set", "predictor", "calibrator", "test", "positives", "bin size", "calibration features"]
    small = [
        f"{r[0]['dataset']['title']} ({r[0]['dataset']['printed_bin_size']:,} → {r[0]['dataset']['bin_size']:,})"
        for r in datasets.values()
        if r[0]["dataset"]["bin_size"] < r[0]["dataset"]["printed_bin_size"]
    ]
    note = (
        f"\n\nBins were made smaller than printed where the calibrator's rows would fill fewer than {LEAST_BINS}: "
        f"{listed(small)}."
        if small
        else ""
    )
    return table(header, rows) + note


def _table(name: str, repetitions: Repetitions) -> str:
    paper = printed.MAIN.get(name, {})
    header = ["method", *(text for text, _ in _COLUMNS.values()), "field error"]
    header += ["paper: MVCE", "paper: AUC"] if paper else []
    rows = []
    for method in methods_of(repetitions):
        cells = [score(repetitions, method, metric).text(digits) for metric, (_, digits) in _COLUMNS.items()]
        cells.append(score(repetitions, method, "field_error").text(4))
        if paper:
            cells += [f"{paper[method][0]:.5f}", f"{paper[method][1]:.5f}"] if method in paper else ["–", "–"]
        rows.append([TITLES[method], *cells])
    return table(header, rows)


def _words(repetitions: Repetitions) -> str:
    means = {
        m: {k: score(repetitions, m, k).mean for k in ("mvce", "auc", "log_loss")} for m in methods_of(repetitions)
    }
    lowest = min(means, key=lambda m: means[m]["mvce"])
    highest = max(means, key=lambda m: means[m]["auc"])
    best_log_loss = min(means, key=lambda m: means[m]["log_loss"])
    against = min(COMPETITORS, key=lambda m: means[m]["mvce"])
    difference, wins = gain(repetitions, MBCT, against, "mvce")
    n = len(repetitions)
    return (
        f"Lowest mean MVCE: {TITLES[lowest]}; highest AUC: {TITLES[highest]}; lowest log loss: "
        f"{TITLES[best_log_loss]}. "
        f"MBCT as printed against the best competitor by MVCE ({TITLES[against]}): "
        f"{difference.text(5, sign=True)}, lower in {wins} of {n} repetitions. "
        f"{_claim(repetitions, means)}"
    )


def _claim(repetitions: Repetitions, means: dict[str, dict[str, float]]) -> str:
    lowest = min(COMPETITORS, key=lambda m: means[m]["mvce"])
    highest = max(COMPETITORS, key=lambda m: means[m]["auc"])
    claims = [
        f"that MBCT has the lowest MVCE {_holds(gain(repetitions, MBCT, lowest, 'mvce')[0], 1.0)}",
        f"that it has the highest AUC {_holds(gain(repetitions, MBCT, highest, 'auc')[0], -1.0)}",
        f"that boosting lowers MVCE {_holds(gain(repetitions, MBCT, ONE_TREE, 'mvce')[0], 1.0)}",
    ]
    return f"Of the paper's claims, for the preset as printed: {'; '.join(claims)}."


def _holds(difference: Spread, sign: float) -> str:
    """A claim that ``sign`` × difference is below zero, by its interval."""
    better = sign * difference.mean < 0
    if difference.is_sure:
        return "holds" if better else "does not hold"
    return f"is within noise ({'for' if better else 'against'} it in the mean)"


def _verdict(datasets: dict[str, Repetitions]) -> str:
    def count(method: str, metric: str, sign: float) -> str:
        having = [r for r in datasets.values() if method in methods_of(r)]
        best = sum(
            all(sign * score(r, method, metric).mean <= sign * score(r, m, metric).mean for m in ("base", *COMPETITORS))
            for r in having
        )
        return f"{best} of {len(having)}"

    rows = [
        [
            TITLES[m],
            *(count(m, k, s) for k, s in (("mvce", 1.0), ("auc", -1.0), ("log_loss", 1.0), ("field_error", 1.0))),
        ]
        for m in (MBCT, ONE_TREE, DEFAULT, IN_TIME)
    ]
    return (
        "### All data sets together\n\nNumber of data sets on which each variant of MBCT is at least as good, in the "
        "mean, as the base and all five competitors:\n\n"
        + table(["variant", "MVCE", "AUC", "log loss", "field error"], rows)
        + "\n\nDifferences in MVCE are small against their intervals on samples of this size, and MVCE itself is the "
        "Brier score and the total bias in another guise (section 1): read it beside log loss and field error."
    )


def _optimism(datasets: dict[str, Repetitions], out: Path) -> str:
    """What each variant gains on the rows it learnt from, and what is left of it on others."""
    rows = []
    kept = {MBCT: 0, DEFAULT: 0, IN_TIME: 0}
    n_in_time = 0
    for repetitions in datasets.values():
        n_in_time += IN_TIME in methods_of(repetitions)
        for method in (m for m in kept if m in methods_of(repetitions)):
            learnt, _ = gain(repetitions, method, "base", "training_log_loss")
            held_out, _ = gain(repetitions, method, "base", "log_loss")
            kept[method] += held_out.mean < 0.0
            cells = [found.text(5, sign=True) for found in (learnt, held_out)]
            rows.append([repetitions[0]["dataset"]["title"], TITLES[method], *cells])
    text = table(["data set", "variant", "calibrator's rows", "test rows"], rows)
    write(out / "tables" / "optimism.md", text + "\n")
    n = len(datasets)
    return (
        "### What the calibrator's own rows promise\n\nThe printed recipe fits and evaluates its splits on the same "
        "rows; the default ranks splits on rows that did not fit them and shrinks its steps. Change of log loss "
        f"against the base predictor, on the rows that the calibrator learnt from and on the test rows:\n\n{text}\n\n"
        f"On the test rows log loss falls with the preset as printed on {kept[MBCT]} of {n} data sets, with the "
        f"default on {kept[DEFAULT]} of {n}, with its folds of time on {kept[IN_TIME]} of {n_in_time}."
    )


def _bin_sizes(out: Path) -> str:
    rows = []
    for name, (positives, total) in _POSITIVES.items():
        rate = positives / total
        n = printed.SIZES[name][1]
        bound = bin_size(rate, n, MAX_RELATIVE_ERROR, ALPHA)
        rows.append([name, f"{n:,}", f"{rate:.2%}", f"{printed.BIN_SIZES[name]:,}", f"{bound:,}"])
    text = table(["data set", "calibrator's rows", "positives", "printed bin size", "by the inequality"], rows)
    write(out / "tables" / "bin-sizes.md", text + "\n")
    return (
        f"### The printed bin sizes\n\nThe paper says that α = {ALPHA} and e = {MAX_RELATIVE_ERROR} lead to bins of "
        f"{listed([f'{size:,}' for size in printed.BIN_SIZES.values()])} rows ({listed(list(printed.BIN_SIZES))}) "
        "through the inequality of Section 4.3. Solving that inequality at the paper's own sizes gives far "
        f"larger bins:\n\n{text}\n\nThe preset as printed takes the printed sizes; "
        '`min_bin_size="bound"` solves the inequality.'
    )
