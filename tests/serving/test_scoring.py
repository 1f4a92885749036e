"""Intervals in the answers of the real service, and vectors of many classes."""

import asyncio
import io

import httpx
import msgspec
import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.calibrators import MatrixScalingCalibrator, MulticlassCalibrator
from mbct.serving.options import ServiceOptions
from mbct.serving.server import _assemble


@pytest.fixture(scope="module")
def certified():
    data = biased_clicks(0, 4_000)
    return MBCTCalibrator("p", preset="fast", max_trees=3, certify=0.3).fit(data.frame, "y")


def test_intervals_are_those_of_the_model(certified, start_service, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'mbct[cli]'")
    certified.save(tmp_path / "model.json")
    service = start_service(repr(str(tmp_path / "model.json")))
    frame = biased_clicks(1, 20).frame.drop(columns="y")
    calibrated, lower, upper = certified.calibrate(frame, return_interval=True)
    rows = frame.to_dict("records")
    with httpx.Client(base_url=service.url, timeout=20) as client:
        many = client.post("/v1/score?interval=1", json={"rows": rows}).json()
        one = client.post("/v1/score?interval=true", json={"rows": rows[:1]}).json()
        plain = client.post("/v1/score", json={"rows": rows}).json()
        model = client.get("/v1/model").json()
        out = io.BytesIO()
        table = pa.Table.from_pandas(frame, preserve_index=False)
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        kind = {"content-type": "application/vnd.apache.arrow.stream"}
        arrow = pa.ipc.open_stream(
            client.post("/v1/score?interval=1", content=out.getvalue(), headers=kind).content
        ).read_all()
    assert np.array_equal(many["interval"], np.column_stack([lower, upper]))
    assert one["interval"] == many["interval"][:1]
    assert "interval" not in plain
    assert many["calibrated"] == plain["calibrated"] == calibrated.tolist()
    assert np.array_equal(arrow["lower"].to_numpy(), lower)
    assert np.array_equal(arrow["upper"].to_numpy(), upper)
    assert model["certificate"]["promises"] == list(certified.certificate_.lines())


def test_a_model_without_certificate_has_no_intervals(certified, start_service, tmp_path):
    plain = MBCTCalibrator("p", preset="fast", max_trees=1).fit(biased_clicks(0, 1_000).frame, "y")
    plain.save(tmp_path / "model.json")
    service = start_service(repr(str(tmp_path / "model.json")))
    row = biased_clicks(1, 1).frame.drop(columns="y").to_dict("records")
    answer = httpx.post(f"{service.url}/v1/score?interval=1", json={"rows": row}, timeout=20)
    assert answer.status_code == 422
    assert "the model has no intervals" in answer.json()["detail"]
    assert httpx.get(f"{service.url}/v1/model", timeout=20).json()["certificate"] is None


SCORES, CLASSES = ["p_cat", "p_dog", "p_eel"], ["cat", "dog", "eel"]


@pytest.fixture(scope="module")
def trees_of_classes(tmp_path_factory):
    """A model file of three classes, its rows as columns, and their probabilities."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 1.5, 2.0], 300)
    columns = dict(zip(SCORES, p.T, strict=True)) | {"size": rng.normal(size=300)}
    label = np.array(CLASSES)[np.where(columns["size"] > 0, 2, p.argmax(axis=1))]
    model = MulticlassCalibrator(SCORES, max_trees=3, n_folds=2).fit(columns, label)
    path = tmp_path_factory.mktemp("classes") / "model.json"
    model.save(path)
    return path, {name: values.tolist() for name, values in columns.items()}, model.calibrate(columns)


def asked(path, *requests):
    """The answers of a service of one model file, which runs in this process."""
    service, watcher = _assemble(str(path), "model", None, ServiceOptions(), None)
    watcher.look()

    async def ask():
        transport = httpx.ASGITransport(app=service)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return [await client.request(method, route, **content) for method, route, content in requests]

    try:
        return asyncio.run(ask())
    finally:
        service.close()


def test_a_model_of_many_classes_is_answered_by_vectors(trees_of_classes):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'mbct[cli]'")
    path, columns, expected = trees_of_classes
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    out = io.BytesIO()
    table = pa.table(columns)
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    kinds = [{"content-type": f"application/{kind}"} for kind in ("msgpack", "vnd.apache.arrow.stream")]
    many, one, packed, arrow, metrics = asked(
        path,
        ("POST", "/v1/score", {"json": {"rows": rows}}),
        ("POST", "/v1/score", {"json": {"rows": rows[:1]}}),
        ("POST", "/v1/score", {"content": msgspec.msgpack.encode({"columns": columns}), "headers": kinds[0]}),
        ("POST", "/v1/score", {"content": out.getvalue(), "headers": kinds[1]}),
        ("GET", "/metrics", {}),
    )
    assert many.json()["classes"] == CLASSES
    np.testing.assert_allclose(many.json()["calibrated"], expected, atol=1e-12)
    np.testing.assert_allclose(one.json()["calibrated"], expected[:1], atol=1e-12)
    np.testing.assert_allclose(msgspec.msgpack.decode(packed.content)["calibrated"], expected, atol=1e-12)
    found = pa.ipc.open_stream(arrow.content).read_all()
    np.testing.assert_allclose(found["calibrated_eel"].to_numpy(), expected[:, 2], atol=1e-12)
    assert "mbct_rows_total 901" in metrics.text


def test_what_many_classes_do_not_have_is_refused(trees_of_classes):
    path, columns, _ = trees_of_classes
    row = {name: values[0] for name, values in columns.items()}
    bad, ids, explained, rules, text, model, described = asked(
        path,
        ("POST", "/v1/score", {"json": {"rows": [{**row, "p_dog": 1.5}]}}),
        ("POST", "/v1/score", {"json": {"rows": [row], "ids": ["a"]}}),
        ("POST", "/v1/explain", {"json": {"row": row}}),
        ("GET", "/v1/rules", {}),
        ("GET", "/v1/rules.txt", {}),
        ("GET", "/v1/model", {}),
        ("GET", "/openapi.json", {}),
    )
    assert (bad.status_code, "p_dog" in bad.text) == (422, True)
    assert ids.status_code == 422
    assert {answer.status_code for answer in (explained, rules, text)} == {501}
    assert "a model of 3 classes is asked at /v1/score alone" in rules.text
    assert (model.json()["score"], model.json()["classes"]) == (SCORES, CLASSES)
    assert [feature["name"] for feature in model.json()["features"]] == ["size"]
    schemas = described.json()["components"]["schemas"]
    assert schemas["ScoreAnswer"]["properties"]["calibrated"]["items"]["type"] == "array"
    assert schemas["Row"]["required"] == [*SCORES, "size"]


def test_a_model_of_other_classes_does_not_replace_one(tmp_path):
    p = np.random.default_rng(0).dirichlet([1.0, 1.5, 2.0], 60)

    def fit(names):
        return MatrixScalingCalibrator(SCORES).fit(
            dict(zip(SCORES, p.T, strict=True)), np.array(names)[p.argmax(axis=1)]
        )

    fit(CLASSES).save(tmp_path / "model.json")
    service, watcher = _assemble(str(tmp_path / "model.json"), "model", None, ServiceOptions(), None)
    watcher.look()
    fit(["ant", "bee", "fly"]).save(tmp_path / "model.json")
    watcher.look()
    assert watcher.current.classes == tuple(CLASSES)
    assert "classes are ant, bee, fly" in watcher.health.detail
    service.close()
