"""Cells: rows with equal codes, reduced to their sums. They add, subtract, fade and thin."""

from mbct.cells.build import build_cells
from mbct.cells.cells import Cells

__all__ = ["Cells", "build_cells"]
