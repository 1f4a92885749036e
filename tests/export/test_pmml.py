import shutil
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from builders import one_split_model, random_model, random_rows, reference, table_model, wide_model
from mbct.errors import ParameterError
from mbct.export import export_model
from mbct.model.bins import CategoryBins
from mbct.model.encoding import category_key
from mbct.model.ensemble import CalibrationEnsemble


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Any]:
    pypmml = pytest.importorskip("pypmml", reason="pypmml is not installed: pip install pypmml")
    if shutil.which("java") is None:
        pytest.skip("the PMML evaluator needs Java: apt-get install default-jre-headless")
    yield pypmml.Model
    pypmml.Model.close()


def scored(evaluator: Any, model: CalibrationEnsemble, columns: dict[str, list[Any]]) -> list[float]:
    loaded = evaluator.fromString(str(export_model(model, "pmml")))
    texts = {f.name: [v if f.ordered else category_key(v) for v in columns[f.name]] for f in model.bins}
    rows = zip(*texts.values(), strict=True)
    return [loaded.predict(dict(zip(texts, row, strict=True)))["calibrated"] for row in rows]


@pytest.mark.parametrize("link", ["odds", "linear"])
@pytest.mark.parametrize("seed", range(8))
def test_an_evaluator_returns_the_same_probability(evaluator: Any, seed: int, link: Any) -> None:
    model = random_model(seed, link, n_features=7)
    columns = random_rows(seed, model, 40, infinite=True)
    columns = {name: [None if v != v else v for v in values] for name, values in columns.items()}
    np.testing.assert_allclose(scored(evaluator, model, columns), reference(model, columns), rtol=1e-12, atol=0)


def test_a_wide_model(evaluator: Any) -> None:
    model = wide_model(3, n_trees=4)
    columns = random_rows(3, model, 40)
    np.testing.assert_allclose(scored(evaluator, model, columns), reference(model, columns), rtol=1e-12)


def test_a_model_without_trees_returns_the_prediction(evaluator: Any) -> None:
    model = random_model(1).with_trees(())
    columns = random_rows(1, model, 5)
    assert scored(evaluator, model, columns) == columns["score"]


def test_the_document_is_well_formed_and_in_its_namespace() -> None:
    root = ElementTree.fromstring(str(export_model(random_model(2), "pmml")).encode())
    assert root.tag == "{http://www.dmg.org/PMML-4_4}PMML"
    assert len(root.findall(".//{*}TreeModel")) == 3


def test_characters_that_xml_lacks_are_refused() -> None:
    model = one_split_model(CategoryBins("text", ("a\x01",)))
    with pytest.raises(ParameterError, match=r"feature 'text' holds 'a\\x01': PMML is XML, which has no character"):
        export_model(model, "pmml")
    with pytest.raises(ParameterError, match="output='score' is also the name of a feature"):
        export_model(random_model(2), "pmml", output="score")


def test_large_tables_and_binary_trees(evaluator: Any) -> None:
    model = table_model(1, "odds", 4, 40, n_binary=1)
    columns = random_rows(1, model, 60)
    np.testing.assert_allclose(scored(evaluator, model, columns), reference(model, columns), rtol=1e-12)
