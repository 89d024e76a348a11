"""`adjourn serve`: the HTTP server and its inbox page. It needs the app, and the extra `server`."""

import logging
import os
from collections.abc import Mapping, Sequence

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.cli.options import TOKENS_VARIABLE
from adjourn.graph.cli.screen import Screen
from adjourn.graph.cli.settings import Settings, person_of
from adjourn.graph.cli.staying import load_to_stay, log_to_stderr
from adjourn.graph.cli.stores import opened
from adjourn.graph.names import check_name
from adjourn.graph.runner import Runner


def serve(
    settings: Settings,
    *,
    host: str,
    port: int,
    tokens_file: str | None,
    names: Sequence[str],
    by: str | None,
    lease_s: float,
    detached: bool = False,
) -> int:
    """Serve until a signal comes; `detached`: workers drive what it accepts.

    Gives the exit status: 0 when the runs were handed back in order.
    """
    check_name("--by", by)
    try:
        import sse_starlette  # noqa: F401  (here to say what is missing, not to be used)
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the server needs {error.name}; install it: pip install 'adjourn[server]'"
        ) from error
    from adjourn.graph.server import make_app
    from adjourn.graph.server.access import access_for
    from adjourn.graph.server.serve import bound
    from adjourn.graph.server.serve import serve as serve_app

    access = access_for(host, tokens=_tokens(tokens_file), person=person_of(by), names=tuple(names))
    graph = load_to_stay(settings.app)  # before the store: a wrong app makes no file
    log_to_stderr(logging.WARNING)
    screen = Screen(settings)
    with (
        bound(host, port) as listening,
        opened(settings.store, create=True) as database,
        Runner(graph, database, lease_s=lease_s, detached=detached) as runner,
    ):
        url = _url(host, listening.getsockname()[1])

        def ready() -> None:
            if settings.json:
                screen.data({"url": url, "graph": runner.name, "tokens": bool(access.tokens)})
            else:
                screen.line(screen.say("serve.listens", url=url, graph=runner.name))

        serve_app(make_app(runner, access), runner, listening, ready)
    return 0


def _tokens(file: str | None) -> Mapping[str, str]:
    from adjourn.graph.server.access import read_tokens, tokens_of_file

    given = os.environ.get(TOKENS_VARIABLE)
    if file is not None:
        return tokens_of_file(file)
    return read_tokens(given, TOKENS_VARIABLE) if given else {}


def _url(host: str, port: int) -> str:
    shown = "127.0.0.1" if host in ("0.0.0.0", "") else "[::1]" if host == "::" else host
    return f"http://[{shown}]:{port}" if ":" in shown and "[" not in shown else f"http://{shown}:{port}"
