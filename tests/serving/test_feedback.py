"""Outcomes are joined once, survive a restart, and reach the sink exactly once."""

import contextlib
import errno
import logging
import os
import subprocess

import numpy as np
import pytest

from builders import random_model, random_rows
from mbct.errors import ParameterError, StorageError
from mbct.serving.batch import BatchScorer
from mbct.serving.feedback import FeedbackLoop
from mbct.serving.journal import Joined, outcome_delays, read_lines
from mbct.serving.options import FeedbackOptions
from mbct.store import CellStore, cells_of_rows

NOON = 1_700_000_100.0


class Store:
    """A sink that keeps cells by batch id and can fail, before or after it has kept them."""

    def __init__(self):
        self.batches, self.fail = {}, ""

    def append(self, cells, bins, *, day, batch):
        assert batch.startswith(day)
        assert cells.fingerprint == bins.fingerprint
        if self.fail == "before":
            raise OSError("the store is away")
        self.batches.setdefault(batch, cells)
        if self.fail == "after":
            raise OSError("the connection broke")

    def total(self, name):
        return sum(float(getattr(cells.total, name)) for cells in self.batches.values())


def fill(path):
    """Write until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as handle:
        while handle.write(b"x" * 512):
            pass


class Clock:
    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def score(loop, model, ids, seed=3):
    columns = random_rows(seed, model, len(ids))
    scored = BatchScorer(model).score_columns([columns[name] for name in model.bins.names])
    loop.remember(model.bins, ids, scored)
    return scored


def test_a_segment_that_the_model_does_not_have_is_logged_once(clock, caplog):
    loop, model = FeedbackLoop(FeedbackOptions(segment="nowhere"), clock=clock), random_model(1)
    for turn in range(2):
        score(loop, model, [str(turn)])
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["the model has no feature 'nowhere'"]


def test_the_store_of_cells_takes_the_outcomes_of_the_day(tmp_path, clock):
    model, store = random_model(1), CellStore(tmp_path / "cells")
    loop = FeedbackLoop(FeedbackOptions(folder=tmp_path / "journal"), store, clock)
    ids = [str(i) for i in range(50)]
    score(loop, model, ids)
    loop.join([(i, 1) for i in ids[:20]])
    loop.seal()
    assert loop.flush() == 1
    assert store.days() == ["2023-11-14"]
    assert float(store.window().cells.total.label) == 20


def test_cells_in_the_sink_are_those_of_the_joined_rows(tmp_path, clock):
    model, store = random_model(1), Store()
    loop = FeedbackLoop(FeedbackOptions(folder=tmp_path), store, clock)
    ids = [str(i) for i in range(100)]
    scored = score(loop, model, ids)
    labels = np.arange(100) % 3 == 0
    assert loop.join([(i, int(y)) for i, y in zip(ids[:80], labels, strict=False)]).joined == 80
    loop.seal()
    assert loop.flush() == 1
    assert loop.flush() == 0
    (batch_id,) = store.batches
    assert batch_id.startswith("2023-11-14-")
    assert store.batches[batch_id].fingerprint == model.bins.fingerprint
    assert store.total("count") == 80
    assert store.total("label") == labels[:80].sum()
    assert store.total("pred") == pytest.approx(scored.score[:80].sum())
    loop.close()


def test_batches_are_split_by_day_and_by_bins(tmp_path, clock):
    store = Store()
    loop = FeedbackLoop(FeedbackOptions(folder=tmp_path, remember_seconds=10 * 86_400), store, clock)
    first, second = random_model(1), random_model(2)
    score(loop, first, ["a", "b"])
    score(loop, second, ["c"])
    loop.join([("a", 1), ("c", 1)])
    clock.now += 86_400
    loop.join([("b", 0)])
    loop.seal()
    assert loop.flush() == 3
    assert sorted(batch_id[:10] for batch_id in store.batches) == ["2023-11-14", "2023-11-14", "2023-11-15"]
    loop.close()


def test_a_restart_forgets_nothing_and_counts_nothing_twice(tmp_path, clock):
    model, store, options = random_model(1), Store(), FeedbackOptions(folder=tmp_path)
    loop = FeedbackLoop(options, store, clock)
    score(loop, model, ["a", "b", "c", "d"])
    loop.join([("a", 1)])
    loop.seal()
    loop.flush()
    loop.join([("b", 0)])
    loop.close()
    clock.now += 60
    again = FeedbackLoop(options, store, clock)
    assert again.waiting == 2
    assert again.join([("a", 1), ("b", 1), ("c", 1)]).unknown == ("a", "b")
    assert {m.outcomes for m in again.live()} == {3}
    again.seal()
    again.flush()
    assert (store.total("count"), store.total("label")) == (3, 2)
    again.close()


@pytest.mark.parametrize("fail", ["before", "after"])
def test_a_failing_sink_gets_every_outcome_exactly_once(tmp_path, clock, fail):
    model, store = random_model(1), Store()
    loop = FeedbackLoop(FeedbackOptions(folder=tmp_path), store, clock)
    score(loop, model, ["a", "b", "c"])
    loop.join([("a", 1)])
    store.fail = fail
    loop.seal()
    with pytest.raises(OSError, match=r"away|broke"):
        loop.flush()
    loop.join([("b", 0)])
    store.fail = ""
    loop.seal()
    loop.flush()
    assert store.total("count") == 2
    loop.close()


def test_a_torn_last_line_is_passed_over(tmp_path, clock):
    options = FeedbackOptions(folder=tmp_path)
    loop = FeedbackLoop(options, None, clock)
    score(loop, random_model(1), ["a", "b"])
    loop.join([("a", 1)])
    loop.close()
    for path in [*tmp_path.glob("scores-*"), *tmp_path.glob("outcomes-*")]:
        path.write_bytes(path.read_bytes() + b'["torn", 1.0, "x')
    again = FeedbackLoop(options, None, clock)
    assert again.waiting == 1
    assert again.join([("b", 1)]).joined == 1
    again.close()


def test_scores_are_forgotten_by_number_and_by_age(clock):
    loop = FeedbackLoop(FeedbackOptions(remembered=3, remember_seconds=100), None, clock)
    model = random_model(1)
    score(loop, model, ["a", "b", "c", "d"])
    assert loop.join([("a", 1)]).unknown == ("a",)
    assert loop.waiting == 3
    clock.now += 101
    assert loop.join([("b", 1)]).unknown == ("b",)
    assert loop.waiting == 0


def test_old_files_of_scores_are_deleted(tmp_path, clock):
    loop = FeedbackLoop(FeedbackOptions(folder=tmp_path, remember_seconds=3600), None, clock)
    score(loop, random_model(1), ["a"])
    clock.now = 2_000_000_000.0
    score(loop, random_model(1), ["b"])
    assert len(list(tmp_path.glob("scores-*"))) == 1
    loop.close()


def test_an_id_scored_again_waits_with_its_newest_score(clock):
    loop = FeedbackLoop(FeedbackOptions(), None, clock)
    score(loop, random_model(1), ["a", "b"])
    score(loop, random_model(1), ["a"])
    assert loop.waiting == 2
    assert loop.join([("a", 1), ("b", 1)]).joined == 2


def test_a_folder_serves_one_service_and_a_sink_needs_one(tmp_path, clock):
    options = FeedbackOptions(folder=tmp_path)
    loop = FeedbackLoop(options, None, clock)
    with pytest.raises(ParameterError, match="another service uses"):
        FeedbackLoop(options, None, clock)
    loop.close()
    FeedbackLoop(options, None, clock).close()
    with pytest.raises(ParameterError, match="need a journal"):
        FeedbackLoop(FeedbackOptions(), Store())


def test_a_full_disk_refuses_outcomes_and_loses_none(tmp_path, clock, caplog):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        options, store = FeedbackOptions(folder=folder), Store()
        loop = FeedbackLoop(options, store, clock)
        score(loop, random_model(1), ["a", "b"])
        loop.join([("a", 1)])
        filler = folder / "filler"
        fill(filler)
        many = [str(i) for i in range(400)]
        score(loop, random_model(1), many)
        assert "in memory alone" in caplog.text
        with pytest.raises(StorageError, match="No space left"):
            loop.join([(i, 1) for i in many])
        assert loop.waiting == 401
        filler.unlink()
        assert loop.join([(i, 1) for i in [*many, "b"]]).joined == 401
        loop.seal()
        loop.flush()
        assert store.total("count") == 402
        loop.close()
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_batch_ids_are_never_used_again(tmp_path, clock):
    """Files of outcomes are forgotten after a day; the first file after a restart must not look like the first ever."""
    model, store = random_model(1), CellStore(tmp_path / "cells")
    options = FeedbackOptions(folder=tmp_path / "journal", remember_seconds=3600)
    for turn in range(2):
        loop = FeedbackLoop(options, store, clock)
        ids = [f"{turn}-{i}" for i in range(10)]
        score(loop, model, ids, seed=turn)
        assert loop.join([(i, turn) for i in ids]).joined == 10
        loop.seal()
        loop.flush()
        loop.close()
        for path in (tmp_path / "journal").glob("handed-*"):
            path.unlink()
    assert float(store.window().cells.total.count) == 20


def test_a_torn_last_line_swallows_no_later_score(tmp_path, clock):
    options = FeedbackOptions(folder=tmp_path)
    first = FeedbackLoop(options, None, clock)
    score(first, random_model(1), ["a"])
    first.close()
    (path,) = tmp_path.glob("scores-*")
    path.write_bytes(path.read_bytes() + b'["torn",1,1.0,"x')
    second = FeedbackLoop(options, None, clock)
    score(second, random_model(1), ["b"])
    second.close()
    third = FeedbackLoop(options, None, clock)
    assert third.join([("a", 1), ("b", 1)]).joined == 2
    third.close()


def test_a_day_that_the_store_dropped_holds_no_other_day_back(tmp_path, clock, caplog):
    model, store = random_model(1), CellStore(tmp_path / "cells")
    options = FeedbackOptions(folder=tmp_path / "journal", remember_seconds=10 * 86_400)
    loop = FeedbackLoop(options, store, clock)
    score(loop, model, [str(i) for i in range(10)])
    loop.join([("0", 1), ("1", 0)])
    loop.seal()
    clock.now += 2 * 86_400
    loop.join([("2", 1)])
    other = store.append(cells_of(model, 5), model.bins, day="2023-11-16", batch="other")
    store.compact(keep_days=1)
    assert store.manifest().first_day == "2023-11-16"
    loop.seal()
    with caplog.at_level(logging.WARNING, "mbct.serving"):
        assert loop.flush() == 1
    assert float(store.window().cells.total.count) == other.count + 1
    assert "2 outcomes were left out: day 2023-11-14 was dropped" in caplog.text
    assert loop.flush() == 0
    loop.close()


def cells_of(model, n_rows):
    columns = random_rows(9, model, n_rows)
    scored = BatchScorer(model).score_columns([columns[name] for name in model.bins.names])
    return cells_of_rows(scored.codes, scored.score, np.zeros(n_rows), model.bins)


def test_one_bad_file_holds_no_other_back(tmp_path, clock):
    model, store = random_model(1), Store()
    loop = FeedbackLoop(FeedbackOptions(folder=tmp_path), store, clock)
    score(loop, model, ["a", "b"])
    loop.join([("a", 1)])
    loop.seal()
    (path,) = tmp_path.glob("outcomes-*")
    path.write_bytes(path.read_bytes().replace(model.bins.fingerprint.encode(), b"0" * 16))
    loop.join([("b", 1)])
    loop.seal()
    with pytest.raises(FileNotFoundError):
        loop.flush()
    assert store.total("count") == 1
    loop.close()


def test_an_id_scored_again_after_the_clock_was_set_back_is_known(tmp_path, clock):
    options = FeedbackOptions(folder=tmp_path)
    first = FeedbackLoop(options, None, clock)
    score(first, random_model(1), ["a"])
    assert first.join([("a", 1)]).joined == 1
    clock.now -= 7200
    score(first, random_model(1), ["a"])
    first.close()
    second = FeedbackLoop(options, None, clock)
    assert second.join([("a", 0)]).joined == 1
    second.close()
    third = FeedbackLoop(options, None, clock)
    assert third.join([("a", 0)]).unknown == ("a",)
    third.close()


def test_many_scores_are_forgotten_a_share_with_each_request(clock):
    """A request that came after 100,000 scores had expired must not wait until all of them are gone."""
    loop = FeedbackLoop(FeedbackOptions(remembered=1_000_000), None, clock)
    model = random_model(1, n_features=1)
    for turn in range(10):
        score(loop, model, [f"{turn}-{i}" for i in range(10_000)])
    assert loop.waiting == 100_000
    clock.now += 2 * 86_400
    waiting = []
    while loop.waiting:
        assert loop.join([("9-9999", 1)]).unknown == ("9-9999",)  # expired, whether it waits still or not
        waiting.append(loop.waiting)
    assert waiting == [80_000, 60_000, 40_000, 20_000, 0]


@pytest.mark.parametrize(("policy", "least", "most"), [("always", 20, 60), ("interval", 2, 4), ("never", 0, 0)])
def test_the_journal_is_forced_to_the_disk_as_often_as_asked(tmp_path, clock, monkeypatch, policy, least, most):
    loop = FeedbackLoop(FeedbackOptions(folder=tmp_path, fsync=policy), None, clock)
    model = random_model(1)
    score(loop, model, ["first"])
    loop.join([("first", 1)])
    forced, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: forced.append(descriptor) or real(descriptor))
    for i in range(10):
        score(loop, model, [str(i)])
        loop.join([(str(i), 1)])
    loop.sync()
    assert least <= len(forced) <= most
    monkeypatch.undo()
    loop.close()


def test_outcomes_that_could_not_be_forced_to_the_disk_are_not_in_the_journal(tmp_path, clock, monkeypatch):
    loop = FeedbackLoop(FeedbackOptions(folder=tmp_path, fsync="always"), None, clock)
    score(loop, random_model(1), ["a", "b"])
    loop.join([("a", 1)])

    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="Input/output error"):
        loop.join([("b", 1)])
    monkeypatch.undo()
    assert loop.join([("b", 1)]).joined == 1
    (journal,) = tmp_path.glob("outcomes-*")
    assert [line.scored.id for line in read_lines(journal, Joined)] == ["a", "b"]
    loop.close()


def test_an_unknown_policy_is_refused():
    with pytest.raises(ParameterError, match="fsync='sometimes' must be one of always, interval, never"):
        FeedbackOptions(fsync="sometimes")


def test_delays_of_outcomes_are_read_from_the_journal(tmp_path, clock):
    loop = FeedbackLoop(FeedbackOptions(folder=tmp_path), None, clock)
    score(loop, random_model(1), ["a", "b", "c"])
    clock.now += 3600.0
    loop.join([("a", 1), ("b", 0)])
    delay, watched = outcome_delays(tmp_path, clock.now + 3600.0)
    assert sorted(delay) == [1 / 24, float("inf"), float("inf")]
    assert watched == [2 / 24] * 3
    assert outcome_delays(tmp_path, clock.now, "another") == ([], [])
    loop.close()
