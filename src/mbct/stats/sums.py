"""The sums that stand for a set of rows: everything the trees need follows from them.

========== ============ ==============================================
sum        formula      meaning
========== ============ ==============================================
count      Σw           rows, or their weights
label      Σw·y         positives
pred       Σw·p         predicted positives
pred2      Σw·p²        for the squared residual
pred_label Σw·p·y       for the squared residual
logit      Σw·logit(p)  for the ``odds`` link
========== ============ ==============================================

Sums add, subtract and fade; multiplying every prediction by k (a boosting round) keeps them closed.
"""

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mbct.stats.logodds import logit
from mbct.validation import FloatArray


@dataclass(frozen=True)
class Sums:
    """Six aligned arrays (or scalars): one entry for each set of rows."""

    count: FloatArray
    label: FloatArray
    pred: FloatArray
    pred2: FloatArray
    pred_label: FloatArray
    logit: FloatArray

    @classmethod
    def of_rows(cls, y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> Self:
        """Every row a set of its own.

        >>> import numpy as np
        >>> rows = Sums.of_rows(np.array([0.5, 0.25]), np.array([1.0, 0.0]), np.ones(2))
        >>> float(rows.total().pred2), float(rows.total().pred_label)
        (0.3125, 0.5)
        """
        weighted = weight * y_prob
        return cls(weight, weight * y_true, weighted, weighted * y_prob, weighted * y_true, weight * logit(y_prob))

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    def __len__(self) -> int:
        return len(self.count)

    def scaled(self, factor: float) -> Self:
        """Every row counts ``factor`` times: how old days fade."""
        return type(self)(*(getattr(self, f.name) * factor for f in fields(self)))

    def divided(self, amount: float) -> Self:
        """Every row counts as one of ``amount``; what is a multiple of it divides exactly."""
        return type(self)(*(getattr(self, f.name) / amount for f in fields(self)))

    def take(self, index: object) -> Self:
        """The sets at ``index`` (anything numpy accepts)."""
        return type(self)(*(getattr(self, f.name)[index] for f in fields(self)))

    def total(self) -> Self:
        """One set of all rows."""
        return type(self)(*(np.sum(getattr(self, f.name), axis=0) for f in fields(self)))

    def grouped(self, group: npt.NDArray[np.integer[Any]], n_groups: int) -> Self:
        """Sets joined by their group number, 0 … n_groups − 1."""
        return type(self)(
            *(np.bincount(group, getattr(self, f.name), n_groups).astype(np.float64) for f in fields(self))
        )

    def multiplied(self, multiplier: FloatArray) -> Self:
        """Predictions multiplied by k: pred·k, pred2·k², pred_label·k (linear link, g_b(f) = k_b·f)."""
        k = multiplier
        moved = np.asarray(self.logit + self.count * np.log(k), dtype=np.float64)
        return type(self)(self.count, self.label, self.pred * k, self.pred2 * k * k, self.pred_label * k, moved)

    def residual(self) -> FloatArray:
        """Σw(p − y)."""
        return np.asarray(self.pred - self.label, dtype=np.float64)

    def squared_residual(self) -> FloatArray:
        """Σw(p − y)² = pred2 − 2·pred_label + label, as y² = y."""
        return np.asarray(self.pred2 - 2.0 * self.pred_label + self.label, dtype=np.float64)
