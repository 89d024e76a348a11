"""The runs of specialists: each a run of its own, on a thread of its own, driven inside the call that delegates (C-81).

Its id derives from that call, so that whoever runs the call again finds the run, however far it had come. It has
rows, events and questions like any other run; its questions are shown with those of the run that it works for.
"""

import asyncio
import contextvars
import copy
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphDrained
from sqlalchemy import Connection

from adjourn.checkpoints import family, journal, leases
from adjourn.checkpoints.errors import RunNotFound, WrongGraph
from adjourn.checkpoints.lifecycle import ErrorCode, InterruptState, RunEvent, RunStatus, StopReason
from adjourn.checkpoints.records import KEY_LENGTH, RunRow, shortened
from adjourn.graph import starts
from adjourn.graph.behalf import Behalf
from adjourn.graph.bound_graph import BoundGraph, this_process
from adjourn.graph.graph_parts import own_node
from adjourn.graph.run import Run
from adjourn.graph.run_log import Listener
from adjourn.graph.said import Message
from adjourn.graph.specialists import Specialists, specialists_of
from adjourn.graph.starts import Begun
from adjourn.graph.within import Within
from adjourn.nodes.delegation import DELEGATED
from adjourn.nodes.permission import Permission, Request, Verdict
from adjourn.nodes.questions import confirm_risky
from adjourn.nodes.texts import language_of, say
from adjourn.nodes.tool_errors import SpecialistError, ToolError

if TYPE_CHECKING:
    from adjourn.graph.owning import Owner

log = logging.getLogger("adjourn.run")

ID_SHOWN = 120  # characters of a run's id, and of a call's, in the id of its specialist's thread


class Family:
    """The specialists of one graph; the runs of each have an owner of their own, over the same store."""

    def __init__(self, owner: "Owner") -> None:
        self._owner = owner
        self.database = owner.bound.database
        self.specialists: Specialists | None = specialists_of(owner.bound.graph)
        self._owners: dict[str, Owner] = {}

    def owner(self, name: str) -> "Owner":
        """What owns the runs of a specialist. Raises `KeyError` for a name that no specialist has."""
        if self.specialists is None:
            raise KeyError(name)
        if name not in self._owners:
            self._owners[name] = self._owner.like(self.specialists.graphs[name])
        return self._owners[name]

    def at(self, run: RunRow, path: str) -> "Owner":
        """What owns the run of this family that has this `path`. Raises `WrongGraph` where the app has no such specialist."""
        owner = self._owner
        try:
            for name in path.removeprefix(run.path).strip("/").split("/"):
                owner = owner.family.owner(name) if name else owner
        except KeyError:
            raise WrongGraph(run.id, path, self._owner.bound.name) from None
        return owner

    def owners(self) -> Sequence["Owner"]:
        """Those that were used so far."""
        return list(self._owners.values())


def child_id(parent_id: str, step: int, call_id: str) -> str:
    """The id of the run that works inside a call."""
    identity = f"{parent_id}\n{step}\n{call_id}"
    return f"run_{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:15]}"


class ChildRuns:
    """Implements the nodes' `Children` for one run that is being driven."""

    def __init__(self, of: Family, run: RunRow, listener: Listener, within: Within) -> None:
        self._of = of
        self._run = run
        self._listener = listener
        self._within = within
        self._tasks: set[asyncio.Task[Run]] = set()

    async def work(self, specialist: str, task: str, *, step: int, call_id: str, agreed: bool = False) -> Any:
        """See `Children.work`."""
        owner = self._of.owner(specialist)
        asked = await self._judged(owner.bound, specialist, task, agreed=agreed)
        if asked is not None:
            return asked
        row = self._new(owner.bound, specialist, task, step, call_id)
        # a context without LangGraph's ambient config: the child is a root run, whose interrupts come back as data
        working = asyncio.create_task(
            owner.own(
                self._beginning(owner.bound, row, specialist),
                Behalf(on_event=self._listener),
                within=self._within,
            ),
            context=contextvars.Context(),
        )
        self._tasks.add(working)
        working.add_done_callback(self._tasks.discard)
        result = _result(await working, specialist)
        self._check(specialist, result)
        return result

    def _check(self, name: str, result: Any) -> None:
        """Raise `ToolError` for an answer that the specialist's `check` finds fault with."""
        specialists = self._of.specialists
        check = specialists.checks.get(name) if specialists is not None else None
        if check is None or "answer" not in result:
            return
        try:
            wrong = check(str(result["answer"]))
        except Exception as error:
            # the author's function: an answer that it could not check does not pass as good
            log.exception("the check of specialist %s failed", name)
            wrong = type(error).__name__
        if wrong:
            text = say("delegation.refused", language_of(self._run.input), specialist=name, why=wrong)
            raise ToolError(text, data=result)

    async def _judged(self, bound: BoundGraph, name: str, task: str, *, agreed: bool) -> Any:
        """Whether somebody's own graph may work: its nodes make no calls that could be judged, so all of it is one.

        Gives the question where a person has to agree. Raises `ToolError` where it may not.
        """
        own, run = own_node(bound.graph), self._run
        if own is None:
            return None
        given = copy.deepcopy(run.context or {})
        request = Request(run.started_by, name, own.effect, {"task": task}, run.id, run.thread_id, given)
        permission = self._within.permission or Permission()
        verdict = await permission.verdict(request, agreed=agreed, asks=False)
        language = language_of(run.input)
        if verdict is Verdict.DENY:
            raise ToolError(say("not_permitted", language, tool=name), code=ErrorCode.PERMISSION_DENIED)
        return None if verdict is Verdict.ALLOW else confirm_risky(say("ask.permission", language, tool=name))

    def _new(self, bound: BoundGraph, name: str, task: str, step: int, call_id: str) -> RunRow:
        parent = self._run
        run = bound.new_row(
            Message(task),
            thread_id=f"{shortened(parent.id, ID_SHOWN)}/{step}/{shortened(call_id, ID_SHOWN)}",
            by=parent.started_by,
            run_id=child_id(parent.id, step, call_id),
            context=parent.context,
        )
        return replace(
            run,
            parent_run_id=parent.id,
            parent_step=step,
            parent_call_id=shortened(call_id, KEY_LENGTH),
            path=_path(parent, name),
        )

    def _beginning(self, bound: BoundGraph, row: RunRow, name: str) -> Callable[[Connection], Begun]:
        """How the child begins, or goes on: told in the transaction that does it.

        The row of the run above is held in it. So an owner that has lost that run neither makes a child nor takes one from
        the new owner, and tasks that are handed out at the same moment are counted one after the other.
        """

        def begin(connection: Connection) -> Begun:
            leases.hold(connection, self._run.id, self._run.fence)
            known = _find(connection, row.id)
            if known is None:
                self._check_number(connection, name)
                told = starts.store(connection, starts.dated(row, bound.lease_s), bound.masker)
                return Begun(journal.read_run(connection, row.id), told)
            if not _is_of(known, row):  # somebody gave their run this id
                raise SpecialistError(say("delegation.taken", language_of(self._run.input), run=row.id))
            if known.status not in _AGAIN or _waits(connection, known):
                return Begun(known, [])
            event = _AGAIN[known.status]
            # at once: its owner was that of the run above, which has another owner now
            leases.claim(connection, row.id, event, owner=this_process(), lease_s=bound.lease_s, at_once=True)
            journal.write_audit(connection, row.id, event.value, by=None)
            return Begun(journal.read_run(connection, row.id), [])

        return begin

    def _check_number(self, connection: Connection, name: str) -> None:
        specialists, run = self._of.specialists, self._run
        most = specialists.max_delegations if specialists is not None else 0
        uncounted = specialists.uncounted if specialists is not None else frozenset()
        if most is None or name in uncounted:
            return
        paths = [_path(run, one) for one in uncounted]
        if family.count_children(connection, run.id, but=paths) >= most:
            text = say("delegation.too_many", language_of(self._run.input), limit=most)
            raise SpecialistError(text, code=ErrorCode.TOO_MANY_CALLS)

    async def ended(self) -> None:
        """Wait until every child that was told to stop has written its end."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        for one in list(self._tasks):
            if not one.cancelled():
                one.exception()


def _path(parent: RunRow, name: str) -> str:
    return f"{parent.path}/{name}" if parent.path else name


def _is_of(known: RunRow, row: RunRow) -> bool:
    """Whether this run works for the call that the other one is to work for."""

    def call_of(run: RunRow) -> tuple[object, ...]:
        return run.parent_run_id, run.parent_step, run.parent_call_id

    return call_of(known) == call_of(row)


def _find(connection: Connection, run_id: str) -> RunRow | None:
    try:
        return journal.read_run(connection, run_id)
    except RunNotFound:
        return None


# How a run that is there already is taken up again.
_AGAIN: Mapping[str, RunEvent] = {
    RunStatus.RUNNING: RunEvent.RECOVER,
    RunStatus.INTERRUPTED: RunEvent.GO_ON,
    RunStatus.FAILED: RunEvent.RETRY,
}


def _waits(connection: Connection, run: RunRow) -> bool:
    """Whether a person is asked, by the run or by one below it."""
    asks = run.status == RunStatus.INTERRUPTED
    return asks and bool(family.read_interrupts(connection, run.id, state=InterruptState.OPEN))


def _waits_for(run_id: str) -> dict[str, Any]:
    return {"interrupt": True, "interruptType": DELEGATED, "runId": run_id}


def _result(run: Run, specialist: str) -> Any:
    """What the delegating call brings. Raises `ToolError` where the specialist has no answer."""
    language, status = language_of(run.row.input), RunStatus(run.status)
    if status is RunStatus.INTERRUPTED:
        return _waits_for(run.id)
    if status is RunStatus.RUNNING:  # the process is going, and handed it back
        raise GraphDrained("the run of a specialist was handed back")
    if status is RunStatus.FINISHED and run.stop_reason == StopReason.ANSWERED:
        return {"specialist": specialist, "answer": run.answer}
    if status is RunStatus.FINISHED:
        text = say("delegation.stopped", language, specialist=specialist, reason=run.stop_reason)
        data = {"stop_reason": run.stop_reason, "found": run.answer}
        raise SpecialistError(text, code=ErrorCode.SPECIALIST_STOPPED, data=data)
    if status is RunStatus.CANCELLED:
        raise SpecialistError(
            say("delegation.cancelled", language, specialist=specialist), code=ErrorCode.CANCELLED
        )
    why = (run.error or {}).get("message", "")
    text = say("delegation.failed", language, specialist=specialist, why=why)
    raise ToolError(text, code=ErrorCode.UNAVAILABLE)
