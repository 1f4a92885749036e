import numpy as np
import pytest

import mbct.metrics as metrics
from mbct.errors import DataError, ParameterError


def _sample(factor, n=6000, seed=0):
    rng = np.random.default_rng(seed)
    site = rng.choice(list("abcdef"), n)
    p = rng.uniform(0.05, 0.4, n)
    y = (rng.random(n) < np.where(site == "c", factor, 1.0) * p).astype(int)
    return y, p, {"site": site, "half": np.arange(n) % 2}


def test_finds_the_segment_that_is_wrong():
    found = metrics.multicalibration_error(*_sample(1.6))
    assert found.worst.segment == "site=c"
    assert found.p_value == found.worst.corrected_p_value < 1e-6
    assert "holm correction" in found.null
    assert "site=c of 9 segments" in str(found)


def test_is_quiet_where_all_is_right():
    """At level 0.1: at most 0.1 by Holm, little less with nine segments, and nothing but noise of 400 samples more."""
    p_values = [metrics.multicalibration_error(*_sample(1.0, 1000, seed)).p_value for seed in range(400)]
    assert 0.03 < np.mean(np.array(p_values) < 0.1) < 0.1 + 2 * np.sqrt(0.09 / 400)


def test_corrections_are_said_and_differ():
    y, p, by = _sample(1.2)
    holm = metrics.multicalibration_error(y, p, by)
    bh = metrics.multicalibration_error(y, p, by, correction="benjamini-hochberg")
    assert "benjamini-hochberg correction" in bh.null
    assert all(b.corrected_p_value <= h.corrected_p_value for b, h in zip(bh.segments, holm.segments, strict=True))
    assert any(b.corrected_p_value < h.corrected_p_value for b, h in zip(bh.segments, holm.segments, strict=True))


def test_combinations_and_small_segments():
    y, p, by = _sample(1.0, 300)
    one, two = (metrics.multicalibration_error(y, p, by, depth=d, min_rows=1) for d in (1, 2))
    assert (len(one.segments), len(two.segments)) == (1 + 6 + 2, 1 + 6 + 2 + 12)
    assert any(s.segment == "site=a, half=1" for s in two.segments)
    assert len(metrics.multicalibration_error(y, p, by, min_rows=100).segments) == 3
    with pytest.raises(DataError, match="300 rows are fewer than min_rows=1000"):
        metrics.multicalibration_error(y, p, by, min_rows=1000)
    with pytest.raises(ParameterError, match="correction must be one of 'holm', 'benjamini-hochberg', got 'none'"):
        metrics.multicalibration_error(y, p, by, correction="none")
