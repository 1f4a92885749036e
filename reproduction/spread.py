"""Mean of repetitions and how sure one can be of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation and number of repetitions; ``factor`` makes of the deviation the mean's own."""

    mean: float
    deviation: float
    n: int
    factor: float

    @property
    def half_width(self) -> float:
        """Half of the mean's 95 % interval, by Student's t."""
        if self.n < 2:
            return float("nan")
        return float(stats.t.ppf(0.975, self.n - 1)) * self.deviation * self.factor

    @property
    def is_sure(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.n > 1 and abs(self.mean) > self.half_width

    def text(self, digits: int, *, scale: float = 1.0, sign: bool = False) -> str:
        """Mean ± half width.

        >>> Spread(0.5, 0.1, 1, 1.0).text(2)
        '0.50'
        """
        plus = "+" if sign else ""
        mean = f"{self.mean * scale:{plus}.{digits}f}"
        return mean if self.n < 2 else f"{mean} ± {self.half_width * scale:.{digits}f}"


def spread(values: Sequence[float]) -> Spread:
    """Summary of independent repetitions.

    >>> spread([1.0, 3.0]).mean
    2.0
    """
    mean, deviation = _moments(values)
    return Spread(mean, deviation, len(values), len(values) ** -0.5)


def resplit_spread(values: Sequence[float], test_to_training: float) -> Spread:
    """Summary of random splits of the same rows, which are not independent.

    The variance of the mean is (1/n + test rows / training rows)·s² (Nadeau and Bengio, 2003).
    """
    mean, deviation = _moments(values)
    return Spread(mean, deviation, len(values), (1.0 / len(values) + test_to_training) ** 0.5)


def bootstrap_spread(value: float, resampled: Sequence[float]) -> Spread:
    """A value with the deviation that resampling its rows gives; too few resamples give none."""
    _, deviation = _moments(resampled) if len(resampled) > 1 else (value, 0.0)
    return Spread(value, deviation, max(len(resampled), 1), 1.0)


def _moments(values: Sequence[float]) -> tuple[float, float]:
    found = np.asarray(values, dtype=np.float64)
    return float(found.mean()), float(found.std(ddof=1)) if len(found) > 1 else 0.0
