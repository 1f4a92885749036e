"""Trees of the paper preset, worked out on paper and compared with what the code grows."""

import math

import numpy as np
import pytest

from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.training.cells import build_cells
from mbct.training.paper.trainer import PaperOptions, boost_cells

BINS = FeatureBins((NumberBins("p", ()), CategoryBins("A", ("a", "b", "c", "d")), CategoryBins("B", ("u", "v"))))


def grow(rows, **options):
    """Rows are (A, B, p, y); returns the trees and the trace."""
    a, b, p, y = zip(*rows, strict=True)
    codes = np.column_stack([np.zeros(len(a), int), BINS[1].encode(a), BINS[2].encode(b)]).astype(np.uint8)
    cells = build_cells(codes, np.array(p, float), np.array(y, float), None, BINS, "row")
    return boost_cells(cells, BINS.names, PaperOptions(**options), n_threads=1)


def balanced():
    """p = 1/2 everywhere; six of eight positive where A = a, two of eight where A = b; B tells nothing."""
    rows = []
    for value, positives in (("a", 6), ("b", 2)):
        rows += [(value, "u" if i % 2 else "v", 0.5, 1 if i < positives else 0) for i in range(8)]
    return rows


def test_one_informative_feature():
    # The root has Σy = Σp = 8, so k = 1 and Σd² = 16/4 = 4.
    # By A: k_a = 6/4, k_b = 2/4; Σd² = 2·(6·(3/4−1)² + 2·(3/4)²) = 3.  By B: k = 1 twice, Σd² = 4. So A.
    # Then u and v have 4 rows each in a child, fewer than β = 8: no further split. The second tree changes nothing.
    (tree,), trace = grow(balanced(), min_bin_size=8, max_depth=5)
    assert tree.feature.tolist() == [1, -1, -1]
    assert tree.leaf_value.tolist() == [1.0, 1.5, 0.5]
    assert tree.count.tolist() == [16, 8, 8]
    assert tree.label.tolist() == [8, 6, 2]
    assert tree.table[:2].tolist() == [1, 2]
    assert tree.table[2:].tolist() == [-1] * 4  # c, d, missing and unseen stop at the root
    assert [r.kept for r in trace.rounds] == [True, False]


def test_losses_of_that_split():
    # n = 16, bins of 4, t = 4 bins. Before: S² = 4/15, s² = S²/4·(1 − 4/16) = 1/20, E|Z| = √(1/20·2/π),
    # MVCE² = 1/20·(2/π) + (1/20)(1 − 2/π)/4. After: the same with S² = 3/15, s² = 3/80.
    _, trace = grow(balanced(), min_bin_size=8)
    share = 2 / math.pi + (1 - 2 / math.pi) / 4
    (split,) = trace.splits
    assert split.node_loss_before == pytest.approx(math.sqrt(share / 20), rel=1e-8)
    assert split.node_loss_after == pytest.approx(math.sqrt(share * 3 / 80), rel=1e-8)
    assert split.ensemble_loss == pytest.approx(split.node_loss_after, rel=1e-8)
    assert (split.feature, split.count, split.depth, split.n_children) == ("A", 16, 0, 2)
    assert trace.rounds[0].loss_before == pytest.approx(split.node_loss_before, rel=1e-8)


def test_two_levels():
    # A = a: B = u has 4 of 4 positive, v has 2 of 4. A = b: no positives at u, half at v.
    # Root: Σy = 8 of 16, k = 1. By A: 6/4 and 2/4, Σd² = 3 as before. By B: u 4/8 → k = 1, v the same: Σd² = 4. So A.
    # Node a: k = 3/2 before, Σd² = 3/2. By B: k_u = 4/2 = 2 (Σd² = 0), k_v = 1 (Σd² = 4/4 = 1): better.
    # Node b: k_u = 0 would be, held at 1/1000 (Σd² = 4·(1/2000)²), k_v = 1 (Σd² = 1): better than 3/2.
    rows = [("a", "u", 0.5, 1)] * 4 + [("a", "v", 0.5, 1)] * 2 + [("a", "v", 0.5, 0)] * 2
    rows += [("b", "u", 0.5, 0)] * 4 + [("b", "v", 0.5, 1)] * 2 + [("b", "v", 0.5, 0)] * 2
    (tree, *_), trace = grow(rows, min_bin_size=4, max_trees=1)
    assert tree.feature.tolist() == [1, 2, 2, -1, -1, -1, -1]
    assert tree.leaf_value.tolist() == [1.0, 1.5, 0.5, 2.0, 1.0, 0.001, 1.0]
    assert [s.node for s in trace.splits] == [0, 1, 2]


def test_depth_stops():
    rows = [("a", "u", 0.5, 1)] * 4 + [("a", "v", 0.5, 0)] * 4 + [("b", "u", 0.5, 1)] * 2 + [("b", "v", 0.5, 0)] * 6
    (tree, *_), _ = grow(rows, min_bin_size=4, max_depth=1, max_trees=1)
    assert tree.n_nodes == 3


def test_small_values_share_the_rest():
    # β = 4: a and b have four rows; c and d two each, together four: the rest is a child of its own, Σy/Σp = 3/2.
    rows = [("a", "u", 0.5, 1)] * 4 + [("b", "u", 0.5, 0)] * 3 + [("b", "u", 0.5, 1)]
    rows += [("c", "u", 0.5, 1)] * 2 + [("d", "u", 0.5, 1), ("d", "u", 0.5, 0)]
    (tree, *_), _ = grow(rows, min_bin_size=4, max_trees=1)
    assert tree.table[:4].tolist() == [1, 2, 3, 3]
    assert tree.leaf_value.tolist()[1:] == [2.0, 0.5, 1.5]


def test_a_rest_that_is_too_small_stays_at_the_node():
    # β = 5: only a and b have five rows; c and d have two together, which keep the root's k = Σy/Σp = 6/6.
    rows = [("a", "u", 0.5, 1)] * 5 + [("b", "u", 0.5, 0)] * 5 + [("c", "u", 0.5, 1), ("d", "u", 0.5, 0)]
    (tree, *_), _ = grow(rows, min_bin_size=5, max_trees=1)
    assert tree.table[:4].tolist() == [1, 2, -1, -1]
    assert tree.leaf_value[0] == 1.0
    assert tree.leaf_value[1:].tolist() == [2.0, 0.001]


def test_a_split_that_raises_the_loss_is_not_made():
    # k = Σy/Σp is not the least-squares multiplier: with unequal predictions a split can raise Σd².
    # A = a: p = .9, .1, .1, .1 with y = 1, 0, 0, 0 → k = 1/1.2; A = b: the same rows, so the same k as
    # the root's 2/2.4. Nothing is gained, the root stays a leaf.
    rows = [("a", "u", p, y) for p, y in ((0.9, 1), (0.1, 0), (0.1, 0), (0.1, 0))]
    rows += [("b", "u", p, y) for p, y in ((0.9, 1), (0.1, 0), (0.1, 0), (0.1, 0))]
    trees, trace = grow(rows, min_bin_size=4)
    assert not trace.splits
    assert all(tree.n_nodes == 1 for tree in trees)


def test_the_second_tree_corrects_what_the_first_left():
    # Depth 1: the first tree takes A (Σd² 4 → 3), the second finds the pattern of B on the new predictions.
    rows = [("a", "u", 0.5, 1)] * 4 + [("a", "v", 0.5, 1)] * 2 + [("a", "v", 0.5, 0)] * 2
    rows += [("b", "u", 0.5, 1)] * 2 + [("b", "u", 0.5, 0)] * 2 + [("b", "v", 0.5, 0)] * 4
    trees, _ = grow(rows, min_bin_size=8, max_depth=1, max_trees=2)
    assert [int(tree.feature[0]) for tree in trees] == [1, 2]
    # After tree 1 predictions are 3/4 (a) and 1/4 (b). B = u: Σy = 6, Σp = 4·3/4 + 4·1/4 = 4; B = v: Σy = 2, Σp = 4.
    assert trees[1].leaf_value.tolist() == [1.0, 1.5, 0.5]
