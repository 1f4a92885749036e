"""Calibration methods behind one interface."""

from mbct.calibrators.registry import available, make

__all__ = ["available", "make"]
