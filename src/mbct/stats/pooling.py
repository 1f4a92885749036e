"""Pool adjacent violators: the best non-decreasing fit to a sequence of weighted means."""

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.validation import FloatArray


@kernel
def pooled_blocks(count: FloatArray, label: FloatArray) -> npt.NDArray[np.int64]:
    """Starts of the blocks of the isotonic fit to label/count; neighbours that are equal stay apart.

    >>> import numpy as np
    >>> pooled_blocks(np.ones(4), np.array([0.0, 1.0, 0.0, 1.0])).tolist()
    [0, 1, 3]
    """
    n = len(count)
    start = np.empty(n, dtype=np.int64)
    weight = np.empty(n)
    total = np.empty(n)
    last = -1
    for i in range(n):
        last += 1
        start[last] = i
        weight[last] = count[i]
        total[last] = label[i]
        while last > 0 and total[last - 1] * weight[last] > total[last] * weight[last - 1]:
            weight[last - 1] += weight[last]
            total[last - 1] += total[last]
            last -= 1
    return start[: last + 1].copy()
