import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_model, random_rows, reference, table_model, wide_model
from mbct.errors import MissingDependencyError, ParameterError
from mbct.export import export_model
from mbct.export.onnx import onnx_inputs
from mbct.model.ensemble import CalibrationEnsemble

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime")
MISSING = "<missing>"


def run(model: CalibrationEnsemble, columns: dict[str, Any], missing_text: str = MISSING) -> np.ndarray[Any, Any]:
    session = onnxruntime.InferenceSession(export_model(model, "onnx", missing_text=missing_text))
    (result,) = session.run(["calibrated"], onnx_inputs(model, pd.DataFrame(columns, dtype=object), missing_text))
    assert result.dtype == np.float64
    return np.asarray(result)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["odds", "linear"]))
@settings(deadline=None, max_examples=60)
def test_rows_get_the_same_probability_in_float64(seed: int, link: Any) -> None:
    model = random_model(seed, link, n_features=7)
    columns = random_rows(seed, model, 60, infinite=True)
    np.testing.assert_allclose(run(model, columns), reference(model, columns), rtol=1e-12, atol=0)


@pytest.mark.parametrize("link", ["odds", "linear"])
def test_a_wide_model(link: Any) -> None:
    model = wide_model(2, link)
    columns = random_rows(2, model, 500)
    np.testing.assert_allclose(run(model, columns, ""), reference(model, columns), rtol=1e-12)


def test_a_model_without_trees_returns_the_prediction() -> None:
    model = random_model(1).with_trees(())
    columns = random_rows(1, model, 5)
    assert run(model, columns).tolist() == columns["score"]


def test_a_missing_prediction_stays_missing() -> None:
    assert np.isnan(run(random_model(1, n_features=1), {"score": [np.nan], "number 0": [1.0]})).all()


def test_a_known_value_cannot_stand_for_a_missing_one() -> None:
    model = random_model(0)
    known = model.bins[2].values[0]
    with pytest.raises(ParameterError, match="is a known value of 'text_1' and cannot also stand for a missing one"):
        export_model(model, "onnx", missing_text=known)


def test_the_output_needs_a_name_of_its_own() -> None:
    with pytest.raises(ParameterError, match="output='score' is also the name of an input"):
        export_model(random_model(1), "onnx", output="score", missing_text=MISSING)


def test_equal_models_give_equal_bytes() -> None:
    assert export_model(wide_model(1, n_trees=2), "onnx") == export_model(wide_model(1, n_trees=2), "onnx")


@pytest.mark.parametrize("seed", range(30))
def test_no_constant_is_left_unused(seed: int) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'mbct[onnx]'")
    model = random_model(seed, n_trees=1, n_features=1)
    graph = onnx.load_from_string(export_model(model, "onnx", missing_text=MISSING)).graph
    assert {constant.name for constant in graph.initializer} <= {name for node in graph.node for name in node.input}


def test_the_remedy_is_named_where_onnx_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'mbct\[onnx\]'"):
        export_model(random_model(1), "onnx")


@pytest.mark.parametrize("link", ["odds", "linear"])
def test_large_tables_and_binary_trees(link: Any) -> None:
    model = table_model(1, link, 8, 60, n_binary=2)
    columns = random_rows(1, model, 300)
    np.testing.assert_allclose(run(model, columns, ""), reference(model, columns), rtol=1e-12)
