"""Corrections for many tests at once."""

import numpy as np

from mbct.validation import FloatArray


def holm(p_values: FloatArray) -> FloatArray:
    """Holm's step-down p-values: the chance of even one false alarm stays below the level, whatever the dependence.

    >>> import numpy as np
    >>> holm(np.array([0.01, 0.04, 0.03])).round(6).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factor = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factor), 1.0)
    return adjusted


def benjamini_hochberg(p_values: FloatArray) -> FloatArray:
    """Step-up p-values: the expected share of false alarms among all alarms stays below the level.

    >>> import numpy as np
    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03])).round(6).tolist()
    [0.03, 0.04, 0.04]
    """
    order = np.argsort(-p_values, kind="stable")
    factor = len(p_values) / (len(p_values) - np.arange(len(p_values)))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.minimum.accumulate(p_values[order] * factor), 1.0)
    return adjusted


CORRECTIONS = {"holm": holm, "benjamini-hochberg": benjamini_hochberg}
"""Corrections by name."""
