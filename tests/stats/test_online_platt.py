"""The online layer equals a discounted logistic regression, and its sums do not depend on how calls are cut."""

import json

import numpy as np
import pytest

from mbct.stats.online_platt import MEMORIES, OnlinePlatt
from mbct.stats.probabilities import sigmoid

NONE = np.full(400, -1)


def rows(rng, shift=0.0, slope=1.0, n=400):
    z = rng.normal(-1.5, 1.0, n)
    return z, (rng.random(n) < sigmoid(-1.5 + shift + slope * (z + 1.5))).astype(float)


def test_the_slowest_expert_is_a_ridge_logistic_regression():
    rng = np.random.default_rng(0)
    layer = OnlinePlatt.of(0, 5.0)
    batches = [rows(rng, 0.4, 0.8) for _ in range(50)]
    for z, y in batches:
        layer.add(z, y, NONE)
        layer.advance()
    z, y = (np.concatenate(each) for each in zip(*batches, strict=True))
    x = np.column_stack([np.ones(len(z)), z - layer.centre])
    theta = np.zeros(2)
    for _ in range(20):
        p = sigmoid(z + x @ theta)
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 10.0 * np.eye(2)
        theta += np.linalg.solve(hessian, x.T @ (y - p) - 10.0 * theta)
    assert layer.estimate[-1] == pytest.approx(theta, abs=0.02)
    shift = layer.shift()
    assert shift.intercept + (shift.slope - 1) * (-1.5 - shift.centre) == pytest.approx(0.4, abs=0.06)
    assert shift.slope == pytest.approx(0.8, abs=0.06)


def test_without_evidence_the_layer_stays_near_the_identity():
    rng = np.random.default_rng(1)
    layer = OnlinePlatt.of(0, 0.7)
    for _ in range(100):
        layer.add(*rows(rng), NONE)
        layer.advance()
    assert abs(layer.shift().intercept) < 0.02
    assert layer.gain[0] < -5.0  # the shortest memory predicts worst where nothing changes


def test_the_shortest_memory_wins_where_all_changes_and_the_cap_holds():
    rng = np.random.default_rng(2)
    layer = OnlinePlatt.of(0, 0.5)
    for step in range(120):
        layer.add(*rows(rng, 1.0 if step // 20 % 2 else -1.0), NONE)
        layer.advance()
    assert layer.gain.argmax() == 0
    z = np.linspace(-8, 8, 50)
    moved = layer.shift().apply(z, np.full(50, -1)) - z
    assert np.abs(moved).max() == pytest.approx(0.5)


def test_a_segment_gets_an_offset_only_with_evidence():
    rng = np.random.default_rng(3)
    layer = OnlinePlatt.of(3, 0.7)
    for _ in range(60):
        z, _ = rows(rng, n=600)
        segment = rng.integers(-1, 3, 600)
        y = (rng.random(600) < sigmoid(z + 0.5 * (segment == 1))).astype(float)
        layer.add(z, y, segment)
        layer.advance()
    shift = layer.shift()
    offsets = shift.offsets + shift.intercept
    assert offsets[1] == pytest.approx(0.5, abs=0.1)
    assert np.abs(offsets[[0, 2]]).max() < 0.1
    assert shift.offsets[-1] == 0.0


def test_calibeating_follows_what_a_line_cannot():
    rng = np.random.default_rng(4)
    layer = OnlinePlatt.of(0, 0.7)
    for _ in range(100):
        z, _ = rows(rng)
        y = (rng.random(400) < sigmoid(z + 0.6 * np.cos(2 * z))).astype(float)
        layer.add(z, y, NONE)
        layer.advance()
    z = np.linspace(-4, 1, 500)
    truth = sigmoid(z + 0.6 * np.cos(2 * z))
    line, bands = (sigmoid(layer.shift(calibeating=c).apply(z, np.full(500, -1))) for c in (False, True))
    assert np.mean((bands - truth) ** 2) < 0.8 * np.mean((line - truth) ** 2)


def test_the_state_is_exact_and_calls_may_be_cut_anyhow():
    rng = np.random.default_rng(5)
    one, many = OnlinePlatt.of(2, 0.7), OnlinePlatt.of(2, 0.7)
    z, y = rows(rng, 0.3)
    for _ in range(3):
        segment = rng.integers(-1, 2, 400)
        one.add(z, y, segment)
        for part in np.split(np.arange(400), [1, 7, 100, 399]):
            many.add(z[part], y[part], segment[part])
        one.advance()
        many = OnlinePlatt.from_dict(json.loads(json.dumps(many.to_dict())))
        many.advance()
    assert one.to_dict() == many.to_dict()
    assert len(MEMORIES) == len(one.gain)
