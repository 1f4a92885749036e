import dataclasses

import pytest

from mbct.comparison.table import Comparison, Failure, MethodScore


def method(name, log_loss, difference=0.0, error=0.0, seconds=1.0):
    return MethodScore(name, log_loss, 0.1, 0.8, 0.01, 0.02, difference, error, 0.0, 0.0, seconds, 0.1)


BASE = method("identity", 0.5)
BETTER = method("platt", 0.48, -0.02, 0.004)
UNSURE = method("beta", 0.49, -0.01, 0.009)


def table(*methods, failures=()):
    return Comparison(tuple(sorted(methods, key=lambda m: m.log_loss)), failures, 1000, 5)


def test_a_clear_gain_is_recommended():
    result = table(BASE, BETTER)
    assert result.best == BETTER
    assert result.recommendation == (
        "Take platt: it lowers the held-out log loss by 0.02000 ± 0.00400 (0.50000 → 0.48000)."
    )


def test_a_gain_within_the_noise_is_not():
    result = table(BASE, UNSURE)
    assert result.best == BASE
    assert "beta, lowers the log loss by 0.01000 ± 0.00900, which may be chance" in result.recommendation


def test_no_gain_at_all():
    result = table(BASE, method("histogram", 0.6, 0.1, 0.01))
    assert result.recommendation == "Leave the base as it is: no method has a lower held-out log loss."


def test_the_print_is_aligned_and_ends_with_the_advice():
    result = table(BASE, BETTER, UNSURE, failures=(Failure("lightgbm", "not installed"),))
    lines = str(result).splitlines()
    assert lines[0] == "1,000 rows, 5 folds, held-out scores"
    assert lines[1].index("Brier") == lines[3].index("0.10000")
    assert lines[1].index("AUC") == lines[3].index("0.80000")
    assert lines[3].startswith("platt")
    assert "(base)" in lines[5]
    assert lines[6] == "lightgbm: not compared, not installed"
    assert lines[-1] == result.recommendation


def test_times_do_not_count_and_nothing_can_be_changed():
    assert table(BASE, BETTER) == table(BASE, dataclasses.replace(BETTER, fit_seconds=99.0))
    assert table(BASE, BETTER) != table(BASE, UNSURE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        BASE.log_loss = 0.0


def test_an_absent_method_is_named():
    with pytest.raises(KeyError, match="'mbct' was not compared; there are platt, identity"):
        table(BASE, BETTER)["mbct"]
