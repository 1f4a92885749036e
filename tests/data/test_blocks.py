import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mbct.data.blocks import number_blocks
from mbct.data.columns import read_columns
from mbct.errors import DataError, ParameterError
from mbct.training.folds import BlockColumns

STAMPS = pd.to_datetime(["2024-01-01 00:30", "2024-01-01 23:00", "2024-01-02 01:00", "2024-01-08 12:00"])
"""Monday, Monday, Tuesday, and Monday of the week after."""


@pytest.mark.parametrize(
    ("block", "expected"),
    [("day", [0, 0, 1, 2]), ("week", [0, 0, 0, 1]), ("hour", [0, 1, 2, 3]), (2, [0, 0, 0, 1]), (8, [0, 1, 1, 2])],
)
def test_time_is_cut_into_blocks(block, expected):
    assert number_blocks(np.asarray(STAMPS), None, block).tolist() == expected


@pytest.mark.parametrize(
    "spelt",
    [
        np.asarray(STAMPS),
        pd.Series(STAMPS),
        pl.Series(STAMPS),
        [str(stamp) for stamp in STAMPS],
        [f"{stamp.year}/{stamp.month}/{stamp.day} {stamp.hour}:{stamp.minute:02}" for stamp in STAMPS],
        [f"{stamp.year}-{stamp.month}-{stamp.day}" for stamp in STAMPS],
        [f"{stamp.year}.{stamp.month:02}.{stamp.day:02}" for stamp in STAMPS],
        [stamp.date() for stamp in STAMPS],
        STAMPS.to_pydatetime(),
        pd.Series(STAMPS).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
        np.array([19723, 19723, 19724, 19730]),
        np.array([19723.0, 19723.0, 19724.0, 19730.0]),
    ],
    ids=[
        "numpy",
        "pandas",
        "polars",
        "text",
        "slashes",
        "short",
        "dots",
        "dates",
        "datetimes",
        "zoned",
        "days",
        "floats",
    ],
)
def test_the_same_days_give_the_same_blocks_however_they_are_spelt(spelt):
    assert number_blocks(spelt, None).tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_frames_are_read(frame):
    columns = read_columns(frame({"ts": list(STAMPS), "who": ["b", "a", "b", "c"]}))
    assert number_blocks(columns.column("ts"), None).tolist() == [0, 0, 1, 2]
    assert number_blocks(None, columns.column("who")).tolist() == [1, 0, 1, 2]


def test_many_distinct_integers_are_cut_into_stretches():
    seconds = np.arange(0, 50_000)
    assert number_blocks(seconds, None).max() == 999
    assert np.all(np.diff(number_blocks(seconds, None)) >= 0)
    years = np.repeat(np.arange(2015, 2019), 3)
    assert number_blocks(years, None).tolist() == np.repeat(np.arange(4), 3).tolist()


def test_nanoseconds_of_a_year_are_cut_in_their_order():
    first = 1_704_067_200_000_000_000
    times = first + np.arange(0, 31_536_000, 1_200, dtype=np.int64) * 1_000_000_000
    found = number_blocks(times, None)
    assert np.all(np.diff(found) >= 0)
    assert np.bincount(found).tolist() == pytest.approx([26.28] * 1000, abs=1)
    limits = np.iinfo(np.int64)
    assert number_blocks(np.array([limits.min, -1, 1, limits.max]), None, 4).tolist() == [0, 1, 2, 3]


def test_an_outlier_among_many_integers_leaves_the_others_in_many_blocks():
    times = np.append(np.arange(20_000), 10**12)
    sizes = np.bincount(number_blocks(times, None))
    assert len(sizes) == 1000
    assert sizes.max() <= 21


def test_a_row_has_a_block_of_time_and_a_group():
    time = np.array([5, 9, 1, 2, 3, 8])
    groups = np.array(["late", "late", "early", "early", "early", "late"])
    assert number_blocks(time, groups).T.tolist() == [[3, 5, 0, 1, 2, 4], [1, 1, 0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("time", "groups", "message"),
    [
        (np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"), None, "the time is missing in 1 rows"),
        (np.array([1.0, np.nan]), None, "the time is missing in 1 rows"),
        (np.array([1.0, np.inf]), None, "the time is no finite number in 1 rows"),
        ([datetime.timedelta(hours=1), datetime.timedelta(hours=2)], None, r"the time datetime.timedelta.* is no date"),
        (np.array([1, 2], dtype="timedelta64[h]"), None, "must be dates, timestamps or whole numbers"),
        (["2024-01-01", "soon"], None, "the time 'soon' is no date"),
        (["2024-01-01", "02/01/2024"], None, "the time '02/01/2024' is no date"),
        (np.array([1.5, 2.0]), None, "must be dates, timestamps or whole numbers"),
        ([datetime.date(2024, 1, 1)] * 2, None, "all 2 rows belong to one block of time: at least two are needed"),
        (None, np.array(["a", None], dtype=object), "the group is missing in 1 rows"),
        (
            None,
            np.array(["a", "a"]),
            "all 2 rows belong to one group: .*; take another column, or leave the groups out",
        ),
        (np.array([1, 2]), np.array(["a", "a"]), "all 2 rows belong to one group"),
    ],
)
def test_bad_blocks_get_one_clear_message(time, groups, message):
    with pytest.raises(DataError, match=message):
        number_blocks(time, groups)


def test_whole_numbers_are_blocks_already():
    with pytest.raises(ParameterError, match="block='week' is for dates and timestamps; these times are whole numbers"):
        number_blocks(np.arange(30), None, "week")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": "month"}, "block='month' must be 'day', 'week', 'hour' or a number of stretches"),
        ({"block": 1}, "block=1 must be"),
        ({"block": True}, "block=True must be"),
        ({"gap": 2}, "gap and half_life are measured in blocks of time: pass time"),
    ],
)
def test_senseless_block_parameters_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        BlockColumns(**options)
