"""JSON Schemas of other people: what their references lead to, and that no check asks a network (C-26, C-45, C-83)."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any

import pytest
from langchain_core.tools import StructuredTool
from pydantic import WithJsonSchema

from adjourn.checkpoints.errors import InvalidAnswer, ToolDefinitionError
from adjourn.graph.fields import WrongValue, parse
from adjourn.nodes import as_tool, edit, tool
from adjourn.nodes.json_schema import check_schema, complaints
from adjourn.nodes.masking import Masker
from adjourn.nodes.questions import check_answer, check_custom, declared_question


class Elsewhere:
    """A server on loopback that would hand out a schema, and keeps who asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"type": "string"}')

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/schema.json"


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    made = Elsewhere()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def of_a_server(**properties: Any) -> Any:
    """A tool as an MCP server describes one."""
    schema = {"type": "object", "properties": properties}
    return StructuredTool(name="m", description="M.", args_schema=schema, func=lambda **_: "ran")


def test_c83_no_check_fetches_what_a_schema_refers_to(elsewhere: Elsewhere) -> None:
    there = {"$ref": elsewhere.url}
    with pytest.raises(ToolDefinitionError, match="leads nowhere"):
        as_tool(of_a_server(a=there))
    with pytest.raises(InvalidAnswer, match="cannot be followed"):
        check_custom("int_1", there, "x")
    with pytest.raises(WrongValue):
        parse("x", there, {})
    assert complaints({"properties": {"a": {"$dynamicRef": elsewhere.url}}}, {"a": 1}).keys() == {""}
    assert elsewhere.asked == []


CIRCLE = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "file:///etc/hostname"},
        {"$ref": "other.json#/a"},
        {"$ref": "#/$defs/Nope"},
        {"$ref": "#nope"},
        {"$ref": "http://["},
        {"$dynamicRef": "#nope"},
        {"$ref": "#"},
        {"$ref": "#/type", "type": "string"},
        {"items": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Nope"}]}},
        {"$ref": "#/parts/one", "parts": {"one": {"items": {"$ref": "#/parts/two"}}}},
        {"items": {"$ref": "#/$defs/a"}, "$defs": CIRCLE},
        {"items": {"anyOf": [{"type": "null"}, {"$ref": "#/items"}]}},
        {"allOf": [{"not": {"$ref": "#"}}]},
        {"$ref": "#/parts", "parts": {"properties": 7}},
        {"type": "nonsense"},
    ],
)
def test_a_schema_that_leads_nowhere_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        check_schema(schema)
    assert len(str(raised.value)) < 400


def test_a_schema_may_refer_to_all_that_is_in_it() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "leaf": {"$ref": "#leaf"}}}
    within = {"$defs": {"leaf": {"$anchor": "leaf", "type": "integer"}}, "old": {"$ref": "#/parts/0"}}
    schema = {
        **tree,
        **within,
        "parts": [True],
        "properties": {**tree["properties"], "$ref": {"type": "string"}},
    }  # type: ignore[dict-item]
    check_schema(schema)
    assert complaints(schema, {"next": {"next": {"leaf": "x"}}}).keys() == {"next.next.leaf"}
    check_schema({"const": {"$ref": "nowhere"}, "default": {"$ref": "nowhere"}})  # data, not references


@pytest.mark.parametrize(
    "of_schemas", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
)
def test_a_tool_may_take_a_json_schema(of_schemas: str) -> None:
    """What it refers to is installed: nothing has to be fetched."""
    made = as_tool(of_a_server(shape={"$ref": of_schemas}))
    assert made.problems({"shape": {"type": "string"}}).wrong == {}
    assert made.problems({"shape": {"type": 3}}).wrong.keys() == {"shape.type"}


def test_a_tool_of_ours_cannot_bring_one_either() -> None:
    def act(what: Annotated[str, WithJsonSchema({"$ref": "http://127.0.0.1:9/what.json"})]) -> str:
        """Act."""
        return what

    with pytest.raises(ToolDefinitionError, match="leads nowhere"):
        tool(effect="read")(act)


def test_c45_an_edit_is_checked_where_a_server_keeps_its_definitions_the_old_way() -> None:
    described = of_a_server(to={"$ref": "#/definitions/Name"})
    described.args_schema["definitions"] = {"Name": {"type": "string"}}
    made = as_tool(described, confirm=True)
    call: Any = {"id": "c", "name": "m", "position": 0, "effect": "write", "arguments": {"to": "li"}}
    question = declared_question(call, made, run_id="r", step=1, language="en", is_doubtful=lambda _: False)
    assert question is not None
    assert check_answer(question, {"to": "li"}, edit({"to": "wang"}), made, Masker())
    with pytest.raises(InvalidAnswer) as raised:
        check_answer(question, {"to": "li"}, edit({"to": 3}), made, Masker())
    assert set(raised.value.problems) == {"arguments.to"}
