"""Cells on disk by day, crash-safe and shared by many writers, and a registry of the models that were fitted."""

from mbct.store.cell_file import cells_of_rows
from mbct.store.cell_store import CellStore, DroppedDayError, Window
from mbct.store.model_registry import ModelRegistry, ModelVersion
from mbct.training.cells import Cells

__all__ = ["CellStore", "Cells", "DroppedDayError", "ModelRegistry", "ModelVersion", "Window", "cells_of_rows"]
