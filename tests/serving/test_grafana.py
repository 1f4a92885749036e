"""The Grafana dashboard asks for metrics that the service exports, all of them, with labels that they have."""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from builders import random_model
from mbct.serving.app import metrics_text
from mbct.serving.batch import ScoredBatch
from mbct.serving.feedback import FeedbackLoop
from mbct.serving.loaded_model import LoadedModel
from mbct.serving.metrics import Metrics
from mbct.serving.model_watcher import Health
from mbct.serving.options import FeedbackOptions
from processes import content_of

DASHBOARD = json.loads((Path(__file__).parents[2] / "deploy" / "grafana" / "mbct.json").read_text(encoding="utf-8"))
QUERIES = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]


class Watched:
    """What the metrics read of a model watcher."""

    def __init__(self, model):
        self.current, self.health = LoadedModel(content_of(model)), Health()


@pytest.fixture(scope="module")
def exported():
    """Labels of every metric of a service that has scored, learned and raised an alarm."""
    model, now = random_model(1), [1_700_000_000.0]
    watched = Watched(model)
    segment = model.bins.names[1]
    loop = FeedbackLoop(FeedbackOptions(online=True, segment=segment), clock=lambda: now[0])
    metrics = Metrics(10)
    rng = np.random.default_rng(0)
    for minute in range(20):
        q = rng.choice([0.1, 0.3], 500)
        codes = np.zeros((500, len(model.bins)), model.bins.code_type)
        ids = [f"{minute}-{i}" for i in range(500)]
        loop.remember(model.bins, ids, ScoredBatch(q, q, codes, {}), watched.current.version)
        loop.join([(i, int(y)) for i, y in zip(ids, rng.random(500) < 1.5 * q, strict=True)])
        now[0] += 60.0
    metrics.observe("/v1/score", 200, 0.001)
    metrics.count_rows(500, 50.0, 75.0)
    metrics.count_unseen("site")
    metrics.outcomes["joined"] += 1
    metrics.flushes["done"] += 1
    labels = {}
    for line in metrics_text(metrics, watched, loop).splitlines():
        if found := re.match(r"(\w+)(?:\{(.*)\})? \S+$", line):
            labels.setdefault(found[1], set()).update(re.findall(r"(\w+)=", found[2] or ""))
    return labels


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[f"{title}-{i}" for i, (title, _) in enumerate(QUERIES)])
def test_a_query_names_exported_metrics_and_their_labels(exported, title, query):
    names = re.findall(r"mbct_\w+", query)
    assert names, title
    for name in names:
        assert name in exported, f"{title} asks for {name}"
    asked = {label for matcher in re.findall(r"\{(.*?)\}", query) for label in re.findall(r"(\w+)=", matcher)}
    asked |= {label for group in re.findall(r"by \((.*?)\)", query) for label in group.split(", ")}
    assert asked - {"instance"} <= set().union(*(exported[name] for name in names)), title


def test_the_dashboard_shows_every_metric(exported):
    asked = {name for _, query in QUERIES for name in re.findall(r"mbct_\w+", query)}
    histogram = {"mbct_request_seconds_sum", "mbct_request_seconds_count"}
    derived = {"mbct_mean_score"}  # a mean since the start; the dashboard takes the rate of its sum
    assert set(exported) - histogram - derived == asked


def test_panels_do_not_overlap():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed: apt-get install prometheus")
def test_a_prometheus_answers_every_query(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    import draw_dashboard

    try:
        n_steps = 60
        with draw_dashboard.prometheus(n_steps, 100) as address:
            silent = [title for title, query in QUERIES if not draw_dashboard.answer(address, query, n_steps)]
            draw_dashboard.draw(address, n_steps, tmp_path / "dashboard.png")
    finally:
        del sys.modules["draw_dashboard"]
    assert silent == []
    assert (tmp_path / "dashboard.png").stat().st_size > 50_000
