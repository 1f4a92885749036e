import numpy as np
import pytest

from mbct.data.columns import read_columns
from mbct.data.memory import encode, fit_bins
from mbct.training.binned_rows import BinnedRows, Gain, gain_of_rows, held_out_gain, split_cells, summed_log_loss
from mbct.training.binning import BinningOptions
from mbct.training.cells import build_cells


def test_evidence_is_the_log_of_the_mean_likelihood_ratio():
    gain = np.array([1.0, 2.0, -0.5, 0.25])
    fold = np.array([0, 1, 1, 2], dtype=np.uint8)
    found = gain_of_rows(gain, gain**2, 4.0, fold)
    assert found.evidence == pytest.approx(np.log(np.mean(np.exp([1.0, 1.5, 0.25]))))
    assert found.total_gain == pytest.approx(2.75)
    assert found.value == pytest.approx(gain.mean())
    assert found.standard_error == pytest.approx(gain.std() / 2.0)


def test_evidence_of_large_gains_does_not_overflow():
    assert gain_of_rows(np.array([5_000.0, 10.0]), np.ones(2), 2.0, np.array([0, 1], np.uint8)).evidence > 4_999


@pytest.mark.parametrize(
    ("gain", "shrinkage"),
    [
        (Gain(0.02, 0.01, 5.0, 15.0), 0.0),
        (Gain(0.02, 0.01, 5.5, 15.0), 0.75),
        (Gain(0.02, 0.01, 5.0, 17.0), 0.75),
        (Gain(0.01, 0.01, 9.0, 20.0), 0.0),
        (Gain(-0.01, 0.001, -3.0, -9.0), 0.0),
        (Gain(0.1, 0.01, 80.0, 400.0), 0.99),
    ],
)
def test_a_correction_is_trusted_where_chance_gives_less(gain, shrinkage):
    assert gain.shrinkage == pytest.approx(shrinkage)


def test_evidence_for_steps_chosen_without_the_labels_is_rarely_large():
    """A model that nothing of the fold has chosen reaches 200 to 1 in at most one data set in 200 (Markov)."""
    rng = np.random.default_rng(0)
    large, n_sets = 0, 400
    for _ in range(n_sets):
        p = rng.uniform(0.02, 0.3, 500)
        y = rng.random(500) < p
        fold = (np.arange(500) % 5).astype(np.uint8)
        step = rng.normal(0.0, 0.6, 5)[fold]
        odds = p / (1 - p)
        q = odds * np.exp(step) / (1 + odds * np.exp(step))
        gain = np.where(y, np.log(q / p), np.log((1 - q) / (1 - p)))
        large += gain_of_rows(gain, gain**2, 500.0, fold).evidence >= np.log(200.0)
    assert large <= n_sets * 0.02


def test_cells_count_row_by_row():
    rng = np.random.default_rng(1)
    n = 2_000
    frame = {"p": rng.choice([0.1, 0.3], n), "c": rng.choice(["a", "b"], n)}
    y = (rng.random(n) < frame["p"]).astype(float)
    columns = read_columns(frame)
    bins = fit_bins(columns, "p", ["c"], frame["p"], y, None, "auto", BinningOptions())
    codes = encode(columns, bins, frame["p"])
    gains = []
    for level in ("score", "cell"):
        cells = build_cells(codes, frame["p"], y, None, bins, level)
        parts = split_cells(cells, tuple(f.ordered for f in bins), (0, 1), 5, 0)
        assert (
            summed_log_loss(np.arange(len(parts.count), dtype=np.int32), parts.log_odds, parts.count, parts.label) > 0
        )
        found = held_out_gain(parts, parts.log_odds, parts.log_odds + 0.1)
        gains.append((found.value, found.standard_error))
    assert gains[0] == pytest.approx(gains[1], rel=1e-9)


def test_every_row_is_judged_at_the_log_odds_of_the_fold_that_leaves_it_out():
    rng = np.random.default_rng(2)
    fold = rng.integers(0, 3, 50).astype(np.uint8)
    label = (rng.random(50) < 0.4).astype(float)
    nothing = np.empty(0, dtype=np.int64)
    codes = np.zeros((50, 1), dtype=np.uint8)
    parts = BinnedRows(codes, np.zeros(50), np.ones(50), label, fold, np.array([0, 1]), nothing.astype(bool), nothing)
    log_odds = rng.normal(size=(3, 50))
    own = log_odds[fold, np.arange(50)]
    assert parts.held_out_loss(log_odds) == pytest.approx(np.mean(np.logaddexp(0.0, own) - label * own))
    for k in range(3):
        assert sorted([*parts.held_out_rows(k), *parts.train_rows(k)]) == parts.all_rows.tolist()
        assert set(fold[parts.held_out_rows(k)]) == {k}
