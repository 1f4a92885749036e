"""The page of methods on many predictions keeps what it promises, and its data sets can still be read."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs/benchmarks/methods.jsonl"


sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    import methods
    import methods_data as data
finally:
    sys.path.pop(0)


@pytest.fixture(scope="module")
def found():
    return [json.loads(line) for line in FIGURES.read_text(encoding="utf-8").splitlines()]


def test_the_page_shows_the_figures(found):
    assert methods.page(found).rstrip() in FIGURES.with_suffix(".md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("kind", "least"), [("binary", 20), ("many", 10)])
def test_no_method_of_ours_is_above_the_base_on_average(found, kind, least):
    rows = [row["change"] for row in found if row["kind"] == kind]
    assert len(rows) >= least
    ours = methods.OURS if kind == "binary" else methods.OURS_MANY
    for name in ours:
        assert np.mean([change[name] for change in rows]) < 0.0


def test_ours_are_not_behind_the_peer_of_the_same_name(found):
    pairs = {
        "binary": {name: name for name in ("temperature", "affine", "quadratic")},
        "many": {"matrix-scaling, temperature": "temperature, mixed", "matrix-scaling, vector": "SVS"}
        | {"matrix-scaling, matrix": "SMS"},
    }
    for kind, names in pairs.items():
        rows = [row["change"] for row in found if row["kind"] == kind]
        for ours, theirs in names.items():
            difference = [change[ours] - change[f"probmetrics: {theirs}"] for change in rows]
            assert np.mean(difference) < 0.0, ours


@pytest.mark.parametrize("name", [*data.BINARY, *data.MANY])
def test_every_data_set_can_be_read(name):
    try:
        X, y = (data.BINARY | data.MANY)[name]()
    except (ImportError, SystemExit, FileNotFoundError) as error:
        pytest.skip(f"{error}: pip install 'mbct[bench]', or put the file where it is looked for")
    assert len(np.unique(y)) >= 2
    assert len(X) == len(y)


def test_a_small_data_set_goes_through_all_methods_of_ours():
    for q in data.predictions({"iris": data.MANY["iris"]}, seed=1):
        for name, parameters in methods.OURS_MANY.values():
            assert methods.losses(methods.ours(name, **parameters)(q), q.y_eval) < 2.0
