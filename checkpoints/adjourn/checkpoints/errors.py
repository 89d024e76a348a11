"""What can go wrong, said to the person who meets it.

Every error has one base, `AdjournError`, keeps its ids as attributes, survives pickling (so that it can
cross a process), and says what to do. `exit_status` is what the command line ends with (C-95).
"""

from collections.abc import Callable
from typing import Any, ClassVar, Self


class AdjournError(Exception):
    """The base of all errors that Adjourn raises on purpose."""

    exit_status: ClassVar[int] = 4

    def __reduce__(self) -> tuple[Callable[..., "AdjournError"], tuple[Any, ...]]:
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[AdjournError], args: tuple[Any, ...], attributes: dict[str, Any]) -> AdjournError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class UsageError(AdjournError):
    """A setting, an argument or a definition is not usable. The message says which and what would be."""

    exit_status = 2


class ToolDefinitionError(UsageError):
    """A function cannot become a tool as it is declared. Mend the declaration; nothing ran."""


class RunNotFound(AdjournError):
    """There is no run with this id in this store. `adjourn runs` lists the ones that are there."""

    exit_status = 2

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no run {run_id!r} in this store; `adjourn runs` lists the runs it holds")
        self.run_id = run_id


class CheckpointNotFound(AdjournError):
    """The run has no such checkpoint, or it was pruned. `adjourn history RUN` lists the ones that are there."""

    exit_status = 2

    def __init__(self, run_id: str, checkpoint_id: str | None = None) -> None:
        which = f"no checkpoint {checkpoint_id!r}" if checkpoint_id else "no checkpoint"
        super().__init__(
            f"run {run_id} has {which} in this store; `adjourn history {run_id}` lists what it has"
        )
        self.run_id = run_id
        self.checkpoint_id = checkpoint_id


class WouldRepeat(AdjournError):
    """A fork from this checkpoint would run writes again that the run has made since. Nothing was changed.

    `calls` names them. Fork from a later checkpoint, or say that they may be repeated.
    """

    exit_status = 2

    def __init__(self, run_id: str, checkpoint_id: str, calls: tuple[str, ...]) -> None:
        more = f" and {len(calls) - 10} more" if len(calls) > 10 else ""
        super().__init__(
            f"a fork of run {run_id} from checkpoint {checkpoint_id} would repeat what has been written since: "
            f"{', '.join(calls[:10])}{more}; fork from a later checkpoint, or allow it with repeat_writes=True "
            "(--repeat-writes)"
        )
        self.run_id = run_id
        self.checkpoint_id = checkpoint_id
        self.calls = calls


class InterruptNotFound(AdjournError):
    """The run has no question with this id. The message lists the ones that it has."""

    exit_status = 2

    def __init__(self, run_id: str, interrupt_id: str, known: tuple[str, ...] = ()) -> None:
        hint = f"its open questions are {', '.join(known)}" if known else "it has no open question"
        super().__init__(f"run {run_id} has no question {interrupt_id!r}; {hint}")
        self.run_id = run_id
        self.interrupt_id = interrupt_id
        self.known = known


class RunBusy(AdjournError):
    """Somebody else drives this run, or the thread has a run that works. Try again when it has ended."""

    exit_status = 5

    def __init__(
        self, run_id: str, owner: str | None = None, until: str | None = None, *, is_queued: bool = False
    ) -> None:
        held = f" by {owner}" if owner else ""
        lease = f" (lease until {until})" if until else ""
        super().__init__(
            f"run {run_id} waits for a worker; wait for it to end, or recover it, which drives it at once"
            if is_queued
            else f"run {run_id} is being driven{held}{lease}; wait for it to end, or recover it after its lease"
        )
        self.run_id = run_id
        self.owner = owner
        self.until = until

    @classmethod
    def of(cls, run: Any) -> Self:
        """What a row of `runs` says of who drives it."""
        return cls(run.id, run.lease_owner, run.lease_until, is_queued=run.lease_owner is None)


class InvalidAnswer(AdjournError):
    """An answer does not fit its question. Nothing was changed and the question is still open.

    `problems` maps a field (or `""` for the whole answer) to what is wrong with it.
    """

    exit_status = 2

    def __init__(self, interrupt_id: str, problems: dict[str, str]) -> None:
        said = "; ".join(f"{field}: {why}" if field else why for field, why in problems.items())
        super().__init__(f"the answer to {interrupt_id} was not accepted: {said}")
        self.interrupt_id = interrupt_id
        self.problems = problems


class AlreadyAnswered(AdjournError):
    """This question was settled before, by somebody, at some time; the first answer stands."""

    exit_status = 5

    def __init__(self, interrupt_id: str, state: str, by: str | None = None, at: str | None = None) -> None:
        who = f" by {by}" if by else ""
        when = f" at {at}" if at else ""
        super().__init__(f"question {interrupt_id} is already {state}{who}{when}; nothing was changed")
        self.interrupt_id = interrupt_id
        self.state = state
        self.by = by
        self.at = at


class Expired(AlreadyAnswered):
    """The time to answer this question had passed: its call never runs. The answer changed nothing."""

    def __init__(self, interrupt_id: str, run_id: str, at: str | None = None) -> None:
        super().__init__(interrupt_id, "expired", None, at)
        when = f" at {at}" if at else ""
        self.args = (
            f"question {interrupt_id} expired{when}, before this answer; nothing was changed. "
            f"Answer what else is open, or let its run go on: `adjourn recover {run_id}`",
        )
        self.run_id = run_id


class NotResumable(AdjournError):
    """The run is not in a state that can be resumed: it has ended, or nothing is missing."""

    exit_status = 5

    def __init__(self, run_id: str, status: str, what: str = "it cannot be resumed") -> None:
        super().__init__(f"run {run_id} is {status}; {what}")
        self.run_id = run_id
        self.status = status


class WrongGraph(AdjournError):
    """The run was started by another graph than the one at hand. Name the app that started it."""

    exit_status = 2

    def __init__(self, run_id: str, stored: str, given: str) -> None:
        super().__init__(
            f"run {run_id} belongs to graph {stored!r}, but the app at hand is {given!r}; "
            f"name the app that started it (--app FILE.py:NAME)"
        )
        self.run_id = run_id
        self.stored = stored
        self.given = given


class NotAllowed(AdjournError):
    """This person may not do this. `who` and `what` say who and what; the refusal is in the audit."""

    exit_status = 2

    def __init__(self, who: str | None, what: str) -> None:
        super().__init__(f"{who or 'an unnamed person'} may not {what}")
        self.who = who
        self.what = what


class LeaseLost(AdjournError):
    """Another owner took this run over; what this process wrote was refused and changed nothing.

    Stop driving it. The new owner goes on from what is stored.
    """

    exit_status = 5

    def __init__(self, run_id: str, fence: int) -> None:
        super().__init__(
            f"run {run_id} has another owner now (this one held fence {fence}); the write was refused"
        )
        self.run_id = run_id
        self.fence = fence


class IllegalMove(AdjournError):
    """A life cycle has no such move. Nothing was changed; this is a bug or a damaged row."""

    def __init__(self, of: str, state: str, event: str) -> None:
        super().__init__(f"{of}: no move {event!r} from state {state!r}")
        self.of = of
        self.state = state
        self.event = event


class StoredDataError(AdjournError):
    """A row of the database does not decode, or does not fit its hash. `table` and `key` name it."""

    def __init__(self, table: str, key: str, why: str) -> None:
        super().__init__(f"{table} {key}: {why}; the row is damaged or was changed by hand")
        self.table = table
        self.key = key
        self.why = why


class KeyLost(AdjournError):
    """A stored secret cannot be opened: its key is not among those at hand. Nothing was changed.

    Give the key that sealed it, in `ADJOURN_KEY` or in the key file beside the database.
    """

    exit_status = 2

    def __init__(self, run_id: str | None = None) -> None:
        of = f" of run {run_id}" if run_id else ""
        super().__init__(
            f"a secret{of} was sealed with a key that is not at hand; "
            "add that key to ADJOURN_KEY or put the store's key file back, then try again"
        )
        self.run_id = run_id


class StoreError(AdjournError):
    """The database cannot be opened or is not one of ours. The message says what to do."""


class SchemaVersionError(StoreError):
    """The database was written by a newer version of Adjourn. Upgrade the program; nothing was touched."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the database has schema version {found}, this program knows up to {known}; upgrade adjourn"
        )
        self.found = found
        self.known = known


class ModelFailed(AdjournError):
    """A model call failed for good. The run is `failed`, keeps everything, and can be resumed."""

    def __init__(self, model: str, why: str) -> None:
        super().__init__(f"the model {model} could not be asked: {why}")
        self.model = model
        self.why = why
