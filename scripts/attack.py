"""Attack what must not lose or mix anything: kills, full disks, hostile bodies and names, swaps under load.

    python scripts/attack.py [--seconds 30] [--seed 0]

Each attack runs for about so many seconds with real processes and real files, then checks everything that was
acknowledged. Prints one line each and ends with 1 if anything was lost, counted twice, mixed, or answered by 5xx.
"""

import argparse
import contextlib
import http.client
import io
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import msgspec
import pyarrow as pa

from builders import random_model, random_rows
from mbct.errors import MBCTError
from mbct.files import write_atomically
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import dump_document
from mbct.serving.batch import BatchScorer
from mbct.serving.feedback import FeedbackLoop
from mbct.serving.loaded_model import LoadedModel
from mbct.serving.options import FeedbackOptions
from mbct.store import CellStore, ModelRegistry
from mbct.store.cell_file import digest_of, from_parquet, to_parquet
from mbct.store.model_registry import version_of
from store_writers import BINS, batch_of, day_of

Say = Callable[[object], None]


def killed(work: Callable[[Say], None], after: float) -> list[list[object]]:
    """Run ``work`` in a child and kill it after some seconds; what it had said by then, line by line."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(lambda line: os.write(writing, json.dumps(line).encode() + b"\n") and None)
        finally:
            os._exit(0)
    os.close(writing)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        return [json.loads(line) for line in pipe.read().splitlines(keepends=True) if line.endswith(b"\n")]


def attack_store(folder: Path, seconds: float, draw: random.Random) -> tuple[str, int]:
    """Kill appends, replacements and compactions: every acknowledged batch must be there, with its newest content."""
    kept: dict[str, int] = {}
    kills = faults = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
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
        kills += 1
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
    return f"{kills} kills of append, replace and merge, {len(kept)} batches", faults


def attack_journal(folder: Path, seconds: float, draw: random.Random) -> tuple[str, int]:
    """Kill a feedback loop: every outcome whose score was acknowledged arrives in the store exactly once."""
    model = random_model(1)
    columns = random_rows(3, model, 5)
    scored = BatchScorer(model).score_columns([columns[name] for name in model.bins.names])
    options = FeedbackOptions(folder=folder / "journal")
    waiting: list[str] = []
    n_scored = kills = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        first = f"{kills}-"

        def work(say: Say, first: str = first, again: tuple[str, ...] = tuple(waiting)) -> None:
            loop = FeedbackLoop(options, CellStore(folder / "cells"))
            loop.join([(name, 1) for name in again])
            say(["joined", *again])
            for turn in range(10**6):
                ids = [f"{first}{turn}-{i}" for i in range(5)]
                loop.remember(model.bins, ids, scored)
                say(["scored", *ids])
                loop.join([(name, 1) for name in ids])
                say(["joined", *ids])
                if turn % 7 == 6:
                    loop.seal()
                    loop.flush()

        lines = killed(work, draw.uniform(0.02, 0.25))
        kills += 1
        for step, *ids in lines:
            if step == "scored":
                n_scored += len(ids)
                waiting += map(str, ids)
            else:
                waiting = [name for name in waiting if name not in set(ids)]
    loop = FeedbackLoop(options, CellStore(folder / "cells"))
    loop.join([(name, 1) for name in waiting])
    loop.seal()
    loop.flush()
    loop.close()
    stored = int(CellStore(folder / "cells").window().cells.total.count)
    return f"{kills} kills of the feedback loop, {n_scored:,} outcomes, {stored:,} stored", abs(stored - n_scored)


def attack_registry(folder: Path, seconds: float, draw: random.Random) -> tuple[str, int]:
    """Kill publications: the model in service is whole, and it is the acknowledged one or the one under way."""
    contents = [_content(random_model(seed)) for seed in range(5)]
    kills = faults = 0
    before: str | None = None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seed = draw.randrange(2**30)

        def work(say: Say, seed: int = seed) -> None:
            choose, registry = random.Random(seed), ModelRegistry(folder)
            while True:
                content = choose.choice(contents)
                say(["begun", version_of(content)])
                say(["done", registry.publish(content)])

        lines = killed(work, draw.uniform(0.01, 0.1))
        kills += 1
        registry = ModelRegistry(folder)
        done = [str(version) for step, version in lines if step == "done"]
        allowed = {done[-1] if done else before, *(str(v) for step, v in lines[-1:] if step == "begun")}
        before = registry.in_service()
        faults += before not in allowed
        if before is not None:
            registry.ensemble()
    return f"{kills} kills of publish", faults


def attack_disk(folder: Path, seconds: float, draw: random.Random) -> tuple[str, int]:
    """Append where files may not grow: an error or a batch, never half of one."""
    tries = faults = refused = 0
    end = time.monotonic() + seconds
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    while time.monotonic() < end:
        tries += 1
        limit, number = draw.choice([0, 100, 1000, 3000, 5000, 10**7]), tries
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
        if tries % 20 == 0:
            CellStore(folder).compact(grace_seconds=0.0)
            faults += len(CellStore(folder).verify())
    return f"{tries} appends on full disks, {refused} refused", faults


@contextlib.contextmanager
def service(folder: Path, model: CalibrationEnsemble):
    """A service of a model file on a free port."""
    write_atomically(folder / "model.json", _content(model))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = (
        "import sys; from mbct.serving import serve, ServiceOptions; "
        "serve(sys.argv[1], options=ServiceOptions(port=int(sys.argv[2]), poll_seconds=0.05))"
    )
    log = (folder / "service.log").open("wb")
    process = subprocess.Popen([sys.executable, "-c", code, str(folder / "model.json"), str(port)], stderr=log)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=60)
        log.close()


def _connection(port: int) -> contextlib.closing[http.client.HTTPConnection]:
    return contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30))


def attack_bodies(folder: Path, seconds: float, draw: random.Random) -> tuple[str, int]:
    """Damaged and hostile bodies in every format: answers of 2xx or 4xx, none of 5xx, none slower than five seconds."""
    model = random_model(1, n_trees=4)
    bodies = _bodies(model)
    statuses: Counter[int] = Counter()
    slowest = 0.0
    with service(folder, model) as port, _connection(port) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            kind, body = draw.choice(bodies)
            path = draw.choice(["/v1/score", "/v1/score", "/v1/explain", "/v1/outcome", "/v1/score?ids=text_1"])
            began = time.monotonic()
            connection.request("POST", path, _damaged(body, draw), {"content-type": kind})
            answer = connection.getresponse()
            answer.read()
            slowest = max(slowest, time.monotonic() - began)
            statuses[answer.status] += 1
    wrong = sum(number for status, number in statuses.items() if status >= 500) + (slowest > 5.0)
    shown = ", ".join(f"{status}: {number:,}" for status, number in sorted(statuses.items()))
    return f"{sum(statuses.values()):,} bodies ({shown}), slowest {slowest * 1000:.0f} ms", wrong


def attack_swaps(folder: Path, seconds: float, draw: random.Random) -> tuple[str, int]:
    """Swap models under load: every answer is that of the model it names."""
    models = [random_model(7, n_trees=n) for n in range(1, 6)]
    row = {name: values[0] for name, values in random_rows(11, models[0], 1).items()}
    expected = {version_of(_content(m)): float(BatchScorer(m).score_rows([row])[0]) for m in models}
    body = json.dumps({"rows": [row]})
    answers, faults, stopped = Counter[str](), Counter[str](), threading.Event()

    def load(port: int) -> None:
        with _connection(port) as connection:
            while not stopped.is_set():
                try:
                    connection.request("POST", "/v1/score", body, {"content-type": "application/json"})
                    answer = json.loads(connection.getresponse().read())
                    answers[answer["model"]] += 1
                    faults["mixed"] += abs(answer["calibrated"][0] - expected[answer["model"]]) > 1e-12
                except Exception as error:
                    faults[type(error).__name__] += 1

    swaps = 0
    with service(folder, models[0]) as port:
        threads = [threading.Thread(target=load, args=(port,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            write_atomically(folder / "model.json", _content(draw.choice(models)))
            swaps += 1
            time.sleep(0.15)
        stopped.set()
        for thread in threads:
            thread.join()
    return f"{swaps} swaps under {sum(answers.values()):,} requests, {len(answers)} models", sum(faults.values())


def attack_names(folder: Path, seconds: float, draw: random.Random) -> tuple[str, int]:  # noqa: ARG001 - one shape
    """Columns and values of any text are loaded and decoded."""
    tries = faults = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        tries += 1
        name, value = (_hostile_text(draw) for _ in range(2))
        if name == "score":
            continue
        bins = FeatureBins((NumberBins("score", (0.5,)), CategoryBins(name, tuple({value, "x"}))))
        loaded = LoadedModel(_content(CalibrationEnsemble("score", "odds", bins, ())))
        decoded = loaded.decoders.json.decode(msgspec.json.encode({"rows": [{"score": 0.25, name: value}]}))
        codes = loaded.batch.score_columns([[v] for v in msgspec.structs.astuple(decoded.rows[0])]).codes
        faults += int(codes[0, 1]) >= 2
    return f"{tries:,} hostile names and values", faults


def _hostile_text(draw: random.Random) -> str:
    alphabet = "\"'\\`{}[]<>\n\r\t\x00\x1b\x7f%;*^$.:/éß日\u202e\U0001f600ab "
    return "".join(draw.choice(alphabet) for _ in range(draw.randrange(1, 12)))


def _bodies(model: CalibrationEnsemble) -> list[tuple[str, bytes]]:
    columns = random_rows(5, model, 6)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    out = io.BytesIO()
    table = pa.table(
        {**columns, "nested": [{"a": [1, 2]}] * 6, "list": pa.FixedSizeListArray.from_arrays(pa.nulls(18), 3)}
    )
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    documents = [
        {"rows": rows},
        {"columns": columns, "ids": list("abcdef")},
        {"row": rows[0]},
        {"outcomes": [{"id": "a", "label": 1}]},
    ]
    found = [("application/json", msgspec.json.encode(document)) for document in documents]
    found += [("application/msgpack", msgspec.msgpack.encode(document)) for document in documents]
    return [*found, ("application/vnd.apache.arrow.stream", out.getvalue()), ("text/plain", b"x")]


_INSERTED = (b"null", b"1e999", b"[[[", b"\xff\xff\xff\xff", b'"\\ud800"', b"-0", b"true", b"{}")


def _damaged(body: bytes, draw: random.Random) -> bytes:
    damaged = bytearray(body)
    for _ in range(draw.choice([0, 1, 1, 2, 4, 8])):
        position = draw.randrange(len(damaged) or 1)
        step = draw.randrange(4)
        if step == 0:
            damaged[position : position + 1] = bytes([draw.randrange(256)])
        elif step == 1:
            del damaged[position : position + draw.randrange(1, 20)]
        elif step == 2:
            damaged[position:position] = draw.choice(
                [b"null", b"1e999", b"[[[", b"\xff\xff\xff\xff", b'"\\ud800"', b"-0"]
            )
        else:
            damaged = damaged[:position]
    return bytes(damaged)


def _content(model: CalibrationEnsemble) -> bytes:
    return dump_document({"method": "mbct", "state": {"model": model.to_dict()}})


ATTACKS = (attack_store, attack_journal, attack_registry, attack_disk, attack_names, attack_bodies, attack_swaps)


def main() -> int:
    """Run every attack; 1 if anything broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each attack")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    from_parquet(to_parquet([batch_of(0)]), BINS, "warm-up")  # imports that every child would repeat
    broken = 0
    for attack in ATTACKS:
        with tempfile.TemporaryDirectory(prefix="mbct-attack-") as folder:
            (target := Path(folder) / "target").mkdir()
            found, faults = attack(target, arguments.seconds, random.Random(arguments.seed))
        print(f"{attack.__name__.removeprefix('attack_'):9} {found}; faults: {faults}", flush=True)
        broken += faults
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
