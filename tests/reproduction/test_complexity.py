"""The measured growth and the formula beside it."""

from reproduction.complexity.measure import LOSSES, _measure, _measure_views
from reproduction.complexity.report import formula

FIXED = {"rows": 5000, "features": 4, "trees": 2, "depth": 3}
PARAMETERS = {"fixed": FIXED, "seed": 0}


def test_the_formula_is_the_papers():
    assert formula("rows", FIXED, [10, 30]) == [1.0, 3.0]
    assert formula("trees", FIXED, [1, 8]) == [1.0, 8.0]
    assert formula("depth", FIXED, [1, 2, 4, 6]) == [1.0, 2.0, 4.0, 4.0]
    assert formula("features", FIXED, [2, 4, 8]) == [1.0, 3.0, 6.0]
    assert formula("views", FIXED, [10, 1000]) == [1.0, 100.0]


def test_both_losses_are_measured_at_every_value():
    found = _measure("depth", {**PARAMETERS, "values": [1, 2]})
    for loss in LOSSES:
        assert [model["trees"] > 0 for model in found["grown"][loss]] == [True, True]
        assert all(seconds > 0 for seconds in found["timings"][loss])
        shallow, deep = (model["rules"] for model in found["grown"][loss])
        assert shallow < deep


def test_monte_carlo_tends_to_the_closed_form():
    found = _measure_views({**PARAMETERS, "values": [2, 2000]})["mvce"]
    shuffled, exact = found["mvce-monte-carlo"][-1], found["mvce"][-1]
    assert abs(shuffled - exact) / exact < 0.02
