"""Hostile bodies, names and swaps: what a service must answer, and never by 5xx or by a mixture of two models.

Each attack returns what was done and the number of faults.
"""

import contextlib
import http.client
import io
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec
import pyarrow as pa

from builders import random_model, random_rows
from mbct.files import write_atomically
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.serving.batch import BatchScorer
from mbct.serving.loaded_model import LoadedModel
from mbct.store.model_registry import version_of
from processes import content_of, free_port, wait_until


@contextlib.contextmanager
def service(folder: Path, model: CalibrationEnsemble):
    """A service of a model file on a free port."""
    write_atomically(folder / "model.json", content_of(model))
    port = free_port()
    code = (
        "import sys; from mbct.serving import serve, ServiceOptions; "
        "serve(sys.argv[1], options=ServiceOptions(port=int(sys.argv[2]), poll_seconds=0.05))"
    )
    log = (folder / "service.log").open("wb")
    process = subprocess.Popen([sys.executable, "-c", code, str(folder / "model.json"), str(port)], stderr=log)
    try:
        wait_until(lambda: _answers(port), 60, "the service")
        yield port
    finally:
        process.terminate()
        process.wait(timeout=60)
        log.close()


def _answers(port: int) -> bool:
    with _connection(port) as connection:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200


def _connection(port: int) -> contextlib.closing[http.client.HTTPConnection]:
    return contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30))


def attack_bodies(folder: Path, n: int, draw: random.Random) -> tuple[str, int]:
    """Damaged and hostile bodies in every format: answers of 2xx or 4xx, none of 5xx, none slower than five seconds."""
    model = random_model(1, n_trees=4)
    bodies = _bodies(model)
    statuses: Counter[int] = Counter()
    slowest = 0.0
    with service(folder, model) as port, _connection(port) as connection:
        for _ in range(n):
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


def attack_swaps(folder: Path, n: int, draw: random.Random) -> tuple[str, int]:  # noqa: ARG001 - one shape
    """Swap models under load: every answer is that of the model it names."""
    models = [random_model(7, n_trees=n) for n in range(1, 6)]
    row = {name: values[0] for name, values in random_rows(11, models[0], 1).items()}
    expected = {version_of(content_of(m)): float(BatchScorer(m).score_rows([row])[0]) for m in models}
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

    with service(folder, models[0]) as port:
        threads = [threading.Thread(target=load, args=(port,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for swap in range(n):
            write_atomically(folder / "model.json", content_of(models[(swap + 1) % len(models)]))
            time.sleep(0.15)
        stopped.set()
        for thread in threads:
            thread.join()
    return f"{n} swaps under {sum(answers.values()):,} requests, {len(answers)} models", sum(faults.values())


def attack_names(folder: Path, n: int, draw: random.Random) -> tuple[str, int]:  # noqa: ARG001 - one shape
    """Columns and values of any text are loaded and decoded."""
    faults = 0
    for _ in range(n):
        name, value = (_hostile_text(draw) for _ in range(2))
        if name == "score":
            continue
        bins = FeatureBins((NumberBins("score", (0.5,)), CategoryBins(name, tuple({value, "x"}))))
        loaded = LoadedModel(content_of(CalibrationEnsemble("score", "odds", bins, ())))
        decoded = loaded.decoders.json.decode(msgspec.json.encode({"rows": [{"score": 0.25, name: value}]}))
        codes = loaded.batch.score_columns([[v] for v in msgspec.structs.astuple(decoded.rows[0])]).codes
        faults += int(codes[0, 1]) >= 2
    return f"{n:,} hostile names and values", faults


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
            damaged[position:position] = draw.choice(_INSERTED)
        else:
            damaged = damaged[:position]
    return bytes(damaged)
