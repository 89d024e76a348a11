"""The commands that drive runs: run, resume, recover, cancel. They need the app, and so LangGraph."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from adjourn.checkpoints import queue
from adjourn.checkpoints.errors import (
    AlreadyAnswered,
    InvalidAnswer,
    NotResumable,
    RunBusy,
    StoredDataError,
    UsageError,
)
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.records import Interrupt
from adjourn.graph.captions import moment
from adjourn.graph.cli.apps import load
from adjourn.graph.cli.form import Form
from adjourn.graph.cli.given import Flags, answers_of, context_of
from adjourn.graph.cli.how_to import Examples, resume_command, show_questions
from adjourn.graph.cli.live import Live
from adjourn.graph.cli.screen import Screen, on_terminal
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.stores import opened, tell_damaged
from adjourn.graph.cli.texts import told
from adjourn.graph.graph_parts import Graph
from adjourn.graph.reading import find_run_id
from adjourn.graph.run import Run
from adjourn.graph.runner import Runner

# C-95; a run that somebody else cancelled did not do its work, which a script must not take for done
EXIT_STATUS = {
    RunStatus.FINISHED: 0,
    RunStatus.INTERRUPTED: 3,
    RunStatus.FAILED: 4,
    RunStatus.CANCELLED: 4,
    RunStatus.RUNNING: 5,
}


@dataclass
class Driver:
    """One command's runner, screen and person. `asks`: open questions are asked here, on the terminal.

    `examples` fill the printed command; `intro` is the text before it.
    """

    runner: Runner
    screen: Screen
    settings: Settings
    by: str | None = None
    asks: bool = False
    examples: Examples | None = None
    intro: str = "go_on"
    live: Live = field(init=False)

    def __post_init__(self) -> None:
        self.live = Live(self.screen)

    def find(self, beginning: str) -> Run:
        """The run that an id or its beginning means. Raises `RunNotFound`, `UsageError`."""
        run_id = self.runner.database.read(lambda connection: find_run_id(connection, beginning))
        return self.runner.get_sync(run_id)

    def go_on(self, run: Run) -> int:
        """Ask and resume until the run ends or is left, then say how to go on. Gives the exit status."""
        while self.asks and (mine := self._to_answer(run)):
            answered = self._asked(run, mine)
            if answered is None:
                break
            run = answered
        self._say_how_to_go_on(run)
        return EXIT_STATUS[RunStatus(run.status)]

    def _to_answer(self, run: Run) -> Sequence[Interrupt]:
        """The open questions that are this person's to answer, and that they have not agreed to yet."""
        if run.status != RunStatus.INTERRUPTED:
            return ()
        return [
            one
            for one in run.interrupts
            if not one.has_agreed(self.by) and self.runner.may_answer_sync(one, self.by)
        ]

    def _asked(self, run: Run, questions: Sequence[Interrupt]) -> Run | None:
        """The run after these questions were asked and answered; None when the person left the form."""
        earlier: dict[str, Any] = {}
        while True:
            try:
                answers = Form(self.screen).ask(questions, earlier)
            except KeyboardInterrupt:
                self.screen.line()
                self._say_how_to_go_on(run)
                raise
            if answers is None:
                return None
            try:
                return self.runner.resume_sync(run.id, answers, by=self.by, on_event=self.live)
            except InvalidAnswer as error:  # what the schema cannot say, the tool's own types do
                earlier = answers
                self.screen.line((told(error, self.screen.language), "red"))
            except AlreadyAnswered as error:  # somebody else was first; others may still be open
                self.screen.line((told(error, self.screen.language), "yellow"))
                return self.runner.get_sync(run.id)

    def _say_how_to_go_on(self, run: Run) -> None:
        if self.screen.json:
            return
        if run.status == RunStatus.INTERRUPTED:
            show_questions(
                self.screen,
                self.settings,
                run.id,
                run.interrupts,
                by=self.by if self.examples else None,
                examples=self.examples,
                intro=self.intro,
            )
        elif run.status == RunStatus.FAILED:
            self.screen.line(self.screen.say("try_again"))
            self.screen.line((self.settings.command("resume", run.id), "bold"), indent=2)


@contextmanager
def driving(
    settings: Settings, graph: Graph | None = None, *, create: bool = False, **rest: Any
) -> Iterator[Driver]:
    """A driver for the app of `settings` (or `graph`) over its store, closed afterwards.

    `create`: a store that is missing is made. Raises `UsageError`, `StoreError`.
    """
    graph = graph or load(settings.app)  # before the store: a wrong app makes no file
    with opened(settings.store, create=create) as database, Runner(graph, database) as runner:
        yield Driver(runner, Screen(settings), settings, **rest)


def start(
    settings: Settings,
    message: str,
    *,
    thread_id: str | None,
    by: str | None,
    priority: int = 0,
    context: Sequence[str] = (),
) -> int:
    """`adjourn run`: start a run and show it. Gives the exit status."""
    if not message.strip():
        raise UsageError("the message is empty; say what the run is to do")
    given = context_of(context)
    with driving(settings, create=True, by=by, asks=on_terminal(settings)) as driver:
        run = driver.runner.start_sync(
            message,
            thread_id=thread_id,
            by=by,
            priority=priority,
            context=given,
            on_event=driver.live,
        )
        return driver.go_on(run)


def resume(settings: Settings, beginning: str, flags: Flags, *, by: str | None) -> int:
    """`adjourn resume`: answer by flags, or by the form on a terminal; a failed run is tried again.

    Answers by flags ask nothing further: the next question is printed with its command.
    """
    with driving(settings, by=by) as driver:
        run = driver.find(beginning)
        answers = answers_of(flags, run)
        if not answers and run.status == RunStatus.INTERRUPTED and run.interrupts:
            if not on_terminal(settings):
                raise UsageError(_needs_answers(settings, run))
            driver.asks = True
            return driver.go_on(run)
        after = driver.runner.resume_sync(run.id, answers or None, by=by, on_event=driver.live)
        driver.asks = not answers and on_terminal(settings)
        if {one.id for one in after.interrupts} & {one.id for one in run.interrupts}:
            driver.intro = "still_open"
        return driver.go_on(after)


def _needs_answers(settings: Settings, run: Run) -> str:
    asked = "; ".join(f"{one.id} ({one.asked or f'{one.tool}: {one.type}'})" for one in run.interrupts)
    return (
        f"run {run.id} waits for answers to {asked}\n"
        f"give them like this: {resume_command(settings, run.id, run.interrupts)}"
    )


def recover(settings: Settings, beginning: str | None, *, by: str | None) -> int:
    """`adjourn recover`: go on with one run, or with every run of this app whose process died, or whose questions
    have all expired."""
    with driving(settings, by=by) as driver:
        if beginning is not None:
            run = driver.runner.recover_sync(driver.find(beginning).id, by=by, on_event=driver.live)
            return driver.go_on(run)
        damaged: list[StoredDataError] = []
        lost, expired = _lost(driver, damaged), driver.runner.expire_sync()
        if not (lost or expired or damaged or settings.json):
            driver.screen.line(driver.screen.say("nothing_to_recover"))
            _say_who_is_held(driver)
        if not settings.json:
            for run_id in expired:
                driver.screen.line(driver.screen.say("expired_on", run=run_id))
        status = max([_recover_one(driver, one) for one in (*lost, *expired)], default=0)
        return max(status, tell_damaged(settings, damaged))


def _lost(driver: Driver, damaged: list[StoredDataError]) -> Sequence[str]:
    """Ids of the running runs of this app that nobody drives, oldest first."""
    wanted = partial(queue.unowned, graph=driver.runner.name, damaged=damaged)
    return [one.id for one in driver.runner.database.read(wanted)]


def _say_who_is_held(driver: Driver) -> None:
    """A process that was killed a moment ago still holds its runs: to whoever looks for them nothing would seem wrong."""
    for one in driver.runner.list_sync(statuses=[RunStatus.RUNNING]):
        if one.lease_owner and one.lease_until:
            until = moment(one.lease_until)
            driver.screen.line(driver.screen.say("leased", run=one.id, owner=one.lease_owner, until=until))


def _recover_one(driver: Driver, run_id: str) -> int:
    try:
        return driver.go_on(driver.runner.recover_sync(run_id, by=driver.by, on_event=driver.live))
    except (RunBusy, NotResumable):
        driver.screen.line(driver.screen.say("taken", run=run_id))
        return 0


def cancel(settings: Settings, beginning: str, *, by: str | None) -> int:
    """`adjourn cancel`: end a run that waits or has failed. A run that had ended stays as it was."""
    with driving(settings) as driver:
        before = driver.find(beginning)
        run = driver.runner.cancel_sync(before.id, by=by)
        if settings.json:
            driver.screen.data(run.to_dict())
            return 0
        had_ended = before.row.ended_at is not None and before.status != RunStatus.FAILED
        tail = f", {driver.screen.say('ended_before')}" if had_ended else ""
        driver.screen.line((run.id, "bold"), f"  {run.status_noting(language=driver.screen.words)}{tail}")
        return 0
