"""The demonstration: delayed flights in time order, a base that ignores the carrier, and what calibration does to it.

The base predictor is trained on January to May, calibrated on June to September and evaluated on October to December.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mbct import MBCTCalibrator
from mbct.calibrators import IsotonicCalibrator
from mbct.metrics import auc, brier, ece, field_ece, log_loss, mvce, pcoc
from mbct.progress import progress
from mbct.report import write_report
from reproduction.arrays import FloatArray
from reproduction.datasets.flights import read_flights

SCORE = "p_late"
TIME = "date"
_BASE_COLUMNS = ["hour", "weekday", "distance"]
_FEATURES = [*_BASE_COLUMNS, "carrier", "origin", "dest"]
_LAST_OF_BASE, _LAST_OF_CALIBRATION = 5, 9
"""Months."""
_STEPS = 7
_MAX_TREES = 250
"""Fewer than the default, so that the demonstration takes a minute or two."""


@dataclass(frozen=True)
class Flights:
    """A part of the flights: features with the base prediction, and whether each left 15 minutes late or more."""

    frame: Any
    late: FloatArray


@dataclass(frozen=True)
class DemoResult:
    """Held-out metrics of each method, and the ratio of predicted to true delays by carrier."""

    metrics: dict[str, dict[str, float]]
    ratio_by_carrier: dict[str, dict[str, tuple[float, float, float]]]
    n_rules: int
    picture: Path
    report: Path


def run_demo(folder: Path) -> DemoResult:
    """Fit on one part of the flights, evaluate on another, draw the picture into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with progress("flights of 2013", _STEPS) as advance:
        calibration, test = _flights()
        advance(1)
        isotonic = IsotonicCalibrator(SCORE, smoothing=0.0).fit(calibration.frame[[SCORE]], calibration.late)
        advance(1)
        trees = MBCTCalibrator(SCORE, model_size="compact", max_trees=_MAX_TREES, time=TIME)
        trees.fit(calibration.frame, calibration.late)
        advance(1)
        random_folds = MBCTCalibrator(SCORE, model_size="compact", max_trees=_MAX_TREES)
        random_folds.fit(calibration.frame.drop(columns=TIME), calibration.late)
        advance(1)
        predictions = {
            "base predictor": test.frame[SCORE].to_numpy(),
            "isotonic": isotonic.calibrate(test.frame[[SCORE]]),
            "MBCT, random folds": random_folds.calibrate(test.frame.drop(columns=TIME)),
            "MBCT": trees.calibrate(test.frame),
        }
        carrier = test.frame["carrier"].to_numpy()
        metrics = {name: _metrics(test.late, p, carrier) for name, p in predictions.items()}
        advance(1)
        date = test.frame[TIME].to_numpy()
        ratios = {name: _ratio_by_carrier(test.late, p, carrier, date) for name, p in predictions.items()}
        picture = folder / "carriers.png"
        draw_carriers(ratios, picture)
        trees.save(folder / "model.json")
        advance(1)
        report = folder / "report.html"
        write_report(trees, test.frame, test.late, report, time=TIME, title="Delayed flights", command="make demo")
        advance(1)
    return DemoResult(metrics, ratios, trees.model_.n_rules, picture, report)


def _flights() -> tuple[Flights, Flights]:
    """The flights to calibrate on and those to evaluate on; the base predictor never sees carrier or airports."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    known = read_flights().dropna(subset=["dep_delay"]).reset_index(drop=True)
    late = (known["dep_delay"] >= 15).to_numpy(dtype=np.float64)
    month = known["month"].to_numpy()
    date = known["time_hour"].str[:10].to_numpy(dtype="datetime64[D]")
    frame = known.assign(**{TIME: date, "weekday": _weekday(date)})[[*_FEATURES, TIME]]
    first = month <= _LAST_OF_BASE
    base = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    base.fit(frame.loc[first, _BASE_COLUMNS], late[first])
    frame[SCORE] = base.predict_proba(frame[_BASE_COLUMNS])[:, 1]
    last = month > _LAST_OF_CALIBRATION
    calibration, test = (Flights(frame[rows].reset_index(drop=True), late[rows]) for rows in (~first & ~last, last))
    return calibration, test


def _weekday(date: Any) -> Any:
    """0 is Monday; 1 January 1970 was a Thursday."""
    return (date.astype(np.int64) + 3) % 7


def _metrics(late: FloatArray, prediction: FloatArray, carrier: Any) -> dict[str, float]:
    return {
        "log loss": float(log_loss(late, prediction)),
        "Brier": float(brier(late, prediction)),
        "AUC": float(auc(late, prediction)),
        "ECE": float(ece(late, prediction)),
        "MVCE, shuffled": float(mvce(late, prediction)),
        "error by carrier": float(field_ece(late, prediction, field=carrier)),
    }


def _ratio_by_carrier(
    late: FloatArray, prediction: FloatArray, carrier: Any, date: Any
) -> dict[str, tuple[float, float, float]]:
    """Predicted over true delays (PCOC) of each carrier with at least 500 flights, with a 95 % interval of days."""
    ratios = {}
    for name in sorted(set(carrier)):
        rows = carrier == name
        if rows.sum() >= 500:
            result = pcoc(late[rows], prediction[rows], confidence=0.95, time=date[rows])
            if result.interval is not None:
                ratios[str(name)] = (result.value, result.interval.lower, result.interval.upper)
    return ratios


def draw_carriers(ratios: dict[str, dict[str, tuple[float, float, float]]], path: Path) -> None:
    """Predicted over true delays by carrier, before and after."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    order = sorted(ratios["base predictor"], key=lambda c: ratios["base predictor"][c][0])
    styles = {"base predictor": ("#9a9a9a", "o"), "isotonic": ("#e69f00", "s"), "MBCT": ("#0072b2", "D")}
    figure, axes = plt.subplots(figsize=(8.0, 5.0), layout="constrained")
    for shift, (name, (colour, marker)) in zip((-0.22, 0.0, 0.22), styles.items(), strict=True):
        centre = np.array([ratios[name][c] for c in order])
        position = np.arange(len(order)) + shift
        axes.errorbar(
            centre[:, 0],
            position,
            xerr=np.abs(centre[:, 1:] - centre[:, :1]).T,
            fmt=marker,
            color=colour,
            markersize=5,
            elinewidth=1.2,
            label=name,
        )
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    ticks = [0.6, 0.8, 1.0, 1.25, 1.6, 2.0]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(np.arange(len(order)), order)
    axes.set_xlabel("predicted delays / true delays (1 is right; bars: 95 % interval, whole days resampled)")
    axes.set_ylabel("carrier")
    axes.set_title("October to December: is each carrier's delay probability right?", loc="left")
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def findings(result: DemoResult) -> list[str]:
    """What was found, in three sentences: the gain, carriers that came nearer to the truth, and those that did not."""
    loss = {name: metrics["log loss"] for name, metrics in result.metrics.items()}
    isotonic = "lowers" if loss["isotonic"] < loss["base predictor"] else "raises"
    before, after = (
        {carrier: ratio for carrier, (ratio, _, _) in result.ratio_by_carrier[name].items()}
        for name in ("base predictor", "MBCT")
    )
    change = {carrier: abs(np.log(after[carrier])) - abs(np.log(before[carrier])) for carrier in before}
    ranked = sorted(change, key=lambda carrier: change[carrier])
    nearer = [carrier for carrier in ranked if change[carrier] < 0]
    away = [carrier for carrier in reversed(ranked) if change[carrier] >= 0]

    def most(carriers: list[str]) -> str:
        first = carriers[0]
        others = f"; then {', '.join(carriers[1:])}" if len(carriers) > 1 else ""
        return f"most {first} (predicted / true delays {before[first]:.2f} → {after[first]:.2f}){others}"

    return [
        f"MBCT lowers the log loss from {loss['base predictor']:.5f} to {loss['MBCT']:.5f}, with {result.n_rules:,} "
        f"if-then rules; isotonic regression {isotonic} it to {loss['isotonic']:.5f}.",
        f"{len(nearer)} of {len(change)} carriers come nearer to their true rate of delays, {most(nearer)}."
        if nearer
        else "No carrier comes nearer to its true rate of delays.",
        f"{len(away)} go away from it, {most(away)}." if away else "None goes away from it.",
    ]


def print_result(result: DemoResult) -> None:
    """The table a person reads on the terminal, and what was found."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Flights of October to December: chance of leaving 15 minutes late", title_justify="left")
    table.add_column("")
    for name in result.metrics:
        table.add_column(name, justify="right")
    for metric in next(iter(result.metrics.values())):
        values = [result.metrics[name][metric] for name in result.metrics]
        best = max(values) if metric == "AUC" else min(values)
        cells = [f"[bold green]{v:.5f}[/]" if v == best else f"{v:.5f}" for v in values]
        table.add_row(metric, *cells)
    console = Console()
    console.print(table)
    for sentence in findings(result):
        console.print(sentence, highlight=False)
    console.print(f"The picture: {result.picture}", highlight=False, soft_wrap=True)
    console.print(f"The report, to open in a browser: {result.report}", highlight=False, soft_wrap=True)


def main() -> int:
    """Run in the folder named on the command line, ``demo`` if none is."""
    parser = argparse.ArgumentParser(description="Fit, compare and report on flights of 2013, in time order.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("demo"), help="for the results; demo by default")
    folder = parser.parse_args().folder
    if folder.is_file():
        sys.stderr.write(f"{folder} is a file: name a folder\n")
        return 2
    print_result(run_demo(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
