"""What each request passes before it is looked at: host, origin, size, who it is, how often; and the headers of each answer.

A page of another site can make a browser send requests to loopback. It cannot read what comes back, but it could
start a run, so a request whose `Origin` is not this server is refused; and a name that was bound to 127.0.0.1 after
the page was loaded (DNS rebinding) is refused by the `Host` header.
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adjourn.graph.server.access import Access, Caller
from adjourn.graph.server.bounds import Bounds, Rate
from adjourn.graph.server.problems import Refused, of_refusal

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_SAFE = ("GET", "HEAD", "OPTIONS")
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of one server."""

    requests: Rate
    wrong_tokens: Rate

    @classmethod
    def of(cls, bounds: Bounds) -> "Rates":
        """The rates that these bounds set, with nothing taken yet."""
        return cls(Rate(bounds.per_second, bounds.burst), Rate(1.0, bounds.wrong_tokens_burst))


class Entrance:
    """ASGI middleware. `is_public` tells the paths that anybody may read: the page and the description."""

    def __init__(
        self, app: ASGIApp, access: Access, bounds: Bounds, rates: Rates, is_public: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._access = access
        self._bounds = bounds
        self._rates = rates
        self._is_public = is_public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        try:
            scope.setdefault("state", {})["caller"] = self._enter(scope)
        except Refused as error:
            await of_refusal(Request(scope), error)(scope, receive, send)
            return
        await self._app(scope, _bounded(receive, self._bounds.max_body_bytes), send)

    def _enter(self, scope: Scope) -> Caller:
        """Who comes in. Raises `Refused`."""
        headers = Headers(scope=scope)
        check_host(headers.get("host", ""), self._access.hosts)
        if scope["method"] not in _SAFE:
            check_origin(headers, self._access.origins)
            check_type(headers)
        check_length(headers.get("content-length"), self._bounds.max_body_bytes)
        address = scope["client"][0] if scope.get("client") else ""
        caller = self._caller(headers, address, self._is_public(_path(scope)))
        self._rates.requests.take(caller.name or f"@{address}")
        return caller

    def _caller(self, headers: Headers, address: str, is_public: bool) -> Caller:
        if is_public:
            return Caller(None)
        try:
            return self._access.caller(headers.get("authorization"))
        except Refused:
            self._rates.wrong_tokens.take(address)
            raise


def _path(scope: Scope) -> str:
    """The path below the place where another application has mounted this one."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def check_host(host: str, known: frozenset[str]) -> None:
    """Refuse a name that the server is not called by. Raises `Refused` (421)."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if known and name.lower() not in known:
        detail = f"this server is not called {name!r}; whoever runs it can allow that name with --allow-host"
        raise Refused(421, "wrong_host", detail)


def check_origin(headers: Headers, known: frozenset[str]) -> None:
    """Refuse a request that a page of another site makes a browser send. Raises `Refused` (403).

    A page comes from the server itself, or from a proxy in front of it that calls it by another name (`known`).
    """
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    foreign = origin is not None and _is_foreign(origin, headers.get("host", ""), known)
    if foreign or site not in (None, "same-origin", "none"):
        raise Refused(403, "foreign_origin", "a page of another site may not send requests to this server")


def _is_foreign(origin: str, host: str, known: frozenset[str]) -> bool:
    try:
        url = urlsplit(origin)
    except ValueError:  # no page has such an origin
        return True
    return url.netloc.lower() != host.lower() and url.hostname not in known


def check_type(headers: Headers) -> None:
    """Refuse a body that is no JSON. Raises `Refused` (415)."""
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if has_body and headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise Refused(415, "wrong_type", f"send the body as JSON, with `Content-Type: {_JSON}`")


def check_length(length: str | None, most: int) -> None:
    """Refuse a body that says that it is too long. Raises `Refused` (413)."""
    if length is not None and (not length.isdecimal() or int(length) > most):
        raise _too_long(most)


def _too_long(most: int) -> Refused:
    return Refused(413, "too_large", f"a request has at most {most} bytes")


def _bounded(receive: Receive, most: int) -> Receive:
    """`receive`, which refuses a body that is longer than it said, or did not say how long it is."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise _too_long(most)
        return message

    return bounded


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return with_headers
