import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.data.columns import read_columns
from mbct.data.memory import encode
from mbct.model.masks import summed_steps
from mbct.stats.logodds import sigmoid
from mbct.training.cells import build_cells
from mbct.training.distillation_set import lesson_of


@pytest.fixture(scope="module")
def taught():
    data = biased_clicks(3, 6_000)
    model = MBCTCalibrator("p").fit(data.frame.drop(columns="y"), data.y).model_
    codes = encode(read_columns(data.frame), model.bins, data.p)
    return model, build_cells(codes, data.p, data.y, None, model.bins, "score").canonical()


def lesson(taught, most, enough):
    model, cells = taught
    ordered = (True,) * len(cells.n_codes)

    def total_step(codes):
        return summed_steps(model.trees, codes, cells.n_codes)

    return lesson_of(cells, ordered, range(len(ordered)), total_step, most, enough), total_step


def test_the_ensemble_answers_for_every_row(taught):
    found, total_step = lesson(taught, 400_000, 20_000)
    assert len(found.start) == 20_000
    assert found.target == pytest.approx(sigmoid(found.start + total_step(found.codes)))
    assert found.label == pytest.approx(found.count * found.target)
    for feature, n_codes in enumerate(taught[1].n_codes):
        real = found.codes[: len(taught[1]), feature]
        assert set(found.codes[:, feature]) <= set(real)
        assert found.codes[:, feature].max() < n_codes


def test_imagined_rows_are_new_ones_and_never_measure_the_fidelity(taught):
    found, _ = lesson(taught, 400_000, 20_000)
    n_real = len(taught[1])
    assert found.left_out.max() < n_real
    assert set(found.left_out).isdisjoint(found.grown_on)
    real = {row.tobytes() for row in found.codes[:n_real]}
    assert np.mean([row.tobytes() not in real for row in found.codes[n_real:]]) > 0.5
    left_out = {row.tobytes() for row in found.codes[found.left_out]}
    assert np.mean([row.tobytes() in left_out for row in found.codes[n_real:]]) < 0.1
    mass = found.count[found.grown_on[found.grown_on < n_real]].sum()
    assert found.count[n_real:].sum() == pytest.approx(3.0 * mass)


def test_the_score_moves_with_its_bin(taught):
    found, _ = lesson(taught, 400_000, 20_000)
    n_real = len(taught[1])
    lowest = np.full(taught[1].n_codes[0], np.inf)
    highest = -lowest
    np.minimum.at(lowest, found.codes[:n_real, 0], found.start[:n_real])
    np.maximum.at(highest, found.codes[:n_real, 0], found.start[:n_real])
    imagined = found.codes[n_real:, 0]
    assert np.all(found.start[n_real:] >= lowest[imagined])
    assert np.all(found.start[n_real:] <= highest[imagined])


def test_enough_rows_need_no_imagination(taught):
    found, _ = lesson(taught, 400_000, 1_000)
    assert len(found.start) == len(taught[1])
    found, _ = lesson(taught, 2_000, 1_000)
    assert len(found.start) == 2_000
