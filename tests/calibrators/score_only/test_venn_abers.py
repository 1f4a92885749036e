import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from venn_abers.venn_abers import VennAbers

from mbct.calibrators import VennAbersCalibrator
from mbct.calibrators.score_only.venn_abers import rates_with_added_positive
from peers import biased_scores


def interval_by_refitting(p, y, weight, score):
    """Both isotonic regressions with the new row added, fitted afresh."""
    ends = []
    for label in (0.0, 1.0):
        fitted = IsotonicRegression().fit(np.append(p, score), np.append(y, label), np.append(weight, 1.0))
        ends.append(fitted.predict([score])[0])
    return ends


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.sampled_from([0.5, 1, 2, 3.7])), min_size=2),
    new=st.integers(-1, 41),
)
def test_the_interval_is_that_of_two_refits(rows, new):
    p, y, weight = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
    p, score = (p + 1) / 22, np.clip((new / 2 + 1) / 22, 0, 1)
    y[:2] = 0.0, 1.0
    fitted = VennAbersCalibrator().fit(p, y, weight)
    np.testing.assert_allclose(
        fitted.interval(np.array([score]))[0], interval_by_refitting(p, y, weight, score), atol=1e-9
    )


def test_agrees_with_the_venn_abers_package():
    p, y = biased_scores(n=1000)
    p = p.round(3)
    fresh = np.concatenate([np.linspace(0, 1, 501), p])
    peer = VennAbers()
    peer.fit(np.column_stack([1 - p, p]), y)
    merged, interval = peer.predict_proba(np.column_stack([1 - fresh, fresh]))
    ours = VennAbersCalibrator().fit(p, y)
    np.testing.assert_allclose(ours.interval(fresh), interval, atol=1e-9)
    np.testing.assert_allclose(ours.calibrate(fresh), merged[:, 1], atol=1e-9)


def test_the_merged_probability_lies_in_the_interval_and_inside_zero_and_one():
    p, y = biased_scores(n=500)
    fitted = VennAbersCalibrator().fit(p, y)
    fresh = np.linspace(0, 1, 200)
    low, high = fitted.interval(fresh).T
    merged = fitted.calibrate(fresh)
    assert np.all((low <= merged) & (merged <= high))
    assert np.all((merged > 0) & (merged < 1))


def lines_run(function, *arguments):
    """Number of its own lines that a call of a Python function runs."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace if frame.f_code is function.__code__ else None

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(previous)
    return count


def test_preparation_takes_work_in_proportion_to_the_rows():
    p, y = biased_scores(n=8_000)
    y, kernel = y[np.argsort(p)].astype(float), rates_with_added_positive.py_func
    few, many = lines_run(kernel, np.ones(2_000), y[::4]), lines_run(kernel, np.ones(8_000), y)
    assert 8_000 < many < 4.4 * few
