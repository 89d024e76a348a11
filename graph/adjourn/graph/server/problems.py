"""What went wrong, as `application/problem+json` (RFC 9457): one sentence that says what to do, and no inner parts."""

import logging
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from sqlalchemy.exc import InterfaceError, OperationalError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from adjourn.checkpoints.errors import (
    AdjournError,
    AlreadyAnswered,
    Expired,
    InterruptNotFound,
    InvalidAnswer,
    LeaseLost,
    NotAllowed,
    NotResumable,
    RunBusy,
    RunNotFound,
    StoreError,
    UsageError,
    WrongGraph,
)
from adjourn.checkpoints.records import to_json

MEDIA_TYPE = "application/problem+json"
log = logging.getLogger("adjourn.server")

# A class stands for those below it. What is not here is a mistake of ours or of the app: 500.
STATUS: Mapping[type[Exception], int] = {
    NotAllowed: 403,
    RunNotFound: 404,
    InterruptNotFound: 404,
    WrongGraph: 404,
    RunBusy: 409,
    AlreadyAnswered: 409,
    NotResumable: 409,
    LeaseLost: 409,
    InvalidAnswer: 422,
    UsageError: 422,
    StoreError: 503,
}
# What the command line says to whoever runs it is not for callers: hosts, processes, commands.
SENTENCES: Mapping[type[Exception], str] = {
    RunBusy: "run {run_id} is working just now; try again when it waits for people or has ended",
    Expired: "the time to answer {interrupt_id} had passed; nothing was changed",
}
# attributes of an error that a caller can use
_KEPT = ("run_id", "interrupt_id", "problems", "state", "by", "at", "status", "known")


class Refused(Exception):
    """A request that is refused here, before the runner saw it. `detail` is one sentence for people."""

    def __init__(
        self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None, **facts: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.facts = facts


def problem(
    status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None, **facts: Any
) -> Response:
    """The response. `kind` is a stable word in the style of `run_busy`, for programs."""
    body = {
        "type": f"urn:adjourn:{kind}",
        "title": kind.replace("_", " "),
        "status": status,
        "detail": detail,
    }
    return Response(
        to_json({**facts, **body}),
        status_code=status,
        headers=dict(headers or {}),
        media_type=MEDIA_TYPE,
    )


def of_refusal(_: Request, error: Exception) -> Response:
    """The response to what the server itself refused."""
    assert isinstance(error, Refused)
    return problem(error.status, error.kind, error.detail, error.headers, **error.facts)


def of_error(_: Request, error: Exception) -> Response:
    """The response to what the runner raised."""
    status = next((STATUS[one] for one in type(error).__mro__ if one in STATUS), 500)
    if status == 500:
        return of_bug(_, error)
    facts = {name: value for name, value in vars(error).items() if name in _KEPT and value is not None}
    facts = {("run_status" if name == "status" else name): value for name, value in facts.items()}
    sentence = SENTENCES.get(type(error))
    return problem(
        status, kind_of(type(error)), sentence.format(**facts) if sentence else str(error), **facts
    )


def of_shape(_: Request, error: Exception) -> Response:
    """The response to a body or a query that does not have its shape: each wrong field and why."""
    assert isinstance(error, ValidationError)
    problems = {".".join(map(str, one["loc"])): one["msg"] for one in error.errors(include_url=False)}
    said = "; ".join(f"{field}: {why}" if field else why for field, why in problems.items())
    return problem(422, "invalid_request", f"the request was not accepted: {said}", problems=problems)


def of_http(_: Request, error: Exception) -> Response:
    """The response where no route was found, or none of this method."""
    assert isinstance(error, HTTPException)
    words = {404: ("not_found", "there is nothing at this path; /openapi.json lists what there is")}
    kind, detail = words.get(error.status_code, ("refused", str(error.detail)))
    return problem(error.status_code, kind, detail, error.headers)


def of_store(request: Request, error: Exception) -> Response:
    """The response while the database is away: what was sent may be sent again."""
    log.error("%s %s failed: %s", request.method, request.url.path, error)
    detail = "the database cannot be used just now; nothing was changed, send this again in a moment"
    return problem(503, "store_error", detail, {"Retry-After": "5"})


def of_bug(request: Request, error: Exception) -> Response:
    """The response to an error that nobody expected: the log has it, the caller does not."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    detail = "the server met an error that it did not expect; its log tells the cause"
    return problem(500, "internal_error", detail)


def kind_of(error: type[Exception]) -> str:
    """`RunBusy` -> `run_busy`."""
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in error.__name__).lstrip("_")


HANDLERS: Mapping[Any, Any] = {
    Refused: of_refusal,
    AdjournError: of_error,
    ValidationError: of_shape,
    HTTPException: of_http,
    OperationalError: of_store,
    InterfaceError: of_store,
    Exception: of_bug,
}
