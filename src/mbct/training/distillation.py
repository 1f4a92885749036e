"""Distillation: a large ensemble said again in few trees, so that rules, SQL and the cache stay small.

The trees are grown on the ensemble's own probabilities, which carry no label noise, also of imagined rows where real
ones are few, and their steps are then refitted jointly by Newton passes. How well they speak for the ensemble is
measured on rows they were not grown on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mbct.model.bins import CodeMatrix
from mbct.model.masks import summed_steps
from mbct.model.tree import CalibrationTree, IntArray, rounded
from mbct.stats.logodds import sigmoid
from mbct.training.cells import Cells
from mbct.training.distillation_set import Lesson, lesson_of
from mbct.training.grower import HonestGrowth, grow_honest
from mbct.training.histogram import gradients
from mbct.training.leaf_values import move, newton_sums, stops, with_sums
from mbct.validation import FloatArray

_HOPE = 0.8
"""What is missing may turn out so much less than foreseen."""
_LARGEST_STEP = 1.0
"""Newton steps of one pass are held inside this."""
_PASSES_TO_JUDGE = 3
"""Newton passes after which a new tree is judged."""
_ROUNDING = 1e-9
"""Share of what is missed by which a tree must do better, so that rounding cannot choose."""
_WORTH_ANOTHER = 0.99
"""Another turn through the trees is worth its time where the last one left less than this share of what was missed."""


DISTILLED_GROWTH = HonestGrowth(max_leaves=32, tau=2.0, min_curvature=3.0, rate=0.5, honest=False)


@dataclass(frozen=True)
class DistilOptions:
    """``stages``: numbers of trees after which the fidelity is measured; the first that reaches ``fidelity`` is kept.

    ``least_fidelity``: below it at the last stage the ensemble is kept whole, and the rest is not tried where that
    is to be foreseen. ``cycles``: how often at most each tree is grown anew beside all the others.
    Below ``enough_cells`` rows are imagined beside the real ones.
    """

    stages: tuple[int, ...] = (8, 16, 32, 64, 96)
    fidelity: float = 0.985
    least_fidelity: float = 0.97
    passes: int = 6
    cycles: int = 0
    ridge: float = 1.0
    most_cells: int = 400_000
    enough_cells: int = 100_000
    growth: HonestGrowth = DISTILLED_GROWTH


COMPACT = DistilOptions(
    stages=(8,),
    least_fidelity=0.0,
    passes=10,
    cycles=6,
    ridge=0.2,
    enough_cells=200_000,
    growth=DISTILLED_GROWTH._replace(rate=0.3, tau=0.2, min_curvature=1.0),
)
"""At most 8 trees of 32 leaves, 256 rules: for people to read and a cache to hold."""


def smaller_than(n_rules: int) -> DistilOptions | None:
    """Options whose every stage has fewer rules than the ensemble; None where it is small already."""
    leaves = DISTILLED_GROWTH.max_leaves
    stages = tuple(stage for stage in DistilOptions.stages if stage * leaves < n_rules)
    return replace(DistilOptions(), stages=stages) if stages else None


def is_compact(trees: Sequence[CalibrationTree], most: int) -> bool:
    """Whether there are at most so many trees, with no more leaves than so many distilled ones."""
    return len(trees) <= most and sum(len(tree.leaves) for tree in trees) <= most * DISTILLED_GROWTH.max_leaves


@dataclass(frozen=True)
class Distilled:
    """All the trees, and the share of the ensemble's correction that they keep on cells they were not grown on."""

    trees: tuple[CalibrationTree, ...]
    fidelity: float


def distil(
    cells: Cells,
    ordered: tuple[bool, ...],
    total_step: Callable[[CodeMatrix], FloatArray],
    options: DistilOptions,
    on_tree: Callable[[int], None] = lambda _: None,
    usable: Sequence[int] | None = None,
    kept: tuple[CalibrationTree, ...] = (),
) -> Distilled:
    """Trees that say what ``total_step`` says, after the trees ``kept``, which come first.

    Cells must be in canonical order, which is a random one. ``usable`` numbers the features that trees may split by,
    all by default.
    """
    features = range(len(ordered)) if usable is None else usable
    lesson = lesson_of(cells, ordered, features, total_step, options.most_cells, options.enough_cells)
    said = _Said(lesson, lesson.start + summed_steps(kept, lesson.codes, cells.n_codes), options)
    reached: list[float] = []
    for stage in options.stages:
        while len(said.trees) < stage:
            said.grow()
            on_tree(1)
        said.refit(options.passes)
        if options.cycles:
            said.improve(on_tree)
        reached.append(_fidelity(lesson, said.log_odds))
        if reached[-1] >= options.fidelity or _foreseen(reached, options) < options.least_fidelity:
            break
    return Distilled(tuple(with_sums(cells, (*kept, *said.trees))), reached[-1])


def _foreseen(reached: list[float], options: DistilOptions) -> float:
    """The fidelity to hope for at the last stage: what is missing falls no faster than lately with every doubling."""
    if len(reached) < 2:
        return 1.0
    before, now, last = (options.stages[i] for i in (len(reached) - 2, len(reached) - 1, -1))
    missing, missed_before = 1.0 - reached[-1], 1.0 - reached[-2]
    rate = np.log(missing / missed_before) / np.log(now / before)
    return 1.0 - _HOPE * missing * float((last / now) ** min(rate, 0.0))


class _Said:
    """What has been said so far: the few trees, where they send the cells, and the cells' log-odds after them."""

    def __init__(self, lesson: Lesson, log_odds: FloatArray, options: DistilOptions):
        self.lesson = lesson
        self.log_odds = log_odds
        self.options = options
        self.trees: list[CalibrationTree] = []
        self.nodes: list[IntArray] = []

    def grow(self) -> None:
        """Add a tree."""
        self._put(len(self.trees), _grow(self.lesson, self.log_odds, self.options.growth))

    def _put(self, number: int, tree: CalibrationTree) -> None:
        """Set one tree, the next one too, and move the cells by it."""
        node = stops(tree, self.lesson.codes, self.lesson.offset)
        self.trees[number : number + 1] = [tree]
        self.nodes[number : number + 1] = [node]
        move(self.log_odds, tree.step, node)

    def refit(self, passes: int) -> None:
        """Newton passes over the steps of all trees."""
        lesson, ridge = self.lesson, self.options.ridge
        for _ in range(passes):
            for number, tree in enumerate(self.trees):
                self.trees[number] = _refitted(lesson, tree, self.nodes[number], self.log_odds, ridge)

    def improve(self, on_tree: Callable[[int], None]) -> None:
        """Replace trees in turn, each by one grown in full beside the others, as long as that brings them nearer."""
        missed = self._missed()
        for _ in range(self.options.cycles):
            before = missed
            for number in range(len(self.trees)):
                missed = self._replaced(number, missed)
                on_tree(1)
            if missed > _WORTH_ANOTHER * before:
                break
        self.refit(self.options.passes)

    def _replaced(self, number: int, missed: float) -> float:
        """Grow another tree in place of one and refit all; undone unless less is missed. What is missed then."""
        trees, nodes, log_odds = self.trees.copy(), self.nodes.copy(), self.log_odds.copy()
        move(self.log_odds, -self.trees[number].step, self.nodes[number])
        self._put(number, _grow(self.lesson, self.log_odds, self.options.growth._replace(rate=1.0)))
        self.refit(_PASSES_TO_JUDGE)
        now = self._missed()
        if now < missed * (1.0 - _ROUNDING):
            return now
        self.trees, self.nodes, self.log_odds = trees, nodes, log_odds
        return missed

    def _missed(self) -> float:
        """KL(ensemble ‖ trees) over what trees are grown on."""
        lesson, rows = self.lesson, self.lesson.grown_on
        return _divergence(lesson.target[rows], self.log_odds[rows], lesson.count[rows])


def _grow(lesson: Lesson, log_odds: FloatArray, growth: HonestGrowth) -> CalibrationTree:
    gradient = np.zeros((len(log_odds), 4), dtype=np.float32)
    gradients(lesson.grown_on, log_odds, lesson.count, lesson.label, np.uint64(0), False, False, gradient)
    grown = grow_honest(lesson.codes, gradient, lesson.grown_on, lesson.offset, lesson.ordered, lesson.usable, growth)
    empty = np.zeros(len(grown.feature))
    step = rounded(grown.step * growth.rate)
    return CalibrationTree(grown.feature, grown.table_start, grown.table, step, empty, empty, empty)


def _refitted(
    lesson: Lesson, tree: CalibrationTree, node: IntArray, log_odds: FloatArray, ridge: float
) -> CalibrationTree:
    """One Newton step on all of a tree's steps at once, towards the target; ``log_odds`` follow."""
    g, h = newton_sums(lesson.grown_on, node, log_odds, lesson.count, lesson.label, tree.n_nodes)
    change = np.where(h > 0, np.clip((g - ridge * tree.step) / (h + ridge), -_LARGEST_STEP, _LARGEST_STEP), 0.0)
    step = rounded(tree.step + change)
    move(log_odds, step - tree.step, node)
    return replace(tree, step=step)


def _fidelity(lesson: Lesson, log_odds: FloatArray) -> float:
    """1 − KL(ensemble ‖ distilled)/KL(ensemble ‖ base), over the cells left out."""
    rows = lesson.left_out
    whole = _divergence(lesson.target[rows], lesson.start[rows], lesson.count[rows])
    missed = _divergence(lesson.target[rows], log_odds[rows], lesson.count[rows])
    return 1.0 - missed / whole if whole > 0.0 else 1.0


def _divergence(target: FloatArray, log_odds: FloatArray, count: FloatArray) -> float:
    q = np.clip(sigmoid(log_odds), 1e-15, 1.0 - 1e-15)
    t = np.clip(target, 1e-15, 1.0 - 1e-15)
    return float(np.sum(count * (t * np.log(t / q) + (1.0 - t) * np.log((1.0 - t) / (1.0 - q)))))
