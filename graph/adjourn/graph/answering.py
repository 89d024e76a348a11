"""What is done with runs that stand: they take answers, and go on after they failed, lost their owner or were settled."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints import family, journal, leases, settling
from adjourn.checkpoints.errors import RunBusy, UsageError
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import InterruptState, RunEvent, RunStatus
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.graph import answers as accept
from adjourn.graph import expiring
from adjourn.graph.behalf import Behalf
from adjourn.graph.bound_graph import this_process
from adjourn.graph.may_answer import check_persons
from adjourn.graph.names import check_name
from adjourn.graph.owning import Owner
from adjourn.graph.run import Run
from adjourn.graph.starts import Begun

_TAKEN = {RunEvent.RECOVER: "recovered", RunEvent.RETRY: "retried", RunEvent.GO_ON: "resumed"}  # in the audit


async def resume(owner: Owner, run_id: str, answers: Mapping[str, Any] | None, behalf: Behalf) -> Run:
    """See `Runner.resume`."""
    if answers is not None and not isinstance(answers, Mapping):
        raise UsageError(f"answers are a mapping of question ids to answers, not {type(answers).__name__}")
    check_name("by", behalf.by)
    database = owner.bound.database
    run = await owner.bound.row(run_id)
    asked, expired = await expiring.asked(database, run_id)
    if not answers:
        return await _go_on(owner, run, asked, behalf, told=expired)
    named = [one for one in asked if one.id in answers]
    await _check_below(owner, run)
    paths = {one.run_id: one.path for one in named}
    checks = {of: await _checks(owner, run, of, path, asked) for of, path in paths.items()}
    for one in named:
        await check_persons(database, [one], behalf.by, owner.family.at(run, one.path).bound.rule)

    def begin(connection: Connection) -> Begun:
        told = accept.accept(
            connection,
            run_id,
            answers,
            by=behalf.by,
            checks=checks,
            owner=this_process(),
            lease_s=owner.bound.lease_s,
        )
        return Begun(journal.read_run(connection, run_id), [*expired, *told])

    return await owner.own(begin, behalf)


async def _checks(owner: Owner, run: RunRow, of: str, path: str, asked: Iterable[Interrupt]) -> accept.Checks:
    """What answers to the questions of a run of this family are checked with."""
    bound = owner.family.at(run, path).bound
    row = run if of == run.id else await bound.database.aread(lambda c: journal.read_run(c, of))
    real = await bound.real_arguments(row)
    bound.check_keys(of, real, [one for one in asked if one.run_id == of])
    return accept.Checks(bound.tools, bound.masker, real, bound.keyring)


async def _check_below(owner: Owner, run: RunRow) -> None:
    """Check that the runs below can go on too, before anything is changed: this app has their graphs, and can open
    what they hold sealed. Raises `WrongGraph`, `KeyLost`."""
    live = await owner.bound.database.aread(
        lambda c: [journal.read_run(c, one) for one in family.live_below(c, run.id)]
    )
    for row in live:
        if row.status != RunStatus.FAILED:  # else its call has its outcome, and nobody goes on with it
            await owner.family.at(run, row.path).bound.check_stored_keys(row)


async def recover(owner: Owner, run_id: str, behalf: Behalf, *, here: bool | None) -> Run:
    """See `Runner.recover`."""
    check_name("by", behalf.by)
    run = await owner.bound.row(run_id)
    if run.status == RunStatus.INTERRUPTED:
        asked, expired = await expiring.asked(owner.bound.database, run_id)
        if InterruptState.OPEN not in [one.state for one in asked]:
            return await _go_on(owner, run, asked, behalf, told=expired, here=here)
    await owner.bound.check_stored_keys(run)
    await _check_below(owner, run)
    waited = run.lease_owner is None and behalf.by is None  # for a worker: no matter for the audit
    return await take(owner, run_id, RunEvent.RECOVER, behalf, here=here is not False, quietly=waited)


async def expire(owner: Owner) -> Sequence[str]:
    """See `Runner.expire`."""
    database, name = owner.bound.database, owner.bound.name
    await expiring.asweep(database, limit=None)
    return await database.aread(lambda connection: settling.settled_runs(connection, name))


async def _go_on(
    owner: Owner,
    run: RunRow,
    asked: Iterable[Interrupt],
    behalf: Behalf,
    *,
    told: Sequence[Event],
    here: bool | None = None,
) -> Run:
    """Drive on without an answer: a run that failed, or one that waits although no question is open."""
    waits = run.status == RunStatus.INTERRUPTED
    ids = ", ".join(one.id for one in asked if one.state == InterruptState.OPEN)
    if waits and ids:
        raise UsageError(f"run {run.id} waits for answers; give one for each of {ids}")
    await owner.bound.check_stored_keys(run)
    await _check_below(owner, run)
    event = RunEvent.GO_ON if waits else RunEvent.RETRY
    return await take(owner, run.id, event, behalf, told=told, here=here)


async def take(
    owner: Owner,
    run_id: str,
    event: RunEvent,
    behalf: Behalf,
    *,
    told: Sequence[Event] = (),
    here: bool | None = None,
    quietly: bool = False,
) -> Run:
    """Claim a run by this event, and drive it on; `quietly`: without a row in the audit.

    `told`: events that are stored, and told first. Raises what `leases.claim` raises.
    """

    def begin(connection: Connection) -> Begun:
        lease_s = owner.bound.lease_s
        leases.claim(connection, run_id, event, owner=this_process(), lease_s=lease_s)
        if event is RunEvent.GO_ON and family.read_interrupts(connection, run_id, state=InterruptState.OPEN):
            raise RunBusy(run_id)  # somebody let it go on before, and it asks the next question
        if not quietly:
            journal.write_audit(connection, run_id, _TAKEN[event], by=behalf.by)
        return Begun(journal.read_run(connection, run_id), told)

    return await owner.own(begin, behalf, here=here)
