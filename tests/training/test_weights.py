"""Weights of any meaning: what they count or how much a row matters, a correction stays one that new rows need."""

import functools

import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator

pytestmark = pytest.mark.filterwarnings("ignore::mbct.errors.MBCTWarning")
"""Most names here are met once, which is what weights are tried on."""


def weights_of(kind, y, rng):
    return {
        "none": np.ones(len(y)),
        "four": np.full(len(y), 4.0),
        "one to three": rng.integers(1, 4, len(y)).astype(float),
        "fractions": rng.exponential(1.0, len(y)),
        "classes": np.where(y == 1, 3.0, 1.0),
    }[kind]


def fit(frame, weight, **options):
    features = [name for name in frame if name not in ("p", "y")]
    return MBCTCalibrator(score_column="p", features=features, **options).fit(frame, "y", sample_weight=weight)


def with_many_names(data, rng):
    """A category most of whose values are met once."""
    return data.frame.assign(user=[f"u{i}" for i in rng.integers(0, 3 * len(data.y), len(data.y))])


def true_error(prediction, truth):
    return float(np.sqrt(np.mean((prediction - truth) ** 2)))


@functools.cache
def error_with_weights(kind, preset):
    """How far a fit with such weights stays from the truth, and how far the predictions are from it."""
    rng = np.random.default_rng(1)
    train, test = biased_clicks(1, 10_000), biased_clicks(101, 20_000)
    frame, fresh = with_many_names(train, rng), with_many_names(test, rng)
    weights = {name: weights_of(name, train.y, rng) for name in ("none", kind)}
    fitted = fit(frame, weights[kind], preset=preset)
    return true_error(fitted.calibrate(fresh), test.truth), true_error(test.p, test.truth)


@pytest.mark.parametrize("kind", ["four", "one to three", "fractions"])
@pytest.mark.parametrize("preset", ["default", "fast"])
def test_weights_of_rows_cost_little(preset, kind):
    error, before = error_with_weights(kind, preset)
    assert error < 1.5 * error_with_weights("none", preset)[0]
    assert error < 0.6 * before


@pytest.mark.parametrize("kind", ["four", "one to three", "fractions", "classes"])
@pytest.mark.parametrize("seed", range(3))
def test_where_nothing_is_to_correct_weights_invent_nothing(kind, seed):
    rng = np.random.default_rng(seed)
    train, test = (biased_clicks(s, 6_000, calibrated=True) for s in (seed, 200 + seed))
    frame, fresh = with_many_names(train, rng), with_many_names(test, rng)
    weight = weights_of(kind, train.y, rng)
    if kind == "classes":
        # Weights by class move the rates that are to be met; so does a third of the negatives, which brings them back.
        kept = (train.y == 1) | (rng.random(len(train.y)) < 1 / 3)
        frame, weight = frame[kept], np.where(train.y[kept] == 1, 1.0, 3.0)
    assert true_error(fit(frame, weight).calibrate(fresh), test.truth) < 0.01


def test_every_row_twice_is_not_twice_the_evidence():
    data, fresh = biased_clicks(7, 4_000, calibrated=True), biased_clicks(207, 4_000)
    twice = data.frame.loc[data.frame.index.repeat(2)]
    assert np.array_equal(fit(twice, None).calibrate(fresh.frame), fresh.p)


@pytest.mark.parametrize(
    ("weight", "options"), [(0.25, {}), (3.0, {"model_size": "compact"}), (10 / 3, {"rank_preservation": "within-bin"})]
)
def test_one_weight_for_all_changes_nothing(weight, options):
    data, fresh = biased_clicks(9, 6_000), biased_clicks(209, 2_000).frame
    plain, heavy = (fit(data.frame, w, **options) for w in (None, np.full(6_000, weight)))
    assert plain.model_.trees
    expected, found = (model.calibrate(fresh) for model in (plain, heavy))
    assert np.allclose(found, expected, rtol=1e-9, atol=0.0)


def test_a_table_of_counts_is_as_good_as_its_rows():
    """Few cells of many rows each: their weights are rows, and thrown into folds as rows."""
    data, test = biased_clicks(8, 40_000), biased_clicks(208, 20_000)
    columns = ["device", "night", "p", "y"]
    rows = data.frame.assign(p=data.frame["p"].round(1).clip(0.05, 0.95))[columns]
    table = rows.groupby(columns, as_index=False).size()
    fresh = test.frame.assign(p=test.frame["p"].round(1).clip(0.05, 0.95))
    counted = fit(table.drop(columns="size"), table["size"].to_numpy(dtype=float)).calibrate(fresh)
    assert np.array_equal(counted, fit(rows, None).calibrate(fresh))
    assert true_error(counted, test.truth) < 0.7 * true_error(fresh["p"], test.truth)
