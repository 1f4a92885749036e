"""The fast preset: fewer, larger trees, not distilled, and still a gain on rows it has not seen."""

import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.errors import ParameterError
from mbct.training.trainer import PRESETS, preset


def log_loss(p, y):
    return float(-np.mean(y * np.log(p) + (1 - y) * np.log1p(-p)))


def test_fast_learns_most_of_what_the_default_learns():
    fitting, held_out = biased_clicks(0, 20_000), biased_clicks(1, 20_000)
    loss = {}
    for name in ("default", "fast"):
        model = MBCTCalibrator("p", preset=name).fit(fitting.frame.drop(columns="y"), fitting.y)
        loss[name] = log_loss(model.calibrate(held_out.frame.drop(columns="y")), held_out.y)
    base = log_loss(np.clip(held_out.p, 1e-9, 1 - 1e-9), held_out.y)
    assert base - loss["fast"] > 0.8 * (base - loss["default"]) > 0
    assert model.fidelity_ == 1.0


def test_fast_takes_the_options_of_the_default_and_none_of_the_paper():
    assert preset("fast", {"n_folds": 2}).growth.n_folds == 2
    assert PRESETS["fast"].link == PRESETS["default"].link
    with pytest.raises(ParameterError, match="max_depth=3 has no meaning with preset='fast'"):
        preset("fast", {"max_depth": 3})


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("default", {"max_trees": "many"}, "max_trees='many' is text: pass a number"),
        ("fast", {"rate": "0.1"}, "learning_rate='0.1' is text: pass a number"),
        ("default", {"numeric_bins": "64"}, "numeric_bins='64' is text: pass a number"),
        ("paper", {"alpha": "low"}, "alpha='low' is text: pass a number"),
        ("paper", {"min_bin_size": "bounds"}, "min_bin_size='bounds' must be at least 2 rows, or 'bound'"),
    ],
)
def test_text_where_a_number_belongs_is_named(name, given, message):
    with pytest.raises(ParameterError, match=message):
        preset(name, given)
