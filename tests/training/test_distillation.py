import re
from dataclasses import replace

import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.calibrators.inputs import training_data
from mbct.model.masks import summed_steps
from mbct.training.distillation import COMPACT, RULES, TABLES, _out_of_reach, distill
from mbct.training.distillation_set import make_distillation_set


@pytest.fixture(scope="module")
def sizes():
    frame = biased_clicks(11, 30_000).frame
    return {size: MBCTCalibrator("p", model_size=size).fit(frame, "y") for size in ("full", "auto", "rules", "compact")}


def _distillation_set(full):
    frame = biased_clicks(11, 30_000).frame
    data = training_data(frame.drop(columns="y"), frame["y"], None, None, "p")
    bins, cells = full.binned_cells(data, full.config())
    ordered = tuple(feature.ordered for feature in bins)

    def total_step(codes):
        return summed_steps(full.model_.trees, codes, cells.n_codes)

    return make_distillation_set(cells, ordered, range(len(ordered)), total_step, 200_000, 200_000)


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


def test_rules_are_16_look_ups_at_most_with_fewer_leaves_than_the_ensemble(sizes):
    rules, full = sizes["rules"].model_, sizes["full"].model_
    assert len(rules.trees) <= 16
    assert rules.n_rules < full.n_rules


def test_tables_and_trees_compete(sizes):
    rows = _distillation_set(sizes["full"])
    wide = replace(RULES, stages=(1,), growth=RULES.growth._replace(max_leaves=2))
    (table,) = distill(rows, wide).trees
    (tree,) = distill(rows, replace(wide, growth=RULES.growth, table_growth=wide.growth)).trees
    assert len(table.leaves) > 2
    assert len(np.unique(table.feature[table.feature >= 0])) <= 3
    assert len(tree.leaves) > 2


def test_max_rules_caps_the_entries_of_every_size():
    frame = biased_clicks(11, 8_000).frame
    for size in ("auto", "full"):
        calibrator = MBCTCalibrator("p", model_size=size, max_rules=128).fit(frame, "y")
        assert 2 <= calibrator.model_.n_rules <= 128


def test_trees_that_are_replaced_in_turn_say_more_of_the_ensemble(sizes):
    rows = _distillation_set(sizes["full"])
    two = replace(COMPACT, stages=(2,))
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
    assert _out_of_reach([0.58, 0.66], TABLES)
    assert not _out_of_reach([0.84, 0.88], TABLES)
    assert _out_of_reach([0.89, 0.88], TABLES)
