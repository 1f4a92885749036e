"""A year in service: the base alone, weekly retraining, and the online layer on both: ``docs/benchmarks/online.*``.

    python benchmarks/online.py --data ../shared/data

Days are taken in order. A day is answered with what was known the evening before; then its outcomes arrive.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from made_with import write_page
from mbct import MBCTCalibrator, OnlineCalibrator
from mbct.stats.probabilities import log_loss_of_logodds, logit
from quality_data import BASE, UNUSED, _scored

PAGES = Path(__file__).parent.parent / "docs" / "benchmarks"
WEEKS_TO_FIT = 8
MOST_ROWS = 20_000
AUCTION = "auction market"
AUCTION_DAYS, AUCTION_VIEWS = 364, 300
DATA = {
    "flights 2013": ("carrier", 7, "June to December; base of January to May"),
    "flights 2001": ("hour", 7, "March to June; base of January and February"),
    "police stops": ("policePrecinct", 7, "May to December 2017; base of January to April"),
    AUCTION: ("device", 7, "a simulated year of a market that drifts daily; ads as its base ranks them"),
    "employment": (None, 5, "2015 to 2018, a stretch of 1/50 year for a day; the predictions that came with the data"),
}
"""Segment, days of a week, and what the stream is."""
ARMS = ("base", "base + online", "retrain", "retrain + online")


def stream(name: str, folder: Path, most: int) -> dict[str, Any]:
    """Rows in time order: frame with score, label, day and segment; at most ``most`` rows, drawn at random."""
    if name == AUCTION:
        return auction_stream()
    table, part, score = _scored(name, "strong", folder, 0)
    rows = np.flatnonzero((part != BASE) & (part != UNUSED)) if table.given is None else np.arange(len(score))
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    rows = rows[np.argsort(table.block[rows], kind="stable")]
    frame = table.frame.drop(columns=list(table.calendar)).assign(score=score).iloc[rows].reset_index(drop=True)
    segment, week, _ = DATA[name]
    names = None if segment is None else frame[segment].astype(str).to_numpy(dtype=object)
    day = table.block[rows] - table.block[rows].min()
    return {"frame": frame, "label": table.label[rows], "day": day, "segment": names, "week": day // week}


def auction_stream() -> dict[str, Any]:
    """A year of the market of ``reproduction/auction``: what was shown, and what was clicked."""
    sys.path.insert(0, str(PAGES.parents[1]))
    from reproduction.auction.log import log_of_day
    from reproduction.auction.market import draw_views, make_market

    rng = np.random.default_rng(0)
    market = make_market(rng)
    world, logs = market.first, []
    for _ in range(AUCTION_DAYS):
        logs.append(log_of_day(market, world, draw_views(AUCTION_VIEWS, rng), "second-price").to_pandas())
        world = world.drifted(rng)
    day = np.repeat(np.arange(AUCTION_DAYS), [len(log) for log in logs])
    frame = pd.concat(logs, ignore_index=True).rename(columns={"pctr": "score"})
    label = frame.pop("click").to_numpy(float)
    segment = frame["device"].astype(str).to_numpy(dtype=object)
    return {"frame": frame, "label": label, "day": day, "segment": segment, "week": day // 7}


def run(found: dict[str, Any]) -> dict[str, np.ndarray]:
    """Probabilities of every arm for every row from the first retraining on."""
    frame, label, day, week = found["frame"], found["label"], found["day"], found["week"]
    base = frame["score"].to_numpy()
    answered = {arm: np.full(len(label), np.nan) for arm in ARMS}
    layers = {arm: OnlineCalibrator(segments=20) for arm in ("base", "retrain")}
    model: MBCTCalibrator | None = None
    rng = np.random.default_rng(1)
    for number in np.unique(week[week >= WEEKS_TO_FIT]):
        train = np.flatnonzero((week < number) & (week >= number - WEEKS_TO_FIT))
        train = np.sort(rng.permutation(train)[:MOST_ROWS])
        model = MBCTCalibrator("score", preset="fast", time=day[train]).fit(frame.iloc[train], label[train])
        layers["retrain"].renew()
        for today in np.unique(day[week == number]):
            rows = np.flatnonzero(day == today)
            names = None if found["segment"] is None else found["segment"][rows].tolist()
            predicted = {"base": base[rows], "retrain": model.calibrate(frame.iloc[rows])}
            for arm, layer in layers.items():
                answered[arm][rows] = predicted[arm]
                answered[f"{arm} + online"][rows] = layer.calibrate(predicted[arm], names)
                layer.partial_fit(predicted[arm], label[rows], names)
    return answered


def summary(found: dict[str, Any], answered: dict[str, np.ndarray]) -> dict[str, Any]:
    """Log loss and PCOC of each arm, overall and by week, with standard errors of whole days."""
    known = np.flatnonzero(np.isfinite(answered["base"]))
    label, day, week = (found[key][known] for key in ("label", "day", "week"))
    loss = {arm: log_loss_of_logodds(logit(q[known]), label) for arm, q in answered.items()}
    gains = {
        "online on base": mean_of_days(loss["base"] - loss["base + online"], day),
        "retrain": mean_of_days(loss["base"] - loss["retrain"], day),
        "online on retrain": mean_of_days(loss["retrain"] - loss["retrain + online"], day),
    }
    weeks = []
    for number in np.unique(week):
        rows = week == number
        entry: dict[str, Any] = {"week": int(number), "rows": int(rows.sum())}
        for arm, q in answered.items():
            predicted, days = q[known][rows], day[rows]
            error = mean_of_days(predicted - label[rows], days)[1] * rows.sum() / label[rows].sum()
            entry[arm] = {
                "log_loss": [*mean_of_days(loss[arm][rows], days)],
                "pcoc": [float(predicted.sum() / label[rows].sum()), error],
            }
        weeks.append(entry)
    off = {arm: float(np.mean([abs(np.log(entry[arm]["pcoc"][0])) for entry in weeks])) for arm in ARMS}
    return {
        "rows": len(known),
        "days": len(np.unique(day)),
        "log_loss": {arm: float(values.mean()) for arm, values in loss.items()},
        "pcoc": {arm: float(q[known].sum() / label.sum()) for arm, q in answered.items()},
        "mean_abs_log_weekly_pcoc": off,
        "gains": gains,
        "weeks": weeks,
    }


def mean_of_days(values: np.ndarray, day: np.ndarray) -> tuple[float, float]:
    """Mean over rows, and its standard error from the days' sums."""
    _, position, rows = np.unique(day, return_inverse=True, return_counts=True)
    mean = float(values.mean())
    sums = np.bincount(position, values - mean)
    n = len(rows)
    return mean, float(np.sqrt(n / max(n - 1, 1) * np.sum(sums**2)) / len(values))


def page(results: dict[str, Any]) -> str:
    """The page of the documentation."""
    losses, gains, levels = [], [], []
    for name, found in results.items():
        losses.append(f"| {name} | " + " | ".join(f"{found['log_loss'][arm]:.5f}" for arm in ARMS) + " |")
        levels.append(
            f"| {name} | " + " | ".join(f"{found['mean_abs_log_weekly_pcoc'][arm]:.3f}" for arm in ARMS) + " |"
        )
        cells = [f"{1e5 * gain:+.0f} ± {1e5 * error:.0f}" for gain, error in found["gains"].values()]
        gains.append(f"| {name} | {found['rows']:,} | {found['days']} | " + " | ".join(cells) + " |")
    head = "| data | " + " | ".join(ARMS) + " |\n|---|" + "---|" * len(ARMS)
    streams = "\n".join(f"- **{name}**: {DATA[name][2]}." for name in results)
    return f"""# A year in service: retraining and the online layer

Written by `python benchmarks/online.py`. Each day is answered with what was known the evening before, then its outcomes
arrive. *Retrain*: every week `MBCTCalibrator(preset="fast")` on at most {MOST_ROWS:,} rows of the {WEEKS_TO_FIT} weeks
before. *Online*: `OnlineCalibrator(segments=20)`, taught day by day, begun anew with each retrained model.

{streams}

Log loss:

{head}
{chr(10).join(losses)}

Fall of the log loss × 10⁵, with the standard error of whole days:

| data | rows | days | online on base | retrain | online on retrain |
|---|---|---|---|---|---|
{chr(10).join(gains)}

Mean over weeks of |log PCOC|, the relative error of a week's level:

{head}
{chr(10).join(levels)}

![PCOC and log loss by week](online.svg)

PCOC and log loss by week with intervals of two standard errors of whole days; `online.json` has the figures.
"""


def draw(results: dict[str, Any], path: Path) -> None:
    """PCOC and log loss by week of three arms, a row a data set."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "mbct"
    figure, axes = plt.subplots(len(results), 2, figsize=(12, 2.3 * len(results)), layout="constrained", squeeze=False)
    shown = {"base": "#888888", "retrain": "#1f77b4", "retrain + online": "#d62728"}
    for row, (name, found) in zip(axes, results.items(), strict=True):
        weeks = np.array([entry["week"] for entry in found["weeks"]])
        for axis, metric in zip(row, ("pcoc", "log_loss"), strict=True):
            for shift, (arm, colour) in zip((-0.15, 0.0, 0.15), shown.items(), strict=True):
                value, error = np.array([entry[arm][metric] for entry in found["weeks"]]).T
                axis.errorbar(
                    weeks + shift, value, 2 * error, label=arm, color=colour, lw=1.2, elinewidth=0.5, alpha=0.85
                )
            axis.set_title(f"{name}: {'PCOC' if metric == 'pcoc' else 'log loss'}", fontsize="medium")
        row[0].axhline(1.0, color="black", lw=0.6)
    axes[0, 0].legend(ncols=3, fontsize="small", frameon=False)
    for axis in axes[-1]:
        axis.set_xlabel("week of the stream")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Run every data set and write page, figures and data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=list(DATA))
    parser.add_argument("--rows", type=int, default=120_000, help="most rows of a stream")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    path = PAGES / "online.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in given.only:
        found = stream(name, given.data, given.rows)
        results[name] = summary(found, run(found))
        results = {name: results[name] for name in DATA if name in results}
        path.write_text(json.dumps(results) + "\n", encoding="utf-8")
    write_page(PAGES / "online.md", page(results))
    draw(results, PAGES / "online.svg")


if __name__ == "__main__":
    main()
