import numpy as np
import pandas as pd
import pytest

from mbct import MBCTCalibrator
from mbct.calibrators import make
from mbct.calibrators.persistence import dumps
from mbct.errors import DataError, ParameterError


def rated(seed=0, n=400):
    """Rows with the share of raters that found them positive, 0 and 1 among them."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.05, 0.95, n).round(2)
    soft = np.clip(p**1.5 + rng.normal(0, 0.1, n), 0, 1).round(2)
    return pd.DataFrame({"p": p, "colour": rng.choice(["red", "green"], n)}), soft


def as_rows(frame, soft, weight):
    """A positive and a negative row each."""
    both = pd.concat([frame, frame], ignore_index=True)
    return both, np.repeat([1, 0], len(frame)), np.concatenate([weight * soft, weight * (1 - soft)])


@pytest.mark.parametrize(
    "name", ["platt", "beta", "quadratic", "spline", "isotonic", "histogram", "venn-abers", "temperature", "bbq"]
)
def test_a_fraction_is_a_share_of_either_class(name):
    frame, soft = rated()
    weight = np.random.default_rng(1).integers(1, 4, len(frame)).astype(float)
    both, y, shares = as_rows(frame, soft, weight)
    fitted = make(name, score_column="p").fit(frame[["p"]], soft, weight)
    assert dumps(fitted) == dumps(make(name, score_column="p").fit(both[["p"]], y, shares))
    assert fitted.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("name", ["mbct", "dirichlet", "matrix-scaling", "lightgbm"])
def test_methods_of_rows_take_fractions_too(name):
    if name == "lightgbm":
        pytest.importorskip("lightgbm", reason="install mbct[lightgbm]")
    frame, soft = rated(n=600)
    both, y, shares = as_rows(frame, soft, np.ones(600))
    settings = {"max_trees": 5, "n_folds": 2} if name == "mbct" else {}
    given, expected = (frame, both) if name in ("mbct", "lightgbm") else (frame[["p"]], both[["p"]])
    fitted = make(name, score_column="p", **settings).fit(given, soft)
    rows = make(name, score_column="p", **settings).fit(expected, y, shares)
    np.testing.assert_allclose(fitted.calibrate(given), rows.calibrate(given), atol=1e-9)


@pytest.mark.filterwarnings("ignore:too few rows to tell")
def test_counts_with_trials_are_their_rows():
    frame = pd.DataFrame({"p": [0.1, 0.3, 0.6, 0.8], "clicks": [2, 5, 12, 9], "shown": [40, 20, 20, 10]})
    aggregated = make("platt", score_column="p").fit(frame, "clicks", trials="shown")
    assert aggregated.feature_names_in_.tolist() == ["p"]
    rows = frame.loc[frame.index.repeat(frame["shown"])]
    y = np.concatenate([np.repeat([1, 0], [k, n - k]) for k, n in zip(frame["clicks"], frame["shown"], strict=True)])
    single = make("platt", score_column="p").fit(rows[["p"]], y)
    np.testing.assert_allclose(aggregated.calibrate(frame[["p"]]), single.calibrate(frame[["p"]]), rtol=1e-12)
    by_array = MBCTCalibrator("p", max_trees=2, n_folds=2).fit(frame[["p"]], frame["clicks"], trials=frame["shown"])
    assert by_array.classes_.tolist() == [0, 1]


def test_what_is_no_fraction_is_named(tmp_path):
    p = np.array([0.2, 0.4, 0.6])
    with pytest.raises(DataError, match="y is 5 of 3 trials in row 1: it must lie between 0 and them"):
        make("platt").fit(p, np.array([1, 5, 0]), trials=np.array([2, 3, 4]))
    with pytest.raises(DataError, match=r"Unknown label type: y holds 0\.5"):
        make("platt").fit(p, np.array([0.5, 1.0, 2.0]))
    with pytest.raises(DataError, match="y must hold counts of positives where trials are given"):
        make("platt").fit(p, np.array(["a", "b", "a"]), trials=np.ones(3))
    with pytest.raises(DataError, match="y is the same in every row"):
        make("platt").fit(p, np.array([2, 3, 4]), trials=np.array([2, 3, 4]))
    pd.DataFrame({"p": p, "y": [0, 1, 1]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ParameterError, match="trials are for rows in memory"):
        MBCTCalibrator("p").fit(tmp_path / "rows.parquet", "y", trials="n")
