"""The OpenAPI document describes the service: schemathesis draws requests from it and checks every answer."""

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from mbct.serving.openapi import document
from mbct.serving.options import Limits

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: pip install schemathesis")

ROUTES = set(document(None, Limits(), token=False)["paths"]) - {"/openapi.json"}
"""All but the document itself, which schemathesis leaves out."""
BODY_BYTES = 200_000
"""As the shared service is limited."""


@pytest.fixture(scope="module")
def api(service):
    return schemathesis.openapi.from_url(f"{service.url}/openapi.json")


@pytest.mark.no_cover  # the service is a process of its own
@pytest.mark.parametrize("valid", [True, False])
def test_every_answer_is_as_described(api, valid):
    mode = schemathesis.GenerationMode.POSITIVE if valid else schemathesis.GenerationMode.NEGATIVE
    tested = set()
    for found in api.get_all_operations():
        operation = found.ok()
        if not valid and operation.method == "get":
            continue
        tested.add(operation.path)

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case):
            answer = case.call()
            if case.media_type not in (None, "application/json"):
                # Any bytes are a string of bytes, but few are MessagePack or Arrow: refused, not failed.
                assert answer.status_code in (200, 400, 415, 422)
            elif answer.status_code == 413:
                assert len(answer.request.body) > BODY_BYTES
            else:
                case.validate_response(answer)

        check()
    assert tested == (ROUTES if valid else {"/v1/score", "/v1/explain", "/v1/outcome", "/v1/online/switch"})


def test_the_document_names_the_columns_of_the_model(service):
    found = httpx.get(f"{service.url}/openapi.json").json()
    assert found["components"]["schemas"]["Row"]["required"] == list(service.model.bins.names)
    assert found["components"]["schemas"]["ScoreRequest"]["oneOf"][0]["properties"]["rows"]["maxItems"] == 500


def test_without_a_model_rows_are_any_objects_and_a_token_is_asked_for():
    found = document(None, Limits(), token=True)
    assert found["components"]["schemas"]["Row"] == {"type": "object"}
    assert found["paths"]["/v1/score"]["post"]["security"] == [{"token": []}]
    assert "security" not in found["paths"]["/healthz"]["get"]
    assert "securitySchemes" not in document(None, Limits(), token=False)["components"]


def test_only_outcomes_can_be_more_than_several_workers_can_do():
    paths = document(None, Limits(), token=False)["paths"]
    refusing = {route for route, operations in paths.items() for o in operations.values() if "501" in o["responses"]}
    assert refusing == {"/v1/outcome"}
