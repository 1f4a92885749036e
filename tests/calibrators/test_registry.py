import subprocess
import sys
from pathlib import Path

import pytest

import mbct.calibrators
from mbct.calibrators import available, calibrator_class, make
from mbct.calibrators.registry import METHODS
from mbct.errors import ParameterError

NAMED_IN_THE_DOCUMENTATION = {
    "identity",
    "platt",
    "temperature",
    "affine",
    "quadratic",
    "spline",
    "beta",
    "histogram",
    "isotonic",
    "centred-isotonic",
    "scaling-binning",
    "bbq",
    "venn-abers",
    "dirichlet",
    "matrix-scaling",
    "ensemble",
    "segment",
    "lightgbm",
    "mbct",
    "mbct-multiclass",
}


def test_all_methods_are_registered():
    assert available() == sorted(NAMED_IN_THE_DOCUMENTATION)


@pytest.mark.parametrize("name", sorted(NAMED_IN_THE_DOCUMENTATION))
def test_a_name_leads_to_its_class_and_back(name):
    cls = calibrator_class(name)
    assert cls.method == name
    assert isinstance(make(name), cls)
    assert getattr(mbct.calibrators, cls.__name__) is cls
    assert cls.__name__ in mbct.calibrators.__all__
    assert METHODS[name] == (cls.__module__, cls.__name__)
    assert not cls.strict or cls.monotone


@pytest.mark.parametrize("name", available())
def test_the_page_of_methods_says_what_the_class_says(name):
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    cls = calibrator_class(name)
    assert f"### `{name}`" in page
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` | `{cls.__name__}` |"))
    _, _, _, monotone, strict, _, features, *_ = (cell.strip() for cell in row.split("|"))
    depends = {"ensemble": "with its default members", "segment": "within a segment"}
    assert monotone == depends.get(name, "yes" if cls.monotone else "no")
    assert strict == ("yes" if cls.strict else "no")
    assert (features == "no") != cls.feature_aware


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ParameterError, match="unknown method 'x'; available are affine, bbq, beta, centred-isotonic"):
        make("x")
    with pytest.raises(AttributeError, match="no attribute 'NoSuchCalibrator'"):
        mbct.calibrators.NoSuchCalibrator  # noqa: B018 - the look-up itself must raise


def test_listing_the_methods_imports_none_of_them():
    code = (
        "import sys, mbct, mbct.calibrators as c; c.available(); dir(c); dir(mbct); "
        "print([m for m in ('sklearn', 'scipy', 'lightgbm', 'rich', 'pandas', 'polars', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
