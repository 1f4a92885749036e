"""Saved calibrators of every method: what is read back is the same, what is damaged is refused or still calibrates."""

import json

import numpy as np
import pytest

from mbct.calibrators.persistence import dumps, loads
from mbct.errors import MBCTError, ModelFileError
from mutants import mutants
from small_calibrators import SMALL, fitted, rows


@pytest.mark.parametrize("name", SMALL)
def test_damaged_files_are_refused_or_calibrate(name):
    calibrator, frame = fitted(name), rows(name)[0]
    content = dumps(calibrator)
    assert loads(content).calibrate(frame).tolist() == calibrator.calibrate(frame).tolist()
    n_refused = 0
    for mutant in mutants(content, 150, seed=7):
        try:
            calibrated = loads(mutant).calibrate(frame)
        except MBCTError:
            n_refused += 1
            continue
        assert np.all((calibrated >= 0.0) & (calibrated <= 1.0))
    assert n_refused > 30


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("histogram", ["values"], [0.5]),
        ("histogram", ["edges"], "0.5"),
        ("bbq", ["values", 0], 1.5),
        ("isotonic", ["knots"], []),
        ("isotonic", ["values", 0], "0.1"),
        ("centred-isotonic", ["knots", 1], -1.0),
        ("venn-abers", ["negative_rates"], [0.2]),
        ("venn-abers", ["positive_steps", 0], 2.0),
        ("scaling-binning", ["slope"], -1.0),
        ("scaling-binning", ["edges"], [0.5, 0.5]),
        ("platt", ["slope"], True),
        ("platt", ["intercept"], 1e300),
        ("beta", ["a"], -0.5),
        ("temperature", ["temperature"], 0),
        ("spline", ["slopes"], [1.0] * 9),
        ("affine", ["knots"], [[0.0]]),
        ("quadratic", ["slopes", 0], -2.0),
        ("ensemble", ["shares"], [1.0]),
        ("ensemble", ["shares"], [0.5, 0.5, 0.5, 0.5]),
        ("ensemble", ["members", 1], {}),
        ("ensemble", ["names", 0], "mbct"),
        ("dirichlet", ["weights"], [[1.0]]),
        ("dirichlet", ["weights", 0], [1.0, 0.0]),
        ("dirichlet", ["intercept", 0], None),
        ("matrix-scaling", ["intercept"], [0.0, 0.0]),
        ("matrix-scaling", ["inverse_temperature"], "1"),
        ("matrix-scaling", ["inverse_temperature"], 1e8),
        ("matrix-scaling", ["uniform"], 1.5),
        ("dirichlet", ["classes"], ["x", "y"]),
        ("dirichlet", ["classes"], ["x", "x", "z"]),
        ("dirichlet", ["classes"], ["x", 1, "z"]),
        ("mbct-multiclass", ["classes"], [1, 2, 10**400]),
        ("mbct-multiclass", ["trees"], [[], []]),
        ("mbct-multiclass", ["features"], []),
        ("segment", ["field"], "region"),
        ("segment", ["field"], 0),
        ("segment", ["segments"], []),
        ("segment", ["segments", "a"], {"slope": 1.0}),
        ("segment", ["fallback", "slope"], [1.0]),
    ],
)
def test_shapes_and_types_of_the_state_are_checked(name, place, value):
    document = json.loads(dumps(fitted(name)))
    holder = document["state"]
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    with pytest.raises(ModelFileError, match="is damaged"):
        loads(json.dumps(document).encode())


def test_each_class_of_one_against_the_rest_is_checked():
    calibrator, frame = fitted("mbct-multiclass", coupling="one-vs-rest"), rows("mbct-multiclass")[0]
    content = dumps(calibrator)
    assert loads(content).calibrate(frame).tolist() == calibrator.calibrate(frame).tolist()
    for change in (lambda each: each.pop(), lambda each: each.reverse(), lambda each: each[0].update(columns="a")):
        document = json.loads(content)
        change(document["state"]["each"])
        with pytest.raises(ModelFileError, match="is damaged"):
            loads(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("positive", 2),
        ("positive", True),
        ("classes", [1]),
        ("classes", "ab"),
        ("score_column", []),
        ("score_column", 1),
    ],
)
def test_the_head_is_checked(key, value):
    document = json.loads(dumps(fitted("platt")))
    document[key] = value
    with pytest.raises(ModelFileError, match=f"is damaged: {key} is"):
        loads(json.dumps(document).encode())
