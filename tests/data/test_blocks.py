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


def test_groups_are_never_split_and_follow_their_middle_row_in_time():
    time = np.array([5, 9, 1, 2, 3, 8])
    groups = np.array(["late", "late", "early", "early", "early", "late"])
    assert number_blocks(time, groups).tolist() == [1, 1, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("time", "groups", "message"),
    [
        (np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"), None, "the time is missing in 1 rows"),
        (np.array([1.0, np.nan]), None, "the time is missing in 1 rows"),
        (["2024-01-01", "soon"], None, "the time 'soon' is no date"),
        (["2024-01-01", "02/01/2024"], None, "the time '02/01/2024' is no date"),
        (np.array([1.5, 2.0]), None, "must be dates, timestamps or whole numbers"),
        ([datetime.date(2024, 1, 1)] * 2, None, "all 2 rows belong to one block of time: at least two are needed"),
        (None, np.array(["a", None], dtype=object), "the group is missing in 1 rows"),
        (None, np.array(["a", "a"]), "all 2 rows belong to one block of groups"),
    ],
)
def test_bad_blocks_get_one_clear_message(time, groups, message):
    with pytest.raises(DataError, match=message):
        number_blocks(time, groups)


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
