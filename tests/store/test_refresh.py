"""A simulated fortnight: the bias moves, refreshes follow it, and a worse model is never promoted."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import mbct
from mbct import CellStore, MBCTCalibrator
from mbct.calibrators.persistence import loads
from mbct.data import aggregate, fit_bins
from mbct.errors import DataError, ModelFileError, ParameterError, StorageError
from mbct.model.bins import FeatureBins
from mbct.stats.probabilities import logit, sigmoid
from mbct.stats.testing import PairedGain
from mbct.store import ModelRegistry
from mbct.store.model_registry import FileBackend
from mbct.store.refresh import _decide

FAST = {"max_trees": 20, "n_folds": 3}


def _day(number: int, shift: float, n: int = 4000) -> pl.DataFrame:
    """Rows of one day; site "b" is biased by ``shift`` in log-odds."""
    rng = np.random.default_rng(number)
    site = rng.choice(["a", "b", "c"], n)
    p = rng.beta(1.0, 4.0, n).round(3)
    y = (rng.random(n) < sigmoid(logit(p) + shift * (site == "b"))).astype(int)
    return pl.DataFrame({"p": p, "site": site, "y": y})


def _store(folder: Path, shifts: list[float]) -> tuple[CellStore, FeatureBins]:
    store = CellStore(folder)
    bins = fit_bins(_day(0, shifts[0]), score_column="p", label="y")
    for number, shift in enumerate(shifts):
        _append(store, bins, number, shift)
    return store, bins


def _append(store: CellStore, bins: FeatureBins, number: int, shift: float) -> None:
    cells = aggregate(_day(number, shift), bins, label="y")
    store.append(cells, bins, day=f"2024-05-{number + 1:02d}", batch=f"day {number}")


def test_refresh_follows_a_bias_that_moves(tmp_path: Path) -> None:
    store, bins = _store(tmp_path / "store", [1.0, 1.0, 1.0])
    first = mbct.refresh(store, MBCTCalibrator(**FAST))
    assert first.promoted
    assert "better" in first.reason
    assert first.reason.endswith("fitted with random folds of rows, as there are fewer than 5 training days")
    assert first.previous is None
    assert first.metrics["candidate"].log_loss < first.metrics["uncalibrated"].log_loss
    assert abs(first.metrics["candidate"].prediction_ratio - 1.0) < 0.1
    for number in (3, 4, 5):
        _append(store, bins, number, -1.0)
    second = mbct.refresh(store, half_life=1.0)
    assert second.promoted
    assert second.previous == first.candidate
    registry = ModelRegistry(store)
    assert registry.in_service() == second.candidate != first.candidate
    # The refit took over the parameters of the model in service.
    assert loads(registry.read(second.candidate)).get_params()["n_folds"] == 3


def test_a_worse_model_is_not_promoted(tmp_path: Path) -> None:
    store, bins = _store(tmp_path / "store", [1.0, 1.0, 1.0])
    first = mbct.refresh(store, MBCTCalibrator(**FAST))
    _append(store, bins, 3, -2.0)
    _append(store, bins, 4, 1.0)
    # Fitted on nothing but the strange day, evaluated on a usual one.
    second = mbct.refresh(store, days=1)
    assert not second.promoted
    assert second.reason.startswith("worse than the model in service: log loss rises by")
    assert second.comparison.p_worse < 0.01
    assert ModelRegistry(store).in_service() == second.in_service == first.candidate


def test_an_equal_model_is_promoted_unless_better_is_required(tmp_path: Path) -> None:
    store, _ = _store(tmp_path / "store", [1.0, 1.0, 1.0, 1.0])
    first = mbct.refresh(store, MBCTCalibrator(**FAST), holdout="2024-05-03")
    again = mbct.refresh(store, require="better", holdout="2024-05-03")
    assert again.candidate == first.candidate  # the same cells and parameters give the same bytes
    assert not again.promoted
    assert "no difference" in again.reason
    assert mbct.refresh(store, holdout="2024-05-03").promoted


def test_the_record_can_be_audited(tmp_path: Path) -> None:
    store, _ = _store(tmp_path / "store", [1.0, 1.0, 1.0])
    done = mbct.refresh(store, MBCTCalibrator(**FAST), days=2, half_life=2.0)
    content = json.loads((tmp_path / "store" / "records" / f"{done.record:010d}.json").read_text())["body"]
    assert content["decision"] == "promoted"
    assert content["in_service"] == content["candidate"] == done.candidate
    assert content["training"]["first_day"] == "2024-05-01"
    assert content["training"]["last_day"] == "2024-05-02"
    assert content["training"]["half_life"] == 2.0
    assert list(content["training"]["batches"]) == ["day 0", "day 1"]
    assert content["holdout"]["rows"] == 4000
    assert content["metrics"]["candidate"]["log_loss"] == done.metrics["candidate"].log_loss
    assert content["comparison"]["z"] == done.comparison.z
    assert content["parameters"]["max_trees"] == 20
    assert content["mbct"] == mbct.__version__


def test_roll_back_to_any_earlier_model(tmp_path: Path) -> None:
    store, bins = _store(tmp_path / "store", [1.0, 1.0, 1.0])
    first = mbct.refresh(store, MBCTCalibrator(**FAST))
    _append(store, bins, 3, -1.0)
    _append(store, bins, 4, -1.0)
    second = mbct.refresh(store, days=1)
    registry = ModelRegistry(store)
    assert registry.in_service() == second.candidate
    assert registry.rollback(reason="complaints") == first.candidate
    assert registry.in_service() == first.candidate
    with pytest.raises(StorageError, match="nothing to roll back to"):
        registry.rollback()
    assert registry.rollback(second.candidate) == second.candidate
    assert registry.rollback() == first.candidate
    assert [record["decision"] for record in registry.records()] == ["promoted", "promoted", *["rolled back"] * 3]
    assert registry.records()[2]["reason"] == "complaints"
    assert {one.version: one.current for one in registry.versions()} == {first.candidate: True, second.candidate: False}
    with pytest.raises(StorageError, match=rf"no version 'x'.*{first.candidate}"):
        registry.rollback("x")
    model = tmp_path / "store" / "models" / f"{second.candidate}.json"
    model.write_bytes(model.read_bytes()[:-20])
    with pytest.raises(ModelFileError, match=f"version {second.candidate} .* is damaged"):
        registry.rollback(second.candidate)
    assert registry.in_service() == first.candidate


def test_two_refreshes_at_once_do_not_overwrite_each_other(tmp_path: Path) -> None:
    store, _ = _store(tmp_path / "store", [1.0, 1.0])
    mbct.refresh(store, MBCTCalibrator(**FAST))
    with pytest.raises(StorageError, match="another record was written"):
        FileBackend(store.storage).decide(0, "promoted", None, {})


def test_a_model_can_be_promoted_by_hand(tmp_path: Path) -> None:
    store, bins = _store(tmp_path / "store", [1.0, 1.0])
    fitted = MBCTCalibrator(**FAST).fit_cells(store.window(by_day=False).cells, bins)
    fitted.save(tmp_path / "model.json")
    model = ModelRegistry(store).publish((tmp_path / "model.json").read_bytes(), "first")
    assert ModelRegistry(store).in_service() == model
    with pytest.raises(StorageError, match="nothing to roll back to"):
        ModelRegistry(store).rollback()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"holdout": "2024-05-09"}, DataError, "holdout day 2024-05-09 has no cells; the store holds 2024-05-01 to"),
        ({"holdout": "2024-05-01"}, DataError, "no day before the holdout"),
        ({"require": "nice"}, ParameterError, "require='nice'"),
        ({"level": 0.7}, ParameterError, "level=0.7"),
        ({"holdout_days": 0}, ParameterError, "holdout_days=0"),
        ({"holdout_days": 2}, DataError, r"no day before the holdout of 2 days .* 3 are needed"),
        ({"calibrator": MBCTCalibrator(score_column="q")}, DataError, "not of score_column='q'"),
        ({"calibrator": MBCTCalibrator(features=["q"])}, DataError, "the cells are coded by"),
    ],
)
def test_impossible_refreshes_are_refused(tmp_path: Path, arguments, error, message) -> None:
    store, _ = _store(tmp_path / "store", [1.0, 1.0])
    with pytest.raises(error, match=message):
        mbct.refresh(store, **arguments)


def test_an_empty_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no cells"):
        mbct.refresh(CellStore(tmp_path / "store"))


def test_several_days_evaluate_and_training_ends_before_them(tmp_path: Path) -> None:
    store, _ = _store(tmp_path / "store", [1.0] * 7)
    usual = mbct.refresh(store, MBCTCalibrator(**FAST))
    asked = mbct.refresh(store, holdout_days=4)
    records = ModelRegistry(store).records()
    assert [(r["holdout"]["first_day"], r["holdout"]["last_day"]) for r in records] == [
        ("2024-05-06", "2024-05-07"),  # a third of seven days
        ("2024-05-04", "2024-05-07"),
    ]
    assert [r["training"]["last_day"] for r in records] == ["2024-05-05", "2024-05-03"]
    assert usual.promoted
    assert asked.metrics["candidate"].log_loss < asked.metrics["uncalibrated"].log_loss


def test_one_strange_day_among_the_holdout_days_does_not_decide(tmp_path: Path) -> None:
    """Evaluated on the strange day alone, the candidate would be refused with certainty."""
    store, _ = _store(tmp_path / "store", [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.5])
    calibrator = MBCTCalibrator(**FAST)
    assert not mbct.refresh(store, calibrator, holdout_days=1).promoted
    several = mbct.refresh(store, calibrator, holdout_days=4)
    assert several.promoted
    assert several.comparison.error > 0.005  # days differ: ten times the error of independent rows
    assert several.p_worse == pytest.approx(stats.t.cdf(several.comparison.z, 3))


def test_a_bad_first_candidate_leaves_predictions_unchanged(tmp_path: Path) -> None:
    store, _ = _store(tmp_path / "store", [2.0, -2.0])
    done = mbct.refresh(store, MBCTCalibrator(**FAST))
    assert not done.promoted
    assert done.in_service is None
    assert "log loss rises by 0." in done.reason
    assert "; no model is in service, so predictions pass unchanged; fitted with random folds" in done.reason


@pytest.mark.parametrize("gain", [PairedGain(float("nan"), 0.1), PairedGain(0.1, float("nan"))])
def test_a_comparison_that_is_no_number_never_promotes(gain: PairedGain) -> None:
    for require in ("not worse", "better"):
        promoted, reason = _decide(gain, float("nan"), require, 0.05, "before")
        assert not promoted
        assert "not a number" in reason


def test_a_refresh_trains_by_whole_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = _store(tmp_path / "store", [1.0] * 9)
    seen = []
    fit = MBCTCalibrator.fit_cells

    def watched(self, cells, bins):
        seen.append(cells)
        return fit(self, cells, bins)

    monkeypatch.setattr(MBCTCalibrator, "fit_cells", watched)
    mbct.refresh(store, MBCTCalibrator(**FAST))
    mbct.refresh(store, MBCTCalibrator(**FAST), days=3)
    assert np.unique(seen[0].block).tolist() == list(range(6))
    assert seen[1].block is None  # three days cannot tell days from rows
