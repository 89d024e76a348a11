"""How a run begins on its thread: a new one, one that follows another, or one in place of a waiting one."""

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from sqlalchemy import Connection

from adjourn.checkpoints import event_rows, journal, thread_ops
from adjourn.checkpoints.compiled import in_one_go
from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import RunBusy, RunNotFound, UsageError
from adjourn.checkpoints.events import Event, RunStarted, StepStarted
from adjourn.checkpoints.json_data import check_data
from adjourn.checkpoints.leases import lease_end
from adjourn.checkpoints.lifecycle import HIGHEST_PRIORITY, ErrorCode, RunEvent, RunStatus, StopReason
from adjourn.checkpoints.records import KEY_LENGTH, CallRow, RunRow, shortened
from adjourn.graph.closing import close_waiting
from adjourn.graph.names import check_name, check_text
from adjourn.graph.said import Message
from adjourn.nodes.history import healed
from adjourn.nodes.masking import Masker
from adjourn.nodes.observations import content_of, error_code, failure, status_of
from adjourn.nodes.state import FRESH, RunState
from adjourn.nodes.texts import language_of, say

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o, u: ids are read aloud and typed
MOST_CONTEXT = 10_000  # characters of a run's context: ids and settings, no documents


@dataclass(frozen=True, slots=True)
class Begun:
    """A run whose beginning is stored, with the events of that. It is ours to drive if it is `running`."""

    run: RunRow
    told: Sequence[Event]


class StartedBefore(Exception):
    """The run that was to start is there already; nothing was changed."""

    def __init__(self, run: RunRow) -> None:
        super().__init__(run.id)
        self.run = run


def new_id(prefix: str) -> str:
    """An id that sorts by time: 48 bits of milliseconds, 30 random bits."""
    return _id(prefix, time.time_ns() // 1_000_000, secrets.randbits(30))


def id_at(prefix: str, moment: datetime) -> str:
    """A bound for partitions: ids made before an aware datetime sort before it, ids made since do not."""
    return _id(prefix, int(moment.timestamp() * 1000), 0)


def _id(prefix: str, milliseconds: int, rest: int) -> str:
    number = milliseconds << 30 | rest
    digits = ""
    while number:
        number, digit = divmod(number, 32)
        digits = _ALPHABET[digit] + digits
    return f"{prefix}_{digits}"


def new_run(
    message: str,
    *,
    thread_id: str | None,
    by: str | None,
    run_id: str | None,
    graph: str,
    signature: str,
    owner: str,
    lease_s: float,
    priority: int = 0,
    attached: int = 0,
    context: Mapping[str, Any] | None = None,
) -> RunRow:
    """The row of a run that is about to start, owned by `owner`.

    Raises `UsageError` for an empty message, for a name that no database takes, for a `priority` that is no number
    from -1000 to 1000, and for a `context` that is no JSON object.
    """
    if not message.strip():
        raise UsageError("the message is empty; say what the run is to do")
    check_text("the message", message)
    for what, name in (("thread_id", thread_id), ("by", by), ("run_id", run_id)):
        check_name(what, name)
    if not isinstance(priority, int) or isinstance(priority, bool) or abs(priority) > HIGHEST_PRIORITY:
        lowest, highest = -HIGHEST_PRIORITY, HIGHEST_PRIORITY
        raise UsageError(f"priority is a whole number from {lowest} to {highest}, not {priority!r}")
    at = now()
    return RunRow(
        id=run_id or new_id("run"),
        thread_id=thread_id or new_id("thr"),
        graph=graph,
        signature=signature,
        input=message,
        attached=attached,
        context=_checked_context(context),
        started_by=by,
        status=RunStatus.RUNNING.value,
        lease_owner=owner,
        lease_until=lease_end(lease_s),
        fence=1,
        priority=priority,
        created_at=at,
        updated_at=at,
    )


def _checked_context(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a caller says about a run, as it is stored. It is read with the run's row, so it has a limit."""
    if not given:
        return None
    if not isinstance(given, Mapping):
        raise UsageError(f"context is a mapping of names to JSON data, not {type(given).__name__}")
    try:
        check_data(dict(given))
    except ValueError as error:
        raise UsageError(
            f"context is JSON data, which every process can read: {error}; what cannot be stored, as a connection, is "
            "for the module that defines the tools"
        ) from None
    text = json.dumps(given, ensure_ascii=False)
    check_text("context", text)
    if len(text) > MOST_CONTEXT:
        raise UsageError(
            f"context has {len(text)} characters as JSON; at most {MOST_CONTEXT} stand with a run"
        )
    return dict(given)


def dated(run: RunRow, lease_s: float) -> RunRow:
    """A new run that waited in line, with the time and the lease of now."""
    at = now()
    return replace(run, created_at=at, updated_at=at, lease_until=lease_end(lease_s))


def check_new(
    connection: Connection, run: RunRow, said: Message, thread_id: str | None, *, anew: bool = False
) -> None:
    """Raise `StartedBefore` where the same start made a run of this id, `UsageError` where another one did.

    The same start: of this person, with this message, for this graph, on this thread if its caller named one. `anew`: look
    at what is stored now, whatever this transaction has seen before.
    """
    try:
        known = (journal.lock_run if anew else journal.read_run)(connection, run.id)
    except RunNotFound:
        return
    same = all(getattr(known, one) == getattr(run, one) for one in ("input", "graph", "started_by"))
    same = same and thread_id in (None, known.thread_id)
    if not (same and journal.read_blocks(connection, known) == said.blocks):
        raise UsageError(
            f"there is a run {run.id!r} already, which began with another message, thread, graph or person; take another id"
        )
    raise StartedBefore(known)


def store(
    connection: Connection,
    run: RunRow,
    masker: Masker | None = None,
    *,
    blocks: Sequence[Any] | None = None,
) -> list[Event]:
    """Store a new run with its first events. What waits or has failed on the thread is closed (C-50).

    `blocks`: the whole of its message, where that is more than the text.
    `masker` hides what a person said of a call that is closed so; None: by the default rules.
    Raises `RunBusy` when the thread has a run that works, `UsageError` when the id is taken.
    """
    with in_one_go(connection):
        thread_ops.hold(connection, run.thread_id)  # nobody prunes an old thread while it gets a run
        asked = journal.ask_open_run(connection, run.thread_id)
    before = asked()
    if before is not None and before.status == RunStatus.RUNNING:
        raise RunBusy.of(before)
    if before is not None:
        close_waiting(connection, before.id, RunEvent.DISMISS, by=run.started_by, masker=masker)
    if not journal.begin_run(connection, run):
        live = journal.open_run(connection, run.thread_id)
        if live is not None:
            raise RunBusy.of(live)
        raise UsageError(f"there is a run {run.id!r} already")
    if blocks is not None:
        journal.insert_blocks(connection, run.id, blocks)
    first = first_events(run)
    with in_one_go(connection):
        begun, check = event_rows.move_on_from(
            connection, run.id, first, fence=run.fence, last=run.last_event, or_else=_impossible
        )
        journal.write_audit(connection, run.id, "started", by=run.started_by)
        event_rows.insert(connection, run.id, begun)
    check()
    return begun


def first_events(run: RunRow, step: int = 1) -> list[Event]:
    """What is told when a run begins: that it is there, and that the model is asked for this step."""
    told = RunStarted(
        run_id=run.id,
        path=run.path,
        thread_id=run.thread_id,
        graph=run.graph,
        input=run.input,
        started_by=run.started_by,
    )
    return [told, StepStarted(run_id=run.id, path=run.path, step=step)]


def _impossible() -> None:
    raise AssertionError("nobody but us knows of this run yet")


def input_of_new_thread(connection: Connection, run: RunRow) -> RunState | None:
    """`first_input` on a thread without any checkpoint; None: there is one, and only LangGraph knows what it holds."""
    if thread_ops.has_checkpoints(connection, run.thread_id):
        return None
    return first_input(connection, run, {})


def first_input(connection: Connection, run: RunRow, values: Mapping[str, Any]) -> RunState:
    """The input that starts a run, after whatever its thread holds.

    New input makes LangGraph drop what an unfinished run wrote but did not check in, so all of that run's
    messages are handed over again, closed by the outcomes that the ledger shows, with the new message
    behind them. Message ids derive from runs, so that doing this twice is doing it once.
    """
    messages: list[AnyMessage] = []
    before = _run_of(connection, values.get("run_id"))
    if before is not None and before.stop_reason in (None, StopReason.DISMISSED, StopReason.CANCELLED):
        calls = journal.read_calls(connection, before.id, step=before.steps)
        said = user_message(connection, before)
        messages = closed_messages(before, said, values.get("messages", ()), calls)
    messages += [user_message(connection, one) for one in _never_checkpointed(connection, run, before)]
    fresh: RunState = {**FRESH}
    fresh["messages"] = [*messages, user_message(connection, run)]
    fresh["run_id"] = run.id
    fresh["language"] = language_of(run.input)
    return fresh


def _run_of(connection: Connection, run_id: str | None) -> RunRow | None:
    """The run that a thread's checkpoint names; None if it names none, or one that was pruned."""
    try:
        return None if run_id is None else journal.read_run(connection, run_id)
    except RunNotFound:
        return None


def _never_checkpointed(connection: Connection, run: RunRow, last: RunRow | None) -> list[RunRow]:
    """The runs of the thread that failed before their first checkpoint, after `last`: no state holds their messages yet."""
    since = ("", "") if last is None else (last.created_at, last.id)
    found = journal.begun_in_vain(connection, run.thread_id)
    return [one for one in reversed(found) if one.id != run.id and (one.created_at, one.id) > since]


def user_message(connection: Connection, run: RunRow) -> HumanMessage:
    """The message that began a run, as the model gets it."""
    blocks = journal.read_blocks(connection, run)
    return HumanMessage(run.input if blocks is None else blocks, id=f"{run.id}.input")


def closed_messages(
    run: RunRow, said: HumanMessage, messages: Sequence[AnyMessage], calls: Sequence[CallRow]
) -> list[AnyMessage]:
    """The messages of an unfinished run from its user message on, each call answered as the ledger shows.

    `said` is that message, for a thread that never came to hold it.
    """
    starts = [place for place, one in enumerate(messages) if one.id == f"{run.id}.input"]
    own = list(messages[starts[0] :]) if starts else [said]
    results = {call.call_id: call.result for call in calls if call.result is not None}
    language = language_of(run.input)

    def missing(call_id: str, name: str) -> str:
        lost = ErrorCode.OUTCOME_UNKNOWN
        return results.get(shortened(call_id, KEY_LENGTH)) or failure(
            lost, say(lost.value, language, tool=name)
        )

    mended = healed(own, missing)
    last = max((place for place, one in enumerate(mended) if isinstance(one, AIMessage)), default=0)
    # only the newest turn's: ids may return in each turn
    return [*mended[:last], *(_final(one, results) for one in mended[last:])]


def _final(message: AnyMessage, results: Mapping[str, str]) -> AnyMessage:
    """A provisional observation with the final one in its place."""
    if not isinstance(message, ToolMessage) or error_code(message.text) != ErrorCode.AWAITING_USER:
        return message
    content = results.get(shortened(message.tool_call_id, KEY_LENGTH), message.text)
    return message.model_copy(update={"content": content_of(content), "status": status_of(content)})
