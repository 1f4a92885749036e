import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.data.columns import read_columns
from mbct.data.memory import encode
from mbct.model.masks import summed_steps
from mbct.stats.logodds import sigmoid
from mbct.training.cells import build_cells
from mbct.training.distillation_set import HELD_OUT, make_distillation_set


@pytest.fixture(scope="module")
def taught():
    data = biased_clicks(3, 6_000)
    model = MBCTCalibrator("p").fit(data.frame.drop(columns="y"), data.y).model_
    codes = encode(read_columns(data.frame), model.bins, data.p)
    return model, build_cells(codes, data.p, data.y, None, model.bins, "score").canonical()


def distillation_set(taught, most, enough):
    model, cells = taught
    ordered = (True,) * len(cells.n_codes)

    def total_step(codes):
        return summed_steps(model.trees, codes, cells.n_codes)

    return make_distillation_set(cells, ordered, range(len(ordered)), total_step, most, enough), total_step


def test_the_ensemble_answers_for_every_row(taught):
    found, total_step = distillation_set(taught, 400_000, 20_000)
    assert len(found.log_odds) == 20_000
    assert found.label / found.weight == pytest.approx(sigmoid(found.log_odds + total_step(found.codes)))
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
    weight = found.weight[learnt[learnt < n_real]].sum()
    assert found.weight[n_real:].sum() == pytest.approx(3.0 * weight)


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
