"""Draw the Grafana dashboard from what a real Prometheus answers to its queries.

    python scripts/draw_dashboard.py

A service is simulated over a day, in whose second half mobile clicks become more frequent: the same objects that
``mbct serve --online`` has score, join outcomes, raise alarms and move the online layer, with a clock of their own.
promtool stores what ``/metrics`` would have said every two minutes, Prometheus (``apt-get install prometheus``) answers
each panel's queries, and the panels are drawn in their places into ``docs/images/dashboard.png``.
"""

import contextlib
import json
import re
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pandas as pd

from mbct import MBCTCalibrator
from mbct.data.columns import encode, read_columns
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import dump_document
from mbct.serving.app import metrics_text
from mbct.serving.batch import ScoredBatch
from mbct.serving.feedback import FeedbackLoop
from mbct.serving.loaded_model import LoadedModel
from mbct.serving.metrics import Metrics
from mbct.serving.model_watcher import Health
from mbct.serving.options import FeedbackOptions
from mbct.simulation import simulate

ROOT = Path(__file__).resolve().parents[1]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "mbct.json").read_text(encoding="utf-8"))
STEP, START = 120, 1_700_006_400
SHIFT = 2.5
"""Odds of mobile clicks in the second half, beside what they were."""


class SimulatedService:
    """What ``/metrics`` reads of a service: its metrics, its model and its feedback loop, under a clock of ours."""

    def __init__(self) -> None:
        frame = pd.DataFrame(simulate(n_rows=20_000).columns)
        calibrator = MBCTCalibrator("pctr", model_size="compact").fit(frame, "click")
        self.model: CalibrationEnsemble = calibrator.model_
        self.now = float(START)
        content = dump_document({"method": "mbct", "state": {"model": self.model.to_dict()}})
        self.current, self.health = LoadedModel(content), Health()
        self.metrics = Metrics(10)
        options = FeedbackOptions(online=True, segment="device")
        self.feedback = FeedbackLoop(options, clock=lambda: self.now)
        self.rng = np.random.default_rng(0)

    def serve(self, number: int, n_rows: int, shift: float) -> None:
        """Score some rows and learn the outcomes of most of them."""
        drawn = simulate(n_rows=n_rows, seed=number + 1)
        columns, score = read_columns(drawn.columns), drawn.columns["pctr"].astype(np.float64)
        codes = encode(columns, self.model.bins, score)
        batch = ScoredBatch(score, self.model.calibrate_codes(codes, score), codes, Counter())
        adjusted = self.feedback.adjusted(self.current.version, self.model.bins, batch)
        ids = [f"{number}-{i}" for i in range(n_rows)]
        self.feedback.remember(self.model.bins, ids, adjusted, self.current.version)
        truth = np.minimum(drawn.truth, 0.999)
        odds = truth / (1.0 - truth) * np.where(drawn.columns["device"] == "mobile", shift, 1.0)
        clicked = self.rng.random(n_rows) < odds / (1.0 + odds)
        known = [(i, int(y)) for i, y in zip(ids, clicked, strict=True)][: 19 * n_rows // 20]
        self.metrics.outcomes["joined"] += self.feedback.join(known).joined
        for seconds in self.rng.gamma(2.0, 0.0004, 10):
            self.metrics.observe("/v1/score", 200, float(seconds))
        self.metrics.count_rows(n_rows, float(score.sum()), float(adjusted.calibrated.sum()))
        self.metrics.count_unseen("site", int(self.rng.poisson(0.5)))
        self.metrics.flushes["done"] += number % 30 == 0
        self.health = Health(swaps=number // 240)
        self.now += STEP

    def text(self) -> str:
        """What ``/metrics`` says now."""
        return metrics_text(self.metrics, self, self.feedback)  # type: ignore[arg-type]  # it reads current and health


def openmetrics(n_steps: int, n_rows: int) -> Iterator[str]:
    """Lines of what the service said every two minutes, with their times, one metric after another."""
    service, by_name = SimulatedService(), dict[str, list[str]]()
    for number in range(n_steps):
        service.serve(number, n_rows, SHIFT if number >= n_steps // 2 else 1.0)
        for line in service.text().splitlines():
            if found := re.match(r"(\w+)(?:\{(.*)\})? (\S+)$", line):
                labels = ",".join(filter(None, (found[2], 'instance="127.0.0.1:8080"')))
                by_name.setdefault(found[1], []).append(f"{found[1]}{{{labels}}} {found[3]} {service.now:.0f}")
    for lines in by_name.values():
        yield from lines
    yield "# EOF"


@contextlib.contextmanager
def prometheus(n_steps: int, n_rows: int) -> Iterator[str]:
    """Address of a Prometheus that holds what the simulated service said."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "metrics.txt").write_text("\n".join(openmetrics(n_steps, n_rows)) + "\n", encoding="utf-8")
        (folder / "prometheus.yml").write_text("global: {}\n", encoding="utf-8")
        create = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "metrics.txt", "data"]
        subprocess.run(create, cwd=folder, check=True, capture_output=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--storage.tsdb.retention.time=100y"]
        command = ["prometheus", *options, f"--web.listen-address={address}"]
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
        try:
            for _ in range(300):
                with contextlib.suppress(OSError), urlopen(f"http://{address}/-/ready", timeout=1):
                    break
                time.sleep(0.1)
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait()


def answer(address: str, query: str, n_steps: int) -> list[dict[str, Any]]:
    """The series of a query over all steps."""
    asked = query.replace("$instance", ".*")
    parameters = {"query": asked, "start": START + STEP, "end": START + n_steps * STEP, "step": STEP}
    with urlopen(f"{address}/api/v1/query_range?{urlencode(parameters)}", timeout=30) as response:
        found: list[dict[str, Any]] = json.load(response)["data"]["result"]
    return found


def draw(address: str, n_steps: int, path: Path) -> None:
    """All panels in their places, as Grafana would."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in DASHBOARD["panels"])
    figure = plt.figure(figsize=(18, 0.42 * height), layout=None)
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        box = (place["x"] / 24 + 0.02, 1 - (place["y"] + place["h"] - 0.9) / height)
        axes = figure.add_axes((*box, place["w"] / 24 - 0.035, (place["h"] - 2.0) / height))
        axes.set_title(panel["title"], fontsize=9, loc="left")
        found = [series for target in panel["targets"] for series in answer(address, target["expr"], n_steps)]
        if panel["type"] == "timeseries":
            _draw_series(axes, found)
        else:
            _draw_last(axes, panel, found)
    figure.savefig(path, dpi=70)
    plt.close(figure)


def _named(series: dict[str, Any]) -> str:
    labels = {k: v for k, v in series["metric"].items() if k not in ("instance", "__name__", "version")}
    return ", ".join(labels.values()) or series["metric"].get("__name__", "")


def _draw_series(axes: Any, found: list[dict[str, Any]]) -> None:
    for series in found:
        at, value = np.array([[t, float(v)] for t, v in series["values"]]).T
        axes.plot((at - START) / 3600, value, label=_named(series), linewidth=1.2)
    axes.tick_params(labelsize=7)
    axes.set_xlim(0, None)
    axes.set_xlabel("hours", fontsize=7, labelpad=1)
    if any(_named(series) for series in found):
        axes.legend(fontsize=6, frameon=False)


def _draw_last(axes: Any, panel: dict[str, Any], found: list[dict[str, Any]]) -> None:
    axes.set_axis_off()
    lines = []
    for series in found:
        value = float(series["values"][-1][1])
        is_time = panel["fieldConfig"]["defaults"].get("unit") == "dateTimeAsIso"
        text = (
            time.strftime("%Y-%m-%d %H:%M", time.gmtime(value / 1000))
            if is_time
            else f"{value:,.0f}"
            if value >= 1000
            else f"{value:.4g}"
        )
        lines.append(f"{_named(series)}   {text}" if panel["type"] == "table" else text)
    axes.text(0.02, 0.5, "\n".join(lines), fontsize=8 if panel["type"] == "table" else 20, va="center")


if __name__ == "__main__":
    STEPS = 720
    with prometheus(STEPS, 100) as running:
        draw(running, STEPS, ROOT / "docs" / "images" / "dashboard.png")
