"""Every endpoint of the real service: formats, faults, limits, feedback."""

import contextlib
import datetime
import io
import re
import socket
from decimal import Decimal
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_rows
from mbct.model.rules import rules_as_dicts
from mbct.serving.batch import BatchScorer
from mbct.serving.scoring import LARGE_BODY
from mbct.store.model_registry import version_of

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'mbct[cli]'")


@pytest.fixture(scope="module")
def client(service):
    with httpx.Client(base_url=service.url, timeout=20) as opened:
        yield opened


def rows_of(model, n_rows=50, seed=5):
    columns = random_rows(seed, model, n_rows)
    return columns, [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def arrow_stream(table, compression=None):
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table)
    return out.getvalue()


def post(client, content, kind="application/json", path="/v1/score", **kwargs):
    return client.post(path, content=content, headers={"content-type": kind}, **kwargs)


def test_every_format_equals_the_model(client, service, content):
    columns, rows = rows_of(service.model)
    expected = BatchScorer(service.model).score_rows(rows)
    version = version_of(content(service.model))
    json = client.post("/v1/score", json={"rows": rows})
    by_column = client.post("/v1/score", json={"columns": columns})
    packed = post(client, msgspec.msgpack.encode({"rows": rows}), "application/msgpack")
    arrow = post(client, arrow_stream(pa.table(columns)), "application/vnd.apache.arrow.stream")
    table = pa.ipc.open_stream(arrow.content).read_all()
    answers = [json.json(), by_column.json(), msgspec.msgpack.decode(packed.content)]
    answers.append({"calibrated": table["calibrated"].to_pylist(), "model": table.schema.metadata[b"model"].decode()})
    for answer in answers:
        assert answer["model"] == version
        np.testing.assert_allclose(answer["calibrated"], expected, rtol=0, atol=1e-12)
    assert packed.headers["content-type"] == "application/msgpack"
    assert arrow.headers["content-type"] == "application/vnd.apache.arrow.stream"
    for row, q in zip(rows[:5], expected[:5], strict=True):
        assert client.post("/v1/score", json={"rows": [row]}).json()["calibrated"] == [pytest.approx(q, abs=1e-12)]


def test_columns_that_the_model_does_not_know_are_ignored(client, service):
    _, rows = rows_of(service.model, 1)
    plain = client.post("/v1/score", json={"rows": rows}).json()
    assert client.post("/v1/score", json={"rows": [{**rows[0], "extra": [1, {}]}]}).json() == plain


ROW = '{"score": 0.5, "number 0": 1, "text_1": "a", "whole_2": 1, "flag_3": true}'


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "cannot be read"),
        (b"{", 400, "cannot be read"),
        (b"\xff\xfe", 400, "cannot be read"),
        (b'{"x":' + b"[" * 100_000, 400, "recursion"),
        (b"[]", 422, "Expected `object`, got `array`"),
        (b"{}", 422, "either `rows`, such as"),
        (b'{"rows": []}', 422, "length >= 1"),
        (b'{"rows": [{}]}', 422, "missing required field `score` - at `$.rows[0]`"),
        (ROW.replace('"number 0": 1,', "").join(['{"rows": [', "]}"]).encode(), 422, "required field `number 0`"),
        (ROW.replace("0.5", "1.5").join(['{"rows": [', "]}"]).encode(), 422, "$.rows[0].score"),
        (ROW.replace("0.5", "null").join(['{"rows": [', "]}"]).encode(), 422, "got `null` - at `$.rows[0].score`"),
        (ROW.replace('1, "t', '"x", "t').join(['{"rows": [', "]}"]).encode(), 422, "$.rows[0].number 0"),
        (ROW.replace('"a"', "[]").join(['{"rows": [', "]}"]).encode(), 422, "$.rows[0].text_1"),
        (ROW.replace('"a"', '"' + "x" * 1001 + '"').join(['{"rows": [', "]}"]).encode(), 422, "length <= 1000"),
        (ROW.join(['{"rows": [', '], "ids": []}']).encode(), 422, "0 ids for 1 rows"),
        ((ROW + ",").join(['{"rows": [', ROW + "]}"]).encode() + b"x", 400, "cannot be read"),
        (('{"rows": [' + ",".join([ROW] * 501) + "]}").encode(), 422, "takes 1 to 500 rows, this one has 501"),
        (b'{"columns": {"score": [], "number 0": [], "text_1": [], "whole_2": [], "flag_3": []}}', 422, "has 0"),
        (b'{"columns": {"score": [0.1], "number 0": [], "text_1": [], "whole_2": [], "flag_3": []}}', 422, "0 rows"),
    ],
)
def test_faults_are_named(client, body, status, words):
    answer = post(client, body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json()["detail"]
    assert "Traceback" not in answer.text


def test_an_integer_without_end_is_refused_or_unseen(client):
    body = ROW.replace('"whole_2": 1', '"whole_2": ' + "9" * 6000).join(['{"rows": [', "]}"])
    assert post(client, body.encode()).status_code in (200, 400, 422)


def test_routes_methods_and_formats(client):
    assert client.get("/nothing").status_code == 404
    wrong = client.get("/v1/score")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert client.head("/healthz").status_code == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = post(client, b"{}", kind)
        assert answer.status_code == 415
        assert "application/vnd.apache.arrow.stream" in answer.json()["detail"]
    assert post(client, b"{}", "text/plain", "/v1/outcome").status_code == 415
    assert post(client, b"{}", "text/plain", "/v1/explain").status_code == 415


def test_arrow_faults_are_named(client, service):
    kind = "application/vnd.apache.arrow.stream"
    columns, _ = rows_of(service.model)
    table = pa.table(columns)
    good = arrow_stream(table)
    for damaged in (b"", b"ARROW1", good[:100], good[:-200], b"\x00" * 500, good[:300] + b"\xff" * 64 + good[364:]):
        assert post(client, damaged, kind).status_code in (400, 422)
    for body, words in (
        (arrow_stream(table, "zstd"), "without compression"),
        (arrow_stream(pa.concat_tables([table] * 11)), "takes 1 to 500 rows"),
        (arrow_stream(table.drop_columns(["text_1"])), "'text_1' is missing"),
        (arrow_stream(table.slice(0, 0)), "has 0"),
        (arrow_stream(table.set_column(0, "score", pa.array(["x"] * 50))), "score"),
        (arrow_stream(table.set_column(0, "score", pa.array([1.5] * 50))), r"outside [0, 1]"),
        (arrow_stream(table.set_column(2, "text_1", pa.array(["x" * 2000] * 50))), "2,000 characters"),
    ):
        answer = post(client, body, kind)
        assert (answer.status_code, words in answer.text) == (422, True), answer.text


ARROW = "application/vnd.apache.arrow.stream"
DAY = datetime.date(2024, 5, 1)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("number 0", pa.array([{"a": 1}] * 3)),
        ("number 0", pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64()))),
        ("number 0", pa.array([[1.0]] * 3)),
        ("number 0", pa.array([DAY] * 3)),
        ("number 0", pa.array([datetime.datetime(2024, 5, 1)] * 3)),
        ("number 0", pa.array([b"1"] * 3)),
        ("number 0", pa.array(["1"] * 3)),
        ("number 0", pa.array(["1"] * 3).dictionary_encode()),
        ("number 0", pa.array([datetime.timedelta(1)] * 3)),
        ("text_1", pa.array([{"a": 1}] * 3)),
        ("text_1", pa.array([["a"]] * 3)),
        ("text_1", pa.array([datetime.time(1)] * 3)),
        ("text_1", pa.DictionaryArray.from_arrays(pa.array([0, 0, 0]), pa.nulls(1))),
        ("score", pa.array(["0.5"] * 3)),
        ("score", pa.array([b"0.5"] * 3)),
    ],
)
def test_arrow_types_that_a_feature_cannot_have_are_refused(client, service, column, values):
    columns, _ = rows_of(service.model, 3)
    table = pa.table({**columns, column: values})
    answer = post(client, arrow_stream(table), ARROW)
    assert answer.status_code == 422
    assert f"column '{column}' has the Arrow type" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("number 0", pa.array([1, None, 3], pa.int8())),
        ("number 0", pa.array([1, None, 3], pa.decimal128(9, 2))),
        ("number 0", pa.array([True, None, False])),
        ("number 0", pa.nulls(3)),
        ("text_1", pa.array([DAY] * 3)),
        ("text_1", pa.array([1, 2, None])),
        ("text_1", pa.array([b"a", None, b"b"])),
    ],
)
def test_arrow_types_that_a_feature_can_have_are_scored_as_json_is(client, service, column, values):
    columns, rows = rows_of(service.model, 3)
    table = pa.table({**columns, column: values})
    answer = post(client, arrow_stream(table), ARROW)
    assert answer.status_code == 200, answer.text
    plain = [v.decode() if isinstance(v, bytes) else v for v in values.to_pylist()]
    plain = [float(v) if isinstance(v, Decimal | bool) and column == "number 0" else v for v in plain]
    given = [{**row, column: str(v) if v == DAY else v} for row, v in zip(rows, plain, strict=True)]
    expected = client.post("/v1/score", json={"rows": given}).json()["calibrated"]
    assert pa.ipc.open_stream(answer.content).read_all()["calibrated"].to_pylist() == pytest.approx(expected)


def bombs(columns):
    """Small bodies that unfold: nested lists of nothing, nulls without end, dictionaries of bits."""
    nothing = pa.FixedSizeListArray.from_arrays(pa.nulls(3 * 30_000_000), 30_000_000)
    nested = pa.FixedSizeListArray.from_arrays(pa.nulls(3 * 100 * 1_000_000), 1_000_000)
    nested = pa.FixedSizeListArray.from_arrays(nested, 100)
    return {
        "an extra column": (arrow_stream(pa.table({**columns, "extra": nothing})), 200),
        "a number": (arrow_stream(pa.table({**columns, "number 0": nothing})), 422),
        "a text": (arrow_stream(pa.table({**columns, "text_1": nested})), 422),
        "rows of nothing": (arrow_stream(pa.table({name: pa.nulls(400_000_000) for name in columns})), 422),
        "a dictionary": (
            arrow_stream(
                pa.table(
                    {
                        **columns,
                        "text_1": pa.DictionaryArray.from_arrays(
                            pa.array([0, 1, 2]), pa.array(np.zeros(1_000_000, dtype=bool))
                        ),
                    }
                )
            ),
            422,
        ),
    }


def test_small_arrow_bodies_that_unfold_take_no_memory(client, service):
    columns, _ = rows_of(service.model, 3)
    memory = peak_memory(service)
    for name, (body, status) in bombs(columns).items():
        assert len(body) < 200_000
        assert post(client, body, ARROW).status_code == status, name
    assert peak_memory(service) < memory + 200_000


def peak_memory(service):
    """Kilobytes that the service ever used."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1])


def test_a_large_body_is_scored_as_small_ones_are(start_service, model_file, service):
    other = start_service(repr(str(model_file)))
    _, rows = rows_of(service.model, 5000)
    expected = BatchScorer(service.model).score_rows(rows)
    ids = [f"large-{i}" for i in range(len(rows))]
    with httpx.Client(base_url=other.url, timeout=30) as one:
        answer = one.post("/v1/score", json={"rows": rows, "ids": ids})
        assert len(answer.request.content) > LARGE_BODY
        np.testing.assert_allclose(answer.json()["calibrated"], expected, rtol=0, atol=1e-12)
        assert metric(one, "mbct_rows_total")["mbct_rows_total"] == 5000
        assert one.post("/v1/outcome", json={"outcomes": [{"id": "large-7", "label": 1}]}).json()["joined"] == 1
        one_row = {"rows": [{**rows[0], "extra": "x" * LARGE_BODY}]}
        assert one.post("/v1/score", json=one_row).json()["calibrated"] == [pytest.approx(expected[0], abs=1e-12)]
        bad = [{**row, "text_1": [1]} for row in rows]
        assert one.post("/v1/score", json={"rows": bad}).status_code == 422


def test_a_body_too_large_is_refused_however_it_comes(client):
    assert post(client, b"x" * 200_001).status_code == 413
    assert post(client, iter([b"x" * 100_000] * 3)).status_code == 413


def raw(service, content, wait=5.0):
    """Send bytes, read what comes until the other side closes."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=wait) as connection:
        connection.sendall(content)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


def test_slow_bodies_and_slow_or_endless_headers_are_cut_off(service):
    slow = b"POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"
    assert raw(service, slow).startswith(b"HTTP/1.1 408")
    assert raw(service, b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ") == b""
    assert raw(service, b"") == b""
    with contextlib.suppress(ConnectionError):
        assert b"200 OK" not in raw(service, b"GET / HTTP/1.1\r\nx: " + b"a" * 300_000)


def test_garbage_on_the_wire_harms_nobody(service, client):
    for garbage in (b"\x00" * 100, b"GET / HTTP/9.9\r\n\r\n", b"POST /v1/score HTTP/1.1\r\ncontent-length: -1\r\n\r\n"):
        with contextlib.suppress(ConnectionError):
            assert b" 5" not in raw(service, garbage + b"\r\n\r\n")[:12]
    assert client.get("/healthz").status_code == 200


def test_model_and_rules(client, service):
    found = client.get("/v1/model").json()
    assert (found["trees"], found["score"], found["link"]) == (4, "score", "odds")
    assert [feature["name"] for feature in found["features"]] == list(service.model.bins.names[1:])
    rules = client.get("/v1/rules").json()
    assert rules["model"] == found["model"]
    assert [r["multiplier"] for r in rules["rules"]] == [r["multiplier"] for r in rules_as_dicts(service.model)]
    assert client.get("/v1/rules.txt").text.startswith("tree 1 of 4")


def test_explain_agrees_with_score(client, service):
    _, rows = rows_of(service.model, 20)
    for row in rows:
        found = client.post("/v1/explain", json={"row": row}).json()
        (q,) = client.post("/v1/score", json={"rows": [row]}).json()["calibrated"]
        assert found["calibrated"] == pytest.approx(q, abs=1e-12)
        assert found["trees"][-1]["after"] == found["calibrated"]
        for tree in found["trees"]:  # each feature is spoken of once, however often the tree asks for it
            names = [condition["feature"] for condition in tree["path"]]
            assert len(set(names)) == len(names)
    assert client.post("/v1/explain", json={"row": {}}).status_code == 422


def metric(client, name):
    lines = client.get("/metrics").text.splitlines()
    return {k: float(v) for k, _, v in (line.rpartition(" ") for line in lines if line.startswith(name))}


def test_metrics_count_what_happened(client, service):
    row = {"score": 0.25, "number 0": 1.0, "text_1": "never seen", "whole_2": 999, "flag_3": None}
    client.post("/v1/score", json={"rows": [row]})
    names = ("mbct_rows_total", "mbct_unseen", "mbct_requests_total", "mbct_score_sum", "mbct_request_seconds")
    before = {name: metric(client, name) for name in names}
    answers = [client.post("/v1/score", json={"rows": rows}).json() for rows in ([row], [row] * 3)]
    client.post("/v1/score", json={})
    after = {name: metric(client, name) for name in names}

    def grown(name, key):
        return after[name].get(key, 0) - before[name].get(key, 0)

    assert grown("mbct_rows_total", "mbct_rows_total") == 4
    assert grown("mbct_unseen", 'mbct_unseen_values_total{feature="text_1"}') == 4
    assert grown("mbct_unseen", 'mbct_unseen_values_total{feature="whole_2"}') == 4
    assert grown("mbct_requests_total", 'mbct_requests_total{route="/v1/score",status="200"}') == 2
    assert grown("mbct_requests_total", 'mbct_requests_total{route="/v1/score",status="422"}') == 1
    assert grown("mbct_score_sum", 'mbct_score_sum{stage="before"}') == pytest.approx(1.0)
    total = sum(sum(answer["calibrated"]) for answer in answers)
    assert grown("mbct_score_sum", 'mbct_score_sum{stage="after"}') == pytest.approx(total)
    assert grown("mbct_request_seconds", 'mbct_request_seconds_bucket{route="/v1/score",le="+Inf"}') == 3
    assert metric(client, "mbct_model_source_up")["mbct_model_source_up"] == 1
    assert client.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


def test_unknown_paths_share_one_label(client):
    for i in range(20):
        client.get(f"/no-{i}")
    assert not any("no-1" in key for key in metric(client, "mbct_requests_total"))


def test_outcomes_join_scores_and_move_the_live_metrics(client, service):
    _, rows = rows_of(service.model, 60)
    ids = [f"request-{i}" for i in range(60)]
    scored = client.post("/v1/score", json={"rows": rows, "ids": ids}).json()["calibrated"]
    first = client.post("/v1/outcome", json={"outcomes": [{"id": i, "label": 1} for i in ids[:40]]}).json()
    assert first == {"joined": 40, "unknown": []}
    again = [
        {"id": ids[0], "label": 0},
        {"id": ids[50], "label": 0},
        {"id": ids[50], "label": 1},
        {"id": "x", "label": 0},
    ]
    assert client.post("/v1/outcome", json={"outcomes": again}).json() == {
        "joined": 1,
        "unknown": [ids[0], ids[50], "x"],
    }
    live = {(m["window"], m["segment"]): m for m in client.get("/v1/live").json()["live"]}
    overall = live["1h", "all"]
    assert overall["outcomes"] == 41
    assert overall["pcoc"] == pytest.approx((sum(scored[:40]) + scored[50]) / 40)
    assert overall == {**live["24h", "all"], "window": "1h"}
    segments = {segment for window, segment in live if window == "1h"} - {"all"}
    assert len(segments) == 4
    assert "other" in segments
    assert sum(m["outcomes"] for (w, s), m in live.items() if w == "1h" and s != "all") == 41
    assert metric(client, "mbct_live_outcomes")['mbct_live_outcomes{window="1h",segment="all"}'] == 41
    for bad in ({"outcomes": []}, {"outcomes": [{"id": "a", "label": 2}]}, {"outcomes": [{"id": "", "label": 1}]}, {}):
        assert client.post("/v1/outcome", json=bad).status_code == 422


def test_a_single_row_is_remembered_as_in_a_batch(start_service, model_file, service):
    _, rows = rows_of(service.model, 12)
    live = []
    for name in ("one by one", "together"):
        other = start_service(repr(str(model_file)), feedback="FeedbackOptions(segment='text_1', segments=3)")
        ids = [f"{name} {i}" for i in range(len(rows))]
        with httpx.Client(base_url=other.url) as one:
            parts = [([row], [i]) for row, i in zip(rows, ids, strict=True)] if name == "one by one" else [(rows, ids)]
            for part, named in parts:
                one.post("/v1/score", json={"rows": part, "ids": named}).raise_for_status()
            outcomes = [{"id": i, "label": n % 2} for n, i in enumerate(ids)]
            assert one.post("/v1/outcome", json={"outcomes": outcomes}).json() == {"joined": 12, "unknown": []}
            live.append(one.get("/v1/live").json()["live"])
    for alone, together in zip(*live, strict=True):
        assert alone == pytest.approx(together)


def test_arrow_rows_can_carry_ids(client, service):
    columns, _ = rows_of(service.model, 3)
    table = pa.table({**columns, "request": ["u", "v", "w"]})
    kind = "application/vnd.apache.arrow.stream"
    assert post(client, arrow_stream(table), kind, "/v1/score?ids=request").status_code == 200
    assert client.post("/v1/outcome", json={"outcomes": [{"id": "v", "label": 1}]}).json()["joined"] == 1
    assert post(client, arrow_stream(table), kind, "/v1/score?ids=absent").status_code == 422


def test_a_client_that_leaves_early_harms_nobody(service, client):
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", service.port)) as connection:
            connection.sendall(b"POST /v1/score HTTP/1.1\r\ncontent-length: 1000\r\n\r\n{")
    assert client.get("/readyz").json()["status"] == "ready"
    assert "Traceback" not in service.log


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NEAR_ROWS = st.fixed_dictionaries(
    {"score": st.floats(-0.2, 1.2) | JSON_VALUES},
    optional=dict.fromkeys(("number 0", "text_1", "whole_2", "flag_3"), JSON_VALUES),
)
NEAR_REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "rows": st.lists(NEAR_ROWS, max_size=3) | JSON_VALUES,
        "columns": st.dictionaries(st.sampled_from(["score", "number 0", "text_1", "whole_2"]), JSON_VALUES),
        "ids": st.lists(st.text(max_size=3), max_size=3) | JSON_VALUES,
        "row": NEAR_ROWS,
        "outcomes": st.lists(st.fixed_dictionaries({"id": JSON_VALUES, "label": JSON_VALUES}), max_size=3),
    },
)
BODIES = st.one_of(
    st.binary(max_size=200),
    NEAR_REQUESTS.map(lambda value: str(value).replace("'", '"').encode("utf-8", "surrogatepass")),
    NEAR_REQUESTS.map(msgspec.json.encode),
    NEAR_REQUESTS.map(lambda value: msgspec.msgpack.encode(_small_integers(value))),
)
KINDS = st.sampled_from(["application/json", "application/msgpack", "application/vnd.apache.arrow.stream"])
PATHS = st.sampled_from(["/v1/score", "/v1/explain", "/v1/outcome"])


def _small_integers(value):
    """MessagePack has no integer beyond 64 bits."""
    if isinstance(value, dict):
        return {k: _small_integers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_small_integers(v) for v in value]
    return value % 2**63 if isinstance(value, int) and not isinstance(value, bool) else value


@settings(max_examples=250, deadline=None)
@given(body=BODIES, kind=KINDS, path=PATHS)
def test_no_body_breaks_the_service(client, body, kind, path):
    answer = post(client, body, kind, path)
    assert answer.status_code in (200, 400, 415, 422), answer.text
    assert "Traceback" not in answer.text


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_damage_to_an_arrow_stream_breaks_the_service(client, service, data):
    columns, _ = rows_of(service.model, 5)
    stream = bytearray(arrow_stream(pa.table(columns)))
    for _ in range(data.draw(st.integers(1, 8))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    answer = post(client, bytes(stream), "application/vnd.apache.arrow.stream")
    assert answer.status_code in (200, 400, 422), answer.text


def test_after_all_this_the_service_never_failed_inside(service, client):
    assert not any('status="5' in key for key in metric(client, "mbct_requests_total"))
    assert "error" not in service.log.lower().replace("uvicorn.error", "")


def test_alarms_and_the_online_layer_over_http(start_service, model_file, tmp_path, service):
    running = start_service(
        repr(str(model_file)), feedback=f"FeedbackOptions(folder=Path({str(tmp_path / 'journal')!r}), online=True)"
    )
    with httpx.Client(base_url=running.url, timeout=20) as one:
        answer = one.get("/v1/alarms").json()
        assert answer == {"alarms": [], "past": [], "level": 0.01, "tolerance": 0.02}
        _, rows = rows_of(service.model, 5)
        one.post("/v1/score", json={"rows": rows, "ids": list("abcde")})
        one.post("/v1/outcome", json={"outcomes": [{"id": i, "label": 1} for i in "abcde"]})
        layer = one.get("/v1/online").json()
        assert layer["enabled"]
        assert layer["model"] == one.get("/v1/model").json()["model"]
        assert (layer["intercept"], layer["slope"]) == (0.0, 1.0)
        assert post(one, '{"enabled": 1}', path="/v1/online/switch").status_code == 422
        assert post(one, "{}", kind="text/plain", path="/v1/online/switch").status_code == 415
        assert not one.post("/v1/online/switch", json={"enabled": False}).json()["enabled"]
        assert metric(one, "mbct_online_enabled")["mbct_online_enabled"] == 0
        assert metric(one, "mbct_alarms_active")["mbct_alarms_active"] == 0
    running.kill()
    running.start(feedback=f"FeedbackOptions(folder=Path({str(tmp_path / 'journal')!r}), online=True)")
    with httpx.Client(base_url=running.url, timeout=20) as one:
        assert not one.get("/v1/online").json()["enabled"]


def test_the_online_layer_needs_its_option(client):
    assert client.post("/v1/online/switch", json={"enabled": True}).status_code == 409
    assert not client.get("/v1/online").json()["enabled"]
