"""Is a store sound? Told by SQL and the file of effects alone: nothing of Adjourn is imported here.

    python tests/soak/checker.py URL EFFECTS

URL: `sqlite:///FILE` or `postgresql://...`. A line of EFFECTS is one real execution of a write: TOOL RUN CALL KEY. The store is
at rest: no process works on it, and its runs have come to their ends or wait.
"""

import json
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUN_STATUSES = {"running", "interrupted", "finished", "cancelled", "failed"}
ENDED = {"finished", "cancelled"}
STOP_REASONS = {
    "answered", "max_steps", "timeout", "too_many_fails", "loop_detected", "no_evidence", "budget_spent",
    "protocol_error", "dismissed", "cancelled",
}  # fmt: skip
OPEN_CALLS = {"planned", "started", "waiting"}
FINAL_CALLS = {
    "ok", "failed", "invalid", "denied", "declined", "dismissed", "expired", "cancelled", "skipped", "repeated",
    "unknown",
}  # fmt: skip
CLOSED_QUESTIONS = {"answered", "expired", "dismissed", "cancelled"}
NEVER_RUN = {"invalid", "denied", "declined", "dismissed", "expired", "skipped", "repeated"}


@dataclass(frozen=True)
class Store:
    """The rows that are looked at, each a dict by column; and the executions that the world saw."""

    runs: dict[str, dict[str, Any]]
    calls: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    interrupts: list[dict[str, Any]]
    events: dict[str, list[dict[str, Any]]]
    messages: dict[str, list[dict[str, Any]]]
    effects: list[tuple[str, str, str, str]]
    copied: dict[str, int]  # the step up to which a run was copied from another one


Problems = Iterator[str]
CHECKS: dict[str, Callable[[Store], Problems]] = {}


def invariant(look: Callable[[Store], Problems]) -> Callable[[Store], Problems]:
    """Registers a check under its function's name."""
    CHECKS[look.__name__] = look
    return look


@invariant
def words_are_legal(store: Store) -> Problems:
    """Statuses, reasons, outcomes and states are words of the closed lists, and fit each other."""
    for run in store.runs.values():
        ended = run["status"] in ENDED
        if run["status"] not in RUN_STATUSES or (run["stop_reason"] or "answered") not in STOP_REASONS:
            yield f"run {run['id']} is {run['status']} ({run['stop_reason']})"
        elif ended != (run["stop_reason"] is not None) or ended != (run["ended_at"] is not None):
            yield f"run {run['id']} is {run['status']}: reason {run['stop_reason']}, ended {run['ended_at']}"
        elif (run["status"] == "cancelled") != (run["stop_reason"] == "cancelled"):
            yield f"run {run['id']} is {run['status']} for the reason {run['stop_reason']}"
        elif run["status"] == "failed" and run["error"] is None:
            yield f"run {run['id']} failed without an error"
    for call in store.calls:
        if call["outcome"] not in OPEN_CALLS | FINAL_CALLS:
            yield f"call {_name(call)} is {call['outcome']}"
    for one in store.interrupts:
        if one["state"] not in CLOSED_QUESTIONS | {"open"}:
            yield f"question {one['id']} is {one['state']}"


@invariant
def one_live_run_per_thread(store: Store) -> Problems:
    """C-86."""
    live = Counter(
        one["thread_id"] for one in store.runs.values() if one["status"] in ("running", "interrupted")
    )
    yield from (f"thread {thread} has {count} live runs" for thread, count in live.items() if count > 1)


@invariant
def nobody_holds_a_lease(store: Store) -> Problems:
    """A run that is not driven has no owner; at rest none is driven."""
    yield from (
        f"run {one['id']} ({one['status']}) is held by {one['lease_owner']} until {one['lease_until']}"
        for one in store.runs.values()
        if one["lease_owner"] is not None or one["lease_until"] is not None or one["status"] == "running"
    )


@invariant
def events_have_no_gap(store: Store) -> Problems:
    """C-65: 1, 2, 3 ... up to `last_event`."""
    for run in store.runs.values():
        numbers = [one["number"] for one in store.events[run["id"]]]
        if numbers != list(range(1, run["last_event"] + 1)):
            yield f"run {run['id']} has the events {numbers}, and the last is {run['last_event']}"


@invariant
def events_tell_the_run(store: Store) -> Problems:
    """It begins once, and ends once if it has ended, with what the row says."""
    for run in store.runs.values():
        words = [one["type"] for one in store.events[run["id"]]]
        if words[:1] != ["run_started"] or words.count("run_started") != 1:
            yield f"run {run['id']} begins with {words[:1]}"
        if words.count("run_finished") != (run["status"] in ENDED):
            yield f"run {run['id']} is {run['status']} and has {words.count('run_finished')} run_finished"
        elif run["status"] in ENDED:
            said = json.loads(store.events[run["id"]][-1]["data"])
            if (said.get("status"), said.get("stop_reason")) != (run["status"], run["stop_reason"]):
                yield f"run {run['id']} is {run['status']} ({run['stop_reason']}), and its last event is {said}"


@invariant
def no_run_failed(store: Store) -> Problems:
    """C-58: a run fails when its model cannot be asked, which this one always can. Whatever dies is recovered."""
    for events in store.events.values():
        for one in events:
            if one["type"] == "run_failed":
                yield f"run {one['run_id']} failed: {one['data']}"


@invariant
def events_tell_each_call_once(store: Store) -> Problems:
    """C-63: one `tool_result` for each call that has its final outcome, with that outcome."""
    for run_id, calls in _by_run(store.calls).items():
        told: dict[tuple[int, str], list[str]] = defaultdict(list)
        for one in store.events[run_id]:
            if one["type"] == "tool_result":
                data = json.loads(one["data"])
                told[one["step"], data["call_id"]].append(data["outcome"])
        for call in calls:
            expected = [call["outcome"]] if call["outcome"] in FINAL_CALLS else []
            found = told.pop((call["step"], call["call_id"]), [])
            if found != expected and not (call["step"] <= store.copied[run_id] and not found):
                yield f"call {_name(call)} is {call['outcome']}, and was told as {found}"
        yield from (f"run {run_id} tells a result of {key}, which is no call" for key in told)


@invariant
def histories_are_legal(store: Store) -> Problems:
    """C-15: each call of an assistant message is answered once, in order, before anything else is said."""
    for thread, messages in store.messages.items():
        waiting: list[str] = []
        for one in messages:
            if one["role"] == "tool":
                if waiting[:1] != [one["tool_call_id"]]:
                    yield f"thread {thread}: {one['tool_call_id']} is answered while {waiting} wait"
                    break
                waiting.pop(0)
            elif waiting:
                yield f"thread {thread}: {one['role']} speaks while {waiting} wait"
                break
            elif one["role"] == "assistant" and one["tool_calls"]:
                waiting = [call["id"] for call in json.loads(one["tool_calls"])]
        else:
            if waiting:
                yield f"thread {thread} ends while {waiting} wait"


@invariant
def each_call_has_one_observation(store: Store) -> Problems:
    """C-14: each call of the ledger has exactly one tool message on its thread."""
    told = {
        thread: Counter(one["tool_call_id"] for one in messages if one["role"] == "tool")
        for thread, messages in store.messages.items()
    }
    for call in store.calls:
        thread = store.runs[call["run_id"]]["thread_id"]
        times = told.get(thread, Counter())[call["call_id"]]
        if times != 1:
            yield f"call {_name(call)} has {times} observations on thread {thread}"


@invariant
def calls_are_settled(store: Store) -> Problems:
    """A run that ended leaves no call open; a run that waits leaves those open that people are asked about."""
    for call in store.calls:
        status = store.runs[call["run_id"]]["status"]
        if call["outcome"] in OPEN_CALLS and status in ENDED:
            yield f"call {_name(call)} is {call['outcome']}, and its run is {status}"
        if (call["outcome"] in FINAL_CALLS) != (call["ended_at"] is not None and call["result"] is not None):
            yield f"call {_name(call)} is {call['outcome']}: ended {call['ended_at']}, result {call['result']}"


@invariant
def questions_are_settled(store: Store) -> Problems:
    """A question is open while its run waits, and not after; what was answered was told once."""
    for one in store.interrupts:
        status = store.runs[one["run_id"]]["status"]
        if (one["state"] == "open") and status != "interrupted":
            yield f"question {one['id']} is open, and its run is {status}"
        if (one["state"] == "open") != (one["closed_at"] is None):
            yield f"question {one['id']} is {one['state']}, closed {one['closed_at']}"
        if (one["state"] == "answered") != (one["answer"] is not None):
            yield f"question {one['id']} is {one['state']}, its answer is {one['answer']}"
    asked = {one["run_id"] for one in store.interrupts if one["state"] == "open"}
    for run in store.runs.values():
        if run["status"] == "interrupted" and run["id"] not in asked:
            yield f"run {run['id']} waits, and nobody is asked"
    told = Counter(
        (run_id, json.loads(one["data"])["interrupt_id"])
        for run_id, events in store.events.items()
        for one in events
        if one["type"] == "interrupt_answered"
    )
    for one in store.interrupts:
        expected = int(one["state"] != "open")
        if told[one["run_id"], one["id"]] != expected:
            yield f"question {one['id']} ({one['state']}) was told {told[one['run_id'], one['id']]} times"


@invariant
def counters_add_up(store: Store) -> Problems:
    """C-53: a run's steps and tokens are those of its steps, and a step's calls are those of the ledger."""
    steps, calls = _by_run(store.steps), Counter((one["run_id"], one["step"]) for one in store.calls)
    for run in store.runs.values():
        own = steps.get(run["id"], [])
        numbers = [one["step"] for one in own]
        if numbers != list(range(store.copied[run["id"]] + 1, run["steps"] + 1)):
            yield f"run {run['id']} has the steps {numbers}, and counts {run['steps']}"
        for name in ("input_tokens", "output_tokens"):
            spent = sum(one[name] or 0 for one in own)
            if spent != run[name]:
                yield f"run {run['id']} counts {run[name]} {name}, its steps {spent}"
        for one in own:
            if one["calls"] != calls[run["id"], one["step"]]:
                yield f"step {one['step']} of {run['id']}: {one['calls']} calls, {calls[run['id'], one['step']]} rows"


@invariant
def no_write_happened_twice(store: Store) -> Problems:
    """C-36: one execution for each key, but of `put`, whose system takes each key once."""
    times = Counter(key for name, _, _, key in store.effects if name != "put")
    yield from (f"the write {key} happened {count} times" for key, count in times.items() if count > 1)
    # what a fork was given of the ledger keeps the key of where it happened
    own = (one for one in _writes(store) if one["step"] > store.copied[one["run_id"]])
    keys = Counter(one["idempotency_key"] for one in own)
    yield from (f"{count} calls have the key {key}" for key, count in keys.items() if count > 1)


@invariant
def each_ok_write_happened(store: Store) -> Problems:
    """What the model was told has happened has."""
    seen = {key for _, _, _, key in store.effects}
    for call in _writes(store):
        if call["outcome"] == "ok" and call["idempotency_key"] not in seen:
            yield f"call {_name(call)} is ok, and never happened"


@invariant
def what_happened_is_in_the_ledger(store: Store) -> Problems:
    """Whatever the world saw has a call, which nobody was told had not run."""
    known = {one["idempotency_key"]: one for one in _writes(store)}
    for name, run_id, call_id, key in store.effects:
        call = known.get(key)
        if call is None:
            yield f"{name} of call {call_id} of {run_id} happened, and is in no ledger"
        elif call["outcome"] in NEVER_RUN:
            yield f"{name} of call {_name(call)} happened, and is {call['outcome']}"


def _writes(store: Store) -> list[dict[str, Any]]:
    return [one for one in store.calls if one["effect"] == "write" and one["idempotency_key"] is not None]


def _name(call: dict[str, Any]) -> str:
    return f"{call['call_id']} of step {call['step']} of {call['run_id']}"


def _by_run(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in rows:
        found[one["run_id"]].append(one)
    return found


def _copied(runs: Sequence[dict[str, Any]], steps: Sequence[dict[str, Any]]) -> dict[str, int]:
    """The step that each run had reached where it began: 0, but for forks."""
    first = {run_id: min(one["step"] for one in own) - 1 for run_id, own in _by_run(steps).items()}
    return {one["id"]: first.get(one["id"], one["steps"]) if one["forked_from"] else 0 for one in runs}


# -- reading

QUERIES = {
    "runs": "SELECT * FROM runs ORDER BY id",
    "calls": "SELECT * FROM calls ORDER BY run_id, step, position",
    "steps": "SELECT * FROM steps ORDER BY run_id, step",
    "interrupts": "SELECT * FROM interrupts ORDER BY id",
    "events": "SELECT * FROM events ORDER BY run_id, number",
    "messages": "SELECT * FROM v_messages ORDER BY thread_id, position",
}


def read(url: str, effects: Path) -> Store:
    """The rows of a store, and what the world saw."""
    found = {name: list(_rows(url, query)) for name, query in QUERIES.items()}
    lines = [line.split() for line in effects.read_text().splitlines()] if effects.exists() else []
    messages: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in found["messages"]:
        messages[one["thread_id"]].append(one)
    return Store(
        runs={one["id"]: one for one in found["runs"]},
        calls=found["calls"],
        steps=found["steps"],
        interrupts=found["interrupts"],
        events=_by_run(found["events"]),
        messages=messages,
        effects=[(name, run, call, key) for name, run, call, key in lines],
        copied=_copied(found["runs"], found["steps"]),
    )


def _rows(url: str, query: str) -> Iterator[dict[str, Any]]:
    if url.startswith("sqlite:///"):
        connection: Any = sqlite3.connect(url.removeprefix("sqlite:///"))
    else:
        import psycopg

        connection = psycopg.connect(url.replace("postgresql+psycopg:", "postgresql:"))
    with closing(connection), closing(connection.cursor()) as cursor:
        cursor.execute(query)
        names = [one[0] for one in cursor.description]
        yield from (dict(zip(names, row, strict=True)) for row in cursor)


def check(store: Store) -> dict[str, list[str]]:
    """What is wrong, by invariant; empty: nothing is."""
    found = {name: list(look(store)) for name, look in CHECKS.items()}
    return {name: problems for name, problems in found.items() if problems}


def main() -> int:
    """Print what is wrong. Gives the exit status."""
    store = read(sys.argv[1], Path(sys.argv[2]))
    wrong = check(store)
    for name, problems in wrong.items():
        print(f"{name}: {len(problems)}", *problems[:20], sep="\n  ")
    print(
        f"{len(store.runs)} runs, {len(store.calls)} calls, {len(CHECKS)} invariants: {'BROKEN' if wrong else 'sound'}"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
