"""The codes of all features numbered in one row, feature after feature: how histograms and tables are laid out."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def code_offsets(n_codes: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each feature's codes begin, and at the end the number of all codes.

    Code c of feature j stands at ``code_offsets(n_codes)[j] + c``.

    >>> code_offsets((4, 3, 5)).tolist()
    [0, 4, 7, 12]
    """
    offsets = np.zeros(len(n_codes) + 1, dtype=np.int64)
    np.cumsum(n_codes, out=offsets[1:])
    return offsets
