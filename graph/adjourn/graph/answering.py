"""What `Runner` does with runs that stand: takes answers, goes on with those that failed, died or are settled."""

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
from adjourn.graph.may_answer import check_persons
from adjourn.graph.names import check_name
from adjourn.graph.owning import OnBegun, Owning
from adjourn.graph.run import Run
from adjourn.graph.run_log import Listener
from adjourn.graph.starts import Begun

_TAKEN = {RunEvent.RECOVER: "recovered", RunEvent.RETRY: "retried", RunEvent.GO_ON: "resumed"}  # in the audit


class Answering(Owning):
    """A part of `Runner`."""

    async def resume(
        self,
        run_id: str,
        answers: Mapping[str, Any] | None = None,
        *,
        by: str | None = None,
        on_event: Listener | None = None,
        on_begun: OnBegun | None = None,
    ) -> Run:
        """Answer open questions; when none is left, drive the run on. Without answers: retry a failed run, or let one
        go on whose questions have all expired.

        `answers` maps question ids to answers: values for `params_required`, `approve()`, `edit(...)` or
        `reject(...)` for `confirm_risky`. All are checked before any is stored: `InvalidAnswer` names each
        wrong field and changes nothing. Raises `AlreadyAnswered` or `RunBusy` when somebody was first, `Expired`
        when nobody was in time, `NotAllowed` when this person may not (which is written to the audit),
        `NotResumable` for a run that has ended, `UsageError` for answers that are no mapping and a `by` that is no
        name, `RunNotFound`, `InterruptNotFound`, `WrongGraph`, also where a run below it has a graph that this app
        has not, and `KeyLost` for it and for those below.
        """
        if answers is not None and not isinstance(answers, Mapping):
            raise UsageError(
                f"answers are a mapping of question ids to answers, not {type(answers).__name__}"
            )
        check_name("by", by)
        run = await self._mine(run_id)
        asked, expired = await expiring.asked(self.database, run_id)
        if not answers:
            return await self._go_on(run, asked, expired, by=by, on_event=on_event, on_begun=on_begun)
        named = [one for one in asked if one.id in answers]
        await self._check_below(run)
        checks = {}
        for of_run in {one.run_id: one.path for one in named}.items():
            checks[of_run[0]] = await self._checks(run, *of_run, asked)
        for one in named:
            await check_persons(self.database, [one], by, self.family.at(run, one.path)._may_answer)

        def begin(connection: Connection) -> Begun:
            told = accept.accept(
                connection, run_id, answers, by=by, checks=checks, owner=self.owner, lease_s=self.lease_s
            )
            return Begun(journal.read_run(connection, run_id), [*expired, *told])

        return await self._own(begin, on_event, on_begun)

    async def _checks(self, run: RunRow, of: str, path: str, asked: Iterable[Interrupt]) -> accept.Checks:
        """What answers to the questions of a run of this family are checked with."""
        runner = self.family.at(run, path)
        row = run if of == run.id else await self.database.aread(lambda c: journal.read_run(c, of))
        real = await runner._real_arguments(row)
        runner._check_keys(of, real, [one for one in asked if one.run_id == of])
        return accept.Checks(runner.tools, runner.masker, real, runner.keyring)

    async def _check_below(self, run: RunRow) -> None:
        """Check that the runs below can go on too, before anything is changed: this app has their graphs, and can open
        what they hold sealed. Raises `WrongGraph`, `KeyLost`."""
        live = await self.database.aread(
            lambda c: [journal.read_run(c, one) for one in family.live_below(c, run.id)]
        )
        for row in live:
            if row.status == RunStatus.FAILED:  # its call has its outcome, and nobody goes on with it
                continue
            runner = self.family.at(run, row.path)
            if runner._secret:
                asked = await self.database.aread(lambda c, one=row.id: journal.read_interrupts(c, one))  # type: ignore[misc]
                runner._check_keys(row.id, await runner._real_arguments(row), asked)

    async def _go_on(
        self,
        run: RunRow,
        asked: Iterable[Interrupt],
        told: Sequence[Event],
        *,
        by: str | None,
        on_event: Listener | None,
        on_begun: OnBegun | None,
        here: bool | None = None,
    ) -> Run:
        """Drive on without an answer: a run that failed, or one that waits although no question is open."""
        ids = ", ".join(one.id for one in asked if one.state == InterruptState.OPEN)
        if run.status == RunStatus.INTERRUPTED and ids:
            raise UsageError(f"run {run.id} waits for answers; give one for each of {ids}")
        self._check_keys(run.id, await self._real_arguments(run), asked)
        await self._check_below(run)
        event = RunEvent.GO_ON if run.status == RunStatus.INTERRUPTED else RunEvent.RETRY
        return await self._take(run.id, event, by, on_event, on_begun, told=told, here=here)

    async def recover(
        self,
        run_id: str,
        *,
        by: str | None = None,
        on_event: Listener | None = None,
        on_begun: OnBegun | None = None,
        here: bool | None = None,
    ) -> Run:
        """Take over a run whose owner died, after its lease, and go on from what is stored (C-91); or let a run go on
        whose questions have all expired.

        `here` False: leave it to workers; None: only a run with expired questions is left to them, and only by a detached
        runner. Raises `RunBusy` while the lease holds, `NotResumable` for a run that does not run, `WrongGraph` and
        `KeyLost` as `resume` does, and `UsageError` for a `by` that is no name.
        """
        check_name("by", by)
        run = await self._mine(run_id)
        if run.status == RunStatus.INTERRUPTED:
            asked, expired = await expiring.asked(self.database, run_id)
            if InterruptState.OPEN not in [one.state for one in asked]:
                return await self._go_on(
                    run, asked, expired, by=by, on_event=on_event, on_begun=on_begun, here=here
                )
        if self._secret:
            rows = await self.database.aread(lambda connection: journal.read_interrupts(connection, run_id))
            self._check_keys(run_id, await self._real_arguments(run), rows)
        await self._check_below(run)
        taken = run.lease_owner is None and by is None  # it waited for a worker: no matter for the audit
        return await self._take(
            run_id, RunEvent.RECOVER, by, on_event, on_begun, here=here is not False, quietly=taken
        )

    async def expire(self) -> Sequence[str]:
        """Close every question of the store whose time has passed. A look: it drives nothing.

        Gives this graph's runs that wait although no question of theirs is open: `recover` lets each go on. Safe
        to call from several processes at once, and twice.
        """
        await expiring.asweep(self.database, limit=None)
        return await self.database.aread(lambda connection: settling.settled_runs(connection, self.name))

    async def _take(
        self,
        run_id: str,
        event: RunEvent,
        by: str | None,
        on_event: Listener | None,
        on_begun: OnBegun | None = None,
        *,
        told: Sequence[Event] = (),
        here: bool | None = None,
        quietly: bool = False,
    ) -> Run:
        def begin(connection: Connection) -> Begun:
            leases.claim(connection, run_id, event, owner=self.owner, lease_s=self.lease_s)
            if event is RunEvent.GO_ON and family.read_interrupts(
                connection, run_id, state=InterruptState.OPEN
            ):
                raise RunBusy(run_id)  # somebody let it go on before, and it asks the next question
            if not quietly:
                journal.write_audit(connection, run_id, _TAKEN[event], by=by)
            return Begun(journal.read_run(connection, run_id), told)

        return await self._own(begin, on_event, on_begun, here=here)
