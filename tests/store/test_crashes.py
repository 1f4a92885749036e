"""Real processes, really killed: no committed batch is lost, and the store can always be read."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mbct.store import CellStore
from store_writers import BINS, batch_of, day_of

HERE = Path(__file__).parent.parent
N_BATCHES = 5


def _expected(numbers: list[int]) -> tuple[float, float, float]:
    totals = [batch_of(number).total for number in numbers]
    return tuple(float(sum(getattr(t, name) for t in totals)) for name in ("count", "label", "pred"))


def _totals(store: CellStore) -> tuple[float, float, float]:
    total = store.window().cells.total
    return float(total.count), float(total.label), float(total.pred)


class Nursery:
    """One process that has imported everything and forks the children to be killed: each starts in milliseconds."""

    def __init__(self) -> None:
        code = (
            "import os, sys, signal, time\n"
            "from pathlib import Path\n"
            f"sys.path.insert(0, {str(HERE)!r})\n"
            "import store_writers as writers\n"
            "writers.batch_of(0)\n"
            "while True:\n"
            "    line = sys.stdin.readline()\n"
            "    if not line: break\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        try:\n"
            "            exec(line.strip())\n"
            "        finally:\n"
            "            os._exit(0)\n"
            "    print(child, flush=True)\n"
            "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def start(self, command: str) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def wait(self) -> bool:
        """Whether the child was killed."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline()) == -signal.SIGKILL

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def nursery():
    started = Nursery()
    yield started
    started.close()


def _append_until_killed(nursery: Nursery, folder: Path, setup: str, kill_after: float | None) -> list[int]:
    """Run the writer of all batches; returns the batches it was told are safe before it died."""
    pipe = folder.parent / f"{folder.name}.acknowledged"
    pipe.write_bytes(b"")
    numbers = list(range(N_BATCHES))
    command = (
        f"{setup}; writers.append_batches(Path({str(folder)!r}), {numbers}, "
        f"os.open({str(pipe)!r}, os.O_WRONLY | os.O_APPEND))"
    )
    child = nursery.start(command)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    nursery.wait()
    return [int(line) for line in pipe.read_text().split()]


def _check(folder: Path, safe: list[int]) -> int:
    """The store holds every safe batch, whole, at most one more, and takes the rest."""
    store = CellStore(folder)
    held = sorted(int(i) for batch in store.manifest().batches for i in batch.ids)
    assert set(safe) <= set(held)
    assert len(held) <= len(safe) + 1
    if held:
        np.testing.assert_allclose(_totals(store), _expected(held), rtol=1e-12)
    for number in range(N_BATCHES):
        store.append(batch_of(number), BINS, day=day_of(number), batch=str(number))
    np.testing.assert_allclose(_totals(store), _expected(list(range(N_BATCHES))), rtol=1e-12)
    store.compact(grace_seconds=0.0)
    assert store.verify() == []
    np.testing.assert_allclose(_totals(store), _expected(list(range(N_BATCHES))), rtol=1e-12)
    return len(held)


def test_an_append_killed_at_every_step_loses_nothing(tmp_path: Path, nursery: Nursery) -> None:
    counts = set()
    for step in range(1, 46):
        folder = tmp_path / f"step{step}"
        safe = _append_until_killed(nursery, folder, f"writers.killed_at({step})", None)
        assert len(safe) < N_BATCHES
        counts.add(_check(folder, safe))
    assert counts >= {0, 1}  # the kills fell into several batches


def test_an_append_killed_at_random_moments_loses_nothing(tmp_path: Path, nursery: Nursery) -> None:
    rng = np.random.default_rng(5)
    for attempt in range(15):
        folder = tmp_path / f"attempt{attempt}"
        folder.mkdir()
        _check(folder, _append_until_killed(nursery, folder, "pass", float(rng.uniform(0.0, 0.08))))


def test_a_compaction_killed_at_every_step_loses_nothing(tmp_path: Path, nursery: Nursery) -> None:
    everything = _expected(list(range(N_BATCHES)))
    store = CellStore(tmp_path / "whole")
    for number in range(N_BATCHES):
        store.append(batch_of(number), BINS, day=day_of(number), batch=str(number))
    n_killed = 0
    for step in range(1, 41):
        folder = Path(shutil.copytree(tmp_path / "whole", tmp_path / f"step{step}"))
        nursery.start(f"writers.killed_at({step}); writers.CellStore(Path({str(folder)!r})).compact(grace_seconds=0.0)")
        n_killed += nursery.wait()
        np.testing.assert_allclose(_totals(CellStore(folder)), everything, rtol=1e-12)
        CellStore(folder).compact(grace_seconds=0.0)
        assert CellStore(folder).verify() == []
        assert len(CellStore(folder).manifest().batches) == 3
        np.testing.assert_allclose(_totals(CellStore(folder)), everything, rtol=1e-12)
    assert n_killed >= 20


@pytest.mark.parametrize("merged", [False, True])
def test_a_replacement_killed_at_every_step_leaves_the_old_or_the_new(tmp_path: Path, nursery: Nursery, merged) -> None:
    store = CellStore(tmp_path / "whole")
    for number in range(N_BATCHES):
        store.append(batch_of(number), BINS, day=day_of(number), batch=str(number))
    if merged:
        store.compact(grace_seconds=0.0)
    old, new = _expected([0, 1, 2, 3, 4]), _expected([77, 1, 2, 3, 4])
    outcomes = []
    for step in range(1, 100):
        folder = Path(shutil.copytree(tmp_path / "whole", tmp_path / f"step{step}"))
        nursery.start(f"writers.killed_at({step}); writers.replace_batch(Path({str(folder)!r}), 0, 77)")
        survived = not nursery.wait()
        found = _totals(CellStore(folder))
        outcomes.append(found == pytest.approx(new))
        assert outcomes[-1] or found == pytest.approx(old)
        CellStore(folder).append(batch_of(77), BINS, day=day_of(0), batch="0", replace=True)
        CellStore(folder).compact(grace_seconds=0.0)
        assert CellStore(folder).verify() == []
        assert _totals(CellStore(folder)) == pytest.approx(new)
        if survived:
            break
    assert outcomes == sorted(outcomes)  # the old content up to one step, the new one from there
    assert outcomes[0] is False
    assert survived


def test_many_writers_and_a_compactor_at_once_lose_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    nurseries = [Nursery() for _ in range(4)]
    try:
        shares = [list(range(first, 24, 3)) for first in range(3)]
        # Every batch is appended by two of the writers: idempotence under contention.
        for nursery, first in zip(nurseries[:3], range(3), strict=True):
            numbers = shares[first] + shares[(first + 1) % 3]
            nursery.start(f"writers.append_batches(Path({str(folder)!r}), {numbers}, os.open(os.devnull, os.O_WRONLY))")
        compactor = nurseries[3].start(f"writers.compact_for_ever(Path({str(folder)!r}), 30.0)")
        for nursery in nurseries[:3]:
            nursery.wait()
        os.kill(compactor, signal.SIGKILL)
        nurseries[3].wait()
    finally:
        for nursery in nurseries:
            nursery.close()
    store = CellStore(folder)
    assert sorted(int(i) for batch in store.manifest().batches for i in batch.ids) == list(range(24))
    np.testing.assert_allclose(_totals(store), _expected(list(range(24))), rtol=1e-12)
    store.compact(grace_seconds=0.0)
    assert store.verify() == []
    np.testing.assert_allclose(_totals(store), _expected(list(range(24))), rtol=1e-12)
