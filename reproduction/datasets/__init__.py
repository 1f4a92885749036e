"""The data sets: two of the paper's three as samples or whole, its third from the authors' file, and three of ours."""

from reproduction.datasets.dataset import Dataset
from reproduction.datasets.registry import LOADERS, load, present

__all__ = ["LOADERS", "Dataset", "load", "present"]
