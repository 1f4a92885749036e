"""From held-out rows to a certificate and to intervals of rows.

Three kinds of bins, each with its own union over bins:

- **rules**: the rows of every leaf of every tree;
- **partition**: the leaves of one tree (:func:`mbct.model.intervals.bin_tree`), each cut into up to eight bands of the
  calibrated probability, or what is left of them after merging;
- **segments**: the rows of every value of a column that is named.

No label chooses a bin: leaves come from the rows of the fit, bands from the held-out predictions. Merging looks at the
bounds, so the union of the partition is over all that could come out of it: every node of the tree, every band and
every pair of bands; whatever is kept of them then holds.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mbct.calibrators.inputs import TrainingData
from mbct.errors import DataError, ParameterError
from mbct.model.bins import CodeMatrix
from mbct.model.certificate import PARTITION, RULES, Certificate, CertifiedBin, Method, model_hash
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.intervals import RowIntervals
from mbct.model.tree import CalibrationTree, rounded
from mbct.stats.confidence import betting, by_blocks, rate_ends
from mbct.stats.theorem import label_rate_bound
from mbct.training.folds import homes_of_groups, time_or_group
from mbct.training.trainer import RowFingerprint, data_hash, row_hashes
from mbct.validation import FloatArray

IntArray = npt.NDArray[np.int64]
_DOUBLINGS = 3  # Bands of a leaf are at most two to this power
_EXPECTED = 50.0  # Positives, and negatives, that a band must be expected to hold
_MOST_VALUES = 4  # Values or intervals of a condition that a bin's name lists


@dataclass(frozen=True)
class Segments:
    """A column to certify by: the number of each row's value, and the values' names."""

    column: str
    codes: IntArray
    names: Sequence[str]


@dataclass(frozen=True)
class HeldOutRows:
    """Rows that the model has not seen: codes, base's prediction, calibrated one, label and, where given, block."""

    codes: CodeMatrix
    y_prob: FloatArray
    calibrated: FloatArray
    y_true: FloatArray
    block: npt.NDArray[np.int32] | None = None


@dataclass(frozen=True)
class Bounds:
    """Sums and residual intervals of the bins of one division."""

    rows: FloatArray
    label: FloatArray
    pred: FloatArray
    lower: FloatArray
    upper: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean prediction of each bin; 0 without rows."""
        return np.asarray(self.pred / np.maximum(self.rows, 1.0))

    @property
    def largest(self) -> FloatArray:
        """|E[Y] − mean prediction| of each bin is at most this."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))


def split_for_certificate(
    data: TrainingData, share: float, negative_sampling_rate: float, seed: int
) -> tuple[TrainingData, TrainingData]:
    """Rows to fit on, and a ``share`` of them to certify with: whole blocks, of time the last; no group in both."""
    data = data.counted()
    if np.any(data.weight != 1.0) or negative_sampling_rate != 1.0:
        raise ParameterError("certify counts every row once: leave out sample_weight and negative_sampling_rate")
    n_rows = len(data.y_true)
    block = np.arange(n_rows) if data.block is None else time_or_group(data.block)
    size = np.bincount(block)
    order = np.arange(len(size))
    if data.block is None or data.blocks is None or data.blocks.options.kind == "groups":
        order = np.random.default_rng(seed).permutation(len(size))
    held_out = np.isin(block, order[np.cumsum(size[order]) > (1.0 - share) * n_rows])
    home = held_out
    if data.block is not None and data.block.ndim == 2:
        group = np.unique(data.block[:, 1], return_inverse=True)[1]
        home = homes_of_groups(group, held_out.astype(np.uint8), data.weight, seed) == 1
    train, certify = np.flatnonzero(~held_out & ~home), np.flatnonzero(held_out & home)
    if not len(train) or not len(certify):
        raise DataError(
            f"certify={share:g} leaves {len(size):,} blocks no two parts: take shorter blocks or another share"
        )
    return data.take(train), data.take(certify)


def bounds(rows: HeldOutRows, division: IntArray, n_bins: int, n_union: int, alpha: float, method: Method) -> Bounds:
    """Intervals of E[Y] − mean prediction of bins; ``division`` is −1 for rows of none, ``n_union`` hold at once."""
    counted = division >= 0
    chosen = division[counted]
    count, label, pred = (
        np.bincount(chosen, amount, n_bins).astype(np.float64)
        for amount in (None, rows.y_true[counted], rows.calibrated[counted])
    )
    size, each = np.maximum(count, 1.0), alpha / max(n_union, 1)
    mean, rate = pred / size, label / size
    residual = rows.y_true - rows.calibrated
    if method == "theorem-1":
        width = label_rate_bound(rate, count, n_union, alpha)
        lower, upper = rate - width - mean, rate + width - mean
    elif method == "betting":
        guess = np.bincount(chosen, (rows.calibrated * (1.0 - rows.calibrated))[counted], n_bins) / size
        # Data are often sorted by what the label depends on; bets need an order that says nothing of it.
        order = np.random.default_rng(0).permutation(len(residual))
        lower, upper = betting(residual[order], division[order], guess, each)
    else:
        low, high = rate_ends(label, count, each)
        lower, upper = low - mean, high - mean
        if method == "blocks":
            if rows.block is None:
                raise DataError("method='blocks' needs to know which rows belong together: pass time=… or groups=…")
            for block in np.atleast_2d(rows.block.T):  # of time and groups both, the wider interval
                around = by_blocks(residual, division, n_bins, block, each)
                lower, upper = np.minimum(lower, around[0]), np.maximum(upper, around[1])
    # A rate lies in [0, 1], which bounds the residual too.
    return Bounds(count, label, pred, np.maximum(lower, -mean), np.minimum(upper, 1.0 - mean))


def certify_rows(
    model: CalibrationEnsemble,
    rows: HeldOutRows,
    fingerprint: RowFingerprint,
    *,
    alpha: float,
    method: Method,
    segments: Sequence[Segments] = (),
    max_error: float | None = None,
) -> Certificate:
    """The certificate of a model by rows that it has not seen."""
    if not len(rows.y_true):
        raise DataError("there are no rows to certify with: pass rows that the model was not fitted on")
    hashes = row_hashes(rows.codes, rows.y_prob, rows.y_true)
    seen = fingerprint.seen(hashes)
    if seen or fingerprint.same_rows(len(hashes), float(rows.y_true.sum()), float(rows.y_prob.sum())):
        raise DataError(
            "rows of the fit are among the rows to certify with, so nothing would be certain: pass rows that were kept "
            "apart, or fit with certify=0.2"
        )
    partition, intervals = _partition(model, rows, alpha, method, max_error)
    found = [*_rules(model, rows, alpha, method), *partition]
    for each in segments:
        n_union = len(np.unique(each.codes))
        all_of_it = bounds(rows, each.codes, len(each.names), n_union, alpha, method)
        found += _listed(each.column, list(each.names), all_of_it, n_union, alpha)
    n_blocks = 0 if rows.block is None or method != "blocks" else len(np.unique(time_or_group(rows.block)))
    return Certificate(
        1.0 - alpha,
        method,
        model_hash(model),
        data_hash(hashes),
        len(hashes),
        n_blocks,
        seen is False,
        tuple(found),
        intervals,
    )


def _listed(
    group: str, names: Sequence[str], found: Bounds, n_union: int, alpha: float, kept: Collection[int] | None = None
) -> list[CertifiedBin]:
    """Bins that hold rows, or those of them that are kept."""
    size = np.maximum(found.rows, 1.0)
    rate, mean = found.label / size, found.mean
    theorem = np.minimum(np.abs(rate - mean) + label_rate_bound(rate, found.rows, n_union, alpha), 1.0)
    columns = [rounded(values).tolist() for values in (rate, mean, found.lower, found.upper, theorem)]
    return [
        CertifiedBin(group, names[b], int(found.rows[b]), *(column[b] for column in columns))
        for b in np.flatnonzero(found.rows > 0).tolist()
        if kept is None or b in kept
    ]


def _rules(model: CalibrationEnsemble, rows: HeldOutRows, alpha: float, method: Method) -> list[CertifiedBin]:
    stopped = [tree.apply(rows.codes).astype(np.int64) for tree in model.trees]
    n_union = sum(len(np.unique(nodes)) for nodes in stopped)
    listed: list[CertifiedBin] = []
    for number, (tree, nodes) in enumerate(zip(model.trees, stopped, strict=True)):
        names = [f"{number}/{node}" for node in range(tree.n_nodes)]
        listed += _listed(RULES, names, bounds(rows, nodes, tree.n_nodes, n_union, alpha, method), n_union, alpha)
    return listed


@dataclass(frozen=True)
class _Hierarchy:
    """Nodes of a tree and, below its leaves, halves of halves of their rows; a parent's number is below its child's."""

    parent: list[int]
    depth: list[int]
    edge: list[float]
    """Calibrated probability up to which a band reaches; infinite for nodes of the tree."""
    finest: IntArray
    """The last of them that holds each row."""
    n_nodes: int
    """The first so many are nodes of the tree."""

    @cached_property
    def children(self) -> list[list[int]]:
        below: list[list[int]] = [[] for _ in self.parent]
        for child, above in enumerate(self.parent):
            if above >= 0:
                below[above].append(child)
        return below


def _hierarchy(tree: CalibrationTree | None, rows: HeldOutRows) -> _Hierarchy:
    n_nodes = 1 if tree is None else tree.n_nodes
    parent, depth, edge = [-1] * n_nodes, [0] * n_nodes, [np.inf] * n_nodes
    for node in range(n_nodes):
        for child in () if tree is None else tree.child_numbers(node).tolist():
            parent[child], depth[child] = node, depth[node] + 1
    finest = np.zeros(len(rows.codes), dtype=np.int64) if tree is None else tree.apply(rows.codes).astype(np.int64)
    pending = [(0, 0)] if tree is None else [(int(leaf), 0) for leaf in tree.leaves]
    while pending:
        group, doublings = pending.pop(0)
        own = np.flatnonzero(finest == group)
        cut = _middle(rows.calibrated[own]) if doublings < _DOUBLINGS else None
        if cut is None:
            continue
        above = rows.calibrated[own] > cut
        for half, upto in ((own[~above], cut), (own[above], edge[group])):
            finest[half] = len(parent)
            pending.append((len(parent), doublings + 1))
            parent.append(group)
            depth.append(depth[group] + 1)
            edge.append(upto)
    return _Hierarchy(parent, depth, edge, finest, n_nodes)


def _middle(calibrated: FloatArray) -> float | None:
    """Where two halves that are large enough part, between two values; None where there are none."""
    ordered = np.sort(calibrated)
    half = len(ordered) // 2
    position = int(np.searchsorted(ordered, ordered[half])) if half else 0
    for part in (ordered[:position], ordered[position:]):
        if min(part.sum(), len(part) - part.sum()) < _EXPECTED:
            return None
    return float((ordered[position - 1] + ordered[position]) / 2.0)


def _partition(
    model: CalibrationEnsemble, rows: HeldOutRows, alpha: float, method: Method, max_error: float | None
) -> tuple[list[CertifiedBin], RowIntervals]:
    """The finest certified partition, and both ends' multipliers for its rows."""
    tree = model.bin_tree
    levels = _hierarchy(tree, rows)
    found = _all_bounds(levels, rows, alpha, method)
    good, split = _merged(levels, found, max_error)
    if max_error is not None and not good:
        raise DataError(
            f"max_error={max_error:g} cannot be certified by {len(rows.codes):,} rows: as one bin they are within "
            f"± {found.largest[0]:.2g}; certify with more rows, or ask for less"
        )
    bands = [_bands_of(levels, split, _holder(levels, found, split, node)) for node in range(levels.n_nodes)]
    names = _names(model, levels)
    kept = {group for own in bands for group in own if not split[group]}
    listed = _listed(PARTITION, names, found, len(names), alpha, kept)
    order = [group for own in bands for group in own]
    mean = np.maximum(found.mean, 1e-12)
    ends = [rounded(np.maximum((found.mean + end) / mean, 0.0)[order]) for end in (found.lower, found.upper)]
    start = np.cumsum([0, *map(len, bands)]).astype(np.int64)
    edges = np.array([levels.edge[group] for group in order])
    edges[start[1:] - 1] = np.inf
    return listed, RowIntervals(1.0 - alpha, start, edges, *ends)


def _all_bounds(levels: _Hierarchy, rows: HeldOutRows, alpha: float, method: Method) -> Bounds:
    """Bounds of every group, those of inner ones from all rows below, for all of them at once."""
    parent, depth = np.array(levels.parent), np.array(levels.depth)
    n_groups = len(parent)
    columns = np.zeros((5, n_groups))
    division = levels.finest.copy()
    for level in range(int(depth.max()), -1, -1):
        here = np.where(depth[division] == level, division, -1)
        found = bounds(rows, here, n_groups, n_groups, alpha, method)
        own = depth == level
        for column, values in zip(columns, vars(found).values(), strict=True):
            column[own] = values[own]
        division = np.where((depth[division] == level) & (level > 0), parent[division], division)
    return Bounds(*columns)


def _merged(levels: _Hierarchy, found: Bounds, max_error: float | None) -> tuple[bool, list[bool]]:
    """Whether every bin is within ``max_error``, and which groups stay split; a group without rows is no bin."""
    fine = (found.mean > 0.0) & (found.largest <= (np.inf if max_error is None else max_error))
    good, split = (fine | (found.rows == 0)).tolist(), [False] * len(levels.parent)
    for group in range(len(levels.parent) - 1, -1, -1):
        below = levels.children[group]
        if found.rows[group] > 0 and below and all(good[child] for child in below):
            good[group] = split[group] = True
    return bool(good[0]), split


def _holder(levels: _Hierarchy, found: Bounds, split: list[bool], node: int) -> int:
    """The bin whose interval the rows of a node take: the node, or one above that has rows and is not split."""
    while found.rows[node] == 0:
        node = levels.parent[node]
    holder = node
    while node >= 0:
        holder = holder if split[node] else node
        node = levels.parent[node]
    return holder


def _bands_of(levels: _Hierarchy, split: list[bool], group: int) -> list[int]:
    """Bands of a leaf in rising order; a node of the tree whose rows go on below has but itself."""
    halves = [child for child in levels.children[group] if child >= levels.n_nodes]
    if not split[group] or not halves:
        return [group]
    return [band for half in halves for band in _bands_of(levels, split, half)]


def _names(model: CalibrationEnsemble, levels: _Hierarchy) -> list[str]:
    """What each group holds: its node, by the conditions of the leaf where it is one, and its probabilities."""
    tree = model.bin_tree
    names = [f"node {node}" for node in range(levels.n_nodes)]
    for rule in () if tree is None else model.with_trees((tree,)).rules():
        if rule.conditions and not rule.fallback:
            conditions = " and ".join(each.shortened(_MOST_VALUES) for each in rule.conditions)
            names[rule.node] = f"node {rule.node}: {conditions}"
    low = [0.0] * levels.n_nodes
    for group in range(levels.n_nodes, len(levels.parent)):
        above, first = levels.parent[group], levels.children[levels.parent[group]][0]
        low.append(low[above] if group == first else levels.edge[first])
        leaf = above
        while leaf >= levels.n_nodes:
            leaf = levels.parent[leaf]
        names.append(f"{names[leaf]}, probability {low[group]:.3g} to {min(levels.edge[group], 1.0):.3g}")
    return names
