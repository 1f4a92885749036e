import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_model, random_rows, reference
from mbct.errors import ParameterError
from mbct.export import export_model
from mbct.model.encoding import category_key

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "rules.schema.json").read_text(encoding="utf-8"))
validator = jsonschema.Draft202012Validator(SCHEMA)


def document_of(model: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(export_model(model, "rules", form="json"))
    validator.validate(document)
    return document


def holds(condition: dict[str, Any], value: Any, known: set[str] | None) -> bool:
    """A reader of the published document, as any language would write it; ``known`` is None for a number."""
    key = category_key(value)
    if key is None:
        return bool(condition["missing"])
    if known is None:
        return any((lo is None or lo < value) and (hi is None or value <= hi) for lo, hi in condition["intervals"])
    return key in condition["values"] or (condition["unseen"] and key not in known)


def calibrate(document: dict[str, Any], known: dict[str, set[str] | None], row: dict[str, Any]) -> float:
    applying = [
        rule
        for rule in (*document["rules"], *document["fallbacks"])
        if all(holds(c, row[c["feature"]], known[c["feature"]]) for c in rule["if"])
    ]
    assert sorted(rule["tree"] for rule in applying) == list(range(document["n_trees"]))
    multiplier = math.prod(rule["multiplier"] for rule in applying)
    p = row[document["score_column"]]
    if document["link"] == "linear":
        return min(max(p * multiplier, 0.0), 1.0)
    p = min(max(p, 1e-9), 1 - 1e-9)
    odds = p / (1 - p) * multiplier
    return float(odds / (1 + odds))


@given(st.integers(0, 2**32 - 1), st.sampled_from(["odds", "linear"]))
@settings(deadline=None, max_examples=50)
def test_the_document_is_valid_and_its_rules_are_the_model(seed: int, link: Any) -> None:
    model = random_model(seed, link, n_features=7)
    columns = random_rows(seed, model, 25, infinite=True)
    document = document_of(model)
    known = {f.name: None if f.ordered else set(f.values) for f in model.bins}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    got = [calibrate(document, known, row) for row in rows]
    np.testing.assert_allclose(got, reference(model, columns), rtol=1e-12)


def test_the_schema_is_itself_valid_and_refuses_what_is_no_rule() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = document_of(random_model(1))
    for change in ({"version": 1}, {"link": "cubic"}, {"alpha": 0}, {"more": 1}):
        assert not validator.is_valid({**document, **change})
    document["rules"][0].pop("bound")
    assert not validator.is_valid(document)


def test_equal_models_give_equal_text() -> None:
    for form in ("text", "json"):
        assert export_model(random_model(4), "rules", form=form) == export_model(random_model(4), "rules", form=form)


def test_text_has_one_line_for_each_rule_and_says_how_they_act() -> None:
    model = random_model(4, "linear")
    text = str(export_model(model, "rules"))
    assert sum(line.startswith("  × ") for line in text.splitlines()) == len(document_of(model)["rules"])
    assert text.startswith(f"{model.n_rules} rules in 3 trees.")
    assert "the factors (×) of all trees multiply score." in text
    assert "Tree 3" in text


def test_a_model_without_trees_says_so() -> None:
    model = random_model(4).with_trees(())
    assert export_model(model, "rules") == "No rules: score is returned as it is.\n"
    assert document_of(model)["rules"] == []


def test_another_form_is_refused() -> None:
    with pytest.raises(ParameterError, match="form='xml' must be 'text' or 'json'"):
        export_model(random_model(1), "rules", form="xml")
