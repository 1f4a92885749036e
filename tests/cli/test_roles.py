from typing import Any

import duckdb
import pyarrow as pa
import pytest

from mbct.cli import roles as under_test
from mbct.cli.roles import Roles, RowOptions
from mbct.cli.sources import Data
from mbct.errors import DataError

BASE = {"site": ["a", "b", "a"], "pctr": [0.1, 0.5, 0.9], "click": [0, 1, 1]}


def assign(table: pa.Table, **named: Any) -> Roles:
    rows = RowOptions(None, **{"time": None, **named})
    return under_test.assign(Data(duckdb.connect().from_arrow(table), "the table"), rows)


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


DAYS = [f"2024-01-{day:02}" for day in range(1, 31)]
MANY = {"pctr": [0.1] * 30, "click": [0, 1, 1] * 10}


def guessed(**columns: Any) -> tuple[str | None, dict[str, str]]:
    roles = assign(pa.table({**MANY, **columns}), features=[])
    return roles.time, dict(roles.excluded)


@pytest.mark.parametrize(
    "spelt", [DAYS, [day.replace("-", "/") for day in DAYS], [day.replace("-", ".") for day in DAYS]]
)
def test_a_column_of_dates_is_the_time(spelt: list[str]):
    assert guessed(when=spelt) == ("when", {})


def test_why_a_column_of_dates_is_not_the_time():
    time, excluded = guessed(few=DAYS[:9] * 3 + DAYS[:3], some=[None] * 7 + DAYS[7:], odd=["31/01/2024"] * 30)
    assert time is None
    assert excluded["few"].endswith("a column of fewer than 10 days is taken for the --time only if it is named")
    assert "missing in 7 rows: known in every row it could be the --time" in excluded["some"]
    assert "written as 2024-01-31 in every row it could be the --time" in excluded["odd"]


@pytest.mark.parametrize(
    ("name", "days"),
    [("date", DAYS[::-1]), ("seen", DAYS), ("seen", DAYS[15:] + DAYS[:15])],
    ids=["by name", "in the order of rows", "without gaps"],
)
def test_of_several_columns_of_dates_the_likeliest_is_the_time(name: str, days: list[str]):
    births = [f"{1950 + 7 * row % 50}-06-01" for row in range(30)]
    time, excluded = guessed(birth_date=births, **{name: days})
    assert time == name
    assert excluded["birth_date"].endswith(f"{name} is the time, --time birth_date takes this one instead")
