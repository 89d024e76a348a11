"""The soak of everything at once: processes on one database that start, answer, cancel, fork, and are killed.

    make soak                                        ten minutes on a SQLite file (ADJOURN_SOAK_S: seconds)
    python tests/soak/run_soak.py [SECONDS] [--postgres]

Each process has some hands that do at random what people and programs do to runs (`driver.py`); one process after the other is
killed with SIGKILL, whatever it does, and followed by a new one. Then everything is brought to its end, and what is left is
judged by `checker.py`, which reads only SQL and the file of effects.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from soak import checker, driver
from store.engines import engines
from store.processes import PROCESSES

SECONDS = float(os.environ.get("ADJOURN_SOAK_S", "600"))
DRIVERS = 4
KILL_S = (0.5, 3.0)  # between two kills
SETTLE_S = 900.0  # a bound on what a sound store needs to come to rest: ten minutes leave two thousand runs that wait
TOLD_S = 10.0  # between two lines about how it goes on


class Soak:
    """The processes on one database."""

    def __init__(self, url: str, folder: Path, dice: random.Random, drivers: int = DRIVERS) -> None:
        self.url, self.folder, self.dice, self.count = url, folder, dice, drivers
        self.deeds, self.effects = folder / "deeds", folder / "effects"
        self.kills = 0
        self._drivers: list[Any] = []

    def run(self, seconds: float, *, least: int = 0, told_s: float = TOLD_S) -> None:
        """Work and kill for so long, and until `least` kills, runs and answers were made; then bring everything to its end.

        Raises when a process ends badly.
        """
        began = told = time.monotonic()
        try:
            for _ in range(self.count):
                self._hire()
            while time.monotonic() - began < seconds or self._least() < least:
                before = self.done().total()
                time.sleep(self.dice.uniform(*KILL_S))
                # else they have hardly come up: a busy machine
                if self.done().total() >= before + self.count:
                    self._kill()
                    self._hire()
                if time.monotonic() - told > told_s:
                    told = time.monotonic()
                    print(f"{told - began:4.0f} s: {self.summary()}", flush=True)
            self._dismiss()
            self._settle()
        finally:
            for one in self._drivers:
                one.kill()

    def _least(self) -> int:
        done = self.done()
        return min(self.kills, done["run"], done["answer"])

    def _hire(self, *, settle: bool = False) -> Any:
        given = (self.url, str(self.folder), self.dice.randrange(10**9), settle)
        process = PROCESSES.Process(target=driver.drive, args=given)
        process.start()
        self._drivers.append(process)
        return process

    def _kill(self) -> None:
        victim = self.dice.choice(self._drivers)
        if victim.exitcode is not None:
            raise AssertionError(f"a process ended by itself, with status {victim.exitcode}")
        victim.kill()
        victim.join()
        self._drivers.remove(victim)
        self.kills += 1

    def _dismiss(self) -> None:
        for one in self._drivers:
            one.terminate()
        for one in self._drivers:
            one.join(60)
            if one.exitcode != 0:  # none: it hangs; a few may hear of the end before they listen for it
                one.kill()
        self._drivers.clear()

    def _settle(self) -> None:
        until = time.monotonic() + SETTLE_S
        for process in [self._hire(settle=True) for _ in range(self.count)]:
            process.join(max(0.0, until - time.monotonic()))
            if process.exitcode != 0:
                raise AssertionError(
                    f"the store does not come to rest in {SETTLE_S:.0f} s (status {process.exitcode})"
                )
        self._drivers.clear()

    def done(self) -> Counter[str]:
        """How often what was done."""
        return Counter(self.deeds.read_text().splitlines() if self.deeds.exists() else [])

    def summary(self) -> str:
        """What was done, in one line."""
        done = self.done()
        ordinary = {name: count for name, count in done.most_common() if not name.startswith("error")}
        errors = sum(done.values()) - sum(ordinary.values())
        said = ", ".join(f"{name} {count:,}" for name, count in ordinary.items())
        return f"kills {self.kills}, errors {errors}, {said}"

    def verdict(self) -> list[str]:
        """What is wrong: errors that nobody expects, and broken invariants."""
        errors = [f"{count} x {name}" for name, count in self.done().items() if name.startswith("error")]
        broken = checker.check(checker.read(self.url, self.effects))
        return [*errors, *(f"{name}: {one}" for name, problems in broken.items() for one in problems)]


def main() -> int:
    """Soak, print, and give the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", type=float, nargs="?", default=SECONDS)
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL in place of a SQLite file")
    parser.add_argument("--seed", type=int, default=None, help="of the dice; None: another one each time")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for the database and the files")
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory() as made, engines() as servers:
        folder = given.keep or Path(made)
        url = servers.new("postgresql" if given.postgres else "file", folder)
        print(f"{given.seconds:.0f} s on {url}, seed {seed}", flush=True)
        soak = Soak(url, folder, random.Random(seed))
        soak.run(given.seconds)
        wrong = soak.verdict()
        print(soak.summary())
        print(*wrong[:100], sep="\n")
        print("BROKEN" if wrong else f"sound: {len(checker.CHECKS)} invariants hold")
        return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
