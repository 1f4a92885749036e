from typing import Any

import duckdb
import pyarrow as pa
import pytest

from mbct.cli import roles as under_test
from mbct.cli.roles import Roles
from mbct.cli.sources import Data
from mbct.errors import DataError

BASE = {"site": ["a", "b", "a"], "pctr": [0.1, 0.5, 0.9], "click": [0, 1, 1]}


def assign(table: pa.Table, **named: Any) -> Roles:
    return under_test.assign(Data(duckdb.connect().from_arrow(table), "the table"), **named)


def test_guess():
    roles = assign(pa.table(BASE), features=[])
    assert (roles.label, roles.score, roles.features, roles.guessed) == ("click", "pctr", ("site",), ("label", "score"))


def test_a_label_must_be_binary_and_a_score_a_probability():
    table = pa.table({**BASE, "target": [3, 1, 2], "score": [10.0, 0.5, 0.2], "Y": [True, False, True]})
    with pytest.raises(DataError, match="which column is the label\\? click, Y all look like it: pass --label click"):
        assign(table)
    assert assign(table, label="click").score == "pctr"


@pytest.mark.parametrize(("missing", "role"), [("click", "label"), ("pctr", "score")])
def test_no_candidate(missing: str, role: str):
    table = pa.table({name: values for name, values in BASE.items() if name != missing})
    with pytest.raises(DataError, match=f"which column is the {role} .*pass --{role} NAME; the data has"):
        assign(table)


@pytest.mark.parametrize("name", ["p", "PCTR", "model_score", "pred_v2", "y_prob"])
def test_names_of_scores(name: str):
    assert assign(pa.table({"y": [0, 1], name: [0.2, 0.3]})).score == name


def test_named_features_are_taken_as_they_are():
    table = pa.table({**BASE, "id": ["1", "2", "3"]})
    assert assign(table, features=["id", "click"]).features == ("id",)
    assert assign(table).features is None


@pytest.mark.parametrize("features", [[], ()])
def test_another_column_of_dates_is_left_out_beside_the_time(features: Any):
    days = {"day": ["2024-05-01", "2024-05-02", "2024-05-03"], "paid": ["2024-06-01", "2024-06-02", "2024-06-03"]}
    roles = assign(pa.table({**BASE, **days}), time="day", features=features)
    assert (roles.features, [name for name, _ in roles.excluded]) == (("site",), ["paid"])


def test_nested_columns_are_left_out():
    roles = assign(pa.table({**BASE, "tags": [["a"], [], ["b"]]}), features=[])
    assert roles.features == ("site",)
    assert roles.excluded[0][0] == "tags"
