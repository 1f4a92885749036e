"""How much a calibration reorders: the share of pairs that it puts the other way round."""

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.validation import FloatArray


def reorder_rate(before: FloatArray, after: FloatArray) -> float:
    """Share of the pairs that ``before`` tells apart whose order ``after`` turns round; ties after do not count.

    >>> import numpy as np
    >>> reorder_rate(np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.4, 0.3]))
    0.3333333333333333
    """
    order = np.lexsort((after, before))
    first = before[order]
    run = np.diff(np.flatnonzero(np.concatenate([[True], first[1:] != first[:-1], [True]])))
    told_apart = 0.5 * (len(order) * (len(order) - 1.0) - float(np.sum(run * (run - 1.0))))
    if told_apart <= 0.0:
        return 0.0
    # Rows equal before stand in rising order of after, so no pair of them is an inversion.
    return _inversions(after[order]) / told_apart


@kernel
def _inversions(values: FloatArray) -> float:
    """Pairs i < j with values[i] > values[j], counted while merging sorted runs of doubling length."""
    current = values.copy()
    merged = np.empty_like(current)
    total = 0.0
    width = 1
    while width < len(current):
        for start in range(0, len(current), 2 * width):
            total += _merge(
                current, merged, start, min(start + width, len(current)), min(start + 2 * width, len(current))
            )
        current, merged = merged, current
        width *= 2
    return total


@kernel
def _merge(values: FloatArray, out: npt.NDArray[np.float64], start: int, middle: int, end: int) -> float:
    total = 0.0
    left = start
    right = middle
    for t in range(start, end):
        if left < middle and (right >= end or values[left] <= values[right]):
            out[t] = values[left]
            left += 1
        else:
            out[t] = values[right]
            total += middle - left
            right += 1
    return total
