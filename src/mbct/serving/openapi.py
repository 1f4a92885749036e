"""The service's OpenAPI document, with the columns of the model in service."""

from typing import Any

from mbct import __version__
from mbct.model.bins import Feature, NumberBins
from mbct.serving.loaded_model import LoadedModel
from mbct.serving.options import Limits

OPEN_ROUTES = frozenset({"/", "/docs", "/healthz", "/readyz", "/openapi.json"})
"""Routes that need no token."""
_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_FLAG = {"type": "boolean"}
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_ID = {"type": "string", "minLength": 1, "maxLength": 128}
_BODY_REFUSALS = {
    400: "The body cannot be read",
    408: "The body came too slowly",
    413: "The body is too large",
    415: "A format that is not taken",
    422: "The body does not fit the model",
}
_NOT_READY = "Not ready: no model yet, or outcomes cannot be kept"


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": _reference(name)}}


def _problem(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/problem+json": {"schema": _reference("Problem")}}}


_BINARY = {"schema": {"type": "string", "format": "binary"}}
_PACKED = {"application/msgpack": _BINARY, "application/vnd.apache.arrow.stream": _BINARY}
_TEXTS, _PAGES = ({kind: {"schema": _TEXT}} for kind in ("text/plain", "text/html"))
_ANYTHING = {"application/json": {"schema": {"type": "object"}}}
_BODIES = {
    "/v1/score": ("Calibrate rows", "score", _json("ScoreRequest") | _PACKED, _json("ScoreAnswer") | _PACKED),
    "/v1/explain": ("Calibrate one row and say why", "explain", _json("ExplainRequest"), _json("Explanation")),
    "/v1/outcome": ("Report what came of scored rows", "outcome", _json("OutcomeRequest"), _json("OutcomeAnswer")),
    "/v1/online/switch": ("Switch the online layer", "switchOnline", _json("OnlineSwitch"), _json("Online")),
}
_GETS = {
    "/v1/model": ("The model in service", "model", _json("Model")),
    "/v1/rules": ("Its rules", "rules", _json("Rules")),
    "/v1/rules.txt": ("Its trees in words", "rulesText", _TEXTS),
    "/v1/live": ("Calibration by the outcomes so far", "live", _json("Live")),
    "/v1/alarms": ("Where calibration is off, by how much and since when", "alarms", _json("Alarms")),
    "/v1/online": ("The online layer: intercept, slope and offsets of segments", "online", _json("Online")),
    "/healthz": ("Whether the process lives", "health", _json("Health")),
    "/readyz": ("Whether it can score", "ready", _json("Readiness")),
    "/metrics": ("Prometheus metrics", "metrics", _TEXTS),
    "/openapi.json": ("This document", "openapi", _ANYTHING),
    "/docs": ("A page that shows this document", "docs", _PAGES),
    "/": ("A page to try rows", "page", _PAGES),
}


def document(loaded: LoadedModel | None, limits: Limits, *, token: bool) -> dict[str, Any]:
    """OpenAPI 3.1; without a model rows are any objects."""
    security: dict[str, Any] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if token else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "MBCT scoring service", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": _paths(token=token),
        "components": {"schemas": _schemas(loaded, limits), **security},
    }


def _paths(*, token: bool) -> dict[str, dict[str, Any]]:
    refusals: dict[str, dict[int, str]] = {route: dict(_BODY_REFUSALS) for route in _BODIES} | {r: {} for r in _GETS}
    for route in ("/v1/score", "/v1/explain", "/v1/outcome", "/v1/model", "/v1/rules", "/v1/rules.txt"):
        refusals[route][503] = _NOT_READY
    refusals["/v1/outcome"][501] = "A service of several processes takes no outcomes"
    refusals["/v1/online/switch"][409] = "The service was started without the layer"
    paths: dict[str, dict[str, Any]] = {}
    for route, (summary, name, *body, answer) in (_BODIES | _GETS).items():
        protected = token and route not in OPEN_ROUTES
        refused = refusals[route] | ({401: "The token is missing or wrong"} if protected else {})
        answers = {"200": {"description": "Done", "content": answer}} | {
            str(s): _problem(t) for s, t in refused.items()
        }
        operation: dict[str, Any] = {"summary": summary, "operationId": name, "responses": answers}
        if body:
            operation["requestBody"] = {"required": True, "content": body[0]}
        if protected:
            operation["security"] = [{"token": []}]
        paths[route] = {"post" if body else "get": operation}
    paths["/readyz"]["get"]["responses"]["503"] = {"description": "No model yet", "content": _json("Readiness")}
    return paths


def _schemas(loaded: LoadedModel | None, limits: Limits) -> dict[str, Any]:
    row, columns = _row_schemas(loaded, limits)
    by_row = _object({"rows": {"type": "array", "minItems": 1, "maxItems": limits.rows, "items": _reference("Row")}})
    by_column = _object({"columns": _reference("Columns")})
    for form, other in ((by_row, "columns"), (by_column, "rows")):
        # Numbers of ids and rows must agree, which JSON Schema cannot say: forms with ids are described in words.
        form["not"] = {"anyOf": [{"required": [other]}, {"required": ["ids"]}]}
    outcome = _object({"id": _ID, "label": {"type": "integer", "enum": [0, 1]}})
    outcomes = {"type": "array", "minItems": 1, "maxItems": limits.rows, "items": outcome}
    calibrated = {"type": "number", "minimum": 0, "maximum": 1}
    many = loaded is not None and loaded.classes is not None
    answered = {"type": "array", "items": calibrated} if many else calibrated
    return {
        "Row": row,
        "Columns": columns,
        "ScoreRequest": {
            "oneOf": [by_row, by_column],
            "description": "Rows or columns; with `ids`, one text a row, outcomes can be joined later.",
        },
        "ScoreAnswer": {
            **_object({"calibrated": {"type": "array", "items": answered}, "model": _TEXT}),
            "description": "With `?interval=1` and a certified model also `interval`, [lower, upper] of each row. A "
            "model of many classes answers a list for each row, in the order of `classes`.",
        },
        "ExplainRequest": _object({"row": _reference("Row")}),
        "Explanation": _object({"score": calibrated, "calibrated": calibrated, "model": _TEXT, "trees": _OBJECTS}),
        "OutcomeRequest": _object({"outcomes": outcomes}),
        "OutcomeAnswer": _object({"joined": {"type": "integer"}, "unknown": {"type": "array", "items": _TEXT}}),
        "Model": _object({"model": _TEXT, "score": {"type": ["string", "array"]}, "link": _TEXT, "features": _OBJECTS}),
        "Rules": _object({"model": _TEXT, "rules": _OBJECTS}),
        "Live": _object({"live": _OBJECTS, "waiting": {"type": "integer"}}),
        "Alarms": _object({"alarms": _OBJECTS, "past": _OBJECTS}),
        "Online": _object({"enabled": _FLAG, "model": _TEXT, "intercept": _NUMBER, "slope": _NUMBER}),
        "OnlineSwitch": _object({"enabled": _FLAG}),
        "Health": _object({"status": _TEXT}),
        "Readiness": _object({"status": {"enum": ["ready", "degraded", "no model"]}}),
        "Problem": _object({"title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT}),
    }


def _row_schemas(loaded: LoadedModel | None, limits: Limits) -> tuple[dict[str, Any], dict[str, Any]]:
    if loaded is None:
        return {"type": "object"}, {"type": "object"}
    scores, features = loaded.bins.features[: loaded.n_scores], loaded.bins.features[loaded.n_scores :]
    values = {score.name: {"type": "number", "minimum": 0, "maximum": 1} for score in scores}
    values |= {feature.name: _value_schema(feature, limits) for feature in features}
    row = _object(values)
    # One row by column: equal lengths are another thing that JSON Schema cannot say.
    columns = _object({n: {"type": "array", "minItems": 1, "maxItems": 1, "items": v} for n, v in values.items()})
    columns["description"] = f"As many values in each as there are rows, at most {limits.rows:,}."
    for schema in columns["properties"].values():
        schema["description"] = "one entry a row"
    return row, columns


def _value_schema(feature: Feature, limits: Limits) -> dict[str, Any]:
    if isinstance(feature, NumberBins):
        return {"type": ["number", "null"], "examples": list(feature.edges[len(feature.edges) // 2 :][:1] or (None,))}
    known: list[str | None] = [*feature.values[:1]] or [None]
    return {"type": ["string", "number", "boolean", "null"], "maxLength": limits.text_length, "examples": known}
