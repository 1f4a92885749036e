import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_model, random_rows
from mbct.data.columns import read_columns
from mbct.data.memory import encode
from mbct.errors import ModelFileError, StorageError
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import dump_document, ensemble_of, load_ensemble, parse_document

patterns = st.sampled_from(["linear", "odds"])
seeds = st.integers(0, 100_000)


def rows_of(model, seed, n=60):
    raw = random_rows(seed, model, n)
    p = np.array(raw["score"])
    return encode(read_columns(raw), model.bins, p), p


@settings(max_examples=30)
@given(seeds, patterns)
def test_json_round_trip_gives_identical_bytes_and_predictions(seed, link):
    model = random_model(seed, link)
    text = json.dumps(model.to_dict(), sort_keys=True)
    again = CalibrationEnsemble.from_dict(json.loads(text))
    assert json.dumps(again.to_dict(), sort_keys=True) == text
    codes, p = rows_of(model, seed)
    assert np.array_equal(again.calibrate_codes(codes, p), model.calibrate_codes(codes, p))


@settings(max_examples=30)
@given(seeds, patterns)
def test_answers_are_probabilities(seed, link):
    model = random_model(seed, link)
    codes, _ = rows_of(model, seed)
    for p in (0.0, 1e-300, 0.5, 1.0):
        answer = model.calibrate_codes(codes, np.full(len(codes), p))
        assert np.all((answer >= 0.0) & (answer <= 1.0))


@settings(max_examples=20)
@given(seeds, patterns)
def test_one_rule_of_each_tree_holds_for_every_row(seed, link):
    model = random_model(seed, link, n_trees=2)
    raw = random_rows(seed, model, 40)
    codes, _ = rows_of(model, seed, 40)
    total = model.total_step(codes)
    known = {f.name: set(f.values) for f in model.bins if f.kind == "category"}
    for i in range(40):
        row = {name: values[i] for name, values in raw.items()}
        product = 1.0
        for number in range(len(model.trees)):
            (rule,) = [r for r in model.rules() if r.tree == number and all(holds(c, row, known) for c in r.conditions)]
            product *= rule.multiplier
        expected = product if link == "linear" else math.log(product)
        assert total[i] == pytest.approx(expected, abs=1e-9)


def holds(condition, row, known):
    value = row[condition.feature]
    if value is None:
        return condition.missing
    if isinstance(value, float):
        return any(low < value <= high for low, high in condition.intervals)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text in condition.values or (condition.unseen and text not in known[condition.feature])


def test_a_model_without_trees_returns_predictions_as_they_are():
    model = random_model(0).with_trees(())
    p = np.array([0.0, 1e-300, 0.3, 1.0])
    assert np.array_equal(model.calibrate_codes(np.zeros((4, 5), np.uint8), p), p)
    assert model.to_text() == "identity: predictions are returned as they are"
    assert not list(model.rules())


def test_rules_read_as_sentences():
    rule = next(r for r in random_model(3, "linear").rules() if not r.fallback)
    assert str(rule).startswith("if ")
    assert " then multiply the probability by " in str(rule)
    assert "rows, rate" in str(rule)


def document(**changes):
    content = {"method": "mbct", "state": {"model": random_model(1).to_dict()}}
    content.update(changes)
    return dump_document(content)


def test_the_ensemble_inside_a_model_file(tmp_path):
    (tmp_path / "model.json").write_bytes(document())
    assert load_ensemble(tmp_path / "model.json").to_dict() == random_model(1).to_dict()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "model.json is damaged or no model file"),
        (document()[:200], "model.json is damaged or no model file"),
        (b"\xff\xfe\x00", "model.json is damaged or no model file"),
        (b"[1, 2]", "is not a calibrator of this package"),
        (b'{"format": "something else"}', "is not a calibrator of this package"),
        (b'{"format": "mbct-calibrator", "version": 99}', "format version 99, newer than 1: upgrade mbct"),
        (document(method="platt"), "holds a 'platt' calibrator, which has no rules"),
        (document(state={}), "is damaged: no model in it"),
    ],
)
def test_damaged_foreign_and_newer_files_are_named(content, message):
    with pytest.raises(ModelFileError, match=message):
        ensemble_of(content, "model.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"cannot read .*nothing.json: No such file"):
        load_ensemble(tmp_path / "nothing.json")


def damaged(change):
    content = json.loads(json.dumps(random_model(1).to_dict()))
    change(content)
    return content


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.pop("trees"),
        lambda c: c.update(link="cubic"),
        lambda c: c.update(score_column="other"),
        lambda c: c["trees"][0]["step"].pop(),
        lambda c: c["trees"][0]["children"][0][0].__setitem__(0, 0),
        lambda c: c["trees"][0]["children"][0][0].__setitem__(1, [[0, 5000]]),
        lambda c: c["trees"][0]["feature"].__setitem__(0, 77),
        lambda c: c["features"][0].update(kind="hexagon"),
        lambda c: c["trees"][0]["step"].__setitem__(0, "much"),
        lambda c: c["trees"][0]["step"].__setitem__(0, float("nan")),
        lambda c: c["trees"][0]["children"].__setitem__(0, []),
        lambda c: c["trees"][0]["children"].__setitem__(0, None),
    ],
)
def test_damage_inside_the_model_is_refused(change):
    with pytest.raises(ModelFileError):
        CalibrationEnsemble.from_dict(damaged(change))


def test_documents_are_bytes_for_bytes_the_same():
    assert document() == document()
    assert parse_document(document())["version"] == 1
