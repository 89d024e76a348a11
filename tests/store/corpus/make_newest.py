"""Makes a small database of this program's schema version, frozen: `python tests/store/corpus/make_newest.py`.

It holds one cancelled run and one that waits for a person's agreement, as the program of that version stored
them. A file is made once, with its version, and never anew: later programs must open it as it is.
"""

import sqlite3
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
WAITING = "run_waiting"
THREAD = "ops-1"
QUESTION = "重启支付服务"


def runner(url: str) -> "Runner":  # type: ignore[name-defined]  # noqa: F821
    """The app whose runs the file holds."""
    from runs.shop import LIMITS, Shop

    from adjourn.graph import Runner, build_react
    from adjourn.nodes import ScriptedModel
    from adjourn.nodes.scripted import call, says

    restart = call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r1")
    turns = [says("", call("search_docs", {"query": "5xx"}, id="s1")), says("", restart), "restarted"]
    model = ScriptedModel(turns=turns, by_history=True)
    return Runner(build_react(model, Shop().tools(), limits=LIMITS), url)


def main() -> None:
    """Write the file. Refuses to write over one that is there."""
    from adjourn.checkpoints.setup import VERSION

    file = FOLDER / f"v{VERSION}.db"
    if file.exists():
        sys.exit(f"{file.name} is there: it stays as it is; a change of the tables is a migration")
    with runner(f"sqlite:///{file}") as app:
        app.start_sync(QUESTION, thread_id=THREAD, run_id=WAITING, by="wang")
        ended = app.start_sync(QUESTION, thread_id="ops-2", run_id="run_cancelled", by="wang")
        app.cancel_sync(ended.id, by="li")
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode=DELETE")  # one file, and small pages: it is kept for ever
    connection.execute("PRAGMA page_size=1024")
    connection.execute("VACUUM")
    connection.close()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
