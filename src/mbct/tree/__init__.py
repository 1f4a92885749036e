"""One calibration tree: histograms, split search, growth, and the frozen flat tree that is left."""

from mbct.tree.model import CalibrationTree

__all__ = ["CalibrationTree"]
