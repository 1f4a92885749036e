"""The largest corrections of a fitted model in words, by the values of its features."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from mbct.model.bins import Feature
    from mbct.model.ensemble import CalibrationEnsemble

_MOST = 3
_FEW_VALUES = 12
_STRETCHES = 8
_LEAST = 0.01  # Relative change below which a correction is not worth a word


@dataclass(frozen=True)
class Correction:
    """How far a model moves the mean prediction of the rows with one value."""

    column: str
    value: str
    rows: float
    ratio: float

    def __str__(self) -> str:
        moved = "raised" if self.ratio > 1 else "lowered"
        return f"{self.value} {moved} by {abs(self.ratio - 1.0):.0%} ({self.rows:,.0f} rows)"


class Moves:
    """Sums of predictions before and after by the codes of every feature in use, added up batch by batch."""

    def __init__(self, model: "CalibrationEnsemble | None"):
        self._model = model if model is not None and model.trees else None
        trees = () if self._model is None else self._model.trees
        self._used = sorted({int(j) for tree in trees for j in set(tree.feature.tolist()) if j > 0})
        self._sums: list[npt.NDArray[np.float64]] = []

    def add(self, batch: Any, y_prob: Any, calibrated: Any, weight: Any) -> None:
        """Add some rows."""
        import numpy as np

        from mbct.data.columns import encode, read_columns

        if self._model is None:
            return
        bins = self._model.bins
        codes = encode(read_columns(batch), bins, y_prob)
        found = [
            np.stack(
                [
                    np.bincount(codes[:, j], amount, bins[j].n_codes).astype(np.float64)
                    for amount in (weight, weight * y_prob, weight * calibrated)
                ]
            )
            for j in self._used
        ]
        self._sums = found if not self._sums else [a + b for a, b in zip(self._sums, found, strict=True)]

    def largest(self) -> tuple[Correction, ...]:
        """The value of each feature whose predictions are moved most in total, the largest three of them."""
        from mbct.model.rules import condition

        found = []
        features = [] if self._model is None else [self._model.bins[j] for j in self._used]
        for feature, (count, before, after) in zip(features, self._sums, strict=bool(self._sums)):
            moves = [
                Correction(
                    feature.name,
                    condition(feature, frozenset(group.tolist())).shortened(1),
                    float(count[group].sum()),
                    float(after[group].sum() / before[group].sum()),
                )
                for group in _groups(feature, count)
                if before[group].sum() > 0 and after[group].sum() > 0
            ]
            if moves:
                found.append(max(moves, key=_size))
        return tuple(sorted((each for each in found if abs(each.ratio - 1) >= _LEAST), key=_size, reverse=True)[:_MOST])


def _size(move: Correction) -> float:
    return move.rows * abs(math.log(move.ratio))


def _groups(feature: "Feature", count: "npt.NDArray[np.float64]") -> "list[npt.NDArray[np.int64]]":
    """Codes that are spoken of together: each value alone, numbers of many values in stretches of like weight."""
    import numpy as np

    from mbct.model.bins import NumberBins

    present = np.flatnonzero(count > 0)
    if not isinstance(feature, NumberBins) or len(present) <= _FEW_VALUES:
        return [np.array([code]) for code in present]
    known = present[present < feature.n_values]
    share = np.cumsum(count[known]) / count[known].sum()
    parts = np.split(known, np.searchsorted(share, np.arange(1, _STRETCHES) / _STRETCHES))
    return [part for part in parts if len(part)]
