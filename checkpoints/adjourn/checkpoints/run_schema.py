"""The run tables: what the runtime writes down about runs, steps, calls, questions and events."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    event,
    text,
)

from adjourn.checkpoints.lifecycle import (
    CallState,
    Effect,
    ErrorCode,
    FlowStepState,
    InterruptState,
    InterruptType,
    RunStatus,
    StopReason,
)
from adjourn.checkpoints.schema import ID, LONG, TIME, WORD, exact_collation, metadata, one_of

BIG = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers rows only in a column typed INTEGER


def _has_partial_indexes(*_of: Any, **settings: Any) -> bool:
    return settings["dialect"].name in ("sqlite", "postgresql")


runs = Table(
    "runs",
    metadata,
    Column("id", ID, primary_key=True),
    Column("thread_id", ID, nullable=False),
    Column("parent_run_id", ID, comment="the run whose call drives this one; NULL for a run of its own"),
    Column("parent_step", Integer),
    Column("parent_call_id", ID),
    Column("forked_from", ID, comment="the run that it was forked from; NULL: it began by itself"),
    Column("forked_at", ID, comment="the checkpoint of that run where it began"),
    Column(
        "path", ID, nullable=False, server_default="", comment="specialists, outermost first, joined by /"
    ),
    Column("graph", ID, nullable=False),
    Column("signature", WORD, nullable=False, comment="hash of the graph's nodes, edges and tools"),
    Column("started_by", ID),
    Column("status", WORD, nullable=False),
    Column("stop_reason", WORD),
    Column("input", LONG, nullable=False, comment="the user's message as JSON, stored before anything runs"),
    Column(
        "attached",
        Integer,
        nullable=False,
        server_default="0",
        comment="images and files beside the text; the whole message is in `inputs` then",
    ),
    Column("context", LONG, comment="what its caller said about it, as JSON, for tools, rules and prompts"),
    Column("answer", LONG),
    Column("error", LONG, comment="why the run failed, as JSON: class, message, time"),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("steps", Integer, nullable=False, server_default="0"),
    Column("input_tokens", Integer, nullable=False, server_default="0"),
    Column("output_tokens", Integer, nullable=False, server_default="0"),
    Column("cost", Float, nullable=False, server_default="0"),
    Column("active_ms", Integer, nullable=False, server_default="0", comment="time worked, not waited"),
    Column("lease_owner", ID, comment="who drives the run; NULL when nobody does"),
    Column("lease_until", TIME),
    Column("fence", Integer, nullable=False, server_default="0", comment="grows with each owner"),
    Column(
        "deaths",
        Integer,
        nullable=False,
        server_default="0",
        comment="owners lost by their death, one after the other, at the same place",
    ),
    Column(
        "claimed_event", Integer, nullable=False, server_default="0", comment="last_event when its owner came"
    ),
    Column("priority", Integer, nullable=False, server_default="0", comment="workers take the highest first"),
    Column("cancel_requested_at", TIME, comment="somebody asked the owner to stop; NULL: nobody did"),
    Column("cancel_requested_by", ID),
    Column("last_event", Integer, nullable=False, server_default="0"),
    Column("trace_context", ID, comment="W3C traceparent of its first span; NULL: it was not traced"),
    Column("created_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Column("ended_at", TIME),
    one_of("status", RunStatus),
    one_of("stop_reason", StopReason),
    # A thread has at most one live run (C-86): two messages at once cannot both start.
    Index(
        "uq_runs_live_thread",
        "thread_id",
        unique=True,
        sqlite_where=text("status IN ('running', 'interrupted')"),
    ).ddl_if(callable_=_has_partial_indexes),
    Index("ix_runs_thread_created", "thread_id", "created_at"),  # the runs of one conversation, newest last
    Index("ix_runs_status_created", "status", "created_at"),  # who waits; newest first
    Index("ix_runs_created", "created_at"),  # the newest of all: a list that is open asks every two seconds
    Index("ix_runs_started_by_created", "started_by", "created_at"),  # the newest of one person
    # who is next for workers: without it each look sorts all that wait, 0.15 s for a hundred thousand
    Index(
        "ix_runs_queue",
        "graph",
        text("priority DESC"),
        "created_at",
        "id",
        sqlite_where=text("status = 'running' AND parent_run_id IS NULL"),
    ).ddl_if(callable_=_has_partial_indexes),
    # what is driven now, some dozens; not by lease_until, or each renewal would be a new entry
    Index(
        "ix_runs_owned",
        "graph",
        "started_by",
        sqlite_where=text("lease_owner IS NOT NULL"),
    ).ddl_if(callable_=_has_partial_indexes),
    # the forks of a run; most runs are none
    Index(
        "ix_runs_forked_from",
        "forked_from",
        sqlite_where=text("forked_from IS NOT NULL"),
    ),
    # the runs that worked for a run; most work for nobody
    Index(
        "ix_runs_parent_run_id",
        "parent_run_id",
        sqlite_where=text("parent_run_id IS NOT NULL"),
    ),
)


# MySQL has no partial index: there, a generated column that is NULL for runs that ended says the same.
@event.listens_for(runs, "after_create")
def _one_live_run_on_mysql(_target: Table, connection: Any, **_settings: Any) -> None:
    if _has_partial_indexes(dialect=connection.dialect):
        return
    connection.exec_driver_sql(
        f"ALTER TABLE runs ADD COLUMN live_thread VARCHAR(255) COLLATE {exact_collation(connection.dialect)} "
        "GENERATED ALWAYS AS (CASE WHEN status IN ('running', 'interrupted') THEN thread_id END) VIRTUAL, "
        "ADD UNIQUE INDEX uq_runs_live_thread (live_thread)"
    )


# Apart from the run's row, which each superstep writes anew: an image is megabytes.
inputs = Table(
    "inputs",
    metadata,
    Column("run_id", ID, primary_key=True),
    Column("blocks", LONG, nullable=False, comment="the user's message as content blocks, JSON"),
)

steps = Table(
    "steps",
    metadata,
    Column("run_id", ID, nullable=False),
    Column("step", Integer, nullable=False),
    Column("path", ID, nullable=False, server_default=""),
    Column("model", ID, nullable=False),
    Column("message_id", ID),
    Column("latency_ms", Integer, nullable=False, comment="from request to end signal"),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("cached_tokens", Integer, comment="of the input: what the provider had computed before"),
    Column("cache_write_tokens", Integer, comment="of the input: what the provider kept for later"),
    Column("reasoning_tokens", Integer, comment="of the output"),
    Column("cost", Float, nullable=False, server_default="0", comment="by the app's price table"),
    Column("calls", Integer, nullable=False),
    Column("started_at", TIME, nullable=False),
    Column("ended_at", TIME, nullable=False),
    PrimaryKeyConstraint("run_id", "step"),
)

calls = Table(
    "calls",
    metadata,
    Column("run_id", ID, nullable=False),
    Column("step", Integer, nullable=False),
    Column("call_id", ID, nullable=False, comment="the model's id; it may return in a later step"),
    Column("batch", Integer, nullable=False, comment="which group of the step's calls it runs with"),
    Column("position", Integer, nullable=False, comment="its place in the assistant message"),
    Column("tool", ID, nullable=False),
    Column("effect", WORD, nullable=False),
    Column("arguments", LONG, comment="as JSON; NULL where the text did not parse"),
    Column("digest", WORD, comment="of tool and real arguments, keys sorted"),
    Column("raw", LONG, comment="the argument text where it did not parse"),
    Column("outcome", WORD, nullable=False),
    Column("error_code", WORD),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("idempotency_key", ID),
    Column("result", LONG, comment="the observation, before the budget of its step; images in `attached`"),
    Column("shown", LONG, comment="what people are shown, as JSON, where it differs from the result"),
    Column("error", LONG, comment="class, text and stack of an exception, as JSON"),
    Column("planned_at", TIME, nullable=False),
    Column("started_at", TIME, comment="NULL: it never ran"),
    Column("ended_at", TIME),
    Column("took_ms", Integer, comment="in its tool, all attempts; NULL: it never ran, or its owner died"),
    PrimaryKeyConstraint("run_id", "step", "call_id"),
    one_of("effect", Effect),
    one_of("outcome", CallState),
    one_of("error_code", ErrorCode),
    Index("ix_calls_tool_outcome", "tool", "outcome"),  # failure rate per tool
)

flow_steps = Table(
    "flow_steps",
    metadata,
    Column("run_id", ID, nullable=False),
    Column("position", Integer, nullable=False, comment="its place in the flow, from 1"),
    Column("step", ID, nullable=False, comment="its name"),
    Column("status", WORD, nullable=False),
    Column("reason", LONG, comment="why it did not succeed"),
    Column("version", Integer, nullable=False, server_default="1", comment="how often its status was set"),
    Column("started_at", TIME),
    Column("ended_at", TIME),
    PrimaryKeyConstraint("run_id", "position"),
    UniqueConstraint("run_id", "step"),
    one_of("status", FlowStepState),
)

interrupts = Table(
    "interrupts",
    metadata,
    Column("id", ID, primary_key=True),
    Column("run_id", ID, nullable=False),
    Column("step", Integer, nullable=False),
    Column("call_id", ID, nullable=False),
    Column("path", ID, nullable=False, server_default=""),
    Column("position", Integer, nullable=False),
    Column("type", WORD, nullable=False),
    Column("tool", ID, nullable=False),
    Column("arguments", LONG, nullable=False, comment="the call's arguments as JSON"),
    Column("reason", LONG, nullable=False),
    Column("payload", LONG, nullable=False),
    Column("response_schema", LONG, nullable=False, comment="JSON Schema of the answer"),
    Column("state", WORD, nullable=False),
    Column("answer", LONG),
    Column("answered_by", ID),
    Column(
        "approvals",
        LONG,
        comment="who has to agree, and who did, as JSON: needed, of, given; NULL: one person, whoever it is",
    ),
    Column(
        "langgraph_id", ID, comment="the LangGraph interrupt that carries the question; NULL until it waits"
    ),
    Column("created_at", TIME, nullable=False),
    Column("expires_at", TIME, comment="NULL: never"),
    Column("closed_at", TIME),
    one_of("type", InterruptType),
    one_of("state", InterruptState),
    Index("ix_interrupts_run_state", "run_id", "state"),  # the open questions of a run
    Index("ix_interrupts_state_created", "state", "created_at"),  # the inbox
    Index("ix_interrupts_state_expires", "state", "expires_at"),  # whose time has passed
)

audit = Table(
    "audit",
    metadata,
    Column("id", BIG, primary_key=True, autoincrement=True),
    Column("run_id", ID, nullable=False),
    Column("interrupt_id", ID),
    Column(
        "action", WORD, nullable=False, comment="started, answered, approved, refused, expired, recovered ..."
    ),
    Column("by", ID),
    Column("data", LONG),
    Column("at", TIME, nullable=False),
    Index("ix_audit_run", "run_id"),  # who did what to a run
)

events = Table(
    "events",
    metadata,
    Column("run_id", ID, nullable=False),
    Column("number", Integer, nullable=False),
    Column("type", WORD, nullable=False),
    Column("step", Integer, nullable=False),
    Column("path", ID, nullable=False, server_default=""),
    Column("key", ID, nullable=False, comment="names the fact; a step that runs again stores nothing twice"),
    Column("data", LONG, nullable=False),
    Column("at", TIME, nullable=False),
    PrimaryKeyConstraint("run_id", "number"),
    UniqueConstraint("run_id", "key"),  # one event per fact (C-65)
)
