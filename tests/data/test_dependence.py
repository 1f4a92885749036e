import numpy as np
import pandas as pd
import pytest

from mbct.data.checks import find_dependence
from mbct.data.columns import read_columns


def patients(seed=0, spread=1.0, n=3_000):
    rng = np.random.default_rng(seed)
    patient = rng.integers(0, 300, n)
    p = rng.uniform(0.1, 0.6, n)
    odds = p / (1 - p) * np.exp(rng.normal(0.0, spread, 300)[patient])
    y = (rng.random(n) < odds / (1 + odds)).astype(float)
    site = rng.choice(["a", "b", "c"], n)
    return pd.DataFrame({"patient": patient, "age": rng.normal(50, 9, n), "site": site}), y, p


def test_patients_who_share_residuals_are_named_with_the_argument_to_add():
    frame, y, p = patients()
    assert "pass groups='patient'" in str(find_dependence(read_columns(frame), y, p))


def test_independent_rows_get_no_advice():
    frame, y, p = patients(spread=0.0)
    assert find_dependence(read_columns(frame), y, p) is None


def test_a_bias_by_category_is_no_group():
    frame, _, p = patients(spread=0.0)
    biased = np.where(frame["site"] == "a", 0.9, 0.1)
    y = (np.random.default_rng(1).random(len(p)) < biased).astype(float)
    assert find_dependence(read_columns(frame), y, p) is None


def test_a_date_is_named_as_time():
    frame, y, p = patients(spread=0.0)
    frame["seen"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(frame.index % 60, unit="D")
    assert "pass time='seen'" in str(find_dependence(read_columns(frame), y, p))


def test_the_date_that_is_named_so_is_the_time_and_one_that_cannot_be_read_is_to_be_converted():
    frame, y, p = patients(spread=0.0)
    days = pd.Timestamp("1950-03-01") + pd.to_timedelta(frame.index % 60, unit="D")
    frame["birth_date"], frame["date"] = days, days + pd.Timedelta(days=9_000)
    assert "pass time='date'" in str(find_dependence(read_columns(frame), y, p))
    spelt = frame[["site"]].assign(when=frame["date"].dt.strftime("%m/%d/%Y"))
    assert "write it as 2024-01-31 and pass time='when'" in str(find_dependence(read_columns(spelt), y, p))
    spelt["day"] = frame["date"].dt.strftime("%Y/%m/%d")
    assert str(find_dependence(read_columns(spelt), y, p)).endswith("that day: pass time='day'")


def shocks(group, spread, seed=0):
    """Labels of a base that is right on average but for a shock that is shared by the rows of each group."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 6, len(group))
    odds = p / (1 - p) * np.exp(rng.normal(0.0, spread, group.max() + 1)[group])
    return (rng.random(len(p)) < odds / (1 + odds)).astype(float), p


def equal(n_groups, n_rows):
    return np.random.default_rng(1).permutation(np.repeat(np.arange(n_groups), n_rows))


def zipf(n_groups, n_rows):
    share = 1.0 / np.arange(1, n_groups + 1)
    return np.random.default_rng(1).choice(n_groups, n_rows, p=share / share.sum())


@pytest.mark.parametrize(
    ("group", "name", "kind"),
    [
        (equal(49, 200), "g", int),
        (equal(40, 200), "g", int),
        (equal(40, 200), "g", float),
        (equal(30, 300), "shop", str),
        (equal(60, 300), "day", int),
        (zipf(300, 6_000), "user_id", str),
        (zipf(300, 6_000), "customer", int),
    ],
    ids=["49 numbers", "40 numbers", "numbers with gaps", "30 shops", "60 days", "texts of Zipf", "numbers of Zipf"],
)
@pytest.mark.parametrize("seed", range(3))
def test_few_or_uneven_groups_that_share_residuals_are_found(group, name, kind, seed):
    y, p = shocks(group, 0.7, seed)
    values = np.array([f"v{g}" for g in group]) if kind is str else group.astype(kind)
    if kind is float:
        values[:: len(values) // 100] = np.nan
    found = find_dependence(read_columns({name: values, "x": np.random.default_rng(2).normal(size=len(y))}), y, p)
    assert f"pass groups={name!r} if its values are persons" in str(found)
    assert f"--group {name} if its values are persons" in found.on_command_line()
    assert (f", time={name!r} if they are numbers of days" in str(found)) == (kind is not str)
    assert (f", --time {name} if they are numbers of days" in found.on_command_line()) == (kind is not str)


@pytest.mark.parametrize(
    ("group", "name", "kind"),
    [
        (equal(15, 400), "carrier", str),
        (equal(15, 400), "carrier", int),
        (equal(45, 200), "station", str),
        (zipf(100, 6_000), "dest", str),
        (zipf(300, 6_000), "C14", int),
    ],
    ids=["15 texts", "15 numbers", "45 texts", "texts of Zipf", "numbers of Zipf"],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_category_whose_values_are_biased_is_no_unit(group, name, kind, seed):
    y, p = shocks(group, 0.7, seed)
    values = np.array([f"v{g}" for g in group]) if kind is str else group
    assert find_dependence(read_columns({name: values}), y, p) is None


@pytest.mark.parametrize("bias", [lambda age: (age - 54) / 20, lambda age: 1.0 * (age >= 65)], ids=["slope", "step"])
def test_a_bias_that_follows_a_number_is_no_unit(bias):
    rng = np.random.default_rng(0)
    age, p = rng.integers(18, 90, 20_000), rng.beta(2, 6, 20_000)
    odds = p / (1 - p) * np.exp(bias(age))
    y = (rng.random(len(p)) < odds / (1 + odds)).astype(float)
    assert find_dependence(read_columns({"age": age}), y, p) is None


def test_groups_are_looked_for_within_days_that_are_known():
    rng = np.random.default_rng(0)
    day, shop = np.repeat(np.arange(60), 200), rng.integers(0, 50, 12_000)
    frame = read_columns({"shop": shop, "fortnight": day // 2})
    y, p = shocks(day, 0.5)
    assert find_dependence(frame, y, p, day) is None
    assert find_dependence(frame, y, p).column == "fortnight"
    y, p = shocks(shop, 0.5)
    assert "pass groups='shop' if its values are persons, shops or other units that will not all come back" in str(
        find_dependence(frame, y, p, day)
    )


def test_one_in_a_hundred_sets_of_independent_rows_at_most_gets_advice():
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 2_000
        columns = {name: rng.integers(0, k, n) for name, k in {"user": 200, "shop": 40, "age": 70, "key": 500}.items()}
        columns["text"] = np.array([f"t{k}" for k in rng.integers(0, 60, n)])
        p = rng.beta(1, 12, n)
        found.append(find_dependence(read_columns(columns), (rng.random(n) < p).astype(float), p) is not None)
    assert sum(found) <= 2
