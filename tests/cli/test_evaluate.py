import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from mbct.cli.evaluate import Gate, parse_gate
from mbct.errors import ParameterError
from mbct.metrics import ece, evaluate
from terminal import mbct, mbct_on_terminal


def test_numbers_are_those_of_the_library(folder: Path):
    done = mbct("evaluate", "clicks.parquet", "--by", "device", "--json", cwd=folder)
    document = json.loads(done.out)
    table = parquet.read_table(folder / "clicks.parquet")
    expected = evaluate(table["click"], table["pctr"], by=table.select(["device"]))
    assert document["before"]["segments"] == expected.to_dict()["segments"]
    assert document["before"]["all"]["ece"] == ece(table["click"], table["pctr"])
    assert document["before"]["all"]["multicalibration_error"] == expected.multicalibration_error
    assert "after" not in document


def test_metrics_are_chosen_by_name(folder: Path):
    done = mbct("evaluate", "clicks.parquet", "--metrics", "ece,ici", "--json", cwd=folder)
    found = json.loads(done.out)["before"]["all"]
    assert {"ece", "ici"} <= set(found)
    assert "auc" not in found
    wrong = mbct("evaluate", "clicks.parquet", "--metrics", "ease", cwd=folder)
    assert wrong.code == 2
    assert "metrics must be a list of names among label_rate" in wrong.err


def test_a_model_is_evaluated_beside_the_score(folder: Path):
    done = mbct("evaluate", "clicks.parquet", "--model", "paper.json", "--json", cwd=folder)
    document = json.loads(done.out)
    assert "these are the 4,000 rows that the model was fitted on" in done.err
    assert document["after"]["all"]["ece"] < document["before"]["all"]["ece"]


@pytest.mark.parametrize(
    ("gates", "code"),
    [
        (["ece > 0.5"], 0),
        (["ece > 0.5", "auc<0.6"], 0),
        (["ECE > 0.5"], 0),
        (["ece > 0.5", "ece >= 1e-9"], 1),
        (["pcoc < 0.99"], 1),
    ],
)
def test_gates_decide_the_exit_code(folder: Path, gates: list[str], code: int):
    options = [part for gate in gates for part in ("--fail-if", gate)]
    done = mbct("evaluate", "clicks.parquet", *options, cwd=folder)
    assert done.code == code
    assert done.out.count("fails if") == len(gates)
    checked = json.loads(mbct("evaluate", "clicks.parquet", *options, "--json", cwd=folder).out)["gates"]
    assert any(gate["failed"] for gate in checked) == bool(code)


@pytest.mark.filterwarnings("ignore:.* that training has not met")
@pytest.mark.parametrize(("upper", "code", "share"), [("1 = 0", 0, "0"), ("TRUE", 1, "1")])
def test_a_gate_on_values_that_training_has_not_met(folder: Path, upper: str, code: int, share: str):
    query = f"SELECT * REPLACE (CASE WHEN {upper} THEN upper(device) ELSE device END AS device) FROM data"
    arguments = ["evaluate", "clicks.parquet", "--sql", query, "--fail-if", "unseen > 0.5"]
    done = mbct(*arguments, "--model", "paper.json", cwd=folder)
    assert done.code == code, done.err
    assert f"unseen is {share}, fails if unseen > 0.5" in done.out
    for model in ([], ["--model", "isotonic.json"]):
        refused = mbct(*arguments, *model, cwd=folder)
        assert refused.code == 2
        assert "'unseen', which needs a model of method mbct" in refused.err


def test_a_gate_on_a_metric_without_value_fails(folder: Path):
    """One class only: AUC is not defined, and what cannot be measured must not pass."""
    done = mbct(
        "evaluate",
        "clicks.parquet",
        "--sql",
        "SELECT * FROM data WHERE click = 0",
        "--fail-if",
        "auc < 0.5",
        cwd=folder,
    )
    assert done.code == 1
    assert "auc is not defined" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fail-if", "__import__('os')"], "write METRIC SIGN NUMBER"),
        (["--fail-if", "ece > 0.01; auc < 1"], "write METRIC SIGN NUMBER"),
        (["--fail-if", "beauty > 1"], "--fail-if names 'beauty'; measured were count"),
        (["--by", "planet"], "no column 'planet'"),
        (["--score", "age"], "score 'age' lies outside [0, 1]"),
        (["--max-values", "0"], "max_values"),
    ],
)
def test_bad_input(folder: Path, arguments: list[str], message: str):
    done = mbct("evaluate", "clicks.parquet", *arguments, cwd=folder)
    assert done.code == 2
    assert message in done.err


def test_on_a_terminal(folder: Path):
    done = mbct_on_terminal("evaluate", "clicks.parquet", "--model", "paper.json", "--by", "device", cwd=folder)
    assert done.code == 0
    assert "─" in done.out
    assert "before, by segment" in done.out
    assert "mobile" in done.out


@given(st.sampled_from([">", ">=", "<", "<=", "==", "!="]), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_gates_mean_what_python_means(sign: str, limit: float, value: float):
    gate = parse_gate(f"ece{sign}{limit!r}")
    assert gate == Gate("ece", sign, limit)
    assert gate.check({"ece": value}).failed == eval(f"{value!r} {sign} {limit!r}")


@given(st.text(max_size=30))
def test_any_other_text_is_refused_or_read_whole(text: str):
    try:
        gate = parse_gate(text)
    except ParameterError:
        return
    assert text.replace(" ", "").startswith(gate.metric)


@pytest.mark.parametrize("value", [None, math.nan])
def test_no_value_fails(value: float | None):
    assert Gate("auc", "<", 0.5).check({"auc": value}).failed


def test_intervals_are_of_whole_days(folder: Path):
    query = "SELECT *, DATE '2024-01-01' + (row_number() OVER () % 40)::INT AS day FROM data"
    arguments = ["evaluate", "clicks.parquet", "--sql", query, "--intervals"]
    done = mbct(*arguments, cwd=folder)
    assert done.code == 0, done.err
    assert "time: day (guessed" in done.err
    assert "100 resamples of 40 whole blocks" in done.err
    assert re.search(r"^log_loss +0\.\d+ \[0\.\d+, 0\.\d+\]$", done.out, re.M)
    rows = json.loads(mbct(*arguments, "--time", "none", "--json", cwd=folder).out)["before"]["intervals"]
    days = json.loads(mbct(*arguments, "--json", cwd=folder).out)["before"]["intervals"]
    assert rows["log_loss_low"] != days["log_loss_low"]


def test_blocks_are_as_long_as_asked(folder: Path):
    query = "SELECT *, DATE '2024-01-01' + (row_number() OVER () % 40)::INT AS day FROM data"
    arguments = ["evaluate", "clicks.parquet", "--sql", query, "--metrics", "ece", "--by", "device", "--json"]
    found = [
        json.loads(mbct(*arguments, "--block", block, cwd=folder).out)["before"] for block in ("day", "week", "week")
    ]
    assert found[0]["segments"]["p_value"] != found[1]["segments"]["p_value"]
    assert found[1] == found[2]
    assert "of 40 whole blocks" in found[0]["notes"][0]
    assert "of 6 whole blocks" in found[1]["notes"][0]
    refused = mbct(*arguments, "--block", "nonsense", cwd=folder)
    assert refused.code == 2
    assert "block='nonsense' must be 'day', 'week', 'hour' or a number" in refused.err
