from dataclasses import replace

import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.calibrators.inputs import training_data
from mbct.model.masks import summed_steps
from mbct.training.distillation import COMPACT, DistillationOptions, _extrapolated, distill, smaller_than


@pytest.fixture(scope="module")
def sizes():
    frame = biased_clicks(11, 30_000).frame
    return {size: MBCTCalibrator("p", model_size=size).fit(frame, "y") for size in ("full", "auto", "compact")}


def test_compact_fits_a_cache(sizes):
    model = sizes["compact"].model_
    assert len(model.trees) <= 8
    assert model.n_rules <= 256


def test_distilled_models_keep_the_correction(sizes):
    test = biased_clicks(111, 30_000)
    error = {size: np.sqrt(np.mean((c.calibrate(test.frame) - test.truth) ** 2)) for size, c in sizes.items()}
    before = np.sqrt(np.mean((test.p - test.truth) ** 2))
    assert before - error["auto"] > 0.97 * (before - error["full"])
    assert before - error["compact"] > 0.85 * (before - error["full"])


def test_auto_is_never_larger_than_the_ensemble(sizes):
    assert sizes["auto"].model_.n_rules <= sizes["full"].model_.n_rules
    assert 0.97 <= sizes["auto"].fidelity_ <= 1.0
    assert sizes["full"].fidelity_ == 1.0


def test_trees_that_are_replaced_in_turn_say_more_of_the_ensemble(sizes):
    frame = biased_clicks(11, 30_000).frame
    full = sizes["full"]
    data = training_data(frame.drop(columns="y"), frame["y"], None, None, "p")
    bins, cells = full.binned_cells(data, full.config())

    def total_step(codes):
        return summed_steps(full.model_.trees, codes, cells.n_codes)

    two = replace(COMPACT, stages=(2,))
    ordered = tuple(feature.ordered for feature in bins)
    added = distill(cells, ordered, total_step, replace(two, cycles=0))
    replaced = distill(cells, ordered, total_step, two)
    assert len(added.trees) == len(replaced.trees) == 2
    assert 1.0 - replaced.fidelity < 0.9 * (1.0 - added.fidelity)


def test_rules_count_every_row(sizes):
    model = sizes["compact"].model_
    for number in range(len(model.trees)):
        assert sum(r.rows for r in model.rules() if r.tree == number) == pytest.approx(30_000)


def test_small_ensembles_are_left_alone():
    assert smaller_than(200) is None
    options = smaller_than(1000)
    assert isinstance(options, DistillationOptions)
    assert max(options.stages) * options.growth.max_leaves < 1000


def test_what_cannot_be_reached_is_extrapolated():
    options = DistillationOptions()
    assert _extrapolated([0.9], options) == 1.0
    assert _extrapolated([0.58, 0.66], options) < options.least_fidelity
    assert _extrapolated([0.9075, 0.9373, 0.9604], options) > options.least_fidelity
    assert _extrapolated([0.90, 0.90], options) == pytest.approx(0.92)
    assert _extrapolated([0.90, 0.89], options) == pytest.approx(1.0 - 0.8 * 0.11)
