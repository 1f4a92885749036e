"""Cells on disk by day, crash-safe and shared by many writers, and the models that were fitted on them."""

from mbct.store.cell_store import CellStore, Window, cells_of_rows
from mbct.store.model_shelf import ModelShelf
from mbct.training.cells import Cells

__all__ = ["CellStore", "Cells", "ModelShelf", "Window", "cells_of_rows"]
