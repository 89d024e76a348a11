"""Tools that were not made by `@tool`: LangChain's, those of MCP servers, and plain functions."""

import inspect
import json
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolCall, ToolOutputMixin
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool
from langchain_core.tools import Tool as SimpleTool
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from adjourn.checkpoints.errors import ToolDefinitionError
from adjourn.checkpoints.lifecycle import Effect
from adjourn.nodes.attachments import Attachment, attachment_of, detached
from adjourn.nodes.context import ToolContext
from adjourn.nodes.definition import checked
from adjourn.nodes.parameters import ModelParameters, Parameters, SchemaParameters, injection, is_secret
from adjourn.nodes.questions import asks
from adjourn.nodes.results import Told
from adjourn.nodes.tool import TIMEOUT_S, ConfirmOf, Tool, tool
from adjourn.nodes.tool_errors import ToolError

_CONTEXT = "__adjourn_context"  # no model can give it: it is no parameter


def as_tool(
    one: Any,
    *,
    effect: Effect | str | None = None,
    idempotent: bool | None = None,
    confirm: ConfirmOf = None,
    timeout_s: float | None = TIMEOUT_S,
    hints: bool = True,
) -> Tool:
    """A LangChain tool (of an MCP server too) or a function as a tool, with what is declared beside it.

    Without a declared effect it counts as a write (C-19). What an MCP server says of its tool is a hint, and is
    believed: `readOnlyHint` makes a read (unless `destructiveHint` contradicts), `idempotentHint` a write that may
    be repeated. A declaration beside it wins, and `hints=False` believes nothing, for a server that you do not
    trust. What `@tool` made comes back as it is.

    Raises `ToolDefinitionError` for what cannot be a tool, and for what LangChain's own agent would fill in it.
    """
    if isinstance(one, Tool):
        return one
    if isinstance(one, BaseTool):
        said = _said_by(one) if hints else {}
        return _of_langchain(
            one,
            effect=effect or said.get("effect", Effect.WRITE),
            idempotent=said.get("idempotent", False) if idempotent is None else idempotent,
            confirm=confirm,
            timeout_s=timeout_s,
        )
    if callable(one):
        return tool(
            effect=effect or Effect.WRITE,
            idempotent=bool(idempotent),
            confirm=confirm,
            timeout_s=timeout_s,
        )(one)
    raise ToolDefinitionError(f"{one!r} is no tool: give a function, a @tool or a LangChain tool")


def _said_by(one: BaseTool) -> dict[str, Any]:
    """What the metadata says: our own word `effect`, else MCP's annotations."""
    metadata = one.metadata or {}
    if "effect" in metadata:
        return {"effect": metadata["effect"], "idempotent": metadata.get("idempotent") is True}
    is_read = metadata.get("readOnlyHint") is True and metadata.get("destructiveHint") is not True
    return {
        "effect": Effect.READ if is_read else Effect.WRITE,
        "idempotent": metadata.get("idempotentHint") is True,
    }


def _of_langchain(one: BaseTool, **declared: Any) -> Tool:
    """A LangChain tool, run by its own `ainvoke`."""
    given = _taken(one)
    if not one.description:
        raise ToolDefinitionError(f"tool {one.name}: a model needs a description")
    return checked(
        Tool(
            name=one.name,
            description=one.description,
            function=_invoker(one),
            parameters=given,
            injected={_CONTEXT: lambda context: context},
            secret=tuple(name for name, kind in _kinds(one).items() if is_secret(kind)),
            **declared,
        )
    )


def _taken(one: BaseTool) -> Parameters:
    """What a LangChain tool takes from a model. Raises `ToolDefinitionError` for what only LangChain's agent fills."""
    kinds = _kinds(one)
    defaults = {name for name, field in _fields(one).items() if not field.is_required()}
    defaults |= {
        name for name, parameter in _signature(one).items() if parameter.default is not parameter.empty
    }
    for name, kind in kinds.items():
        # `ainvoke` fills the config; also the call's id, which the tool is invoked with
        if kind is not RunnableConfig:
            injection(kind, f"tool {one.name}: parameter {name}", has_default=name in defaults)
    schema = one.tool_call_schema
    if isinstance(schema, dict):
        return SchemaParameters(schema)
    if not issubclass(schema, BaseModel):
        raise ToolDefinitionError(
            f"tool {one.name}: its arguments are a model of pydantic 1; wrap it in a @tool with typed parameters"
        )
    return ModelParameters(schema, as_json=True, takes_more=_is_open(one.args_schema))


def _is_open(schema: Any) -> bool:
    """Whether the schema that a LangChain tool was given takes names that it does not list."""
    config = schema.model_config if isinstance(schema, type) and issubclass(schema, BaseModel) else {}
    return config.get("extra") == "allow"


def _fields(one: BaseTool) -> Mapping[str, FieldInfo]:
    schema = one.args_schema if isinstance(one.args_schema, dict) else one.get_input_schema()
    return schema.model_fields if isinstance(schema, type) and issubclass(schema, BaseModel) else {}


def _function(one: BaseTool) -> Callable[..., Any]:
    """What LangChain calls in the end."""
    if isinstance(one, StructuredTool | SimpleTool):
        return one.coroutine or one.func or one._run
    return one._run


def _signature(one: BaseTool) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(_function(one)).parameters
    except (TypeError, ValueError):
        return {}


def _kinds(one: BaseTool) -> dict[str, Any]:
    """The types of all parameters of a tool: those of its schema, and those that its function takes besides."""
    try:
        found = typing.get_type_hints(_function(one), include_extras=True)
    except Exception:  # a name that is not there any more: then its schema tells what there is to tell
        found = {}
    taken = {name: kind for name, kind in found.items() if name in _signature(one)}
    for name, field in _fields(one).items():
        taken[name] = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return taken


def _invoker(one: BaseTool) -> Callable[..., Awaitable[Any]]:
    """Its `ainvoke`: with the data alone where that gives what the function returned, else as a call of a model.

    As a call it gives a message, which alone tells a failure that the tool handled itself from a success.
    """
    as_call = (
        one.response_format == "content_and_artifact"
        or bool(one.handle_tool_error)
        or bool(one.handle_validation_error)
        or any(_wants_call_id(kind) for kind in _kinds(one).values())
    )

    async def invoke(*, __adjourn_context: ToolContext | None = None, **arguments: Any) -> Any:
        call_id = __adjourn_context.call_id if __adjourn_context else "call"
        call = ToolCall(name=one.name, args=arguments, id=call_id, type="tool_call")
        return _result(await one.ainvoke(call if as_call else arguments))

    return invoke


def _wants_call_id(kind: Any) -> bool:
    marks = typing.get_args(kind)[1:] if typing.get_origin(kind) is Annotated else ()
    return any(one is InjectedToolCallId or isinstance(one, InjectedToolCallId) for one in marks)


def _result(given: Any) -> Any:
    """What a LangChain tool gave, as ours return it. It comes from outside, so it is data, and never a question (C-37)."""
    result = _unpacked(given)
    return Told(for_model=result, for_people=result) if asks(result) else result


def _unpacked(given: Any) -> Any:
    if isinstance(given, ToolMessage):
        told = _data(given.content)
        if given.status == "error":
            told, _ = detached(told)
            raise ToolError(told if isinstance(told, str) else json.dumps(told, ensure_ascii=False))
        people = _unwrapped(given.artifact)
        return told if given.artifact is None or people == told else Told(for_model=told, for_people=people)
    if isinstance(given, ToolOutputMixin) or (isinstance(given, list) and any(map(_is_command, given))):
        raise ToolError(
            "it returned a LangGraph Command, which LangChain's own agent would carry out; return plain data"
        )
    return _data(given) if isinstance(given, list) and given else given


def _is_command(one: Any) -> bool:
    return isinstance(one, ToolOutputMixin) and not isinstance(one, ToolMessage)


def _data(content: Any) -> Any:
    """The content of a message as data: text that is a JSON object or list is that; text blocks are one text, and blocks
    of images and files are attachments."""
    if isinstance(content, list):
        parts = [_part(one) for one in content]
        if any(isinstance(one, Attachment) for one in parts):
            return parts
    if isinstance(content, list) and all(
        isinstance(one, dict) and one.get("type") == "text" for one in content
    ):
        content = "\n".join(str(one.get("text", "")) for one in content)
    if isinstance(content, str) and content[:1] in ("{", "["):
        try:
            return json.loads(content)
        except ValueError:
            return content
    return content


def _part(one: Any) -> Any:
    if not isinstance(one, dict):
        return one
    return attachment_of(one) or (one["text"] if one.get("type") == "text" and "text" in one else one)


def _unwrapped(artifact: Any) -> Any:
    """What stands in the wrappings of MCP's structured content."""
    if isinstance(artifact, dict) and artifact.keys() == {"structured_content"}:
        artifact = artifact["structured_content"]
        if isinstance(artifact, dict) and artifact.keys() == {"result"}:
            artifact = artifact["result"]
    return artifact
