import numpy as np
import pandas as pd

from mbct.data.checks import find_dependence
from mbct.data.columns import read_columns


def patients(seed=0, spread=1.0, n=3_000):
    rng = np.random.default_rng(seed)
    patient = rng.integers(0, 300, n)
    p = rng.uniform(0.1, 0.6, n)
    odds = p / (1 - p) * np.exp(rng.normal(0.0, spread, 300)[patient])
    y = (rng.random(n) < odds / (1 + odds)).astype(float)
    site = rng.choice(["a", "b", "c"], n)
    return pd.DataFrame({"patient": patient, "age": rng.normal(50, 9, n), "site": site}), y, p


def test_patients_who_share_residuals_are_named_with_the_argument_to_add():
    frame, y, p = patients()
    assert "pass groups='patient'" in find_dependence(read_columns(frame), y, p)


def test_independent_rows_get_no_advice():
    frame, y, p = patients(spread=0.0)
    assert find_dependence(read_columns(frame), y, p) is None


def test_a_bias_by_category_is_no_group():
    frame, _, p = patients(spread=0.0)
    biased = np.where(frame["site"] == "a", 0.9, 0.1)
    y = (np.random.default_rng(1).random(len(p)) < biased).astype(float)
    assert find_dependence(read_columns(frame), y, p) is None


def test_a_date_is_named_as_time():
    frame, y, p = patients(spread=0.0)
    frame["seen"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(frame.index % 60, unit="D")
    assert "pass time='seen'" in find_dependence(read_columns(frame), y, p)
