"""What few trees learn a large ensemble from: its own probabilities, of real cells and of imagined rows.

Labels can be had for real rows only, but an ensemble answers for any row. Where real ones are few, trees would learn
it by heart there and miss it elsewhere; rows that take some of their values from another row fill the space between
(model compression by synthetic rows: Buciluă, Caruana and Niculescu-Mizil, 2006).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mbct.model.bins import CodeMatrix, code_offsets
from mbct.stats.logodds import sigmoid
from mbct.training.cells import Cells
from mbct.validation import FloatArray

_LEFT_OUT = 5
"""One cell in five is left out of growth and measures the fidelity."""
_SHARE_TAKEN = 0.3
"""Share of an imagined row's values that come from the other row."""
_IMAGINED_MASS = 3.0
"""Mass of all imagined rows beside that of the real ones that trees are grown on."""


@dataclass(frozen=True)
class Lesson:
    """Cells to learn from: codes, starting log-odds, mass, the ensemble's probability and expected positives.

    ``grown_on`` numbers those that trees are grown on, ``left_out`` the real ones that measure the fidelity.
    """

    codes: CodeMatrix
    start: FloatArray
    count: FloatArray
    target: FloatArray
    label: FloatArray
    grown_on: npt.NDArray[np.int32]
    left_out: npt.NDArray[np.intp]
    offset: npt.NDArray[np.int64]
    ordered: npt.NDArray[np.bool_]
    usable: npt.NDArray[np.int64]


def lesson_of(
    cells: Cells,
    ordered: tuple[bool, ...],
    usable: Sequence[int],
    total_step: Callable[[CodeMatrix], FloatArray],
    most: int,
    enough: int,
) -> Lesson:
    """A lesson of at most so many cells, the first ones: they must be in canonical order, which is a random one.

    What they lack to be ``enough`` is imagined.
    """
    chosen = cells.select(np.arange(min(len(cells), most)))
    start, count = chosen.sums.logit / chosen.sums.count, chosen.sums.count
    target = sigmoid(start + total_step(chosen.codes))
    held = np.arange(len(chosen)) % _LEFT_OUT == _LEFT_OUT - 1
    lesson = Lesson(
        chosen.codes,
        start,
        count,
        target,
        count * target,
        np.flatnonzero(~held).astype(np.int32),
        np.flatnonzero(held),
        code_offsets(cells.n_codes),
        np.array(ordered, dtype=np.bool_),
        np.array(usable, dtype=np.int64),
    )
    missing = enough - len(chosen)
    return lesson if missing <= 0 else _with_imagined(lesson, missing, total_step)


def _with_imagined(lesson: Lesson, n_rows: int, total_step: Callable[[CodeMatrix], FloatArray]) -> Lesson:
    """The lesson with rows that have each value, or the score, from one real row or from another."""
    rng = np.random.default_rng(0)
    one = lesson.grown_on[np.arange(n_rows) % len(lesson.grown_on)]
    other = lesson.grown_on[rng.integers(0, len(lesson.grown_on), n_rows)]
    codes = lesson.codes[one]
    for feature in range(codes.shape[1]):
        taken = rng.random(n_rows) < _SHARE_TAKEN
        codes[taken, feature] = lesson.codes[other[taken], feature]
        if feature == 0:
            start = np.where(taken, lesson.start[other], lesson.start[one])
    count = lesson.count[one]
    count *= _IMAGINED_MASS * lesson.count[lesson.grown_on].sum() / count.sum()
    target = sigmoid(start + total_step(codes))
    imagined = np.arange(len(lesson.start), len(lesson.start) + n_rows, dtype=np.int32)
    return replace(
        lesson,
        codes=np.concatenate([lesson.codes, codes]),
        start=np.concatenate([lesson.start, start]),
        count=np.concatenate([lesson.count, count]),
        target=np.concatenate([lesson.target, target]),
        label=np.concatenate([lesson.label, count * target]),
        grown_on=np.concatenate([lesson.grown_on, imagined]),
    )
