import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbct.cli.gates import Gate, parse_gate
from mbct.errors import ParameterError


@given(st.sampled_from([">", ">=", "<", "<=", "==", "!="]), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_gates_mean_what_python_means(sign: str, limit: float, value: float):
    gate = parse_gate(f"ece{sign}{limit!r}")
    assert gate == Gate("ece", sign, limit)
    assert gate.judge({"ece": value}).failed == eval(f"{value!r} {sign} {limit!r}")


@given(st.text(max_size=30))
def test_any_other_text_is_refused_or_read_whole(text: str):
    try:
        gate = parse_gate(text)
    except ParameterError:
        return
    assert text.replace(" ", "").startswith(gate.metric)


@pytest.mark.parametrize("value", [None, math.nan])
def test_no_value_fails(value: float | None):
    assert Gate("auc", "<", 0.5).judge({"auc": value}).failed
