"""Spans by OpenTelemetry's own SDK and its exporter in memory: one trace per run, nothing private in it."""

import asyncio
import json
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from runs.shop import Shop

from adjourn.graph import tracing
from adjourn.nodes import approve, tool
from adjourn.nodes.scripted import Fails, call, says

PRIVATE = "支付密码 8848"
RESTART = call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r1")


@pytest.fixture(scope="session")
def collected() -> InMemorySpanExporter:
    """The process's one provider: it cannot be set twice."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(collected):
    """The finished spans of this test, by name."""
    collected.clear()

    def found() -> dict[str, list]:
        by_name: dict[str, list] = {}
        for span in collected.get_finished_spans():
            by_name.setdefault(span.name, []).append(span)
        return by_name

    yield found
    collected.clear()


async def test_a_run_is_a_span_with_its_model_and_tool_calls_below_it(house, spans):
    shop = Shop(delays={"search_docs": 0.05}, fails={"search_resource": RuntimeError("down")})
    reads = [call("search_docs", {"query": PRIVATE}, id="a"), call("search_resource", {"query": "x"}, id="b")]
    runner = house.runner(
        [says("I look", *reads, usage=(30, 4)), says("done", usage=(50, 6))], shop, name="ops"
    )
    run = await runner.start(PRIVATE, thread_id="t9")
    found = spans()
    (root,) = found["invoke_agent ops"]
    assert root.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert root.attributes["gen_ai.agent.name"] == "ops"
    assert root.attributes["gen_ai.conversation.id"] == "t9"
    assert root.attributes["adjourn.run.id"] == run.id
    assert (root.attributes["adjourn.run.status"], root.attributes["adjourn.run.stop_reason"]) == (
        "finished",
        "answered",
    )
    assert (root.attributes["gen_ai.usage.input_tokens"], root.attributes["gen_ai.usage.output_tokens"]) == (
        80,
        10,
    )
    assert root.status.status_code is StatusCode.UNSET
    chats = found[f"chat {run.steps[0].model}"]
    assert [(one.kind, one.attributes["gen_ai.usage.input_tokens"]) for one in chats] == [
        (SpanKind.CLIENT, 30),
        (SpanKind.CLIENT, 50),
    ]
    (docs,) = found["execute_tool search_docs"]
    assert docs.attributes["gen_ai.tool.call.id"] == "a"
    assert docs.attributes["adjourn.call.outcome"] == "ok"
    assert (docs.end_time - docs.start_time) / 1e9 >= 0.05
    (broken,) = found["execute_tool search_resource"]
    assert broken.status.status_code is StatusCode.ERROR
    assert broken.attributes["error.type"] == "tool_error"
    assert [dict(one.attributes) for one in broken.events] == [{"exception.type": "builtins.RuntimeError"}]
    for span in (*chats, docs, broken):
        assert span.parent.span_id == root.context.span_id
        assert root.start_time <= span.start_time <= span.end_time <= root.end_time


async def test_no_message_text_unless_it_is_switched_on(house, spans, monkeypatch):
    shop = Shop(fails={"search_resource": RuntimeError(PRIVATE)})
    reads = [
        call("search_docs", {"query": PRIVATE}, id="a"),
        call("search_resource", {"query": PRIVATE}, id="b"),
    ]
    turns = [says(PRIVATE, *reads), PRIVATE]
    await house.runner(turns, shop).start(PRIVATE)
    told = json.dumps(
        [json.loads(span.to_json()) for one in spans().values() for span in one], ensure_ascii=False
    )
    assert "8848" not in told
    monkeypatch.setenv(tracing.CONTENT_VARIABLE, "true")
    await house.runner(turns, shop).start(PRIVATE)
    found = spans()
    root = found["invoke_agent react"][-1]
    (asked,) = json.loads(root.attributes["gen_ai.input.messages"])
    assert asked == {"role": "user", "parts": [{"type": "text", "content": PRIVATE}]}
    assert PRIVATE in root.attributes["gen_ai.output.messages"]
    docs = found["execute_tool search_docs"][-1]
    assert json.loads(docs.attributes["gen_ai.tool.call.arguments"]) == {"query": PRIVATE}
    assert "5xx" in docs.attributes["gen_ai.tool.call.result"]
    assert found["execute_tool search_resource"][-1].events[0].attributes["exception.message"] == PRIVATE


async def test_a_run_is_one_trace_over_interrupt_and_resume(house, spans):
    turns = [says("", RESTART), "done"]
    run = await house.runner(turns).start("restart", by="wang")
    (first,) = spans()["invoke_agent react"]
    assert first.attributes["adjourn.run.stop_reason"] == "ask_user"
    assert "execute_tool restart_service" not in spans()
    elsewhere = house.runner(turns)  # as another process: only the store is shared
    with trace.get_tracer("caller").start_as_current_span("POST /answer") as request:
        await elsewhere.resume(run.id, {run.interrupts[0].id: approve()}, by="li")
    found = spans()
    first, second = found["invoke_agent react"]
    assert second.context.trace_id == first.context.trace_id
    assert second.parent.span_id == first.context.span_id
    assert [link.context.span_id for link in second.links] == [request.get_span_context().span_id]
    (restart,) = found["execute_tool restart_service"]
    assert restart.parent.span_id == second.context.span_id
    assert len([one for name, some in found.items() if name.startswith("chat") for one in some]) == 2


async def test_the_first_span_lies_below_the_caller_s_and_those_of_tools_below_it(house, spans):
    @tool(effect="read")
    async def fetch() -> str:
        """Fetch."""
        with trace.get_tracer("http").start_as_current_span("GET /"):
            return "page"

    runner = house.runner([says("", call("fetch", {}, id="f")), "done"], tools=[fetch])
    with trace.get_tracer("caller").start_as_current_span("POST /runs") as request:
        await runner.start("go")
    found = spans()
    (root,) = found["invoke_agent react"]
    assert root.parent.span_id == request.get_span_context().span_id
    assert not root.links
    assert found["GET /"][0].parent.span_id == root.context.span_id


async def test_a_failed_run_and_a_lost_lease_are_errors(house, spans, monkeypatch):
    run = await house.runner([Fails(ValueError(PRIVATE))]).start("go")
    (root,) = spans()["invoke_agent react"]
    assert root.status.status_code is StatusCode.ERROR
    assert root.attributes["error.type"] == run.error["class"]
    assert "8848" not in root.to_json()


@pytest.mark.in_process  # its caller is cancelled
async def test_a_cancelled_run_has_its_spans(house, spans):
    entered = asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        entered.set()
        await asyncio.sleep(30)
        return "late"

    runner = house.runner([says("", call("slow", {}, id="s")), "end"], tools=[slow])
    running = asyncio.create_task(runner.start("go"))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    found = spans()
    assert found["invoke_agent react"][0].attributes["adjourn.run.stop_reason"] == "cancelled"
    assert found["execute_tool slow"][0].attributes["adjourn.call.outcome"] == "cancelled"


async def test_a_trace_that_cannot_be_told_does_the_run_no_harm(house, spans, monkeypatch, caplog):
    def broken(*_of: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(tracing, "_fill", broken)
    monkeypatch.setattr(tracing.journal, "note_trace", broken)
    run = await house.runner(["done"]).start("go")
    assert run.status == "finished"
    assert [one.message for one in caplog.records if "trace" in one.message] == [
        f"the trace of run {run.id} could not be kept",
        f"the trace of run {run.id} could not be told",
    ]


def test_without_opentelemetry_runs_are_the_same(tmp_path):
    script = """
import sys
sys.modules["opentelemetry"] = None  # as if it were not installed
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel
with Runner(build_react(ScriptedModel(turns=["done"])), "sqlite:///x.db") as runner:
    run = runner.start_sync("go")
assert (run.status, run.row.trace_context) == ("finished", None)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_where_nobody_collects_nothing_is_written_and_nothing_read(tmp_path):
    script = """
import opentelemetry.trace
from adjourn.graph import Runner, build_react, tracing
from adjourn.nodes import ScriptedModel
tracing.read_run = tracing.journal.note_trace = None
with Runner(build_react(ScriptedModel(turns=["done"])), "sqlite:///x.db") as runner:
    run = runner.start_sync("go")
assert (run.status, run.row.trace_context) == ("finished", None)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stored_context_is_the_one_that_the_standard_says(house, spans):
    run = house.runner(["done"]).start_sync("go")
    (root,) = spans()["invoke_agent react"]
    version, trace_id, span_id, flags = run.row.trace_context.split("-")
    assert (version, int(trace_id, 16), int(span_id, 16), flags) == (
        "00",
        root.context.trace_id,
        root.context.span_id,
        f"{int(root.context.trace_flags):02x}",
    )
