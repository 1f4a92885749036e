"""The short way of scoring requests: the same answers, in the same order, under the same limits as the long way."""

import json
import socket
import threading
import time

import httpx
import pytest

from builders import random_rows


def row_of(model):
    return {name: values[0] for name, values in random_rows(3, model, 1).items()}


def request(row, path="/v1/score", extra="", version="1.1"):
    body = json.dumps({"rows": [row]})
    head = f"POST {path} HTTP/{version}\r\nhost: x\r\ncontent-type: application/json\r\n{extra}"
    return f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()


class Answers:
    """Answers read one after another from a connection."""

    def __init__(self, connection):
        self._stream = connection.makefile("rb")

    def read(self):
        status = self._stream.readline().decode()
        headers = {}
        while (line := self._stream.readline().decode().strip()) != "":
            name, _, value = line.partition(": ")
            headers[name] = value
        if not status:
            return None
        return int(status.split()[1]), headers, self._stream.read(int(headers.get("content-length", 0)))


@pytest.fixture
def connection(service):
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as opened:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield opened


def test_both_ways_give_the_same_answer(service, connection):
    row, answers = row_of(service.model), Answers(connection)
    told = []
    for path in ("/v1/score", "/v1/score?the=long-way", "/v1/score"):
        connection.sendall(request(row, path))
        status, headers, body = answers.read()
        assert "date" in headers
        told.append((status, {name: value for name, value in headers.items() if name != "date"}, body))
    assert told[0][0] == 200
    assert told[0] == told[1] == told[2]


def test_requests_sent_together_are_answered_in_order(service, connection):
    row, answers = row_of(service.model), Answers(connection)
    health = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    faulty = request({})
    kinds = [request(row), health, request(row), request(row), faulty, request(row, "/v1/score?a=b"), request(row)]
    connection.sendall(b"".join(kinds))
    told = [answers.read() for _ in kinds]
    assert [status for status, _, _ in told] == [200, 200, 200, 200, 422, 200, 200]
    assert told[1][2] == b'{"status":"alive"}'
    assert len({told[i][2] for i in (0, 2, 3, 5, 6)}) == 1


@pytest.mark.parametrize("piece", [1, 7, 60, 150])
def test_requests_in_pieces_are_answered_like_whole_ones(service, connection, piece):
    row, answers = row_of(service.model), Answers(connection)
    connection.sendall(request(row))
    whole = answers.read()
    content = request(row)
    for begin in range(0, len(content), piece):
        connection.sendall(content[begin : begin + piece])
        time.sleep(0.001)
    assert answers.read()[2] == whole[2]
    connection.sendall(request(row))
    assert answers.read()[2] == whole[2]


def test_a_connection_to_be_closed_is_closed_after_the_answer(service, connection):
    answers = Answers(connection)
    connection.sendall(request(row_of(service.model), extra="connection: close\r\n"))
    status, headers, _ = answers.read()
    assert (status, headers["connection"]) == (200, "close")
    assert answers.read() is None


def test_old_http_is_answered_and_closed(service, connection):
    answers = Answers(connection)
    connection.sendall(request(row_of(service.model), version="1.0"))
    assert answers.read()[0] == 200
    assert answers.read() is None


def test_a_client_that_waits_for_leave_to_send_gets_it(service, connection):
    head, _, body = request(row_of(service.model), extra="expect: 100-continue\r\n").partition(b"\r\n\r\n")
    connection.sendall(head + b"\r\n\r\n")
    answers = Answers(connection)
    assert answers.read()[0] == 100
    connection.sendall(body)
    assert answers.read()[0] == 200


def test_a_chunked_body_is_taken(service, connection):
    body = json.dumps({"rows": [row_of(service.model)]}).encode()
    head = b"POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:20], body[20:]))
    connection.sendall(head + parts + b"0\r\n\r\n")
    assert Answers(connection).read()[0] == 200


def test_a_fault_inside_a_body_closes_the_connection(service, connection):
    head = b"POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    connection.sendall(head + b'5\r\n{"row\r\nnonsense\r\n\r\n')
    answers = Answers(connection)
    assert answers.read()[0] == 400
    assert answers.read() is None


def test_a_client_that_reads_late_gets_every_answer(service):
    # More answers than the buffers between them take: the rest must wait, and keep their order.
    row, n = row_of(service.model), 30_000
    with socket.socket() as connection:
        connection.settimeout(20)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", service.port))
        sender = threading.Thread(target=connection.sendall, args=(request(row) * n,))
        sender.start()
        time.sleep(1.0)
        answers = Answers(connection)
        told = {answers.read()[2] for _ in range(n)}
        sender.join()
    assert len(told) == 1


def test_every_request_is_counted_once(service):
    def counted(client):
        lines = client.get("/metrics").text.splitlines()
        return {k: float(v) for k, _, v in (x.rpartition(" ") for x in lines if x.startswith("mbct_requests_total"))}

    with httpx.Client(base_url=service.url) as client:
        before = counted(client)
        for _ in range(5):
            client.post("/v1/score", json={"rows": [row_of(service.model)]}).raise_for_status()
        for _ in range(3):
            assert client.post("/v1/score", json={"rows": [{}]}).status_code == 422
        after = counted(client)
    for status, number in (("200", 5), ("422", 3)):
        key = f'mbct_requests_total{{route="/v1/score",status="{status}"}}'
        assert after[key] - before.get(key, 0) == number


def test_only_the_token_opens_the_short_way(start_service, model_file):
    token = "a-long-enough-token"
    service = start_service(repr(str(model_file)), token=token)
    row = {"rows": [{"score": 0.5, "number 0": 1.0, "text_1": "a", "whole_2": 1, "flag_3": True}]}
    with httpx.Client(base_url=service.url) as client:
        for header, status in (
            ({}, 401),
            ({"authorization": "Bearer a-long-enough-tokem"}, 401),
            ({"authorization": f"Bearer {token}"}, 200),
        ):
            assert client.post("/v1/score", json=row, headers=header).status_code == status


def test_idle_connections_are_closed_and_busy_ones_are_not(start_service, model_file):
    service = start_service(repr(str(model_file)), limits="Limits(keep_alive_seconds=1)")
    content = request({"score": 0.5, "number 0": 1.0, "text_1": "a", "whole_2": 1, "flag_3": True})
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection:
        answers = Answers(connection)
        for _ in range(5):
            connection.sendall(content)
            assert answers.read()[0] == 200
            time.sleep(0.5)
        connection.sendall(content[:20])
        time.sleep(1.5)  # Beyond the idle time, but headers have ten seconds.
        connection.sendall(content[20:])
        assert answers.read()[0] == 200
        began = time.monotonic()
        assert answers.read() is None
        assert 0.5 < time.monotonic() - began < 3.0


def test_too_many_connections_are_refused_on_the_short_way_too(start_service, model_file):
    service = start_service(repr(str(model_file)), limits="Limits(connections=3)")
    content = request({"score": 0.5, "number 0": 1.0, "text_1": "a", "whole_2": 1, "flag_3": True})
    opened = [socket.create_connection(("127.0.0.1", service.port), timeout=10) for _ in range(4)]
    try:
        time.sleep(0.2)
        opened[0].sendall(content)
        assert Answers(opened[0]).read()[0] == 503
        for one in opened[1:3]:
            one.close()
        time.sleep(0.2)
        opened[3].sendall(content)
        assert Answers(opened[3]).read()[0] == 200
    finally:
        for one in opened:
            one.close()


def test_without_the_fast_parser_all_goes_the_long_way(start_service, model_file, tmp_path):
    (tmp_path / "httptools.py").write_text("raise ImportError('hidden by a test')\n")
    service = start_service(repr(str(model_file)), path=tmp_path)
    row = {"score": 0.5, "number 0": 1.0, "text_1": "a", "whole_2": 1, "flag_3": True}
    with httpx.Client(base_url=service.url) as client:
        assert client.post("/v1/score", json={"rows": [row]}).status_code == 200
        assert client.post("/v1/score", json={"rows": [{}]}).status_code == 422
