from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_model, random_rows, reference, table_model, wide_model
from mbct.errors import ParameterError
from mbct.export import export_model
from mbct.export.lightgbm import coded_features, from_raw_score, lightgbm_matrix
from mbct.model.ensemble import CalibrationEnsemble

lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed: pip install 'mbct[lightgbm]'")


def table(columns: dict[str, list[Any]]) -> dict[str, Any]:
    arrays = {}
    for name, values in columns.items():
        arrays[name] = np.empty(len(values), dtype=object)
        arrays[name][:] = values
    return arrays


def score(model: CalibrationEnsemble, columns: dict[str, list[Any]], raw: Any) -> np.ndarray[Any, Any]:
    return from_raw_score(model, np.array(columns["score"], dtype=float), np.asarray(raw).ravel())


def raw_score(model: CalibrationEnsemble, columns: dict[str, list[Any]]) -> Any:
    booster = lightgbm.Booster(model_str=export_model(model, "lightgbm"))
    return booster.predict(lightgbm_matrix(model, table(columns)))


@given(st.integers(0, 2**32 - 1), st.sampled_from(["odds", "linear"]))
@settings(deadline=None, max_examples=100)
def test_rows_get_the_same_probability(seed: int, link: Any) -> None:
    model = random_model(seed, link, n_features=7)
    columns = random_rows(seed, model, 60, infinite=True)
    got = score(model, columns, raw_score(model, columns))
    np.testing.assert_allclose(got, reference(model, columns), rtol=1e-12, atol=0)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["odds", "linear"]))
@settings(deadline=None, max_examples=25)
def test_treelite_loads_the_same_text(seed: int, link: Any) -> None:
    treelite = pytest.importorskip("treelite", reason="treelite is not installed: pip install treelite")
    model = random_model(seed, link, n_features=7)
    columns = random_rows(seed, model, 60, infinite=True)
    booster = lightgbm.Booster(model_str=export_model(model, "lightgbm"))
    loaded = treelite.frontend.from_lightgbm(booster)
    raw = treelite.gtil.predict(loaded, lightgbm_matrix(model, table(columns)))
    np.testing.assert_allclose(score(model, columns, raw), reference(model, columns), rtol=1e-12, atol=0)


def test_treelite_reads_the_file_without_lightgbm(tmp_path: Path) -> None:
    treelite = pytest.importorskip("treelite", reason="treelite is not installed: pip install treelite")
    model = wide_model(4, n_trees=5)
    columns = random_rows(4, model, 300)
    path = tmp_path / "model.txt"
    path.write_text(str(export_model(model, "lightgbm")), encoding="utf-8")
    loaded = treelite.frontend.load_lightgbm_model(path)
    raw = treelite.gtil.predict(loaded, lightgbm_matrix(model, table(columns)))
    np.testing.assert_allclose(score(model, columns, raw), reference(model, columns), rtol=1e-12)


def test_a_grown_model_takes_its_numbers_raw() -> None:
    model = wide_model(4)
    assert coded_features(model) == {3, 4}
    columns = random_rows(4, model, 500)
    assert lightgbm_matrix(model, table(columns))[:, 0].tolist() == columns["score"]
    np.testing.assert_allclose(score(model, columns, raw_score(model, columns)), reference(model, columns), rtol=1e-12)


def test_a_multiplier_of_zero_gives_zero() -> None:
    model = random_model(3, "linear", n_trees=2)
    for tree in model.trees:
        tree.leaf_value[:] = np.where(np.arange(tree.n_nodes) % 2, 0.0, tree.leaf_value)
    columns = random_rows(3, model, 100)
    expected = reference(model, columns)
    assert (expected == 0.0).any()
    np.testing.assert_allclose(score(model, columns, raw_score(model, columns)), expected, rtol=1e-12, atol=0)


def test_a_negative_multiplier_is_refused() -> None:
    model = random_model(3, "linear", n_trees=1)
    model.trees[0].leaf_value[:] = -1.5
    with pytest.raises(ParameterError, match=r"a multiplier is -1\.5"):
        export_model(model, "lightgbm")


def test_a_model_without_trees_returns_the_prediction() -> None:
    model = random_model(1).with_trees(())
    columns = random_rows(1, model, 10)
    assert score(model, columns, raw_score(model, columns)).tolist() == columns["score"]


def test_what_is_saved_again_by_lightgbm_keeps_every_bit() -> None:
    model = random_model(6)
    columns = random_rows(6, model, 100)
    booster = lightgbm.Booster(model_str=export_model(model, "lightgbm"))
    again = lightgbm.Booster(model_str=booster.model_to_string())
    matrix = lightgbm_matrix(model, table(columns))
    assert booster.predict(matrix).tolist() == again.predict(matrix).tolist()


@pytest.mark.parametrize("link", ["odds", "linear"])
def test_large_tables_and_binary_trees(link: Any) -> None:
    model = table_model(1, link, 8, 60, n_binary=2)
    columns = random_rows(1, model, 300)
    got = score(model, columns, raw_score(model, columns))
    np.testing.assert_allclose(got, reference(model, columns), rtol=1e-12)
