import subprocess
import sys

import pytest

import mbct.metrics as metrics


def test_importing_the_package_loads_no_metric():
    loaded = "import sys, mbct.metrics; print([m for m in sys.modules if m in ('numpy', 'numba', 'sklearn', 'scipy')])"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_public_name_is_a_documented_function():
    assert len(metrics.__all__) == 31
    for name in metrics.__all__:
        assert getattr(metrics, name).__doc__
        assert name in dir(metrics)


def test_unknown_names_are_no_attributes():
    with pytest.raises(AttributeError, match=r"module 'mbct.metrics' has no attribute 'eec'"):
        metrics.eec  # noqa: B018 - the look-up itself must raise
