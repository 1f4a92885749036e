"""Intervals in the answers of the real service."""

import io

import httpx
import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator


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
