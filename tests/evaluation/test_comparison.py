"""What is said of a comparison, whatever its numbers."""

import dataclasses

import pytest

from mbct.evaluation.comparison import Comparison, Failure, MethodScore


def method(name, log_loss, difference=0.0, error=0.0, *, behind=None, seconds=1.0):
    behind, behind_error = behind or (0.0, 0.0)
    numbers = (log_loss, 0.1, 0.8, 0.01, 0.02, difference, error, 0.0, 0.0, behind, behind_error, seconds, 0.1)
    return MethodScore(name, *numbers)


BASE = method("identity", 0.5, behind=(0.02, 0.004))
BETTER = method("platt", 0.48, -0.02, 0.004)
UNSURE = method("beta", 0.49, -0.01, 0.009, behind=(0.01, 0.002))


def table(*methods, failures=()):
    return Comparison(tuple(sorted(methods, key=lambda m: m.log_loss)), failures, 1000, 5)


def test_a_clear_gain_is_recommended():
    result = table(BASE, BETTER)
    assert result.best == BETTER
    assert result.recommendation == (
        "Take platt: it lowers the held-out log loss by 0.02000 ± 0.00400 (0.50000 → 0.48000), "
        "and no other method comes within two standard errors of it."
    )
    assert result.ties == ("platt",)


def test_a_leap_is_not_recommended_but_suspected():
    weak, leak = (dataclasses.replace(m, auc=auc) for m, auc in ((BASE, 0.6), (BETTER, 0.97)))
    said = table(weak, leak).recommendation
    assert said.startswith("Suspiciously good: platt lowers the held-out log loss by 0.02000 ± 0.00400")
    assert "AUC goes from 0.600 to 0.970. Look for a column" in said


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


def test_what_ties_with_the_best_is_named():
    near, nearer = (
        method("lightgbm", 0.4801, -0.0199, 0.004, behind=(0.0001, 0.0002)),
        method("beta", 0.48005, -0.01995, 0.004, behind=(0.00005, 0.0001)),
    )
    result = table(BASE, BETTER, near, method("histogram", 0.49, -0.01, 0.003, behind=(0.01, 0.001)), nearer)
    assert result.best == BETTER
    assert result.ties == ("platt", "beta", "lightgbm")
    assert result.recommendation == (
        "No single best: platt lowers the held-out log loss by 0.02000 ± 0.00400 (0.50000 → 0.48000), and "
        "beta (+0.00005 ± 0.00010), lightgbm (+0.00010 ± 0.00020) tie with it."
    )
    assert table(BASE, BETTER, near).recommendation.endswith("and lightgbm (+0.00010 ± 0.00020) ties with it.")


def test_a_base_that_is_best_has_no_ties():
    assert table(BASE, UNSURE).ties == ()


def test_it_becomes_a_frame_and_a_table_in_a_notebook():
    result = table(BASE, BETTER, UNSURE, failures=(Failure("<x>", "not installed"),))
    frame = result.to_frame()
    assert frame.index.tolist() == ["platt", "beta", "identity"]
    assert frame.loc["platt", "log_loss"] == 0.48
    assert frame["ties_with_best"].tolist() == [True, False, False]
    shown = result._repr_html_()
    assert shown.count("<tr>") == 4
    assert "Take platt" in shown
    assert "&lt;x&gt;: not compared" in shown
