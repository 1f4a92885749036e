"""Cells on disk by day, crash-safe and shared by many writers, and the models that were fitted on them."""

from mbct.store.cell_store import CellStore, Window
from mbct.store.model_shelf import ModelShelf

__all__ = ["CellStore", "ModelShelf", "Window"]
