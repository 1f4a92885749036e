"""The type of an array of numbers."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
