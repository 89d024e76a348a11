"""The tables of states and routes, and what is made from them."""

import itertools
import pickle
from enum import StrEnum

import pytest
import sqlalchemy as sa

from adjourn.checkpoints import errors, run_schema
from adjourn.checkpoints.errors import AdjournError, IllegalMove
from adjourn.checkpoints.lifecycle import (
    CALL_MOVES,
    FINAL,
    INTERRUPT_MOVES,
    LIVE,
    RUN_MOVES,
    CallState,
    Effect,
    ErrorCode,
    InterruptState,
    InterruptType,
    RunEvent,
    RunStatus,
    StopReason,
    move,
    sources,
)
from adjourn.graph.routes import ROUTES, WHY, mermaid, next_node

TABLES = [
    (RUN_MOVES, RunStatus, RunEvent),
    (CALL_MOVES, CallState, CallState),
    (INTERRUPT_MOVES, InterruptState, InterruptState),
]


@pytest.mark.parametrize(("table", "states", "events"), TABLES)
def test_each_state_is_in_its_table_also_those_without_a_way_out(table, states, events):
    assert set(table) == set(states)


@pytest.mark.parametrize(("table", "states", "events"), TABLES)
def test_a_move_that_is_not_in_the_table_raises_and_names_state_and_event(table, states, events):
    for state, event in itertools.product(states, events):
        if event in table[state]:
            assert move(table, state, event, of="it") is table[state][event]
            assert state in sources(table, event)
            continue
        assert state not in sources(table, event)
        with pytest.raises(IllegalMove, match=f"it: no move '{event}' from state '{state}'") as raised:
            move(table, state, event, of="it")
        assert (raised.value.of, raised.value.state, raised.value.event) == ("it", state, event)


def test_what_is_final_and_what_is_live():
    assert set(CallState) - {CallState.PLANNED, CallState.STARTED, CallState.WAITING} == FINAL
    assert {RunStatus.RUNNING, RunStatus.INTERRUPTED} == LIVE
    assert [status for status, moves in RUN_MOVES.items() if not moves] == [
        RunStatus.FINISHED,
        RunStatus.CANCELLED,
    ]


def test_c49_a_call_that_a_person_declined_or_that_expired_can_never_start():
    for state in (CallState.DECLINED, CallState.EXPIRED, CallState.DISMISSED, CallState.CANCELLED):
        assert CALL_MOVES[state] == {}


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ("runs", "status", RunStatus),
        ("runs", "stop_reason", StopReason),
        ("calls", "outcome", CallState),
        ("calls", "effect", Effect),
        ("calls", "error_code", ErrorCode),
        ("interrupts", "state", InterruptState),
        ("interrupts", "type", InterruptType),
    ],
)
def test_the_database_holds_the_same_words(table: str, column: str, words: type[StrEnum]):
    checks = [
        one
        for one in getattr(run_schema, table).constraints
        if isinstance(one, sa.CheckConstraint) and str(one.sqltext).startswith(f"{column} IN")
    ]
    (check,) = checks
    assert str(check.sqltext) == f"{column} IN ({', '.join(repr(word.value) for word in words)})"


def test_c17_c52_the_closed_lists_are_the_contract_s():
    assert [one.value for one in StopReason] == [
        "answered",
        "max_steps",
        "timeout",
        "too_many_fails",
        "loop_detected",
        "no_evidence",
        "budget_spent",
        "protocol_error",
        "dismissed",
        "cancelled",
    ]
    assert len(ErrorCode) == 23


def test_each_route_leads_to_a_node_and_says_why():
    assert {target for routes in ROUTES.values() for target in routes.values()} <= ROUTES.keys()
    assert {(node, outcome) for node, routes in ROUTES.items() for outcome in routes} == WHY.keys()
    assert next_node("tools", "ask") == "ask"
    with pytest.raises(KeyError):
        next_node("ask", "finish")
    assert "tools --> ask: calls wait for a person" in mermaid()


ERRORS = [
    errors.UsageError("no"),
    errors.ToolDefinitionError("no"),
    errors.RunNotFound("run_1"),
    errors.InterruptNotFound("run_1", "int_1", ("int_2",)),
    errors.CheckpointNotFound("run_1", "1f0"),
    errors.WouldRepeat("run_1", "1f0", ("pay (ok, call c1 of step 1)",)),
    errors.RunBusy("run_1", "host:1", "2026"),
    errors.InvalidAnswer("int_1", {"environment": "'moon' is not one of ['prod']", "": "bad"}),
    errors.AlreadyAnswered("int_1", "answered", "li", "2026"),
    errors.Expired("int_1", "run_1", "2026"),
    errors.NotResumable("run_1", "finished"),
    errors.WrongGraph("run_1", "a", "b"),
    errors.NotAllowed("li", "answer int_1"),
    errors.LeaseLost("run_1", 3),
    errors.IllegalMove("run run_1", "finished", "ask"),
    errors.StoredDataError("messages", "(1, 2)", "no JSON"),
    errors.StoreError("no"),
    errors.SchemaVersionError(9, 1),
    errors.ModelFailed("gpt", "no key"),
    errors.KeyLost("run_1"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_with_its_ids_and_says_them(error: AdjournError):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.__dict__) == (type(error), str(error), error.__dict__)
    for value in error.__dict__.values():
        if isinstance(value, str):
            assert value in str(error)
    assert "\n" not in str(error)
    assert type(error).__doc__


def test_every_error_class_is_tested_here():
    known = {
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, AdjournError) and one is not AdjournError
    }
    assert known == {type(error) for error in ERRORS}


def test_c95_exit_statuses():
    assert {type(error).__name__: error.exit_status for error in ERRORS if error.exit_status != 2} == {
        "RunBusy": 5,
        "AlreadyAnswered": 5,
        "Expired": 5,
        "NotResumable": 5,
        "LeaseLost": 5,
        "IllegalMove": 4,
        "StoredDataError": 4,
        "StoreError": 4,
        "SchemaVersionError": 4,
        "ModelFailed": 4,
    }
