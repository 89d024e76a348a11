"""What a tool takes: from a model, from a person, from the runtime (C-19, C-26, C-73); nothing is ignored."""

import functools
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, StructuredTool
from langchain_core.tools import tool as langchain_tool
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from pydantic import BaseModel, Field, SecretStr

from adjourn.checkpoints.errors import ToolDefinitionError
from adjourn.checkpoints.sealed import SEAL
from adjourn.graph import build_react
from adjourn.nodes import ScriptedModel, Secret, ToolContext, as_tool, tool

CONTEXT = ToolContext(run_id="r", thread_id="t", step=1, call_id="c9", tool="x", idempotency_key="k")


def names(made):
    return list(made.for_model["function"]["parameters"]["properties"])


def state(x: int, state: Annotated[dict, InjectedState]) -> str:
    """Take a state."""
    return ""


def part_of_state(x: int, messages: Annotated[list, InjectedState("messages")]) -> str:
    """Take a part of a state."""
    return ""


def store(x: int, store: Annotated[Any, InjectedStore()]) -> str:
    """Take a store."""
    return ""


def runtime(x: int, runtime: ToolRuntime) -> str:
    """Take a runtime."""
    return ""


def typed_runtime(x: int, runtime: ToolRuntime[None, dict]) -> str:
    """Take a runtime with its types."""
    return ""


def optional_state(x: int, state: Annotated[dict, InjectedState] | None = None) -> str:
    """Take a state, perhaps."""
    return ""


def argument(x: int, user: Annotated[str, InjectedToolArg]) -> str:
    """Take an argument of the app."""
    return ""


INJECTED = [state, part_of_state, store, runtime, typed_runtime, optional_state, argument]


@pytest.mark.parametrize("make", [lambda one: one, langchain_tool], ids=["function", "langchain"])
@pytest.mark.parametrize("function", INJECTED, ids=lambda one: one.__name__)
def test_what_only_langchain_s_agent_fills_is_refused_when_the_graph_is_built(function, make):
    with pytest.raises(ToolDefinitionError, match=r"ToolContext") as raised:
        build_react(ScriptedModel(turns=[]), [make(function)])
    assert function.__name__ in str(raised.value)


def test_a_runtime_that_is_no_part_of_the_given_schema_is_found_too():
    class Given(BaseModel):
        x: int

    with pytest.raises(ToolDefinitionError, match="ToolRuntime"):
        as_tool(langchain_tool(args_schema=Given)(runtime))
    with pytest.raises(ToolDefinitionError, match="InjectedState"):
        schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
        as_tool(StructuredTool(name="s", description="S.", args_schema=schema, func=state))


def test_a_config_of_langchain_s_in_a_tool_of_ours_is_refused():
    with pytest.raises(ToolDefinitionError, match="RunnableConfig"):

        @tool
        def takes(x: int, config: RunnableConfig) -> str:
            """Take a config."""
            return ""


def test_an_injected_argument_with_a_default_keeps_it_and_no_model_sees_it():
    @tool(effect="read")
    def ours(x: int, user: Annotated[str, InjectedToolArg] = "app") -> str:
        """Take one."""
        return user

    assert names(ours) == ["x"]
    assert ours.problems({"x": 1, "user": "model"}).wrong.keys() == {"user"}
    assert ours.bind({"x": 1}, CONTEXT) == {"x": 1}


def test_a_call_id_is_injected():
    @tool(effect="read")
    def ours(x: int, call: Annotated[str, InjectedToolCallId]) -> str:
        """Take one."""
        return call

    assert names(ours) == ["x"]
    assert ours.bind({"x": 1}, CONTEXT) == {"x": 1, "call": "c9"}


def test_a_context_may_be_optional():
    @tool(effect="read")
    def ours(x: int, context: ToolContext | None = None) -> str:
        """Take one."""
        return ""

    assert names(ours) == ["x"]
    assert ours.bind({"x": 1}, CONTEXT)["context"] is CONTEXT


def connect(host: str, user: str, retries: int = 3) -> str:
    """Connect to a host."""
    return f"{user}@{host}"


def test_what_a_partial_fills_is_no_parameter_any_more():
    made = tool(effect="read")(functools.partial(connect, user="app"))
    assert (made.name, made.description, names(made)) == (
        "connect",
        "Connect to a host.",
        ["host", "retries"],
    )
    assert made.problems({"host": "h", "user": "root"}).wrong.keys() == {"user"}
    assert made(**made.bind({"host": "h"}, CONTEXT)) == "app@h"
    twice = tool(effect="read")(functools.partial(functools.partial(connect, user="a"), retries=1))
    assert names(twice) == ["host"]


def test_a_callable_object_and_a_method_are_tools():
    class Desk:
        """Look at a desk."""

        def __call__(self, drawer: int) -> int:
            return drawer

        async def tidy(self, drawer: int) -> int:
            """Tidy a drawer."""
            return drawer

    desk, tidy = tool(effect="read")(Desk()), tool(effect="write")(Desk().tidy)
    assert (desk.name, desk.description, names(desk), desk.is_async) == (
        "Desk",
        "Look at a desk.",
        ["drawer"],
        False,
    )
    assert (tidy.name, names(tidy), tidy.is_async) == ("tidy", ["drawer"], True)
    assert tool(effect="read")(functools.partial(Desk().tidy)).is_async


def test_c26_unknown_names_are_wrong_unless_the_schema_allows_them():
    class Open(BaseModel, extra="allow"):
        x: int

    @langchain_tool
    def shut(x: int) -> int:
        """Take one."""
        return x

    closed = as_tool(shut, effect="read")
    assert closed.problems({"x": 1, "y": 2}).wrong == {"y": "there is no such parameter"}

    @langchain_tool(args_schema=Open)
    def open_(x: int, **more: int) -> str:
        """Take more."""
        return ""

    assert as_tool(open_).problems({"x": 1, "y": 2}).wrong == {}


def test_c26_a_tool_with_a_json_schema_is_checked_by_it():
    schema = {
        "title": "Find",
        "type": "object",
        "properties": {"q": {"type": "string", "minLength": 2}, "n": {"type": "integer"}},
        "required": ["q"],
    }
    made = as_tool(StructuredTool(name="find", description="Find.", args_schema=schema, func=lambda **_: 1))
    assert made.problems({"q": "ab", "n": 1}).wrong == {}
    assert made.problems({}).wrong.keys() == {"q"}
    assert made.problems({"q": "a", "n": "1", "m": 1}).wrong.keys() == {"q", "n", "m"}
    assert len(made.problems({"q": ["x" * 10_000]}).wrong["q"]) < 400
    with pytest.raises(ToolDefinitionError, match="JSON Schema"):
        as_tool(StructuredTool(name="bad", description="Bad.", args_schema={"type": 7}, func=lambda **_: 1))


# -- secrets


@tool(effect="write", secret=("pin",))
def login(user: str, password: Secret[str], pin: int) -> str:
    """Log in."""
    return ""


def test_c73_a_secret_is_in_no_schema_for_the_model():
    assert login.secret == ("password", "pin")
    assert login.for_model["function"]["parameters"]["required"] == ["user"]
    assert names(login) == ["user"]
    assert login.schema["properties"]["password"]["writeOnly"] is True


def test_c73_a_secret_of_the_model_is_refused_and_a_missing_one_is_asked_for():
    assert login.problems({"user": "u"}).missing == ("password", "pin")
    assert login.problems({"user": "u", "password": "guess", "pin": 1}).wrong.keys() == {"password", "pin"}
    assert login.problems({"user": "u", "password": SEAL + "x", "pin": SEAL + "y"}).wrong == {}
    assert login.problems({"user": SEAL + "x"}).wrong.keys() == {"user"}


def test_c73_a_secret_that_a_person_gives_is_checked_as_it_is():
    given = ("password", "pin")
    assert login.problems({"user": "u", "password": "p", "pin": 1}, given=given).wrong == {}
    assert login.problems({"user": "u", "password": 1, "pin": "x"}, given=given).wrong.keys() == {
        "password",
        "pin",
    }


@pytest.mark.parametrize(
    "kind", [SecretStr, Secret[str], Secret[str | None], Secret[Annotated[str, Field(min_length=3)]]]
)
def test_c73_types_that_say_secret(kind):
    @tool
    def takes(word: kind) -> str:
        """Take it."""
        return ""

    assert takes.secret == ("word",)
    assert as_tool(takes) is takes


def test_c73_a_secret_of_a_langchain_tool():
    @langchain_tool
    def takes(user: str, word: SecretStr) -> str:
        """Take it."""
        return ""

    assert as_tool(takes).secret == ("word",)


def test_c73_what_cannot_be_kept_secret_is_refused():
    class Account(BaseModel):
        user: str
        password: SecretStr

    with pytest.raises(ToolDefinitionError, match="parameter of its own"):

        @tool
        def nested(account: Account) -> str:
            """Take an account."""
            return ""

    with pytest.raises(ToolDefinitionError, match="default"):

        @tool(secret=("word",))
        def defaulted(word: str = "x") -> str:
            """Take a word."""
            return ""

    with pytest.raises(ToolDefinitionError, match="secret names nope"):

        @tool(secret=("nope",))
        def unknown(word: str) -> str:
            """Take a word."""
            return ""


def test_a_function_in_a_class_is_no_tool_before_an_object_is_bound_to_it():
    with pytest.raises(ToolDefinitionError, match=r"no model can fill self; .* tool\(\.\.\.\)\(it\.add\)"):

        class Sums:
            @tool(effect="read")
            def add(self, x: int) -> int:
                """Add."""
                return x
