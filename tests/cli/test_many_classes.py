import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mbct import load_model
from mbct.calibrators import MatrixScalingCalibrator
from mbct.metrics import evaluate_classes
from terminal import mbct

ANIMALS = ["cat", "dog", "eel"]


def softmax(z):
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def animals(tmp_path_factory):
    """Scores that are too sure, in columns of another order than the sorted labels."""
    folder = tmp_path_factory.mktemp("animals")
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1200, 3)) * 2.0
    code = (rng.uniform(size=(1200, 1)) > softmax(0.5 * z + [0.4, 0.0, -0.3]).cumsum(axis=1)).sum(axis=1)
    p = dict(zip(ANIMALS, softmax(z).T, strict=True))
    frame = pd.DataFrame({f"p_{name}": p[name] for name in ("eel", "cat", "dog")})
    frame = frame.assign(animal=np.array(ANIMALS)[code], day=np.arange(1200) // 60, size=rng.normal(size=1200))
    frame.to_parquet(folder / "animals.parquet")
    done = mbct(
        *("fit", "animals.parquet", "--label", "animal", "--score", "p_*", "--method", "matrix-scaling"),
        *("-o", "model.json"),
        cwd=folder,
    )
    assert done.code == 0, done.err
    return folder, frame


def test_a_pattern_names_a_column_for_each_class(animals):
    folder, frame = animals
    model = load_model(folder / "model.json")
    assert model.score_column_ == ["p_eel", "p_cat", "p_dog"]
    assert model.classes_.tolist() == ["eel", "cat", "dog"]
    scores = frame[["p_cat", "p_dog", "p_eel"]]
    own = MatrixScalingCalibrator().fit(scores, frame["animal"]).calibrate(scores)
    np.testing.assert_allclose(model.calibrate(frame), own[:, [2, 0, 1]], atol=1e-9)


def test_predict_adds_a_column_for_each_class(animals, tmp_path: Path):
    folder, frame = animals
    done = mbct("predict", "model.json", "animals.parquet", "-o", tmp_path / "scored.parquet", cwd=folder)
    assert done.code == 0, done.err
    scored = pd.read_parquet(tmp_path / "scored.parquet")
    added = [f"calibrated_{name}" for name in ("eel", "cat", "dog")]
    assert list(scored.columns) == [*frame.columns, *added]
    np.testing.assert_array_equal(scored[added].to_numpy(), load_model(folder / "model.json").calibrate(frame))


def test_evaluate_measures_all_rows_and_each_class(animals):
    folder, frame = animals
    command = ("evaluate", "animals.parquet", "--label", "animal", "--model", "model.json")
    document = json.loads(mbct(*command, "--json", cwd=folder).out)
    expected = evaluate_classes(frame["animal"], frame[["p_cat", "p_dog", "p_eel"]].to_numpy()).overall
    for name in ("log_loss", "brier", "top_label_ece", "classwise_ece", "mvce"):
        assert document["before"]["all"][name] == pytest.approx(expected[name])
        assert document["after"]["all"][name] < expected[name]
    shown = mbct(*command, "--fail-if", "top_label_ece > 0.5", cwd=folder)
    assert shown.code == 0
    assert "after, by class" in shown.out
    assert mbct(*command, "--fail-if", "log_loss > 0.1", cwd=folder).code == 1


def test_compare_names_the_method_to_take(animals):
    folder, _ = animals
    command = ("compare", "animals.parquet", "--label", "animal", "--score", "p_*", "--methods", "matrix-scaling")
    document = json.loads(mbct(*command, "--time", "none", "--folds", "3", "--json", cwd=folder).out)
    assert document["best"] == "matrix-scaling"
    assert [method["name"] for method in document["methods"]] == ["matrix-scaling", "identity"]
    shown = mbct(*command, "--time", "none", "--folds", "3", cwd=folder)
    assert "Take matrix-scaling: it lowers the held-out log loss" in shown.out


def test_trees_of_many_classes_by_days(animals, tmp_path: Path):
    folder, _ = animals
    done = mbct(
        *("fit", "animals.parquet", "--label", "animal", "--score", "p_eel,p_cat,p_dog", "--time", "day"),
        *("--gap", "1", "--half-life", "5"),
        *("--set", "max_trees=3", "--set", "n_folds=2", "-o", tmp_path / "trees.json"),
        cwd=folder,
    )
    # Columns between commas are in the order of the sorted labels.
    assert done.code == 0, done.err
    model = load_model(tmp_path / "trees.json")
    assert (model.method, model.time, model.classes_.tolist()) == ("mbct-multiclass", "day", ANIMALS)
    assert "day" not in model.feature_names_in_
    assert (model.gap, model.half_life) == (1, 5.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--score", "q_*"), "--score q_*: no column matches; the data has p_eel"),
        (
            ("--score", "p_*", "--method", "isotonic"),
            "method 'isotonic' calibrates one probability: for many classes take",
        ),
        (("--score", "p_cat,p_dog"), "2 score columns, but label 'animal' has more classes (cat, dog, eel)"),
        (("--score", "p_*", "--set", "depth=3"), "method 'mbct-multiclass' has no parameter 'depth'"),
    ],
)
def test_what_does_not_fit_is_named(animals, arguments, message, tmp_path: Path):
    folder, _ = animals
    done = mbct("fit", "animals.parquet", "--label", "animal", *arguments, "-o", tmp_path / "m.json", cwd=folder)
    assert done.code == 2
    assert message in done.err
    assert not list(tmp_path.iterdir())


def test_a_command_of_one_probability_says_so(animals):
    folder, _ = animals
    done = mbct("advise", "animals.parquet", "--label", "animal", "--score", "p_*", cwd=folder)
    assert done.code == 2
    assert "this command takes one probability; --score names 3 columns" in done.err
    done = mbct("rules", "model.json", cwd=folder)
    assert "holds a 'matrix-scaling' calibrator, which has no rules" in done.err


def test_a_report_takes_a_score_column_for_each_class(animals, tmp_path: Path):
    pytest.importorskip("altair", reason="altair is not installed: pip install 'mbct[report]'")
    folder, frame = animals
    page = tmp_path / "report.html"
    done = mbct(
        *("report", "model.json", "animals.parquet", "--label", "animal", "--by", "size", "-o", page, "--json"),
        *("--compare-with", "animals.parquet"),
        cwd=folder,
    )
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    expected = evaluate_classes(frame["animal"], frame[["p_cat", "p_dog", "p_eel"]].to_numpy()).overall
    assert summary["log_loss_before"] == pytest.approx(expected["log_loss"])
    assert (summary["outcome"], summary["n_rows"]) == ("better", 1200)
    html = page.read_text()
    assert "Class by class" in html
    assert "3 classes" in html
    for field in ("class", "size, class"):
        assert f"PCOC of the values of {field} before and after" in html
    assert "PCOC</dt>" not in html
