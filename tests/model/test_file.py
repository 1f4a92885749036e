"""Model files: today's are read back to the byte, those of version 1 too, and damaged ones are refused."""

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders import random_model, random_rows
from mbct.calibrators.persistence import dumps, load_model, loads
from mbct.data.columns import read_columns
from mbct.data.entry import calibrated
from mbct.errors import MBCTError, ModelFileError, StorageError
from mbct.model.file import VERSION, dump_document, ensemble_of, load_ensemble, parse_document
from mbct.model.file_check import MOST_DEPTH, read_ensemble
from mbct.model.rules import to_text
from mutants import mutants

DATA = Path(__file__).parent / "data"
OLD = json.loads((DATA / "version_1.expected.json").read_text())


def document(model=None, **changes):
    content = {"method": "mbct", "state": {"model": (model or random_model(1)).to_dict()}}
    content.update(changes)
    return dump_document(content)


@pytest.mark.parametrize("method", sorted(OLD["calibrated"]))
def test_a_file_of_version_1_gives_the_same_numbers(method):
    path = DATA / f"version_1.{method}.json"
    calibrator = load_model(path)

    assert json.loads(path.read_bytes())["version"] == 1
    calibrated_now = calibrator.calibrate(pd.DataFrame(OLD["rows"]))
    # numpy 1 rounds exponentials otherwise, in the last bit.
    last_bits = 0 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 1
    np.testing.assert_array_max_ulp(calibrated_now, np.array(OLD["calibrated"][method]), last_bits)
    again = loads(dumps(calibrator))
    assert dumps(again) == dumps(calibrator)
    assert json.loads(dumps(again))["version"] == VERSION
    assert again.calibrate(pd.DataFrame(OLD["rows"])).tolist() == calibrated_now.tolist()


def test_the_ensemble_inside_a_model_file(tmp_path):
    (tmp_path / "model.json").write_bytes(document())
    assert load_ensemble(tmp_path / "model.json").to_dict() == random_model(1).to_dict()


def test_the_names_in_a_file_are_those_of_the_parameters():
    model = json.loads(document())["state"]["model"]

    assert set(model) == {"score_column", "link", "alpha", "features", "trees"}
    assert set(model["trees"][0]) == {"feature", "children", "leaf_value", "count", "label", "pred"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "model.json is damaged or no model file"),
        (document()[:200], "model.json is damaged or no model file"),
        (b"\xff\xfe\x00", "model.json is damaged or no model file"),
        (b"[" * 100_000, "model.json is damaged or no model file"),
        (b'{"format": "mbct-calibrator", "version": NaN}', "NaN is no number of JSON"),
        (b"[1, 2]", "is not a calibrator of this package"),
        (b'{"format": "something else"}', "is not a calibrator of this package"),
        (b'{"format": "mbct-calibrator", "version": 99}', "format version 99, newer than 2: upgrade mbct"),
        (b'{"format": "mbct-calibrator", "version": true}', "format version True: restore it"),
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


def test_documents_are_bytes_for_bytes_the_same():
    assert document() == document()
    assert parse_document(document())["version"] == VERSION


def chain(depth):
    """A tree that is one long path."""
    model = random_model(1, n_trees=1).to_dict()
    n = 2 * depth + 1
    inner = [k % 2 == 0 and k < 2 * depth for k in range(n)]
    model["trees"] = [
        {
            "feature": [0 if split else -1 for split in inner],
            "children": [[[k + 1, [[0, 3]]], [k + 2, [[4, 9]]]] if split else None for k, split in enumerate(inner)],
            **{name: [0.0] * n for name in ("leaf_value", "count", "label", "pred")},
        }
    ]
    return model


def tree(content):
    return content["trees"][0]


def with_chain(content):
    content["trees"] = chain(2)["trees"]
    return tree(content)


DAMAGES = {
    "no trees": lambda c: c.pop("trees"),
    "unknown link": lambda c: c.update(link="cubic"),
    "link that is a list": lambda c: c.update(link=["odds"]),
    "another score": lambda c: c.update(score_column="other"),
    "alpha of 1": lambda c: c.update(alpha=1),
    "half a surrogate pair": lambda c: c["features"][1].update(name="\ud800"),
    "a name twice": lambda c: c["features"][1].update(name="score"),
    "unknown kind": lambda c: c["features"][0].update(kind="hexagon"),
    "unknown type": lambda c: c["features"][2].update(type="colour"),
    "a value twice": lambda c: c["features"][2].update(values=["a", "a"]),
    "a value that is a number": lambda c: c["features"][2]["values"].__setitem__(0, 1),
    "a whole number that is text": lambda c: c["features"][3]["values"].__setitem__(0, "one"),
    "a boolean that is none": lambda c: c["features"][4]["values"].__setitem__(0, "maybe"),
    "edges that fall": lambda c: c["features"][0]["edges"].reverse(),
    "an edge twice": lambda c: c["features"][0].update(edges=[0.5, 0.5]),
    "an edge that is text": lambda c: c["features"][0]["edges"].__setitem__(0, "0.01"),
    "an edge too large for a float": lambda c: c["features"][0]["edges"].__setitem__(0, -(10**400)),
    "a column too short": lambda c: tree(c)["leaf_value"].pop(),
    "an empty tree": lambda c: c["trees"].__setitem__(0, {k: [] for k in tree(c)}),
    "a tree that is a list": lambda c: c["trees"].__setitem__(0, []),
    "a child that is its parent": lambda c: tree(c)["children"][0][0].__setitem__(0, 0),
    "a child of 0.5": lambda c: tree(c)["children"][0][0].__setitem__(0, 0.5),
    "a child that is true": lambda c: tree(c)["children"][0][0].__setitem__(0, True),
    "a child with two parents": lambda c: with_chain(c)["children"][2][0].__setitem__(0, 1),
    "a child that is there twice": lambda c: with_chain(c)["children"][0][1].__setitem__(0, 1),
    "codes out of range": lambda c: tree(c)["children"][0][0].__setitem__(1, [[0, 5000]]),
    "codes of two children": lambda c: with_chain(c)["children"][0][1].__setitem__(1, [[0, 9]]),
    "codes below zero": lambda c: tree(c)["children"][0][0].__setitem__(1, [[-1, 0]]),
    "no codes": lambda c: tree(c)["children"][0][0].__setitem__(1, []),
    "no children": lambda c: tree(c)["children"].__setitem__(0, []),
    "children of a leaf": lambda c: tree(c)["children"].__setitem__(0, None),
    "a feature out of range": lambda c: tree(c)["feature"].__setitem__(0, 77),
    "a feature of -2": lambda c: tree(c)["feature"].__setitem__(0, -2),
    "a feature of 0.0": lambda c: tree(c)["feature"].__setitem__(0, 0.0),
    "a leaf value that is text": lambda c: tree(c)["leaf_value"].__setitem__(0, "much"),
    "a leaf value that is NaN": lambda c: tree(c)["leaf_value"].__setitem__(0, float("nan")),
    "a leaf value of 1e308": lambda c: tree(c)["leaf_value"].__setitem__(0, 1e308),
    "a count below zero": lambda c: tree(c)["count"].__setitem__(0, -1.0),
    "more positives than rows": lambda c: tree(c)["label"].__setitem__(0, 1e9),
    "a count of 1e308": lambda c: tree(c)["count"].__setitem__(0, 1e308),
    "a tree too deep": lambda c: c.update(trees=chain(MOST_DEPTH + 2)["trees"]),
    "leaf values of 400": lambda c: [t.update(leaf_value=[400.0] * len(t["count"])) for t in c["trees"]],
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_inside_the_model_is_refused(damage):
    content = json.loads(json.dumps(random_model(1).to_dict()))
    read_ensemble(content)
    DAMAGES[damage](content)
    with pytest.raises(ModelFileError, match="the model is damaged: "):
        read_ensemble(content)


def test_a_deep_tree_within_the_limit_can_be_written_out():
    model = read_ensemble(chain(MOST_DEPTH))
    assert len(to_text(model).splitlines()) == 2 * MOST_DEPTH + 2


def test_a_small_file_cannot_take_much_memory():
    """20,000 nodes of a feature of 10,000 values would be tables of 0.8 GB."""
    content = random_model(1).to_dict()
    n = 20_000
    content["features"][1] = {
        "kind": "category",
        "name": "x",
        "type": "string",
        "values": [str(i) for i in range(10_000)],
    }
    children = [[[k + 1, [[0, 9]]]] for k in range(n - 1)] + [None]
    one = {"feature": [1] * (n - 1) + [-1], "children": children}
    content["trees"] = [{**one, **{name: [0.0] * n for name in ("leaf_value", "count", "label", "pred")}}]

    with pytest.raises(ModelFileError, match="tables of at most 67,108,864 codes"):
        read_ensemble(content)


def test_multipliers_cannot_overflow():
    content = random_model(1, "linear").to_dict()
    for one in content["trees"]:
        one["leaf_value"] = [1e300] * len(one["count"])

    with pytest.raises(ModelFileError, match="stays finite"):
        read_ensemble(content)


@pytest.mark.no_cover  # the same lines thousands of times: tracing them takes as long as running them
@pytest.mark.parametrize("source", ["odds", "linear", "default", "paper", "lightgbm"])
def test_mutants_are_refused_or_give_probabilities(source):
    """What is read must work: rows are scored and the rules written, quickly and without a warning."""
    real = source in OLD["calibrated"]
    content = (
        (DATA / f"version_1.{source}.json").read_bytes() if real else document(random_model(3, source, n_features=7))
    )
    refused, slowest = 0, 0.0
    for mutant in mutants(content, 700, seed=len(source)):
        began = time.thread_time()
        try:
            if source == "lightgbm":
                values = loads(mutant).calibrate(pd.DataFrame(OLD["rows"]))
            else:
                model = ensemble_of(mutant)
                to_text(model)
                values = calibrated(read_columns(random_rows(0, model, 20)), model)
            assert np.all((values >= 0.0) & (values <= 1.0))
        except MBCTError:
            refused += 1
        slowest = max(slowest, time.thread_time() - began)
    assert refused > 200
    assert slowest < 5.0
