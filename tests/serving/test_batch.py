"""The batch scorer agrees with the reference for dicts, columns and Arrow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_model, random_rows
from mbct.data.columns import encode, read_columns
from mbct.errors import DataError
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.serving.batch import BatchScorer, arrow_columns
from mbct.serving.row import RowScorer


def reference(model, columns):
    score = np.array(columns["score"], dtype=float)
    return model.calibrate_codes(encode(read_columns(columns), model.bins, score), score)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), link=st.sampled_from(["odds", "linear"]), n_features=st.integers(0, 8))
def test_every_form_equals_the_reference(seed, link, n_features):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'mbct[cli]'")
    model = random_model(seed, link, 4, n_features)
    columns = random_rows(seed + 1, model, 80)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    expected = reference(model, columns)
    scorer = BatchScorer(model)
    table = pa.table(columns)
    encoded = pa.table(
        {k: table[k].combine_chunks().dictionary_encode() if k != "score" else table[k] for k in columns}
    )
    for got in (
        scorer.score_rows(rows),
        scorer.score_mapping(columns),
        scorer.score_mapping(
            {k: np.array(v, dtype=object) for k, v in columns.items() if k != "score"}
            | {"score": np.array(columns["score"])}
        ),
        scorer.score_arrow(table),
        scorer.score_arrow(table.to_batches()[0]),
        scorer.score_arrow(encoded),
    ):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-30, 30),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from("ab"),
)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1000), data=st.data())
def test_mixed_values_score_as_single_rows_do(seed, data):
    model = random_model(seed, n_trees=5)
    names = model.bins.names[1:]
    rows = data.draw(
        st.lists(
            st.fixed_dictionaries({"score": st.floats(0, 1), **dict.fromkeys(names, VALUES)}), min_size=1, max_size=6
        )
    )
    single = RowScorer(model)
    np.testing.assert_allclose(
        BatchScorer(model).score_rows(rows), [single.score_row(row) for row in rows], rtol=0, atol=1e-12
    )


def test_unseen_values_are_counted_by_feature():
    model = random_model(7)
    rows = 3
    columns = {"score": [0.5] * rows, "number 0": [1.0] * rows, "text_1": ["never", None, "ever"]}
    columns |= {"whole_2": [None] * rows, "flag_3": [True] * rows}
    scored = BatchScorer(model).score_columns([columns[name] for name in model.bins.names])
    assert scored.unseen == {"text_1": 2}


def test_faults_are_named():
    scorer = BatchScorer(random_model(7, n_features=1))
    with pytest.raises(DataError, match="row 1 has no 'number 0'"):
        scorer.score_rows([{"score": 0.1, "number 0": 1}, {"score": 0.1}])
    with pytest.raises(DataError, match="column 'number 0' is missing"):
        scorer.score_mapping({"score": [0.1]})
    with pytest.raises(DataError, match="number 0 has 2 rows where score has 1"):
        scorer.score_mapping({"score": [0.1], "number 0": [1, 2]})
    with pytest.raises(DataError, match="None in row 1"):
        scorer.score_mapping({"score": [0.1, None], "number 0": [1, 2]})
    with pytest.raises(DataError, match=r"outside \[0, 1\]: 2 in row 0"):
        scorer.score_mapping({"score": [2], "number 0": [1]})


@pytest.mark.parametrize("n_rows", [3, 400])
def test_arrow_finds_texts_however_they_are_stored(n_rows):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'mbct[cli]'")
    model = random_model(7)
    columns = random_rows(8, model, n_rows)
    columns["text_1"] = [None, "never", *columns["text_1"][2:]]
    expected = reference(model, columns)
    scorer, table = BatchScorer(model), pa.table(columns)
    place = table.schema.names.index("text_1")
    texts = table["text_1"]
    stored = [texts.cast(kind) for kind in (pa.large_string(), pa.binary(), pa.string_view())]
    stored += [texts.dictionary_encode(), pa.chunked_array([texts.chunk(0)[:2], texts.chunk(0)[2:]])]
    for column in (texts, *stored):
        got = scorer.score_columns(arrow_columns(model.bins, table.set_column(place, "text_1", column)))
        np.testing.assert_allclose(got.calibrated, expected, rtol=0, atol=1e-12)
        assert got.unseen["text_1"] >= 1


@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "string_view", "dictionary"])
@pytest.mark.parametrize("n_rows", [2, 200])
def test_the_limit_of_texts_holds_for_every_type_and_counts_characters(kind, n_rows):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'mbct[cli]'")
    model = random_model(7)
    columns = random_rows(8, model, n_rows)
    for text, refused in (("ä" * 50, kind == "binary"), ("ä" * 51, True)):
        texts = pa.array([text, *columns["text_1"][1:]])
        stored = texts.dictionary_encode() if kind == "dictionary" else texts.cast(getattr(pa, kind)())
        table = pa.table({**columns, "text_1": stored})
        if refused:
            with pytest.raises(DataError, match=r"text_1 has \d+ characters, at most 50"):
                arrow_columns(model.bins, table, 50)
        else:
            arrow_columns(model.bins, table, 50)


def test_a_known_text_that_arrow_cannot_hold_harms_no_other():
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'mbct[cli]'")
    bins = FeatureBins((NumberBins("score", ()), CategoryBins("text", ("\ud800", "a"))))
    scorer = BatchScorer(CalibrationEnsemble("score", "odds", bins, ()))
    table = pa.table({"score": [0.5] * 4, "text": ["a", "b", None, "a"]})
    scored = scorer.score_columns(arrow_columns(bins, table))
    assert scored.codes[:, 1].tolist() == [1, 3, 2, 1]
