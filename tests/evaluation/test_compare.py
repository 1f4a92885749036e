import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import BaseCrossValidator, GroupKFold, KFold, TimeSeriesSplit

from mbct import MBCTCalibrator, compare
from mbct.calibrators import Calibrator, MulticlassCalibrator, PlattCalibrator, SegmentCalibrator, available, make
from mbct.calibrators.folds import cross_validation_folds, row_keys
from mbct.data.columns import read_columns
from mbct.errors import DataError, MBCTWarning, ParameterError
from mbct.evaluation.compare import default_methods
from mbct.metrics import auc, brier, ece, log_loss, mvce
from mbct.training.evidence import standard_error_of_blocks

FAST = ["platt", "temperature", "isotonic"]


def biased_sites(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, n)
    site = rng.choice(["a", "b"], n)
    y = (rng.uniform(size=n) < np.where(site == "a", p**2, p)).astype(int)
    return pd.DataFrame({"p": p, "site": site}), y


def test_scores_are_those_of_the_public_metrics_on_each_fold():
    frame, y = biased_sites()
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    result = compare(frame, y, score_column="p", methods=["platt"], sample_weight=weight, cv=4)
    keys = row_keys(read_columns({**frame, " score": frame["p"]}), 0)
    fold = cross_validation_folds(keys, y, 4)
    rows, mass = [], []
    for k in range(4):
        held = fold == k
        q = PlattCalibrator("p").fit(frame[~held], y[~held], weight[~held]).calibrate(frame[held])
        w = weight[held]
        shared = {"sample_weight": w}
        closed = mvce(y[held], q, n_bins=20, method="closed-form", **shared)
        rows.append([f(y[held], q, **shared) for f in (log_loss, brier, auc, ece)] + [closed])
        mass.append(w.sum())
    expected = np.average(np.array(rows, dtype=float), axis=0, weights=mass)
    platt = result["platt"]
    found = [platt.log_loss, platt.brier, platt.auc, platt.ece, platt.mvce]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_differences_are_paired_with_the_base():
    frame, y = biased_sites()
    result = compare(frame, y, score_column="p", methods=FAST)
    base = result["identity"]
    assert base.log_loss_difference == base.log_loss_standard_error == 0.0
    for method in result.methods:
        assert method.log_loss_difference == pytest.approx(method.log_loss - base.log_loss, abs=1e-12)
        assert method.brier_difference == pytest.approx(method.brier - base.brier, abs=1e-12)


def test_the_standard_error_is_that_of_repeated_samples():
    differences, errors = [], []
    for seed in range(40):
        frame, y = biased_sites(n=600, seed=seed)
        platt = compare(frame, y, score_column="p", methods=["platt"])["platt"]
        differences.append(platt.log_loss_difference)
        errors.append(platt.log_loss_standard_error)
    assert np.std(differences) == pytest.approx(np.mean(errors), rel=0.35)


def test_the_result_is_the_same_whatever_the_order_and_kind_of_frame():
    frame, y = biased_sites()
    result = compare(frame, y, score_column="p", methods=FAST)
    assert compare(frame, y, score_column="p", methods=FAST) == result
    assert compare(pl.DataFrame(frame.to_dict("list")), y, score_column="p", methods=FAST) == result
    order = np.random.default_rng(0).permutation(len(y))
    shuffled = compare(frame.iloc[order], y[order], score_column="p", methods=FAST)
    for method in result.methods:
        assert shuffled[method.name].log_loss == pytest.approx(method.log_loss, abs=1e-12)
    assert compare(frame, y, score_column="p", methods=FAST, random_state=1) != result


def test_a_copy_is_never_held_out_from_its_twin():
    frame, y = biased_sites(n=400)
    twice = pd.concat([frame, frame])
    plain = {"isotonic": make("isotonic", score_column="p", smoothing=0.0)}  # a prior is weaker beside twice the rows
    doubled = compare(twice, np.tile(y, 2), score_column="p", methods=plain)
    once = compare(frame, y, score_column="p", methods=plain)
    assert doubled["isotonic"].log_loss == pytest.approx(once["isotonic"].log_loss, abs=1e-9)


def test_it_names_the_method_to_take():
    frame, y = biased_sites()
    methods = {"plain": "platt", "by site": SegmentCalibrator(field="site"), "hot": "temperature"}
    result = compare(frame, y, score_column="p", methods=methods)
    assert result.best.name == "by site"
    assert result.recommendation.startswith("Take by site: it lowers the held-out log loss by 0.0")


def test_a_perfect_base_is_left_alone():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=2000)
    result = compare(p, rng.uniform(size=2000) < p, methods=FAST)
    assert result.best.name == "identity"
    assert result.recommendation.startswith("Leave the base as it is")


def test_the_label_and_weight_may_be_columns_and_the_score_apart():
    frame, y = biased_sites()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    named = compare(frame.assign(click=y, w=weight), "click", score_column="p", sample_weight="w", methods=["platt"])
    assert named == compare(frame, y, score_column="p", sample_weight=weight, methods=["platt"])
    apart = compare(frame[["site"]], y, y_prob=frame["p"], methods=["platt"])
    inside = compare(frame, y, score_column="p", methods=["platt"])
    assert apart["platt"].log_loss == pytest.approx(inside["platt"].log_loss, rel=0.01)


def test_all_methods_that_need_no_setting_are_compared_by_default(monkeypatch):
    assert set(available()) - set(default_methods()) == {"segment"}
    frame, y = biased_sites(n=500)
    result = compare(frame, y, score_column="p", cv=2)
    assert {m.name for m in result.methods} == set(default_methods())
    assert result.failures == ()


def test_a_method_that_cannot_run_is_listed_with_the_reason(monkeypatch):
    frame, y = biased_sites(n=500)
    wide = frame.assign(other=1.0)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    result = compare(wide, y, score_column="p", methods=["platt", "segment", "lightgbm"])
    assert [m.name for m in result.methods].count("platt") == 1
    reasons = {failure.name: failure.reason for failure in result.failures}
    assert "which column holds the segments?" in reasons["segment"]
    assert "pip install 'mbct[lightgbm]'" in reasons["lightgbm"]
    assert "segment: not compared, which column" in str(result)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"methods": "platt"}, ParameterError, r"methods must be a list, got the text 'platt'; write \['platt'\]"),
        ({"methods": ["magic"]}, ParameterError, "unknown method 'magic'"),
        ({"methods": [3]}, ParameterError, "a method is a name or a calibrator, got 3"),
        ({"methods": ["platt", PlattCalibrator()]}, ParameterError, "two methods are called 'platt': pass a mapping"),
        ({"cv": 1}, ParameterError, "cv must be a number of at least 2, got 1"),
        ({"cv": "five"}, ParameterError, "cv must be a number of folds, a splitter or a list of splits, got 'five'"),
        ({"cv": GroupKFold(2)}, ParameterError, "gives no splits of these rows: The 'groups' parameter should not be"),
        ({"time": [None] * 200}, DataError, "the time is missing in 200 rows"),
        ({"time": np.zeros(200, int)}, DataError, "all 200 rows belong to one block of time: at least two are needed"),
        ({"groups": ["a"] * 199}, DataError, "groups has 199 rows where 200 were expected"),
        ({"groups": np.arange(200) // 67}, DataError, "3 blocks of rows cannot fill 5 folds: take cv=3 or less"),
        ({"score_column": "q"}, DataError, "column 'q' is missing"),
    ],
)
def test_senseless_arguments_are_named(arguments, error, message):
    frame, y = biased_sites(n=200)
    with pytest.raises(error, match=message):
        compare(frame, y, **{"score_column": "p", "methods": FAST, **arguments})


def test_a_lonely_class_is_named():
    with pytest.raises(DataError, match="has only one sample"):
        compare(np.array([0.1, 0.2, 0.3]), np.array([0, 0, 1]), methods=FAST)


def shaken_days(n_days=60, n_each=60, seed=0):
    """A calibrated base, but for a shock that all rows of a day share; the day is a column."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(n_days), n_each)
    z = rng.normal(-0.5, 1.0, len(day))
    truth = 1.0 / (1.0 + np.exp(-(z + rng.normal(0.0, 0.7, n_days)[day])))
    frame = pd.DataFrame({"p": 1.0 / (1.0 + np.exp(-z)), "day": day, "date": np.datetime64("2024-01-01") + day})
    return frame, (rng.uniform(size=len(day)) < truth).astype(int)


def test_days_that_are_held_out_whole_cannot_be_remembered():
    frame, y = shaken_days()
    by_day = {"by day": SegmentCalibrator(field="day", min_rows=10)}
    with pytest.warns(MBCTWarning, match="rows with one value of 'day' share their residuals.*time='day' if they are"):
        random = compare(frame.drop(columns="date"), y, score_column="p", methods=by_day)
    assert random.best.name == "by day"
    for arguments in ({"time": "date"}, {"time": frame["day"].to_numpy()}, {"groups": frame["day"].to_numpy()}):
        columns = frame if "date" in map(str, arguments.values()) else frame.drop(columns="date")
        by_block = compare(columns, y, score_column="p", methods=by_day, **arguments)
        assert by_block.best.name == "identity"
        assert by_block.blocks == next(iter(arguments))
        assert f"whole blocks of {by_block.blocks} held out" in str(by_block)


def test_with_time_and_groups_neither_is_on_both_sides():
    frame, y = shaken_days()
    shop = np.random.default_rng(1).integers(0, 40, len(y))
    calibrators = {"by day": SegmentCalibrator(field="day", min_rows=10), "by shop": SegmentCalibrator(field="shop")}
    columns = frame.assign(shop=shop)
    found = compare(columns, y, score_column="p", methods=calibrators, time="date", groups=shop)
    # Neither a day nor a shop is known again, so both leave the base as it is but for a common factor.
    assert found.best.name == "identity"
    assert found.blocks == "time and groups"
    assert "whole blocks of time held out, no group on both sides" in str(found)
    assert found.n_rows == pytest.approx(len(y) / 5, rel=0.1)
    alone = compare(
        columns, y, score_column="p", methods={"moved": FixedMap(0.7)}, time="date", groups=np.arange(len(y))
    )
    by_time = compare(columns, y, score_column="p", methods={"moved": FixedMap(0.7)}, time="date")
    assert alone["moved"].log_loss_standard_error == by_time["moved"].log_loss_standard_error
    split = compare(columns, y, score_column="p", methods=["platt"], time="date", groups=shop, cv=GroupKFold(3))
    assert split.n_rows == len(y)


def test_standard_errors_of_blocks_are_those_of_repeated_samples():
    differences, by_block, by_row = [], [], []
    for seed in range(30):
        frame, y = shaken_days(n_days=30, n_each=40, seed=seed)
        q = frame["p"] * 0.7
        moved = {"moved": FixedMap(0.7)}
        days = compare(frame[["p"]], y, methods=moved, groups=frame["day"].to_numpy())["moved"]
        rows = compare(frame[["p"]], y, methods=moved)["moved"]
        assert days.log_loss_difference == pytest.approx(log_loss(y, q) - log_loss(y, frame["p"]), abs=1e-9)
        differences.append(days.log_loss_difference)
        by_block.append(days.log_loss_standard_error)
        by_row.append(rows.log_loss_standard_error)
    assert np.std(differences) == pytest.approx(np.mean(by_block), rel=0.3)
    assert np.mean(by_block) > 1.4 * np.mean(by_row)


def test_standard_errors_of_time_allow_for_neighbouring_days():
    frame, y = shaken_days()
    day = frame["day"].to_numpy()
    p = frame["p"].to_numpy()
    log_loss_of = {q: -np.log(np.where(y == 1, q * p, 1.0 - q * p)) for q in (1.0, 0.7)}
    difference = log_loss_of[0.7] - log_loss_of[1.0]
    found = {}
    for kind in ("time", "groups"):
        moved = compare(frame[["p"]], y, methods={"moved": FixedMap(0.7)}, **{kind: day})["moved"]
        found[kind] = moved.log_loss_standard_error
        expected = standard_error_of_blocks(difference, np.ones(len(y)), day.astype(np.int32), in_order=kind == "time")
        assert found[kind] == pytest.approx(expected, rel=1e-9)
    assert found["time"] != found["groups"]


class FixedMap(Calibrator):
    """Multiplies every score; learns nothing."""

    method = "fixed"

    def __init__(self, factor=1.0, score_column=None):
        self.factor = factor
        self.score_column = score_column

    def _fit(self, data):
        pass

    def _calibrate(self, _, y_prob):
        return y_prob * self.factor

    def _state(self):
        return {}

    def _restore(self, state):
        pass


def test_splitters_and_lists_of_splits_are_taken():
    frame, y = biased_sites(n=600)
    by_splitter = compare(frame, y, score_column="p", methods=FAST, cv=KFold(3))
    by_list = compare(frame, y, score_column="p", methods=FAST, cv=list(KFold(3).split(frame)))
    assert by_splitter == by_list
    assert by_splitter.n_folds == 3
    later = compare(frame, y, score_column="p", methods=FAST, cv=TimeSeriesSplit(3))
    assert later.n_rows == 450
    groups = np.arange(600) // 20
    assert compare(frame, y, score_column="p", methods=FAST, cv=GroupKFold(3), groups=groups).blocks == "groups"


def drifting_days(n_days=40, n_each=100, seed=0):
    """A bias of one segment that changes with time, and a shock by day; ``shop`` is a group within days."""
    rng = np.random.default_rng(seed)
    frame, _ = shaken_days(n_days, n_each, seed)
    day = frame["day"].to_numpy()
    frame["segment"] = rng.choice(["a", "b"], len(day))
    frame["shop"] = rng.integers(0, 30, len(day))
    z = np.log(frame["p"] / (1 - frame["p"])) + rng.normal(0.0, 0.3, n_days)[day]
    z += np.where(frame["segment"] == "a", 0.5 + 1.5 * day / n_days, -0.8)
    return frame, (rng.uniform(size=len(day)) < 1.0 / (1.0 + np.exp(-z))).astype(int)


LAST_STRETCH = [(np.arange(3000), np.arange(3000, 4000))]


def own_loss(calibrator, frame, y, **blocks):
    """Held-out log loss of a calibrator that is fitted without ``compare``."""
    (train, held_out), *_ = LAST_STRETCH
    fitted = calibrator.set_params(score_column="p", **blocks).fit(frame.iloc[train], y[train])
    return log_loss(y[held_out], fitted.calibrate(frame.iloc[held_out]))


def small(**parameters):
    return MBCTCalibrator(max_trees=20, n_folds=3, features=["segment"], **parameters)


def test_a_calibrator_keeps_its_own_gap_half_life_and_block():
    frame, y = drifting_days()
    settings = {"plain": {}, "half life": {"half_life": 1.0}, "gap": {"gap": 8}, "weeks": {"block": "week"}}
    methods = {name: small(**own) for name, own in settings.items()}
    found = compare(frame, y, score_column="p", methods=methods, time="date", cv=LAST_STRETCH)
    for name, own in settings.items():
        assert found[name].log_loss == pytest.approx(own_loss(small(**own), frame, y, time="date"), abs=1e-12), name
    assert len({found[name].log_loss for name in settings}) == 4
    with pytest.raises(ParameterError, match="gap and half_life are measured in blocks of time"):
        compare(frame.drop(columns="date"), y, score_column="p", methods={"x": small(half_life=1.0)}, cv=LAST_STRETCH)


def test_a_calibrator_that_names_time_or_groups_is_fitted_by_these():
    frame, y = drifting_days()
    frame = frame[["p", "day", "shop", "segment"]]
    methods = {
        "shops": MBCTCalibrator(max_trees=20, n_folds=3, groups="shop"),
        "days": MBCTCalibrator(max_trees=20, n_folds=3, time="day"),
    }
    alone = {
        name: own_loss(make("mbct", **c.get_params()), frame.drop(columns={"shops": "day", "days": "shop"}[name]), y)
        for name, c in methods.items()
    }
    by_day = compare(frame.drop(columns="shop"), y, score_column="p", methods={"days": methods["days"]}, time="day")
    assert by_day.failures == ()
    with pytest.warns(MBCTWarning, match="days is fitted by time='day', but rows are held out one by one: pass time="):
        by_row = compare(
            frame.drop(columns="shop"), y, score_column="p", methods={"days": methods["days"]}, cv=LAST_STRETCH
        )
    assert by_row["days"].log_loss == pytest.approx(alone["days"], abs=1e-12)
    # The column of the comparison's own time is no feature of a calibrator that goes by groups.
    other = compare(frame, y, score_column="p", methods={"shops": methods["shops"]}, time="day", cv=LAST_STRETCH)
    assert other["shops"].log_loss == pytest.approx(alone["shops"], abs=1e-12)
    assert other.blocks == "time"
    with pytest.raises(DataError, match="column 'when' is missing"):
        compare(frame, y, score_column="p", methods={"x": small(time="when")}, cv=LAST_STRETCH)


def test_trees_of_many_classes_go_by_the_days_of_the_comparison():
    frame, y = drifting_days()
    trees = MulticlassCalibrator(max_trees=5, n_folds=3, features=["segment"])
    found = compare(frame, y, score_column="p", methods={"trees": trees}, time="date", cv=LAST_STRETCH)
    assert "1 fold, held-out" in str(found)
    assert found["trees"].log_loss == pytest.approx(own_loss(trees, frame, y, time="date"), abs=1e-12)


def test_given_splits_are_described_as_they_are():
    frame, y = shaken_days()
    options = {"score_column": "p", "methods": ["platt"], "time": "date"}
    frame = frame[["p", "date"]]
    mixed = compare(frame, y, cv=KFold(5, shuffle=True, random_state=0), **options)
    assert not mixed.whole_blocks
    assert "held-out scores, blocks of time are partly fitted on, partly held out" in str(mixed)
    in_order = compare(frame, y, cv=TimeSeriesSplit(5), **options)
    assert "whole blocks of time held out" in str(in_order)
    with pytest.warns(MBCTWarning, match="these are not in the order of time: sort them by time first"):
        backwards = compare(frame[::-1], y[::-1], cv=TimeSeriesSplit(5), **options)
    assert backwards.whole_blocks
    order = np.random.default_rng(0).permutation(len(y))
    with pytest.warns(MBCTWarning, match="not in the order of time"):
        shuffled = compare(frame.iloc[order], y[order], cv=TimeSeriesSplit(5), **options)
    assert not shuffled.whole_blocks
    assert compare(frame, y, cv=GroupKFold(5), **options).whole_blocks


class BySeveral(BaseCrossValidator):
    """A splitter of one's own that looks at groups."""

    def get_n_splits(self, *_):
        return 2

    def _iter_test_masks(self, _, __, groups):
        yield from (groups % 2 == k for k in range(2))


def test_a_splitter_of_ones_own_receives_the_blocks():
    frame, y = shaken_days()
    found = compare(frame[["p"]], y, methods=["platt"], groups=frame["day"].to_numpy(), cv=BySeveral())
    assert (found.n_folds, found.whole_blocks) == (2, True)


def test_rows_held_out_twice_count_once_in_the_standard_error():
    frame, y = biased_sites(n=600)
    splits = list(KFold(3).split(frame))
    once = compare(frame, y, score_column="p", methods=["platt"], cv=splits)
    twice = compare(frame, y, score_column="p", methods=["platt"], cv=splits * 2)
    assert twice["platt"].log_loss_standard_error == pytest.approx(once["platt"].log_loss_standard_error)
    assert twice.n_rows == once.n_rows == 600


def test_rows_of_no_weight_are_neither_fitted_nor_scored():
    frame, y = biased_sites(n=600)
    weight = (np.arange(600) < 400).astype(float)
    with_them = compare(frame, y, score_column="p", methods=["platt"], sample_weight=weight, cv=4)
    assert with_them == compare(frame[:400], y[:400], score_column="p", methods=["platt"], cv=4)


def test_labels_of_any_type_are_compared():
    frame, y = biased_sites(n=600)
    plain = compare(frame, y, score_column="p", methods=FAST)
    assert compare(frame, np.array(["no", "yes"])[y], score_column="p", methods=FAST) == plain
    assert compare(frame, np.array(["x", "bad"])[y], score_column="p", methods=FAST, positive="bad") == plain


def test_tied_scores_of_both_classes_do_not_mislead():
    """Positives of a score are held out with its negatives: were these trained on, every free method would seem bad."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.6, 4000).round(2)
    y = (rng.uniform(size=4000) < p).astype(int)
    found = compare({"p": p}, y, score_column="p", methods=["isotonic"])
    assert found["isotonic"].log_loss < found["identity"].log_loss + 0.01
    assert found["identity"].ece < 0.06
