"""Makes `v1.db`, a small database of schema version 1, frozen: `python tests/store/corpus/make_v1.py`.

It holds one finished run and one that waits for a person's agreement, as the program of that version stored
them. Since the first release of a version, its file is never made anew: later programs must open it as it is.
"""

import sqlite3
import sys
from pathlib import Path

FILE = Path(__file__).with_name("v1.db")
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
    """Write the file."""
    FILE.unlink(missing_ok=True)
    with runner(f"sqlite:///{FILE}") as app:
        app.start_sync(QUESTION, thread_id=THREAD, run_id=WAITING, by="wang")
        ended = app.start_sync(QUESTION, thread_id="ops-2", run_id="run_cancelled", by="wang")
        app.cancel_sync(ended.id, by="li")
    connection = sqlite3.connect(FILE)
    connection.execute("PRAGMA journal_mode=DELETE")  # one file, and small pages: it is kept for ever
    connection.execute("PRAGMA page_size=1024")
    connection.execute("VACUUM")
    connection.close()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
