import math

import numpy as np
import pytest

from mbct.stats.divisions import Bins
from mbct.stats.field_error import calibration_n, field_error, relative_field_error

VALUES = Bins(np.array([10.0, 5.0, 5.0, 0.0]), np.array([2.0, 1.0, 0.0, 0.0]), np.array([3.0, 0.5, 0.4, 0.0]))


def test_field_ece_by_hand():
    assert field_error(VALUES) == pytest.approx((1.0 + 0.5 + 0.4) / 20)


def test_field_rce_with_and_without_values_that_have_no_positive():
    both = relative_field_error(VALUES)
    assert both.seen == pytest.approx((10 * 0.5 + 5 * 0.5) / 15)
    assert both.all_values == pytest.approx((10 * 0.5 + 5 * 0.5 + 5 * 0.4) / 20)
    assert both.unseen_share == 0.25


def test_no_positive_at_all():
    nothing = Bins(np.array([4.0]), np.array([0.0]), np.array([0.8]))
    assert math.isnan(relative_field_error(nothing).seen)
    assert relative_field_error(nothing).all_values == 0.8
    assert math.isnan(calibration_n(nothing)[0])


def test_cal_n_by_hand():
    value, left_out = calibration_n(VALUES)
    assert value == pytest.approx(math.sqrt((0.5**2 + 1.0**2) / 2))
    assert left_out == 1
