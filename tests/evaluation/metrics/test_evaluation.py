import json
import math

import numpy as np
import pandas as pd
import pytest

import mbct.metrics as metrics
from mbct.errors import DataError, ParameterError
from mbct.evaluation.metrics.evaluation import METRICS


def _sample(n=2000):
    rng = np.random.default_rng(0)
    site = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    p = rng.beta(1, 4, n)
    y = (rng.random(n) < np.where(site == "b", 0.6, 1.0) * p).astype(int)
    return y, p, pd.DataFrame({"site": site, "rare": np.arange(n) % 40}), rng.integers(1, 4, n)


SINGLE = {
    "pcoc": metrics.pcoc,
    "pce": metrics.pce,
    "bfgpce": metrics.bfgpce,
    "log_loss": metrics.log_loss,
    "normalised_entropy": metrics.normalised_entropy,
    "brier": metrics.brier,
    "auc": metrics.auc,
    "ece": metrics.ece,
    "mce": metrics.mce,
    "ece_sweep": metrics.ece_sweep,
    "debiased_ece": metrics.debiased_ece,
    "smooth_ece": metrics.smooth_ece,
    "mvce": lambda y, p, **options: metrics.mvce(y, p, method="closed-form", **options),
    "cal_n": metrics.cal_n,
    "ecce": metrics.ecce,
}


@pytest.mark.parametrize("name", SINGLE)
def test_columns_are_the_metrics_of_that_name(name):
    y, p, by, w = _sample()
    frame = metrics.evaluate(y, p, by=by, sample_weight=w, confidence=None).to_pandas()
    assert frame[name][0] == SINGLE[name](y, p, sample_weight=w)
    b = (by["site"] == "b").to_numpy()
    row = frame[(frame["field"] == "site") & (frame["segment"] == "b")]
    assert row[name].item() == pytest.approx(SINGLE[name](y[b], p[b], sample_weight=w[b]))


def test_fields_and_multicalibration():
    y, p, by, w = _sample()
    found = metrics.evaluate(y, p, by=by, sample_weight=w, confidence=None)
    fields = found.fields
    assert fields["field"] == ("site", "rare", "(mean)")
    assert fields["field_ece"][0] == metrics.field_ece(y, p, by["site"], sample_weight=w)
    assert fields["field_rce_all"][1] == metrics.field_rce(y, p, by["rare"], sample_weight=w).all_values
    assert fields["field_ece"][2] == pytest.approx(metrics.multi_field(y, p, by, sample_weight=w))
    assert fields["grouped_auc"][0] == metrics.grouped_auc(y, p, by["site"], sample_weight=w)
    worst = metrics.multicalibration_error(y, p, by, sample_weight=w)
    assert found.multicalibration_error == worst
    assert worst.worst.segment == "site=b"


def test_p_values_are_corrected_and_say_so():
    y, p, by, _ = _sample()
    found = metrics.evaluate(y, p, by=by, correction="benjamini-hochberg", metrics=["ece"], n_bootstrap=5)
    raw = metrics.ecce(y[by["site"] == "b"], p[by["site"] == "b"]).p_value
    corrected = found.to_pandas().query("segment == 'b'")["p_value"].item()
    assert raw < corrected < 0.01
    assert "benjamini-hochberg correction over 24 segments" in found.notes[0]


def test_many_values_share_the_last_row():
    y, p, by, _ = _sample()
    frame = metrics.evaluate(y, p, by=by[["rare"]], max_values=5, metrics=["ece"], confidence=None).to_pandas()
    assert frame["segment"].tolist() == ["(all)", "0", "1", "2", "3", "4", "(other)"]
    assert frame["count"].iloc[-1] == 35 * 50


def test_the_parts_of_a_score_add_up_to_it():
    y, p, _, _ = _sample(400)
    found = metrics.evaluate(y, p, confidence=None).overall
    for score, prefix in (("brier", ""), ("log_loss", "log_loss_")):
        parts = [found[f"{prefix}{name}"] for name in ("miscalibration", "discrimination", "uncertainty")]
        assert parts[0] - parts[1] + parts[2] == pytest.approx(found[score])


def test_the_variational_error_is_computed_on_request():
    pytest.importorskip("lightgbm", reason="install lightgbm")
    y, p, _, _ = _sample(400)
    found = metrics.evaluate(y, p, metrics=["ece", "variational_error"], n_bootstrap=5)
    assert found.overall["variational_error"] == metrics.variational_error(y, p)
    assert "variational_error_low" not in found.intervals.names


def test_plain_data_and_text():
    y, p, by, _ = _sample(400)
    y = np.where(by["site"] == "c", 0, y)
    found = metrics.evaluate(y, p, by=by["site"])
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert again["segments"]["auc"][3] is None  # no positive in c
    assert list(again["segments"]) == ["field", "segment", "count", *METRICS, "p_value"]
    lines = str(found).splitlines()
    assert lines[0].startswith("all rows")
    table = lines[lines.index("") + 1 :][:4]
    assert table[0].split()[:3] == ["field", "segment", "count"]
    assert {len(line.split()) for line in table} == {13}
    assert "–" in table[3]
    assert len({line.index("site") for line in table[1:]}) == 1
    assert math.isnan(found.segments["auc"][3])


def test_without_segments():
    y, p, _, _ = _sample(300)
    found = metrics.evaluate(y, p)
    assert len(found.segments) == 1
    assert found.fields is None
    assert found.overall["ece"] == metrics.ece(y, p)
    assert "one test" in str(found)


def test_unknown_names():
    with pytest.raises(ParameterError, match="metrics must be a list of names among label_rate"):
        metrics.evaluate([0, 1], [0.2, 0.8], metrics=["ecee"])
    with pytest.raises(DataError, match="the table has no column 'x'; it has field, segment"):
        metrics.evaluate([0, 1], [0.2, 0.8]).segments["x"]


@pytest.mark.parametrize("name", SINGLE)
def test_intervals_are_those_of_the_metric_alone(name):
    y, p, _, w = _sample(400)
    options = {"sample_weight": w, "confidence": 0.9, "n_bootstrap": 20, "seed": 3}
    alone = SINGLE[name](y, p, **options).interval
    found = metrics.evaluate(y, p, metrics=[name], **options)
    assert found.intervals[f"{name}_low"][0] == pytest.approx(alone.lower, rel=1e-12)
    assert found.intervals[f"{name}_high"][0] == pytest.approx(alone.upper, rel=1e-12)
    assert "intervals: 90%, basic bootstrap, 20 resamples, each on its own" in found.notes


def test_every_segment_has_intervals_free_of_row_order():
    y, p, by, w = _sample(600)
    order = np.random.default_rng(0).permutation(len(y))
    found = metrics.evaluate(y, p, by=by, sample_weight=w, n_bootstrap=10, max_values=4)
    again = metrics.evaluate(
        y[order], p[order], by=by.iloc[order], sample_weight=w[order], n_bootstrap=10, max_values=4
    )
    frame = found.to_pandas()
    assert list(found.intervals["segment"]) == list(found.segments["segment"])
    for name in METRICS:
        low, high = frame[f"{name}_low"].to_numpy(), frame[f"{name}_high"].to_numpy()
        assert np.all((low <= high) | np.isnan(low))
        np.testing.assert_allclose(again.intervals[f"{name}_low"], low, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(again.intervals[f"{name}_high"], high, rtol=1e-7, atol=1e-9)
    assert np.isfinite(frame["pcoc_low"]).all()
    other = metrics.evaluate(y, p, by=by, sample_weight=w, n_bootstrap=10, max_values=4, seed=1)
    assert other.intervals["ece_low"] != found.intervals["ece_low"]


def test_intervals_of_segments_cover_their_rates():
    rng = np.random.default_rng(0)
    covered = []
    for seed in range(100):
        site = rng.choice(["a", "b"], 600)
        p = rng.uniform(0.1, 0.5, 600)
        y = (rng.random(600) < np.where(site == "a", 1.0, 0.8) * p).astype(int)
        found = metrics.evaluate(y, p, by=site, metrics=["label_rate"], confidence=0.9, seed=seed).intervals
        covered += [
            low <= rate <= high
            for low, rate, high in zip(
                found["label_rate_low"][1:], (0.3, 0.24), found["label_rate_high"][1:], strict=True
            )
        ]
    assert np.mean(covered) == pytest.approx(0.9, abs=0.04)


def test_without_confidence_there_are_no_intervals():
    y, p, by, _ = _sample(300)
    found = metrics.evaluate(y, p, by=by, confidence=None)
    assert found.intervals is None
    assert found.to_dict()["intervals"] is None
    assert not any("interval" in note for note in found.notes)
    assert "pcoc_low" not in found.shown().names
    with pytest.raises(ParameterError, match=r"confidence must lie between 0 and 1, for example 0\.95, got 95"):
        metrics.evaluate(y, p, confidence=95)


def test_a_notebook_shows_the_tables():
    found = metrics.evaluate([0, 1, 1, 0], [0.2, 0.7, 0.6, 0.4], by={"<site>": ["a", "a", "b", "b"]}, confidence=None)
    shown = found._repr_html_()
    assert shown.count("<table>") == 3
    assert "&lt;site&gt;" in shown
    assert "<site>" not in shown


def test_intervals_of_whole_days_are_those_of_repeated_samples():
    rates, widths, by_row = [], [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        day = np.repeat(np.arange(40), 50)
        p = np.full(len(day), 0.3)
        shock = rng.normal(0.0, 0.6, 40)[day]
        y = (rng.uniform(size=len(day)) < 1.0 / (1.0 + np.exp(-(np.log(0.3 / 0.7) + shock)))).astype(float)
        days = np.datetime64("2024-01-01") + day
        chosen = {"metrics": ["label_rate"], "n_bootstrap": 60}
        for found, into in (
            (metrics.evaluate(y, p, time=days, **chosen), widths),
            (metrics.evaluate(y, p, **chosen), by_row),
        ):
            into.append(found.intervals["label_rate_high"][0] - found.intervals["label_rate_low"][0])
        rates.append(y.mean())
    # 95 % of a normal law lie within 2 · 1.96 standard deviations.
    assert np.mean(widths) == pytest.approx(3.92 * np.std(rates), rel=0.3)
    assert np.mean(widths) > 1.5 * np.mean(by_row)


def test_groups_and_numbers_of_days_give_the_same_intervals():
    y, p, by, w = _sample()
    day = np.arange(len(y)) // 7
    options = {"sample_weight": w, "confidence": 0.9, "n_bootstrap": 20}
    by_day = metrics.ece(y, p, time=day, **options)
    assert metrics.ece(y, p, groups=[f"day {d:04d}" for d in day], **options).interval == by_day.interval
    assert metrics.ece(y, p, time=day, groups=np.arange(len(y)) % 5, **options).interval == by_day.interval
    order = np.random.default_rng(0).permutation(len(y))
    again = metrics.ece(y[order], p[order], time=day[order], **{**options, "sample_weight": w[order]})
    assert again.interval.lower == pytest.approx(by_day.interval.lower)
    assert again.interval != metrics.ece(y, p, **options).interval
    found = metrics.evaluate(y, p, by=by, groups=day, n_bootstrap=5, metrics=["ece"])
    assert f"5 resamples of {day.max() + 1:,} whole blocks" in str(found)


def _hours():
    y, p, by, w = _sample()
    return y, p, by, w, np.datetime64("2024-01-01T00") + 5 * np.arange(len(y)) * np.timedelta64(1, "h")


def test_blocks_are_as_long_as_asked():
    y, p, by, _, hours = _hours()
    intervals = [
        metrics.evaluate(y, p, by=by, time=hours, block=block, metrics=["ece"], n_bootstrap=20).intervals["ece_high"]
        for block in ("day", "week", "hour", 10)
    ]
    assert len(set(intervals)) == 4
    assert metrics.ece(y, p, time=hours, block="week", confidence=0.9).interval is not None


@pytest.mark.parametrize("block", ["fortnight", 1, 2.5])
def test_a_wrong_block_is_refused(block):
    y, p, _, _, hours = _hours()
    for metric in (metrics.evaluate, metrics.ece):
        with pytest.raises(ParameterError, match=f"block={block!r} must be 'day', 'week', 'hour' or a number"):
            metric(y, p, time=hours, block=block)


@pytest.mark.parametrize("name", ["time", "groups"])
def test_a_short_column_is_called_by_its_argument(name):
    y, p, by, _, hours = _hours()
    with pytest.raises(DataError, match=f"{name} has {len(y) - 1:,} rows where {len(y):,} were expected"):
        metrics.evaluate(y, p, by=by, **{name: hours[1:]})


def test_p_values_go_by_blocks_or_are_left_out():
    y, p, by, w, hours = _hours()
    options = {"by": by, "sample_weight": w, "confidence": None}
    alone, together = (metrics.evaluate(y, p, **options, **blocks) for blocks in ({}, {"time": hours}))
    assert "ECCE against the range of Brownian motion" in alone.notes[0]
    assert "Student's t of the sums" in together.notes[0]
    assert alone.segments["p_value"] != together.segments["p_value"]
    assert alone.overall["ecce"] == together.overall["ecce"]
    assert together.overall["p_value"] == metrics.pcoc(y, p, sample_weight=w, time=hours).p_value
    assert "Brownian" not in str(together)
    worst = metrics.multicalibration_error(y, p, by, groups=hours)
    assert worst.p_value is None
    assert np.isnan(worst.worst.corrected_p_value)
    assert metrics.ecce(y, p, time=hours).p_value is None
    with pytest.raises(ParameterError, match="n_null=9 draws the labels of single rows"):
        metrics.ece(y, p, time=hours, n_null=9)
