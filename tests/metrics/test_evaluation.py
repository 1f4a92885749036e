import json
import math

import numpy as np
import pandas as pd
import pytest

import mbct.metrics as metrics
from mbct.errors import DataError, ParameterError
from mbct.metrics.evaluation import METRICS


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
    frame = metrics.evaluate(y, p, by=by, sample_weight=w).to_pandas()
    assert frame[name][0] == SINGLE[name](y, p, sample_weight=w)
    b = (by["site"] == "b").to_numpy()
    row = frame[(frame["field"] == "site") & (frame["segment"] == "b")]
    assert row[name].item() == pytest.approx(SINGLE[name](y[b], p[b], sample_weight=w[b]))


def test_fields_and_multicalibration():
    y, p, by, w = _sample()
    found = metrics.evaluate(y, p, by=by, sample_weight=w)
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
    found = metrics.evaluate(y, p, by=by, correction="benjamini-hochberg", metrics=["ece"])
    raw = metrics.ecce(y[by["site"] == "b"], p[by["site"] == "b"]).p_value
    corrected = found.to_pandas().query("segment == 'b'")["p_value"].item()
    assert raw < corrected < 0.01
    assert "benjamini-hochberg correction over 24 segments" in found.notes[0]


def test_many_values_share_the_last_row():
    y, p, by, _ = _sample()
    frame = metrics.evaluate(y, p, by=by[["rare"]], max_values=5, metrics=["ece"]).to_pandas()
    assert frame["segment"].tolist() == ["(all)", "0", "1", "2", "3", "4", "(other)"]
    assert frame["count"].iloc[-1] == 35 * 50


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
    assert {len(line.split()) for line in table} == {11}
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
