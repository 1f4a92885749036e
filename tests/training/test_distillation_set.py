import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.data.columns import read_columns
from mbct.data.memory import encode
from mbct.model.masks import summed_steps
from mbct.stats.logodds import sigmoid
from mbct.training.cells import build_cells
from mbct.training.distillation_set import make_distillation_set


@pytest.fixture(scope="module")
def taught():
    data = biased_clicks(3, 6_000)
    model = MBCTCalibrator("p").fit(data.frame.drop(columns="y"), data.y).model_
    codes = encode(read_columns(data.frame), model.bins, data.p)
    return model, build_cells(codes, data.p, data.y, None, model.bins, "score").canonical()


def examples(taught, most, enough):
    model, cells = taught
    ordered = (True,) * len(cells.n_codes)

    def total_step(codes):
        return summed_steps(model.trees, codes, cells.n_codes)

    return make_distillation_set(cells, ordered, range(len(ordered)), total_step, most, enough), total_step


def test_the_ensemble_answers_for_every_row(taught):
    found, total_step = examples(taught, 400_000, 20_000)
    assert len(found.start) == 20_000
    assert found.target == pytest.approx(sigmoid(found.start + total_step(found.codes)))
    assert found.label == pytest.approx(found.count * found.target)
    for feature, n_codes in enumerate(taught[1].n_codes):
        real = found.codes[: len(taught[1]), feature]
        assert set(found.codes[:, feature]) <= set(real)
        assert found.codes[:, feature].max() < n_codes


def test_imagined_rows_are_new_ones_and_never_measure_the_fidelity(taught):
    found, _ = examples(taught, 400_000, 20_000)
    n_real = len(taught[1])
    assert found.held_out_rows.max() < n_real
    assert set(found.held_out_rows).isdisjoint(found.train_rows)
    real = {row.tobytes() for row in found.codes[:n_real]}
    assert np.mean([row.tobytes() not in real for row in found.codes[n_real:]]) > 0.5
    held_out_rows = {row.tobytes() for row in found.codes[found.held_out_rows]}
    assert np.mean([row.tobytes() in held_out_rows for row in found.codes[n_real:]]) < 0.1
    weight = found.count[found.train_rows[found.train_rows < n_real]].sum()
    assert found.count[n_real:].sum() == pytest.approx(3.0 * weight)


def test_the_score_moves_with_its_bin(taught):
    found, _ = examples(taught, 400_000, 20_000)
    n_real = len(taught[1])
    lowest = np.full(taught[1].n_codes[0], np.inf)
    highest = -lowest
    np.minimum.at(lowest, found.codes[:n_real, 0], found.start[:n_real])
    np.maximum.at(highest, found.codes[:n_real, 0], found.start[:n_real])
    synthetic = found.codes[n_real:, 0]
    assert np.all(found.start[n_real:] >= lowest[synthetic])
    assert np.all(found.start[n_real:] <= highest[synthetic])


def test_enough_rows_need_no_imagination(taught):
    found, _ = examples(taught, 400_000, 1_000)
    assert len(found.start) == len(taught[1])
    found, _ = examples(taught, 2_000, 1_000)
    assert len(found.start) == 2_000
