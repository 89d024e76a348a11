"""Tools that were not made by `@tool`: LangChain's, and plain functions."""

from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel

from adjourn.checkpoints.errors import ToolDefinitionError
from adjourn.checkpoints.lifecycle import Effect
from adjourn.nodes.tool import RESULT_LIMIT, TIMEOUT_S, Tool, checked, tool


def as_tool(one: Any, *, effect: Effect | str | None = None) -> Tool:
    """`one` as a tool. Without a declared effect it counts as a write (C-19).

    Raises `ToolDefinitionError` for what cannot be one.
    """
    if isinstance(one, Tool):
        return one
    if isinstance(one, BaseTool):
        return _of_langchain(one, effect)
    if callable(one):
        return tool(effect=effect or Effect.WRITE)(one)
    raise ToolDefinitionError(f"{one!r} is no tool: give a function, a @tool or a LangChain tool")


def _of_langchain(one: BaseTool, effect: Effect | str | None) -> Tool:
    """A LangChain tool, run by its own `ainvoke`. What LangChain would inject into it is refused, not ignored."""
    schema = one.tool_call_schema
    if isinstance(schema, dict) or not issubclass(schema, BaseModel):
        raise ToolDefinitionError(
            f"tool {one.name}: its arguments are no pydantic model; wrap it in a @tool with typed parameters"
        )
    injected = set(one.get_input_jsonschema().get("properties", {})) - set(schema.model_fields)
    if injected:
        raise ToolDefinitionError(
            f"tool {one.name}: {', '.join(sorted(injected))} would be injected by LangChain's own agent; "
            f"take a ToolContext in a @tool instead"
        )
    if not one.description:
        raise ToolDefinitionError(f"tool {one.name}: a model needs a description")
    declared = (one.metadata or {}).get("effect", Effect.WRITE)
    return checked(
        Tool(
            name=one.name,
            description=one.description,
            function=_invoker(one),
            parameters=schema,
            effect=effect or declared,
            timeout_s=TIMEOUT_S,
            result_limit=RESULT_LIMIT,
        )
    )


def _invoker(one: BaseTool) -> Callable[..., Any]:
    async def invoke(**arguments: Any) -> Any:
        return await one.ainvoke(arguments)

    return invoke
