"""One process of the soak: some hands, each of which does one thing after the other to the runs of a store.

What it did is a line of the file DEEDS; what nobody expects is one that begins with `error`.
"""

import asyncio
import logging
import os
import random
import signal
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from soak import soak_app

from adjourn.checkpoints.errors import (
    AlreadyAnswered,
    CheckpointNotFound,
    InvalidAnswer,
    LeaseLost,
    NotResumable,
    RunBusy,
    UsageError,
    WouldRepeat,
)
from adjourn.graph import Run, Runner
from adjourn.nodes import approve, edit, reject

HANDS = 4
LEASE_S = 6.0
DOUBT_S = 3 * LEASE_S  # before that a slow owner of the run might still be at it
EXPECTED = (
    AlreadyAnswered, CheckpointNotFound, InvalidAnswer, LeaseLost, NotResumable, RunBusy, UsageError, WouldRepeat,
)  # fmt: skip
Deed = Callable[[], Awaitable[str]]


class Driver:
    """The hands of one process. `dice` decides what they do."""

    def __init__(self, runner: Runner, effects: Path, deeds: Path, dice: random.Random) -> None:
        self.runner, self.effects, self.deeds, self.dice = runner, effects, deeds, dice
        self.stopped = asyncio.Event()
        self.failed = False  # something happened that nobody expects
        self.choices: list[tuple[Deed, int]] = [
            (self.start, 20),
            (self.say, 8),
            (self.answer, 40),
            (self.answer_wrong, 3),
            (self.cancel, 5),
            (self.fork, 4),
            (self.recover, 10),
            (self.retry, 4),
        ]

    def note(self, deed: str) -> None:
        """Add a line to the deeds."""
        file = os.open(self.deeds, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{deed}\n".encode())
        os.close(file)

    async def work(self) -> None:
        """Until it is told to stop."""
        await asyncio.gather(*(self._hand() for _ in range(HANDS)))

    async def _hand(self) -> None:
        deeds, weights = zip(*self.choices, strict=True)
        while not self.stopped.is_set():
            (deed,) = self.dice.choices(deeds, weights)
            await self.do(deed)

    async def do(self, deed: Deed) -> None:
        """One deed; that somebody else was first is a deed too."""
        try:
            done = await deed()
        except EXPECTED as error:
            done = f"refused {type(error).__name__}"
        except Exception as error:
            self.failed = True
            done = f"error {deed.__name__}: {type(error).__name__}: {' '.join(str(error).split())}"
        if done:
            self.note(done)
        else:
            await asyncio.sleep(0.05)

    async def _one(self, *statuses: str) -> str | None:
        rows = await self.runner.list(statuses=statuses, limit=40)
        return self.dice.choice(rows).id if rows else None

    async def start(self) -> str:
        """A new conversation."""
        await self.runner.start("go", by=f"p{self.dice.randint(1, 9)}")
        return "run"

    async def say(self) -> str:
        """A plain message to a thread, whatever its run does."""
        rows = await self.runner.list(limit=40)
        if not rows:
            return ""
        row = self.dice.choice(rows)
        await self.runner.start("something else", thread_id=row.thread_id, by="wang")
        return f"message to a thread ({row.status})"

    async def answer(self) -> str:
        """Answer one question, or all, of a run that waits."""
        run_id = await self._one("interrupted")
        if run_id is None:
            return ""
        given = self.answers(await self.runner.get(run_id))
        if not given:
            return ""
        if self.dice.random() < 0.3:
            given = dict(self.dice.sample(sorted(given.items()), 1))
        await self.runner.resume(run_id, given, by="li")
        return "answer"

    def answers(self, run: Run) -> Mapping[str, Any]:
        """What a person who can look at the world answers; a doubt is left alone while it is young."""
        given: dict[str, Any] = {}
        for question in run.interrupts:
            if question.type == "params_required":
                given[question.id] = {"amount": self.dice.randint(1, 100)}
            elif question.type == "confirm_risky":
                given[question.id] = self.dice.choice(
                    [approve(), approve(), reject("no"), edit({"what": "edited"})]
                )
            elif _age_s(question.created_at) > DOUBT_S:
                given[question.id] = self._doubt(question.run_id, question.call_id, question.tool)
        return given

    def _doubt(self, run_id: str, call_id: str, name: str) -> dict[str, Any]:
        done = self.effects.read_text() if self.effects.exists() else ""
        if f"{name} {run_id} {call_id} " in done:
            return {"action": "happened", "result": f"{name} {call_id}"}
        return {"action": "run"}

    async def answer_wrong(self) -> str:
        """An answer that fits nothing: it is refused, and changes nothing."""
        run_id = await self._one("interrupted")
        if run_id is None:
            return ""
        questions = (await self.runner.get(run_id)).interrupts
        if not questions:
            return ""
        await self.runner.resume(run_id, {questions[0].id: {"wrong": True}}, by="li")
        raise AssertionError("a wrong answer was taken")

    async def cancel(self) -> str:
        """Cancel a run, whoever drives it."""
        run_id = await self._one("running", "interrupted", "failed")
        if run_id is None:
            return ""
        await self.runner.cancel(run_id, by="wang")
        return "cancel"

    async def fork(self) -> str:
        """Fork a run from one of its checkpoints, at times with a message."""
        run_id = await self._one()
        if run_id is None:
            return ""
        places = await self.runner.history(run_id, limit=20)
        if not places:
            return ""
        message = "otherwise" if self.dice.random() < 0.3 else None
        again = self.dice.random() < 0.5
        place = self.dice.choice(places).id
        await self.runner.fork(run_id, place, message=message, repeat_writes=again, by="zhou")
        return "fork"

    async def recover(self) -> str:
        """Take over a run whose owner died."""
        rows = await self.runner.list(statuses=["running"], limit=None)
        dead = [one.id for one in rows if one.lease_until is None or _age_s(one.lease_until) > 0]
        if not dead:
            return ""
        await self.runner.recover(self.dice.choice(dead))
        return "recovery"

    async def retry(self) -> str:
        """Try a failed run again."""
        run_id = await self._one("failed")
        if run_id is None:
            return ""
        await self.runner.resume(run_id)
        return "retry"

    async def settle(self) -> None:
        """Bring every run to its end."""
        while not self.failed and await self.runner.list(
            statuses=["running", "interrupted", "failed"], limit=1
        ):
            await asyncio.gather(*(self.do(one) for one in (self.recover, self.answer_some, self.retry)))

    async def answer_some(self) -> str:
        """Answer what can be answered of all that waits."""
        rows = await self.runner.list(statuses=["interrupted"], limit=200)
        some = self.dice.sample(rows, min(20, len(rows)))  # others settle as well
        given = [(one.id, self.answers(await self.runner.get(one.id))) for one in some]
        given = [one for one in given if one[1]]
        ends = await asyncio.gather(
            *(self.runner.resume(run_id, each, by="li") for run_id, each in given), return_exceptions=True
        )
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, EXPECTED):
                raise end
        return "answer" if given else ""


def _age_s(moment: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()


def drive(url: str, folder: str, seed: int, settle: bool) -> None:
    """The body of a process. `settle`: it brings everything to its end; else it works until SIGTERM, or until it is killed."""
    logging.disable(logging.WARNING)  # tools that fail, and runs that somebody else has
    effects, deeds = Path(folder, "effects"), Path(folder, "deeds")
    graph, model = soak_app.graph(effects)

    async def until_told() -> None:
        driver = Driver(runner, effects, deeds, random.Random(seed))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, driver.stopped.set)
        forgetting = asyncio.create_task(_forget(model))
        await (driver.settle() if settle else driver.work())
        forgetting.cancel()

    with Runner(graph, url, lease_s=LEASE_S) as runner:
        asyncio.run(until_told())


async def _forget(model: Any) -> None:
    while True:
        await asyncio.sleep(1)
        model.requests.clear()
        model.settings.clear()
