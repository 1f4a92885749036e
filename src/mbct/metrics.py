"""The public metrics, which live in :mod:`mbct.evaluation.metrics`: ``from mbct.metrics import ece``."""

from mbct.evaluation import metrics as _metrics
from mbct.lazy import lazy_names

__all__ = _metrics.__all__  # a list, made from the same names
__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(_metrics.__all__, "mbct.evaluation.metrics"))
