"""Mean of repetitions and the range in which a single one falls."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation and number of repetitions."""

    mean: float
    deviation: float
    n: int

    def half_width(self, *, of_mean: bool) -> float:
        """Half of the 95 % interval, by Student's t: of the mean, or of a single repetition.

        Repetitions that share rows are no independent draws, so for them only the latter is honest.
        """
        if self.n < 2:
            return float("nan")
        t = float(stats.t.ppf(0.975, self.n - 1))
        return t * self.deviation / (self.n**0.5 if of_mean else 1.0)

    def text(self, digits: int, *, of_mean: bool = False, scale: float = 1.0, sign: bool = False) -> str:
        """Mean ± half width.

        >>> Spread(0.5, 0.1, 1).text(2)
        '0.50'
        """
        plus = "+" if sign else ""
        mean = f"{self.mean * scale:{plus}.{digits}f}"
        return mean if self.n < 2 else f"{mean} ± {self.half_width(of_mean=of_mean) * scale:.{digits}f}"


def spread(values: Sequence[float]) -> Spread:
    """Summary of repetitions.

    >>> spread([1.0, 3.0]).mean
    2.0
    """
    found = np.asarray(values, dtype=np.float64)
    return Spread(float(found.mean()), float(found.std(ddof=1)) if len(found) > 1 else 0.0, len(found))
