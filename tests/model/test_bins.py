import datetime
import decimal
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mbct.errors import ModelFileError
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins, code_offsets, interval_codes
from mbct.model.encoding import category_key, value_type
from mbct.model.file_check import read_bins
from mbct.training.binning import fit_category_bins

DAY = datetime.date(2024, 1, 31)
MIDNIGHT = datetime.datetime(2024, 1, 31)
FIVE = datetime.datetime(2024, 1, 31, 5)
FIVE_IN_BERLIN = pd.Timestamp("2024-01-31 06:00", tz="Europe/Berlin")


@given(st.lists(st.integers(0, 300), max_size=20))
def test_every_code_of_every_feature_has_a_place_of_its_own(n_codes):
    offsets = code_offsets(tuple(n_codes))
    places = [offsets[j] + code for j, n in enumerate(n_codes) for code in range(n)]
    assert places == list(range(int(offsets[-1])))
    assert offsets.dtype == np.int64


def test_arrays_give_the_same():
    assert code_offsets(np.array([2, 7], np.int64)).tolist() == code_offsets((2, 7)).tolist() == [0, 2, 9]


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.tuples(st.integers()),
)


@given(st.lists(ANYTHING, max_size=30), st.lists(st.text(), unique=True, max_size=10))
def test_category_codes_are_a_total_function(values, known):
    bins = CategoryBins("f", tuple(known))
    codes = bins.encode(values)
    assert len(codes) == len(values)
    assert np.all((codes >= 0) & (codes < bins.n_codes))


@given(st.lists(st.floats(), max_size=50), st.lists(st.floats(-1e6, 1e6), unique=True, max_size=10))
def test_number_codes_are_a_total_function(values, edges):
    bins = NumberBins("x", tuple(sorted(edges)))
    column = np.array(values, dtype=float)
    codes = bins.encode(column)
    assert np.all((codes >= 0) & (codes < bins.n_codes))
    assert np.array_equal(codes == bins.missing, np.isnan(column))


@given(st.integers(0, 600), st.integers(0, 10**6))
def test_counting_edges_finds_the_interval_that_a_search_finds(n_edges, seed):
    rng = np.random.default_rng(seed)
    edges = np.unique(rng.normal(size=n_edges))
    values = np.concatenate([rng.normal(size=50), edges, np.nextafter(edges, np.inf), [np.inf, -np.inf, 0.0, -0.0]])
    assert np.array_equal(interval_codes(values, edges), np.searchsorted(edges, values, side="left"))
    assert interval_codes(np.array([np.nan]), edges).tolist() == [len(edges) + 1]


def test_infinities_fall_into_the_outer_intervals():
    bins = NumberBins("x", (0.0, 1.0))
    assert bins.encode(np.array([-np.inf, np.inf])).tolist() == [0, 2]


def test_types_of_one_value_share_a_code():
    bins = CategoryBins("n", ("3", "true", "2024-05-01"))
    assert bins.encode([3, 3.0, np.int8(3), "3"]).tolist() == [0, 0, 0, 0]
    assert bins.encode([True, np.True_]).tolist() == [1, 1]
    assert bins.encode([datetime.date(2024, 5, 1), np.datetime64("2024-05-01T00:00")]).tolist() == [2, 2]


def test_missing_values_of_every_kind_have_the_missing_code():
    bins = CategoryBins("n", ("a",))
    assert bins.encode([None, float("nan"), np.nan, np.datetime64("NaT")]).tolist() == [bins.missing] * 4


def test_value_types():
    assert value_type([datetime.date(2024, 1, 1)]) == "date"
    assert value_type([datetime.datetime(2024, 1, 1, 3)]) == "datetime"
    assert value_type([0.5, 1]) == "number"
    assert value_type([None]) == "string"


def test_frequent_values_come_first_and_rare_ones_are_left_to_unseen():
    weight = np.array([5.0, 1.0, 9.0])
    bins = fit_category_bins("f", ["x", "rare", "y"], weight, weight * 0, weight * 0, min_rows=2.0, rate=0.1)
    assert bins.values == ("y", "x")
    assert bins.encode(["rare"]).tolist() == [bins.unseen]


def test_renaming_the_values_keeps_their_codes():
    weight, label, pred = np.array([5.0, 5.0, 5.0]), np.array([1.0, 2.0, 1.0]), np.array([1.5, 1.0, 1.2])
    before = fit_category_bins("f", ["a", "b", "c"], weight, label, pred, 1.0, 0.3)
    after = fit_category_bins("f", ["z", "y", "x"], weight, label, pred, 1.0, 0.3)
    assert before.encode(["a", "b", "c"]).tolist() == after.encode(["z", "y", "x"]).tolist()


@given(st.lists(st.text(), unique=True), st.lists(st.floats(allow_nan=False, allow_infinity=False), unique=True))
@example(values=[], edges=[-1e308, 1e308])
def test_json_round_trip_is_exact(values, edges):
    bins = FeatureBins((NumberBins("p", tuple(sorted(edges))), CategoryBins("c", tuple(values), "string")))
    text = json.dumps(bins.to_list())
    again = read_bins(json.loads(text))
    assert again == bins
    assert json.dumps(again.to_list()) == text
    assert again.fingerprint == bins.fingerprint


def test_the_fingerprint_tells_other_bins_apart():
    one, other = FeatureBins((NumberBins("p", (0.5,)),)), FeatureBins((NumberBins("p", (0.6,)),))
    assert one.fingerprint != other.fingerprint


def test_unknown_kinds_are_named():
    with pytest.raises(ModelFileError, match=r"features\[0\].kind is 'hexagon', expected number or category"):
        read_bins([{"kind": "hexagon", "name": "x"}])


def test_code_type_is_the_narrowest():
    assert FeatureBins((NumberBins("p", tuple(range(100))),)).code_type == np.uint8
    assert FeatureBins((NumberBins("p", tuple(range(255))),)).code_type == np.uint16


@given(ANYTHING)
def test_a_key_is_text_or_none_and_its_own_key(value):
    key = category_key(value)
    assert key is None or category_key(key) == key


numbers = st.floats(-5, 5, width=16)


@given(edges=st.sets(numbers, max_size=40), values=st.lists(numbers, min_size=1, max_size=30))
def test_long_columns_are_coded_like_short_ones(edges, values):
    bins = NumberBins("x", tuple(sorted(edges)))
    some = np.array([*values, *edges, np.nan, np.inf, -np.inf])
    repeated = np.tile(some, 10_000 // len(some) + 1)
    np.testing.assert_array_equal(bins.encode(repeated)[: len(some)], bins.encode(some))


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_other_types_are_coded_too(dtype):
    values = np.arange(20_000).astype(dtype)
    assert NumberBins("x", (3.0, 7.5)).encode(values)[[3, 4, 7, 8]].tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("known", "kind", "spelled"),
    [
        (("true", "false"), "boolean", [True, "True", "TRUE", "true", 1, "1", np.True_]),
        (("true", "false"), "string", [True, "True", "TRUE", "true", np.True_]),
        (("1", "0"), "integer", [1, 1.0, "1", "1.0", True, "True", np.int8(1), decimal.Decimal("1.00")]),
        (("2.5", "3"), "number", [2.5, "2.5", "2.50", np.float32(2.5), decimal.Decimal("2.5")]),
        (("2024-01-31",), "date", [DAY, "2024-01-31", MIDNIGHT, np.datetime64(MIDNIGHT), "2024-01-31T00:00:00"]),
        (("2024-01-31 05:00:00",), "datetime", [FIVE, pd.Timestamp(FIVE), "2024-01-31T06:00:00+01:00", FIVE_IN_BERLIN]),
        (("a ", "a"), "string", ["a "]),
    ],
)
def test_every_spelling_of_a_value_has_its_code_by_column_and_by_value(known, kind, spelled):
    bins = CategoryBins("x", known, kind)

    assert bins.encode(spelled).tolist() == [0] * len(spelled)
    assert [bins.encode([value]).tolist() for value in spelled] == [[0]] * len(spelled)
    assert [bins.value_encoder(7)(value) for value in spelled] == [7] * len(spelled)


@pytest.mark.parametrize(
    ("known", "kind", "others"),
    [
        (("true", "1"), "string", ["Yes", "1.0", "TrUe"]),
        (("1",), "integer", ["one", "01.5", 2, b"x", [1]]),
        (("2024-01-31",), "date", ["31/01/2024", FIVE, 20240131]),
    ],
)
def test_another_value_is_unseen_and_counted(known, kind, others):
    bins, heard = CategoryBins("x", known, kind), []
    encode = bins.value_encoder(count_unseen=heard.append)

    assert bins.encode(others).tolist() == [bins.unseen] * len(others)
    assert [encode(value) for value in others] == [bins.unseen] * len(others)
    assert heard == ["x"] * len(others)


def test_the_empty_text_is_missing_as_in_a_csv_file():
    bins = CategoryBins("x", ("a",))

    assert bins.encode(["", None, float("nan"), " "]).tolist() == [1, 1, 1, 2]
    assert bins.value_encoder()("") == 1
