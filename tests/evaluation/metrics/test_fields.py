import math

import numpy as np
import pytest

import mbct.metrics as metrics
from mbct.errors import DataError

Y = [1, 0, 0, 0, 0, 1]
P = [0.5, 0.5, 0.1, 0.2, 0.4, 0.3]
SITE = ["a", "a", "b", "b", "c", "c"]


def test_field_errors_by_hand():
    assert metrics.field_ece(Y, P, SITE) == pytest.approx((0.0 + 0.3 + 0.3) / 6)
    found = metrics.field_rce(Y, P, SITE)
    assert found == pytest.approx((2 * 0.0 + 2 * 0.3) / 4)
    assert found.all_values == pytest.approx((2 * 0.0 + 2 * 0.3 + 2 * 0.3) / 6)
    assert found.unseen_share == pytest.approx(1 / 3)
    assert metrics.field_rce(Y, P, SITE, no_positive="keep") == pytest.approx(found.all_values)


def test_multi_field_is_the_mean_over_fields():
    half = ["x", "y"] * 3
    found = metrics.multi_field(Y, P, {"site": SITE, "half": half}, error="rce")
    each = [metrics.field_rce(Y, P, SITE), metrics.field_rce(Y, P, half)]
    assert found == pytest.approx(np.mean(each))
    assert found.by_field == (("site", pytest.approx(each[0])), ("half", pytest.approx(each[1])))


def test_cal_n_by_hand():
    found = metrics.cal_n(Y, P, by=SITE)  # PCOC 1 and 0.7; b has no positive
    assert found == pytest.approx(math.sqrt((0.0 + (1 / 0.7 - 1) ** 2) / 2))
    assert (found.n_blocks, found.left_out) == (3, 1)
    assert metrics.cal_n(Y, P, n_blocks=1) == pytest.approx(0.0)


def test_pcoc_knows_the_normal_law():
    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(300):
        p = rng.random(200)
        p_values.append(metrics.pcoc((rng.random(200) < p).astype(int), p).p_value)
    assert np.mean(np.array(p_values) < 0.1) == pytest.approx(0.1, abs=0.06)


def test_several_columns_are_no_field():
    with pytest.raises(DataError, match="field must be one column, got 2; choose one, or join them first"):
        metrics.field_ece(Y, P, {"a": SITE, "b": SITE})


def test_unequal_lengths_are_named():
    with pytest.raises(DataError, match="by has 5 rows where 6 were expected"):
        metrics.field_ece(Y, P, SITE[1:])
