"""The guide to deploying: its Python runs as printed, its metrics, routes and limits are those of the service."""

import re
from dataclasses import fields
from pathlib import Path

import httpx
import numpy as np
import pytest

from builders import random_tree
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.serving.openapi import document
from mbct.serving.options import Limits
from mbct.store.model_registry import publish

GUIDE = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def clicks_model(content, tmp_path, monkeypatch):
    """The guide's model.json, in the working folder."""
    bins = FeatureBins(
        (
            NumberBins("pctr", (0.1, 0.3)),
            CategoryBins("device", ("mobile", "desktop")),
            CategoryBins("night", ("true", "false"), "boolean"),
            CategoryBins("site", ("s1", "s2")),
            NumberBins("age", (20.0, 40.0)),
        )
    )
    rng = np.random.default_rng(0)
    model = CalibrationEnsemble("pctr", "odds", bins, tuple(random_tree(rng, bins, "odds") for _ in range(2)))
    monkeypatch.chdir(tmp_path)
    Path("model.json").write_bytes(content(model))
    return model


def test_scoring_in_process_runs(clicks_model, capsys):
    exec(BLOCKS[0], {})
    assert "calibrated" in capsys.readouterr().out


def test_publishing_runs(clicks_model, content, redis_server, capsys):
    other = CalibrationEnsemble("pctr", "odds", clicks_model.bins, clicks_model.trees[:1])
    publish(content(other), redis_server.url, name="ctr")
    exec(BLOCKS[1].replace("redis://127.0.0.1:6379", redis_server.url), {})
    assert "window of 28 days" in capsys.readouterr().out


def test_every_route_limit_and_metric_is_in_the_guide(service):
    for route in document(None, Limits(), token=False)["paths"]:
        assert f"`{route}`" in GUIDE or f" {route}`" in GUIDE, route
    for limit in fields(Limits):
        assert f"`{limit.name}`" in GUIDE, limit.name
    found = httpx.get(f"{service.url}/metrics").text
    for name in re.findall("# TYPE (\\w+) ", found):
        assert f"`{name}" in GUIDE, name
