"""Kills at any moment: what was acknowledged is there once, and what was not is there whole or not at all.

Each attack forks real processes that work on real files (or a real Redis), kills them by SIGKILL after a random time or
at a random touch of a file, and compares what they had said with what is there. It returns what was done and the number
of faults.
"""

import contextlib
import json
import os
import random
import resource
import select
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from builders import random_model, random_rows
from mbct.calibrators.mbct import MBCTCalibrator
from mbct.errors import MBCTError, StorageError
from mbct.model.ensemble import CalibrationEnsemble
from mbct.serving.batch import BatchScorer
from mbct.serving.feedback import FeedbackLoop
from mbct.serving.options import FeedbackOptions
from mbct.store import CellStore, ModelRegistry
from mbct.store.cell_file import digest_of
from mbct.store.model_registry import version_of
from mbct.store.redis_backend import RedisBackend
from mbct.store.redis_rules import write_rules
from mbct.store.refresh import refresh
from mbct.training.cells import build_cells
from processes import RedisServer, content_of
from store_writers import BINS, batch_of, day_of, killed_at

Say = Callable[[object], None]
Found = tuple[str, int]


def killed(work: Callable[[Say], None], after: float, meanwhile: Callable[[], None] | None = None) -> list[list]:
    """Run ``work`` in a child and kill it after some seconds; what it had said by then, line by line."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(lambda line: os.write(writing, json.dumps(line).encode() + b"\n") and None)
        finally:
            os._exit(0)
    os.close(writing)
    end, said = time.monotonic() + after, b""
    if meanwhile is not None:
        time.sleep(after)
        meanwhile()
    while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        part = os.read(reading, 65536)
        if not part:
            break  # the child died by itself
        said += part
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        said += pipe.read()
    return [json.loads(line) for line in said.splitlines(keepends=True) if line.endswith(b"\n")]


def attack_store(folder: Path, n: int, draw: random.Random) -> Found:
    """Kill appends, replacements and compactions: every acknowledged batch must be there, with its newest content."""
    kept: dict[str, int] = {}
    faults = 0
    for _ in range(n):
        seed = draw.randrange(2**30)

        def work(say: Say, seed: int = seed) -> None:
            choose, store = random.Random(seed), CellStore(folder)
            while True:
                name, content = str(choose.randrange(40)), choose.randrange(10**6)
                if choose.random() < 0.1:
                    store.compact(grace_seconds=0.0)
                say([name, content, "begun"])
                store.append(batch_of(content), BINS, day=day_of(int(name)), batch=name, replace=True)
                say([name, content, "done"])

        lines = killed(work, draw.uniform(0.02, 0.3))
        kept |= {str(name): int(content) for name, content, step in lines if step == "done"}
        store = CellStore(folder)
        if lines and lines[-1][2] == "begun":
            name, content = str(lines[-1][0]), int(lines[-1][1])
            held = store.manifest().find(name)
            if held is not None and held.digest_of(name) == digest_of(batch_of(content)):
                kept[name] = content
        held_names = sorted(name for batch in store.manifest().batches for name in batch.ids)
        faults += held_names != sorted(kept)
        if kept:
            expected = sum(float(batch_of(content).total.pred) for content in kept.values())
            faults += abs(float(store.window().cells.total.pred) - expected) > 1e-6
        faults += len(store.verify(leftovers=False))
    return f"{n} kills of append, replace and merge, {len(kept)} batches", faults


def attack_journal(folder: Path, n: int, draw: random.Random) -> Found:
    """Kill a feedback loop: every outcome whose score was acknowledged arrives in the store exactly once."""
    model = random_model(1)
    columns = random_rows(3, model, 5)
    scored = BatchScorer(model).score_columns([columns[name] for name in model.bins.names])
    options = FeedbackOptions(folder=folder / "journal")
    waiting: dict[str, None] = {}
    n_scored = 0
    for kill in range(n):

        def work(say: Say, kill: int = kill, again: tuple[str, ...] = tuple(waiting)) -> None:
            loop = FeedbackLoop(options, CellStore(folder / "cells"))
            loop.join([(name, 1) for name in again])
            say(["joined", *again])
            for turn in range(10**6):
                ids = [f"{kill}-{turn}-{i}" for i in range(5)]
                loop.remember(model.bins, ids, scored)
                say(["scored", *ids])
                loop.join([(name, 1) for name in ids])
                say(["joined", *ids])
                if turn % 7 == 6:
                    loop.seal()
                    loop.flush()

        for step, *ids in killed(work, draw.uniform(0.02, 0.25)):
            if step == "scored":
                n_scored += len(ids)
                waiting |= dict.fromkeys(map(str, ids))
            else:
                waiting = {name: None for name in waiting if name not in set(ids)}
    loop = FeedbackLoop(options, CellStore(folder / "cells"))
    loop.join([(name, 1) for name in waiting])
    loop.seal()
    loop.flush()
    loop.close()
    stored = int(CellStore(folder / "cells").window().cells.total.count)
    return f"{n} kills of the feedback loop, {n_scored:,} outcomes, {stored:,} stored", abs(stored - n_scored)


def attack_refresh(folder: Path, n: int, draw: random.Random) -> Found:
    """Kill refreshes: every acknowledged decision has its record, one at most is not acknowledged, cells stay."""
    store = CellStore(folder)
    for day in range(1, 5):
        store.append(_skewed_day(day), BINS, day=f"2024-05-0{day}", batch=str(day))
    cells = digest_of(store.window().cells)
    refresh(store, _to_fit(0))  # kernels that every child would compile or read
    one = _seconds(lambda: refresh(store, _to_fit(1)))
    candidates = [record["candidate"] for record in ModelRegistry(store).records()]
    faults = 0
    for _ in range(n):
        seed, step = draw.randrange(2**30), draw.choice([None, draw.randrange(1, 120)])

        def work(say: Say, seed: int = seed, step: int | None = step) -> None:
            own, choose = CellStore(folder), random.Random(seed)
            if step is not None:
                killed_at(step)
            while True:
                say(refresh(own, _to_fit(choose.randrange(5))).candidate)

        candidates += killed(work, one * draw.uniform(0.5, 6.0))
        registry = ModelRegistry(folder)
        records = registry.records()
        found = [record["candidate"] for record in records]
        faults += found[: len(candidates)] != candidates or len(found) > len(candidates) + 1
        faults += [record["number"] for record in records] != list(range(1, len(records) + 1))
        faults += version_of(registry.read()) != records[-1]["in_service"]
        registry.ensemble()
        candidates = found
    faults += digest_of(CellStore(folder).window().cells) != cells
    return f"{n} kills of refresh, {len(candidates):,} decisions", faults


def attack_registry(folder: Path, n: int, draw: random.Random) -> Found:
    """Kill publications to a folder."""
    found, faults = _attack_publish(lambda: ModelRegistry(folder), n, draw, lambda _: 0)
    return f"{n} kills of publish to a folder, {found:,} publications", faults


def attack_redis(folder: Path, n: int, draw: random.Random) -> Found:
    """Kill publications to Redis, every eighth time Redis itself: the rules of the version in service are whole too."""
    if shutil.which("redis-server") is None:
        return "not run: redis-server is not installed (apt-get install redis-server)", 0
    server = RedisServer(folder)
    models = {version_of(content_of(model)): model for model in _models()}

    def rules_are_whole(version: str) -> int:
        backend = RedisBackend(server.url)
        client = backend._client
        write_rules(client, "again", models[version])
        roots = (f"mbct:{{default}}:rules:{version}", "again")
        named = [{key.decode().removeprefix(root): key for key in client.keys(f"{root}*")} for root in roots]
        contents = [{part: _redis_value(client, key) for part, key in keys.items()} for keys in named]
        client.delete(*named[1].values())
        backend.close()
        return int(contents[0] != contents[1])

    try:
        found, faults = _attack_publish(
            lambda: ModelRegistry(RedisBackend(server.url, keep=3)), n, draw, rules_are_whole, server
        )
    finally:
        server.stop()
    return f"{n} kills of publish to Redis or of Redis, {found:,} publications", faults


def _attack_publish(
    open_registry: Callable[[], ModelRegistry],
    n: int,
    draw: random.Random,
    extra: Callable[[str], int],
    server: RedisServer | None = None,
) -> tuple[int, int]:
    """The model in service is whole, and it is the acknowledged one or the one under way."""
    contents = [content_of(model) for model in _models()]
    n_published = faults = 0
    with open_registry() as registry:
        registry.publish(contents[0])
        one = _seconds(lambda: registry.publish(contents[1]))
        before = registry.in_service()
    for kill in range(n):
        seed = draw.randrange(2**30)

        def work(say: Say, seed: int = seed) -> None:
            choose, registry = random.Random(seed), open_registry()
            while True:
                content = choose.choice(contents)
                say(["begun", version_of(content)])
                with contextlib.suppress(StorageError):  # Redis was killed
                    say(["done", registry.publish(content)])
                    continue
                return

        kills_server = server is not None and kill % 8 == 7
        lines = killed(work, 0.02 + one * draw.uniform(0.0, 6.0), server.kill if kills_server else None)
        if kills_server:
            server.start()
        done = [str(version) for step, version in lines if step == "done"]
        n_published += len(done)
        allowed = {done[-1] if done else before, *(str(v) for step, v in lines[-1:] if step == "begun")}
        with open_registry() as registry:
            before = registry.in_service()
            faults += before not in allowed
            registry.ensemble()
            faults += extra(str(before))
    return n_published, faults


def attack_disk(folder: Path, n: int, draw: random.Random) -> Found:
    """Append where files may not grow: an error or a batch, never half of one."""
    faults = refused = 0
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for number in range(1, n + 1):
        limit = draw.choice([0, 100, 1000, 3000, 5000, 10**7])
        child = os.fork()
        if child == 0:
            with contextlib.suppress(MBCTError):
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
                CellStore(folder).append(batch_of(number), BINS, day="2024-05-01", batch=str(number))
                os._exit(0)
            os._exit(3)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        held = CellStore(folder).manifest().find(str(number)) is not None
        faults += code not in (0, 3) or held != (code == 0)
        refused += code == 3
        if number % 20 == 0:
            CellStore(folder).compact(grace_seconds=0.0)
            faults += len(CellStore(folder).verify())
    return f"{n} appends on full disks, {refused} refused", faults


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _redis_value(client: Any, key: bytes) -> Any:
    return client.hgetall(key) if client.type(key) == b"hash" else client.lrange(key, 0, -1)


def _models() -> list[CalibrationEnsemble]:
    return [random_model(seed) for seed in range(5)]


def _to_fit(seed: int) -> MBCTCalibrator:
    return MBCTCalibrator("p", preset="fast", random_state=seed, n_threads=1)


def _skewed_day(day: int):
    """Cells of 2,000 rows with something to correct, so that refreshes promote."""
    rng = np.random.default_rng(day)
    codes = np.column_stack([rng.integers(0, k, 2_000) for k in BINS.n_codes]).astype(BINS.code_type)
    y_prob = rng.random(len(codes))
    y_true = rng.random(len(codes)) < y_prob ** (1 + codes[:, 1] % 2)
    return build_cells(codes, y_prob, y_true.astype(float), None, BINS, "cell")
