"""The OpenAPI 3.1 description of the server, made of the table of routes and of the shapes."""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from adjourn.graph.server.problems import MEDIA_TYPE
from adjourn.graph.server.shapes import EventShown, Problem
from adjourn.graph.server.table import ENDPOINTS, Endpoint, Shape

_REF = "#/components/schemas/{model}"
_WORDS = {
    200: "Done.", 201: "The run was started.", 204: "Nothing new, and nothing will come before somebody answers.",
    400: "The request cannot be read.", 401: "A token is needed, or it is not known.",
    403: "You may not do this, or a page of another site asked.", 404: "There is no such run, or it is not yours.",
    409: "Somebody was first, or works on it.", 413: "The request is too large.", 415: "The body is not JSON.",
    421: "The server is not called by this name.", 422: "A field is wrong; nothing was changed.",
    429: "Too many requests; `Retry-After` says when to come again.", 503: "The server is going, or its store is away.",
}  # fmt: skip
_ALWAYS = (421, 429)  # any route may refuse with these
_STREAM = (
    "Server-Sent Events. `event` is the type, `data` the event as JSON, `id` its number; a `text_delta` has no id. "
    "Comments are pings. The stream closes when the run waits for people or ends."
)


def description() -> dict[str, Any]:
    """The description of the server, wherever it is reached."""
    shapes = list(_shapes())
    _, schemas = models_json_schema([(one, "serialization") for one in shapes], ref_template=_REF)
    paths: dict[str, Any] = {}
    for one in ENDPOINTS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Adjourn",
            "version": version("adjourn"),
            "summary": "Runs of tool-calling agents that stop for a person and go on exactly there.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _shapes() -> Iterator[type[BaseModel]]:
    yield from (Problem, EventShown)
    for one in ENDPOINTS:
        yield from (shape for shapes in one.gives.values() for shape in shapes)
        if one.takes is not None:
            yield one.takes


def _operation(one: Endpoint) -> dict[str, Any]:
    summary, rest = one.texts
    statuses = [*one.problems, *_ALWAYS, *(() if one.public else (401,))]
    responses = {str(status): _gives(one, status, shapes) for status, shapes in one.gives.items()}
    problem = {"content": {MEDIA_TYPE: {"schema": _ref(Problem)}}}
    for status in sorted(set(statuses)):
        responses.setdefault(str(status), {"description": _WORDS[status], **problem})
    operation: dict[str, Any] = {
        "operationId": one.name,
        "summary": summary,
        "parameters": [*_path(one), *_query(one), *_headers(one)],
        "responses": responses,
    }
    if rest:
        operation["description"] = rest
    if one.takes is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(one.takes)}},
        }
    if one.public:
        operation["security"] = []
    return operation


def _gives(one: Endpoint, status: int, shapes: Sequence[Shape]) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _WORDS[status]}
    if not shapes:
        return response
    refs = [_ref(shape) for shape in shapes]
    response["content"] = {"application/json": {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}}}
    if one.streams:
        schema = {"type": "string", "description": f"{_STREAM} Each `data` is an EventShown."}
        response["content"]["text/event-stream"] = {"schema": schema}
    if status == 201:
        where = {"schema": {"type": "string"}, "description": "The path of the run."}
        response["headers"] = {"Location": where}
    return response


def _ref(shape: Shape) -> dict[str, str]:
    return {"$ref": _REF.format(model=shape.__name__)}


def _path(one: Endpoint) -> list[dict[str, Any]]:
    if "{run_id}" not in one.path:
        return []
    return [{"name": "run_id", "in": "path", "required": True, "schema": {"type": "string"}}]


def _query(one: Endpoint) -> list[dict[str, Any]]:
    if one.query is None:
        return []
    schema = one.query.model_json_schema(mode="serialization", ref_template=_REF)
    defs = schema.get("$defs", {})
    found = []
    for name, given in schema["properties"].items():
        plain = _inlined({key: value for key, value in given.items() if key != "description"}, defs)
        found.append(
            {"name": name, "in": "query", "description": given.get("description", ""), "schema": plain}
        )
    return found


def _inlined(schema: Any, defs: dict[str, Any]) -> Any:
    """A schema with its references into `defs` replaced: the enums of a query have no place of their own."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return defs[schema["$ref"].rpartition("/")[2]]
        return {key: _inlined(value, defs) for key, value in schema.items()}
    return [_inlined(one, defs) for one in schema] if isinstance(schema, list) else schema


def _headers(one: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}
        for name, text in one.headers.items()
    ]
