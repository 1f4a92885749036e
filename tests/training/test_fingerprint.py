import numpy as np

from mbct.training.cells import Sums
from mbct.training.trainer import data_hash, fingerprint_of, row_hashes


def rows(seed, n_rows, scores=None):
    rng = np.random.default_rng(seed)
    score = rng.random(n_rows) if scores is None else rng.choice(scores, n_rows)
    codes = np.column_stack([rng.integers(0, 20, n_rows), rng.integers(0, 5, n_rows)]).astype(np.uint8)
    return codes, score, (rng.random(n_rows) < score).astype(float)


def fingerprint(codes, score, label):
    one = np.ones(len(score))
    sums = Sums(one, label, score, score**2, score * label, score)
    return fingerprint_of(codes, sums)


def test_rows_of_the_fit_are_seen_in_part_and_in_any_order():
    fitted = rows(0, 20_000)
    known = fingerprint(*fitted)
    fresh = rows(1, 20_000)
    assert known.seen(row_hashes(*fresh)) is False
    part = np.random.default_rng(2).permutation(20_000)[:1_000]
    mixed = [np.concatenate([a[part], b]) for a, b in zip(fitted, fresh, strict=True)]
    assert known.seen(row_hashes(*mixed)) is True
    assert known.seen(row_hashes(*(column[::-1] for column in fitted))) is True


def test_it_cannot_be_told_of_few_rows_or_of_rows_that_equal_each_other():
    known = fingerprint(*rows(0, 20_000))
    assert known.seen(row_hashes(*rows(0, 20_000))[:50]) is None
    assert known.seen(row_hashes(*rows(3, 20_000, scores=[0.1, 0.2]))) is None


def test_rows_that_happen_to_equal_some_of_the_fit_are_no_rows_of_the_fit():
    scores = np.random.default_rng(0).random(500)
    assert fingerprint(*rows(0, 3_000, scores)).seen(row_hashes(*rows(1, 3_000, scores))) is False


def test_the_digest_of_rows_does_not_depend_on_their_order():
    hashes = row_hashes(*rows(0, 100))
    assert data_hash(hashes) == data_hash(hashes[::-1])
    assert data_hash(hashes) != data_hash(hashes[1:])
