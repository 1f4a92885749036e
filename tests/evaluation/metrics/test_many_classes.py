import numpy as np
import pytest
from sklearn.metrics import log_loss

from mbct.errors import DataError
from mbct.metrics import ece, evaluate_classes, mvce


def rows(seed=0, n=600):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1.0, 2.0, 3.0], n)
    return p, (rng.uniform(size=(n, 1)) > p.cumsum(axis=1)).sum(axis=1), rng.uniform(0.5, 2.0, n)


def test_every_number_is_that_of_its_definition():
    p, y, weight = rows()
    found = evaluate_classes(y, p, sample_weight=weight)
    all_rows = found.overall
    hit = np.eye(3)[y]
    top = p.argmax(axis=1)
    each = [
        (
            ece(hit[:, k], p[:, k], sample_weight=weight),
            mvce(hit[:, k], p[:, k], sample_weight=weight, method="closed-form"),
        )
        for k in range(3)
    ]
    assert all_rows["log_loss"] == pytest.approx(log_loss(y, p, sample_weight=weight))
    assert all_rows["brier"] == pytest.approx(np.average(((p - hit) ** 2).sum(axis=1), weights=weight))
    assert all_rows["accuracy"] == pytest.approx(np.average(top == y, weights=weight))
    assert all_rows["top_label_ece"] == pytest.approx(float(ece(top == y, p.max(axis=1), sample_weight=weight)))
    assert all_rows["classwise_ece"] == pytest.approx(np.mean([float(e) for e, _ in each]))
    assert all_rows["mvce"] == pytest.approx(np.mean([float(m) for _, m in each]))
    assert found.segments["ece"][1:] == pytest.approx([float(e) for e, _ in each])
    assert found.segments["count"] == pytest.approx([weight.sum(), *(hit * weight[:, None]).sum(axis=0)])


def test_two_classes_are_those_of_one_probability():
    p, y, _ = rows()
    first = p[:, 0]
    found = evaluate_classes(y == 0, np.column_stack([1 - first, first]))
    assert found.overall["log_loss"] == pytest.approx(log_loss(y == 0, first))
    assert found.overall["brier"] == pytest.approx(2 * np.mean((first - (y == 0)) ** 2))


def test_classes_in_another_order_and_absent_ones():
    p, y, _ = rows()
    named = np.array(["a", "b", "c"])[y]
    swapped = evaluate_classes(named, p[:, [2, 0, 1]], classes=["c", "a", "b"])
    assert swapped.overall["log_loss"] == pytest.approx(evaluate_classes(named, p).overall["log_loss"])
    few = named != "c"
    assert evaluate_classes(named[few], p[few], classes=["a", "b", "c"]).segments["count"][3] == 0
    with pytest.raises(DataError, match="there are 2 classes: pass one column for each class"):
        evaluate_classes(named[few], p[few])
    with pytest.raises(DataError, match="y_true holds 'c', which is not among the classes"):
        evaluate_classes(named, p[:, :2], classes=["a", "b"])
