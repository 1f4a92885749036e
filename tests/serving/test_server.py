"""The running service: swaps under load, deaths, draining, tokens."""

import asyncio
import json
import random
import re
import socket
import threading
import time

import httpx
import pytest

from builders import random_model, random_rows
from mbct.errors import MissingDependencyError, ModelFileError, ParameterError, StorageError
from mbct.files import write_atomically
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.serving import serve
from mbct.serving.batch import BatchScorer
from mbct.serving.options import FeedbackOptions, Limits, ServiceOptions
from mbct.store.model_registry import ModelRegistry, version_of
from mbct.store.redis_backend import RedisBackend


class Load:
    """Connections that score one row after another and check every answer against the model it names."""

    def __init__(self, port, models, n_connections=32):
        self.port, self.n_connections = port, n_connections
        row_columns = random_rows(11, models[0], 1)
        self.row = {name: values[0] for name, values in row_columns.items()}
        self.row = {name: self.row.get(name) for name in {n for model in models for n in model.bins.names}}
        self.expected = {}
        self.answers, self.faults, self.versions, self.latest = 0, [], set(), None
        self.stopped = threading.Event()

    def expect(self, content, model):
        self.expected[version_of(content)] = float(BatchScorer(model).score_rows([self.row])[0])

    async def _connection(self):
        body = json.dumps({"rows": [self.row]}).encode()
        head = b"POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        request = head % len(body) + body
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while not self.stopped.is_set():
            writer.write(request)
            answer = await reader.readuntil(b"}")
            status, _, payload = answer.partition(b"\r\n\r\n")
            self.answers += 1
            if b" 200 " not in status.partition(b"\r\n")[0]:
                self.faults.append(answer)
                continue
            found = json.loads(payload)
            self.latest = found["model"]
            self.versions.add(self.latest)
            if abs(found["calibrated"][0] - self.expected[found["model"]]) > 1e-12:
                self.faults.append(found)
        writer.close()

    async def _all(self):
        results = await asyncio.gather(*(self._connection() for _ in range(self.n_connections)), return_exceptions=True)
        self.broken = [result for result in results if result is not None]

    def run_in_thread(self):
        thread = threading.Thread(target=lambda: asyncio.run(self._all()))
        thread.start()
        return thread


@pytest.mark.slow
def test_a_hundred_swaps_under_load_fail_no_request_and_mix_no_answer(start_service, redis_server, content, eventually):
    models = [random_model(7, n_trees=n) for n in range(1, 6)]
    contents = [content(model) for model in models]
    with ModelRegistry(RedisBackend(redis_server.url, rules=False)) as registry:
        registry.publish(contents[0])
        service = start_service(repr(redis_server.url))
        load = Load(service.port, models)
        for one, model in zip(contents, models, strict=True):
            load.expect(one, model)
        thread = load.run_in_thread()
        draw = random.Random(0)
        for _ in range(100):
            before = registry.in_service()
            version = registry.publish(draw.choice([c for c in contents if version_of(c) != before]))
            eventually(lambda v=version: load.latest == v, what="the swap")
        load.stopped.set()
        thread.join()
        assert (load.faults, load.broken) == ([], [])
        assert len(load.versions) == 5
        assert load.answers > 1000
        assert service.log.count("in place of") == 100


@pytest.mark.slow
def test_redis_and_corruption_under_load_never_stop_the_service(start_service, redis_server, content, eventually):
    model, other = random_model(7, n_trees=2), random_model(7, n_trees=3)
    with ModelRegistry(redis_server.url) as registry, httpx.Client() as client:
        first = registry.publish(content(model))
        service = start_service(repr(redis_server.url))
        load = Load(service.port, [model, other], n_connections=8)
        load.expect(content(model), model)
        load.expect(content(other), other)
        thread = load.run_in_thread()
        redis_server.kill()
        ready = f"{service.url}/readyz"
        found = eventually(lambda: (t := client.get(ready).json())["status"] == "degraded" and t, what="degradation")
        assert found["model"] == first
        assert found["problem"] == "the source of models is away"
        assert "mbct_model_source_up 0" in client.get(f"{service.url}/metrics").text
        redis_server.start()
        eventually(lambda: client.get(ready).json()["status"] == "ready", what="recovery")
        corrupt = content(other)[:-30]
        version = version_of(corrupt)
        registry.backend._client.hset(f"mbct:{{default}}:model:{version}", mapping={"content": corrupt})
        registry.backend._client.set("mbct:{default}:current", version)
        eventually(lambda: "mbct_model_refused_total 1" in client.get(f"{service.url}/metrics").text, what="refusal")
        assert client.get(ready).json()["model"] == first
        second = registry.publish(content(other))
        eventually(lambda: client.get(ready).json()["model"] == second, what="the good model")
        registry.rollback(to=first)
        eventually(lambda: client.get(ready).json()["model"] == first, what="the rollback")
        load.stopped.set()
        thread.join()
        assert (load.faults, load.broken) == ([], [])
        assert f"model {first} keeps serving" in service.log
        assert "is damaged" in service.log
        assert "Traceback" not in service.log


@pytest.mark.slow
def test_a_killed_service_loses_no_acknowledged_outcome(start_service, model_file, tmp_path, eventually):
    folder = tmp_path / "feedback"
    feedback = f"FeedbackOptions(folder=Path({str(folder)!r}), flush_seconds=0.3)"
    sink = "sink=__import__('sink_of_the_test').FolderSink()"
    arguments = f"{str(model_file)!r}, {sink}"
    (tmp_path / "sink_of_the_test.py").write_text(
        "import json\nfrom pathlib import Path\n\n\nclass FolderSink:\n"
        "    def append(self, cells, bins, *, day, batch):\n"
        f"        path = Path({str(tmp_path)!r}) / f'batch-{{batch}}.json'\n"
        "        path.write_text(json.dumps([float(cells.total.count), float(cells.total.label)]))\n"
    )
    columns = random_rows(3, random_model(1, n_trees=4), 10)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    service = start_service(arguments, feedback=feedback, path=tmp_path)
    acknowledged = set()
    killed = threading.Event()

    def work(worker):
        with httpx.Client(base_url=service.url) as client:
            for turn in range(100_000):
                ids = [f"{worker}-{turn}-{i}" for i in range(len(rows))]
                try:
                    client.post("/v1/score", json={"rows": rows, "ids": ids}).raise_for_status()
                    outcomes = [{"id": i, "label": turn % 2} for i in ids]
                    answer = client.post("/v1/outcome", json={"outcomes": outcomes}).raise_for_status().json()
                except httpx.TransportError:
                    killed.set()
                    return
                assert answer["joined"] == len(rows)
                acknowledged.update(ids)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    eventually(lambda: len(acknowledged) > 100 and len(list(tmp_path.glob("batch-*.json"))) > 1, 60, "two batches")
    service.kill()
    for worker in workers:
        worker.join()
    assert killed.is_set()
    again = start_service(arguments, feedback=feedback, path=tmp_path)
    with httpx.Client(base_url=again.url) as client:
        repeated = [{"id": i, "label": 1} for i in sorted(acknowledged)[:50]]
        assert client.post("/v1/outcome", json={"outcomes": repeated}).json()["joined"] == 0
    again.stop()
    kept = sum(json.loads(path.read_text())[0] for path in tmp_path.glob("batch-*.json"))
    in_flight = 4 * len(rows)
    assert len(acknowledged) <= kept <= len(acknowledged) + in_flight


def test_requests_under_way_are_finished_before_the_service_stops(start_service, model_file, eventually):
    service = start_service(repr(str(model_file)))
    body = json.dumps({"columns": random_rows(3, random_model(1, n_trees=4), 1)}).encode()
    head = f"POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"

    def refuses_others():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", service.port)) != 0

    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
        connection.sendall(f"{head}expect: 100-continue\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
        service.process.terminate()
        eventually(refuses_others, what="the end of listening")
        connection.sendall(body)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert service.stop() == 0


def test_a_token_guards_all_but_health_page_and_schema(start_service, model_file):
    token = "a-long-enough-token"
    service = start_service(repr(str(model_file)), token=token)
    with httpx.Client(base_url=service.url) as client:
        for path in ("/healthz", "/readyz", "/", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200
        for path in ("/v1/model", "/v1/rules", "/metrics", "/v1/live"):
            for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {token}"}):
                refused = client.get(path, headers=header)
                assert refused.status_code == 401
                assert refused.headers["www-authenticate"].startswith("Bearer")
            assert client.get(path, headers={"authorization": f"Bearer {token}"}).status_code == 200
        assert client.post("/v1/score", json={}).status_code == 401
        assert client.post("/v1/score", json={}, headers={"authorization": b"Bearer \xff"}).status_code == 401
    assert token not in service.log


def test_it_starts_without_a_model_in_redis_and_takes_the_first(start_service, redis_server, content, eventually):
    service = start_service(repr(redis_server.url), ready=False)
    with httpx.Client(base_url=service.url) as client, ModelRegistry(redis_server.url) as registry:
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        assert client.get("/openapi.json").status_code == 200
        refused = client.post("/v1/score", json={"rows": [{}]})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        registry.publish(content(random_model(1)))
        eventually(lambda: client.get("/readyz").status_code == 200, what="the first model")


def test_a_bad_start_is_one_clear_error(tmp_path, model_file):
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'mbct[serve]'")
    with pytest.raises(StorageError, match="cannot read"):
        serve(tmp_path / "absent.json")
    bad = tmp_path / "bad.json"
    write_atomically(bad, b"{}")
    with pytest.raises(ModelFileError, match=r"bad\.json"):
        serve(bad)
    with pytest.raises(ParameterError, match="last_good"):
        serve(model_file, last_good=tmp_path / "copy")


def test_options_are_checked():
    for wrong in (
        lambda: ServiceOptions(port=70_000),
        lambda: ServiceOptions(token="short"),
        lambda: ServiceOptions(poll_seconds=0),
        lambda: Limits(rows=0),
        lambda: FeedbackOptions(segments=0),
    ):
        with pytest.raises(ParameterError):
            wrong()
    assert "a-long-enough-token" not in repr(ServiceOptions(token="a-long-enough-token"))
    assert ServiceOptions().host == "127.0.0.1"


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises(MissingDependencyError, match=r"mbct\[serve\]"):
        serve("model.json")


def test_workers_share_the_port_and_score_alike(start_service, model_file, content, eventually):
    model = random_model(1, n_trees=4)
    service = start_service(repr(str(model_file)), workers=2)
    columns = random_rows(3, model, 5)
    expected = BatchScorer(model).score_mapping(columns)
    workers = set()

    def both_seen():
        with httpx.Client(base_url=service.url) as client:  # a connection stays with one worker
            answer = client.post("/v1/score", json={"columns": columns}).json()["calibrated"]
            assert answer == pytest.approx(expected, abs=1e-12)
            text = client.get("/metrics").text
            workers.update(re.findall(r'mbct_rows_total{worker="(\d+)"} \d+', text))
            refused = client.post("/v1/outcome", json={"outcomes": [{"id": "a", "label": 1}]})
            assert (refused.status_code, "--workers 1" in refused.json()["detail"]) == (501, True)
        return len(workers) == 2

    eventually(both_seen, 30, "answers of both workers")
    other = content(random_model(1, n_trees=5))
    write_atomically(model_file, other)

    def swapped():
        versions = {httpx.get(f"{service.url}/readyz").json()["model"] for _ in range(8)}
        return versions == {version_of(other)}

    eventually(swapped, 30, "the swap in both workers")
    assert service.stop() == 0


def test_workers_take_no_outcomes(tmp_path, model_file):
    with pytest.raises(ParameterError, match="a journal needs one process, not workers=2"):
        ServiceOptions(workers=2, feedback=FeedbackOptions(folder=tmp_path))
    with pytest.raises(ParameterError, match="one process, not workers=2"):
        serve(model_file, options=ServiceOptions(workers=2), sink=object())
    with pytest.raises(ParameterError, match="workers=0"):
        ServiceOptions(workers=0)


def test_a_column_with_quotes_in_its_name_is_served(start_service, content, tmp_path):
    name = '15" screen'
    bins = FeatureBins((NumberBins("score", (0.5,)), CategoryBins(name, ("yes", "no"))))
    model = CalibrationEnsemble("score", "odds", bins, ())
    (tmp_path / "quoted.json").write_bytes(content(model))
    service = start_service(repr(str(tmp_path / "quoted.json")))
    row = {"score": 0.25, name: "never seen"}
    with httpx.Client(base_url=service.url) as client:
        assert client.post("/v1/score", json={"rows": [row]}).json()["calibrated"] == [0.25]
        assert client.post("/v1/explain", json={"row": row}).status_code == 200
        assert f"at `$.rows[0].{name}`" in client.post("/v1/score", json={"rows": [{**row, name: []}]}).json()["detail"]
        assert 'feature="15\\" screen"' in client.get("/metrics").text
        assert name in client.get("/openapi.json").json()["components"]["schemas"]["Row"]["required"]


def test_strangers_learn_no_address_and_the_log_shows_control_characters(start_service, tmp_path, content):
    token = "a-long-enough-token"
    folder = tmp_path / "a\x1b[31m\nb"
    folder.mkdir()
    path = folder / "model.json"
    path.write_bytes(content(random_model(1)))
    service = start_service(repr(str(path)), token=token)
    path.write_bytes(b"{}")
    with httpx.Client(base_url=service.url) as client:
        end = time.monotonic() + 15
        while client.get("/readyz").json()["status"] != "degraded":
            assert time.monotonic() < end
        stranger = client.get("/readyz").json()
        assert stranger["problem"] == "a new model was refused: it cannot be served"
        trusted = client.get("/readyz", headers={"authorization": f"Bearer {token}"}).json()
        assert str(path) in trusted["problem"]
    assert "\\u001b[31m\\u000ab" in service.log
    assert "\x1b" not in service.log
