import copy
import re

import numpy as np
import pytest

from mbct.errors import ModelFileError
from mbct.model.file_check import read_intervals
from mbct.model.intervals import RowIntervals

INTERVALS = RowIntervals(
    0.95, np.array([0, 1, 3]), np.array([np.inf, 0.2, np.inf]), np.array([0.5, 0.8, 0.9]), np.array([1.5, 1.2, 1.1])
)


def test_a_row_takes_the_band_of_its_node():
    node, calibrated = np.array([0, 1, 1, 1], np.int32), np.array([0.9, 0.1, 0.2, 0.3])
    lower, upper = INTERVALS.of_rows(node, calibrated)
    assert lower == pytest.approx([0.45, 0.08, 0.16, 0.27])
    assert upper == pytest.approx([1.0, 0.12, 0.24, 0.33])
    assert INTERVALS.bins_of_rows(node, calibrated).tolist() == [0, 1, 1, 2]
    assert INTERVALS.bands(1) == [(0.2, 0.8, 1.2), (np.inf, 0.9, 1.1)]


def test_json_both_ways():
    again = read_intervals(INTERVALS.to_dict(), 2)
    assert again.to_dict() == INTERVALS.to_dict()
    assert np.array_equal(again.edges, INTERVALS.edges)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("start", [0, 2, 2], "intervals.start"),
        ("start", [0, 1, 2], "intervals.start"),
        ("start", [0.5, 1, 3], "intervals.start"),
        ("start", [0, 3], "intervals.start"),
        ("edges", [None, 0.2, 0.3], "intervals.edges"),
        ("edges", [None, None, None], "intervals.edges"),
        ("edges", [None, "x", None], "intervals.edges"),
        ("lower", [0.5, 0.8], "intervals.lower"),
        ("upper", [1.5, -1.0, 1.0], "intervals.upper"),
        ("level", 2, "intervals.level"),
    ],
)
def test_what_makes_no_sense_is_refused(name, value, message):
    content = copy.deepcopy(INTERVALS.to_dict())
    content[name] = value
    with pytest.raises(ModelFileError, match=re.escape(message)):
        read_intervals(content, 2)
