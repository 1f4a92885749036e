import re
from dataclasses import replace

import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.calibrators.inputs import binned_cells, training_data
from mbct.data.columns import encode, read_columns
from mbct.model.ensemble import large_table, sum_trees
from mbct.model.tree import n_rules
from mbct.stats.probabilities import sigmoid
from mbct.training.binned_rows import make_distillation_set
from mbct.training.cells import build_cells
from mbct.training.default import _forms, _within
from mbct.training.distillation import COMPACT, HELD_OUT, LAST_RESORT, RULES, TABLES, Stage, _out_of_reach, distill
from mbct.training.trainer import LEAST_RULES, PRESETS, Constraints


@pytest.fixture(scope="module")
def sizes():
    frame = biased_clicks(11, 30_000).frame
    return {size: MBCTCalibrator("p", model_size=size).fit(frame, "y") for size in ("full", "auto", "rules", "compact")}


def _distillation_set(full):
    frame = biased_clicks(11, 30_000).frame
    data = training_data(frame.drop(columns="y"), frame["y"], None, None, "p")
    bins, cells = binned_cells(data, None, "auto", PRESETS["default"])
    ordered = tuple(feature.ordered for feature in bins)

    def tree_total(codes):
        return sum_trees(full.model_.trees, codes, cells.n_codes)

    return make_distillation_set(cells, ordered, range(len(ordered)), tree_total, 200_000, 200_000)


def test_compact_fits_a_cache(sizes):
    model = sizes["compact"].model_
    assert len(model.trees) <= 8
    assert model.n_rules <= 256


def test_distilled_models_keep_the_correction(sizes):
    test = biased_clicks(111, 30_000)
    error = {size: np.sqrt(np.mean((c.calibrate(test.frame) - test.truth) ** 2)) for size, c in sizes.items()}
    before = np.sqrt(np.mean((test.p - test.truth) ** 2))
    assert before - error["auto"] > 0.97 * (before - error["full"])
    assert before - error["rules"] > 0.95 * (before - error["full"])
    assert before - error["compact"] > 0.85 * (before - error["full"])


def test_auto_takes_fewer_lookups_than_the_ensemble_and_says_so(sizes):
    auto, full = sizes["auto"], sizes["full"]
    assert len(auto.model_.trees) < len(full.model_.trees)
    assert 0.95 <= auto.fidelity_ <= 1.0
    assert full.fidelity_ == 1.0
    assert re.match(
        rf"{len(auto.model_.trees)} trees with {auto.model_.n_rules:,} .* keep (9\d|100)% of the", auto.form_
    )
    assert full.form_ == f"{len(full.model_.trees)} trees with {full.model_.n_rules:,} rules"


def test_rules_are_16_look_ups_at_most_with_two_entries_at_most_for_each_leaf_of_the_ensemble(sizes):
    rules, full = sizes["rules"].model_, sizes["full"].model_
    assert len(rules.trees) <= 16
    assert rules.n_rules <= 2 * sum(len(tree.leaves) for tree in full.trees)


def test_forms_of_tables_have_no_tree_over_many_features(sizes):
    for size in ("auto", "rules"):
        model = sizes[size].model_
        tables = [large_table(tree, model.bins.n_codes) for tree in model.trees if len(tree.leaves) > 64]
        assert None not in tables
    rows = _distillation_set(sizes["full"])
    (table,) = distill(rows, replace(RULES, stages=(Stage(1, 0.0),))).trees
    (tree,) = distill(rows, replace(RULES, stages=(Stage(1, 0.0),), tables=0)).trees
    assert len(table.leaves) > 64
    assert len(tree.leaves) > 64


def test_max_rules_caps_the_entries_of_every_size():
    frame = biased_clicks(11, 8_000).frame
    for size in ("auto", "full"):
        calibrator = MBCTCalibrator("p", model_size=size, max_rules=128).fit(frame, "y")
        assert 2 <= calibrator.model_.n_rules <= 128


def test_rows_that_stop_on_the_way_count_as_rules():
    frame = biased_clicks(11, 20_000).frame
    rng = np.random.default_rng(1)
    for name in ("device", "night", "site", "age"):
        frame[name] = frame[name].astype(object).where(rng.random(len(frame)) > 0.003, None)
    assert MBCTCalibrator("p", model_size="compact").fit(frame, "y").model_.n_rules <= 256
    tables = MBCTCalibrator("p", model_size="rules").fit(frame, "y").model_
    assert tables.n_rules > sum(len(tree.leaves) for tree in tables.trees)
    assert MBCTCalibrator("p", max_rules=LEAST_RULES).fit(frame, "y").model_.n_rules <= LEAST_RULES


def test_trees_that_are_replaced_in_turn_say_more_of_the_ensemble(sizes):
    rows = _distillation_set(sizes["full"])
    two = replace(COMPACT, stages=(Stage(2, 0.0),))
    added = distill(rows, replace(two, cycles=0))
    replaced = distill(rows, two)
    assert len(added.trees) == len(replaced.trees) == 2
    assert 1.0 - replaced.fidelity < 0.9 * (1.0 - added.fidelity)


def test_rules_count_every_row(sizes):
    model = sizes["compact"].model_
    for number in range(len(model.trees)):
        assert sum(r.rows for r in model.rules() if r.tree == number) == pytest.approx(30_000)


def test_what_cannot_be_reached_is_not_tried():
    assert not _out_of_reach([0.5], TABLES)
    assert _out_of_reach([0.48, 0.56], TABLES)
    assert not _out_of_reach([0.78, 0.85], TABLES)
    assert _out_of_reach([0.76, 0.75], TABLES)


def test_less_is_kept_only_of_an_ensemble_that_is_too_large_to_ship(sizes):
    trees = sizes["full"].model_.trees
    few, many = (_within(TABLES, trees * times, 0, None).stages for times in (1, 10))
    assert sum(map(n_rules, trees)) < 10_000 < 10 * sum(map(n_rules, trees))
    assert many == (*few, LAST_RESORT)


@pytest.mark.parametrize(("size", "most"), [("rules", 16), ("compact", 8)])
def test_what_is_asked_for_is_taken_whatever_it_keeps(sizes, size, most):
    few = replace(sizes["full"].model_, trees=sizes["full"].model_.trees[:20])
    (form,) = _forms(few, Constraints(size), 0)
    assert form.stages[-1].n_trees <= most
    assert form.stages[-1].fidelity == 0.0


@pytest.fixture(scope="module")
def taught():
    data = biased_clicks(3, 6_000)
    model = MBCTCalibrator("p").fit(data.frame.drop(columns="y"), data.y).model_
    codes = encode(read_columns(data.frame), model.bins, data.p)
    return model, build_cells(codes, data.p, data.y, None, model.bins, "score").canonical()


def distillation_set(taught, most, enough):
    model, cells = taught
    ordered = (True,) * len(cells.n_codes)

    def tree_total(codes):
        return sum_trees(model.trees, codes, cells.n_codes)

    return make_distillation_set(cells, ordered, range(len(ordered)), tree_total, most, enough), tree_total


def test_the_ensemble_answers_for_every_row(taught):
    found, tree_total = distillation_set(taught, 400_000, 20_000)
    assert len(found.log_odds) == 20_000
    assert found.label / found.weight == pytest.approx(sigmoid(found.log_odds + tree_total(found.codes)))
    for feature, n_codes in enumerate(taught[1].n_codes):
        real = found.codes[: len(taught[1]), feature]
        assert set(found.codes[:, feature]) <= set(real)
        assert found.codes[:, feature].max() < n_codes


def test_synthetic_rows_are_new_and_never_measure_the_fidelity(taught):
    found, _ = distillation_set(taught, 400_000, 20_000)
    n_real = len(taught[1])
    assert found.held_out_rows(HELD_OUT).max() < n_real
    assert set(found.held_out_rows(HELD_OUT)).isdisjoint(found.train_rows(HELD_OUT))
    real = {row.tobytes() for row in found.codes[:n_real]}
    assert np.mean([row.tobytes() not in real for row in found.codes[n_real:]]) > 0.5
    held_out = {row.tobytes() for row in found.codes[found.held_out_rows(HELD_OUT)]}
    assert np.mean([row.tobytes() in held_out for row in found.codes[n_real:]]) < 0.1
    learnt = found.train_rows(HELD_OUT)
    learnt = learnt[learnt < n_real]
    share = (len(found.weight) - n_real) / len(learnt)
    assert 2.0 < share < 3.0
    assert found.weight[n_real:].sum() == pytest.approx(share * found.weight[learnt].sum())


def test_the_score_moves_with_its_bin(taught):
    found, _ = distillation_set(taught, 400_000, 20_000)
    n_real = len(taught[1])
    lowest = np.full(taught[1].n_codes[0], np.inf)
    highest = -lowest
    np.minimum.at(lowest, found.codes[:n_real, 0], found.log_odds[:n_real])
    np.maximum.at(highest, found.codes[:n_real, 0], found.log_odds[:n_real])
    synthetic = found.codes[n_real:, 0]
    assert np.all(found.log_odds[n_real:] >= lowest[synthetic])
    assert np.all(found.log_odds[n_real:] <= highest[synthetic])


def test_enough_real_rows_need_no_synthetic_ones(taught):
    found, _ = distillation_set(taught, 400_000, 1_000)
    assert len(found.log_odds) == len(taught[1])
    found, _ = distillation_set(taught, 2_000, 1_000)
    assert len(found.log_odds) == 2_000
