"""What is tried again and what never is; places; lost writes (C-21, C-28, C-29, C-30, C-35)."""

import asyncio
import http.client
import json
import smtplib
import socket
import threading
import time
import urllib.request
from contextlib import contextmanager

import anyio
import httpx
import openai
import psycopg
import pymysql
import pytest
import requests
from langchain_core.messages import ToolMessage
from langgraph.types import interrupt

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.lifecycle import ErrorCode
from adjourn.nodes import Happened, NotDone, RateLimited, ToolContext, ToolError, confirm_risky, tool
from adjourn.nodes.failures import failure_of
from adjourn.nodes.scripted import call, says
from adjourn.nodes.tool_errors import RAISABLE


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("adjourn.nodes.execute.BACKOFF_S", 0.001)


def one_call(name, **arguments):
    return [says("", call(name, arguments, id="c")), "done"]


def told(house):
    return json.loads(next(one.text for one in house.models[-1].requests[-1] if isinstance(one, ToolMessage)))


def flaky(times, error, **settings):
    """A tool that fails so many times, and notes each attempt."""
    seen = []

    @tool(**settings)
    async def act(context: ToolContext) -> str:
        """Act."""
        seen.append((context.attempt, context.idempotency_key))
        if len(seen) <= times:
            raise error
        return "ok"

    return act, seen


@pytest.mark.parametrize("error", [ConnectionError("reset"), RateLimited(retry_after_s=0.001)])
async def test_c30_a_read_is_tried_again(house, error):
    act, seen = flaky(2, error, effect="read")
    run = await house.runner(one_call("act"), tools=[act]).start("go")
    assert [one[0] for one in seen] == [1, 2, 3]
    assert (run.calls[0].outcome, run.calls[0].attempts) == ("ok", 3)


async def test_c30_no_more_than_two_retries(house):
    act, seen = flaky(9, ConnectionError("reset"), effect="read")
    run = await house.runner(one_call("act"), tools=[act]).start("go")
    assert (len(seen), run.calls[0].error_code, run.calls[0].attempts) == (3, "unavailable", 3)


@pytest.mark.parametrize("error", [ValueError("x"), PermissionError("x"), KeyError("x"), ToolError("x")])
async def test_c30_nothing_else_is_ever_tried_again(house, error):
    act, seen = flaky(9, error, effect="read")
    await house.runner(one_call("act"), tools=[act]).start("go")
    assert len(seen) == 1


async def test_c30_a_time_limit_is_tried_again_once(house):
    seen = []

    @tool(effect="read", timeout_s=0.02)
    async def act() -> str:
        """Act."""
        seen.append(1)
        await asyncio.sleep(5)
        return "late"

    run = await house.runner(one_call("act"), tools=[act]).start("go")
    assert (len(seen), run.calls[0].error_code) == (2, "timeout")


async def test_c30_a_rate_limit_that_asks_for_too_much_is_answered(house):
    act, seen = flaky(9, RateLimited("quota", retry_after_s=3600), effect="read")
    await house.runner(one_call("act"), tools=[act]).start("go")
    assert len(seen) == 1
    assert told(house)["errorCode"] == "rate_limited"


async def test_c30_a_write_is_never_tried_again(house):
    act, seen = flaky(9, RateLimited(retry_after_s=0), effect="write")
    run = await house.runner(one_call("act"), tools=[act]).start("go")
    assert (len(seen), run.calls[0].outcome) == (1, "failed")


async def test_c30_an_idempotent_write_is_tried_again_under_its_key(house):
    act, seen = flaky(1, ConnectionError("reset"), effect="write", idempotent=True)
    run = await house.runner(one_call("act"), tools=[act]).start("go")
    assert [one[0] for one in seen] == [1, 2]
    assert len({one[1] for one in seen}) == 1
    assert (run.calls[0].outcome, run.calls[0].attempts) == ("ok", 2)


async def test_c28_a_write_that_broke_off_is_unknown(house):
    act, _ = flaky(9, ConnectionResetError("reset"), effect="write")
    run = await house.runner(one_call("act"), tools=[act]).start("go")
    assert (run.calls[0].outcome, run.calls[0].error_code) == ("unknown", "outcome_unknown")
    assert run.calls[0].error["class"] == "builtins.ConnectionResetError"


@contextmanager
def hangs_up(reply=b"", *, greeting=b""):
    """The port of a server that takes an order, and breaks off; and the orders that it took."""
    orders = []

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed: the test is over
                return
            with connection:
                connection.sendall(greeting)
                taken = connection.recv(65536)
                if taken:
                    orders.append(taken)
                    connection.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield listener.getsockname()[1], orders
        listener.shutdown(socket.SHUT_RDWR)
        server.join(5)


@contextmanager
def closed_port():
    """A port on which nobody listens: what is bound and does not listen refuses."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


class ShopError(Exception):
    """The error of an SDK, which hides its client's."""


def by_urllib(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", b"x", timeout=5) as response:
        response.read()


def by_sdk(port):
    try:
        httpx.post(f"http://127.0.0.1:{port}/", timeout=5)
    except httpx.HTTPError as error:
        raise ShopError("order service") from error


def by_openai(port):
    with openai.OpenAI(api_key="x", base_url=f"http://127.0.0.1:{port}", max_retries=0) as client:
        client.chat.completions.create(model="x", messages=[])


def in_a_task_group(port):
    async def post():
        async with httpx.AsyncClient() as client:
            await client.post(f"http://127.0.0.1:{port}/", timeout=5)

    async def both():
        async with anyio.create_task_group() as group:
            group.start_soon(post)

    anyio.run(both)


CLIENTS = {
    "requests": lambda port: requests.post(f"http://127.0.0.1:{port}/", timeout=5),
    "urllib": by_urllib,
    "httpx": lambda port: httpx.post(f"http://127.0.0.1:{port}/", timeout=5),
    "openai": by_openai,
    "an SDK": by_sdk,
    "a task group": in_a_task_group,
}


def order_by(client, port, **settings):
    """A tool that places an order with this client, in a thread."""

    @tool(effect="write", **settings)
    def order() -> str:
        """Order."""
        client(port)
        return "placed"

    return order


async def ordered_twice(house, made):
    """A run whose model orders again when it was told that the first order failed."""
    turns = [says("", call("order", {}, id="a")), says("", call("order", {}, id="b")), "done"]
    return await house.runner(turns, tools=[made]).start("go")


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"])
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
async def test_c28_an_order_that_broke_off_is_placed_once_whatever_the_client(house, client, reply):
    with hangs_up(reply) as (port, orders):
        run = await ordered_twice(house, order_by(client, port))
    assert (len(orders), run.calls[0].outcome) == (1, "unknown")
    assert run.status == "interrupted"  # an identical write asks first


async def test_c28_a_mail_whose_server_hung_up_is_unknown(house):
    def send(port):
        with smtplib.SMTP("127.0.0.1", port, timeout=5) as server:
            server.sendmail("a@example.com", "b@example.com", "x")

    with hangs_up(greeting=b"220 hello\r\n") as (port, _):
        run = await house.runner(one_call("order"), tools=[order_by(send, port)]).start("go")
    assert run.calls[0].outcome == "unknown"


NO_SERVER = {
    **CLIENTS,
    "http.client": lambda port: http.client.HTTPConnection("127.0.0.1", port).request("POST", "/"),
    "psycopg": lambda port: psycopg.connect(f"host=127.0.0.1 port={port} connect_timeout=5"),
    "pymysql": lambda port: pymysql.connect(host="127.0.0.1", port=port),
}


@pytest.mark.parametrize("client", NO_SERVER.values(), ids=NO_SERVER)
async def test_c30_an_order_that_was_never_sent_failed_and_is_tried_again_where_it_may_be(house, client):
    with closed_port() as port:
        once = await house.runner(one_call("order"), tools=[order_by(client, port)]).start("go")
        again = order_by(client, port, idempotent=True)
        thrice = await house.runner(one_call("order"), tools=[again]).start("go")
    assert (once.calls[0].outcome, once.calls[0].attempts) == ("failed", 1)
    assert (thrice.calls[0].outcome, thrice.calls[0].error_code) == ("failed", "unavailable")
    assert thrice.calls[0].attempts == 3


async def test_c30_a_read_is_tried_again_also_behind_an_sdk(house):
    seen = []

    @tool(effect="read")
    def look() -> str:
        """Look."""
        seen.append(1)
        by_sdk(port)
        return "found"

    with hangs_up() as (port, _):
        run = await house.runner(one_call("look"), tools=[look]).start("go")
    assert (len(seen), run.calls[0].error_code) == (3, "unavailable")


@pytest.mark.parametrize("error", [NotDone("refused"), ConnectionRefusedError("refused")])
async def test_c28_a_write_that_was_not_done_failed(house, error):
    act, _ = flaky(9, error, effect="write")
    run = await house.runner(one_call("act"), tools=[act]).start("go")
    assert run.calls[0].outcome == "failed"


@pytest.mark.parametrize(
    ("verdict", "outcome", "code"),
    [(Happened("it did"), "ok", None), (False, "failed", "timeout"), (None, "unknown", "outcome_unknown")],
)
async def test_c35_verify_is_asked_about_a_lost_write(house, verdict, outcome, code):
    asked = []

    async def verify(context):
        asked.append((context.call_id, context.arguments))
        return verdict

    @tool(effect="write", timeout_s=0.02, verify=verify)
    async def act(what: str) -> str:
        """Act."""
        await asyncio.sleep(5)
        return "late"

    run = await house.runner(one_call("act", what="x"), tools=[act]).start("go")
    assert asked == [("c", {"what": "x"})]
    assert (run.calls[0].outcome, run.calls[0].error_code) == (outcome, code)


async def test_c35_a_verify_that_fails_leaves_it_unknown(house):
    def verify(context):
        raise RuntimeError("no")

    @tool(effect="write", timeout_s=0.02, verify=verify)
    async def act() -> str:
        """Act."""
        await asyncio.sleep(5)
        return "late"

    run = await house.runner(one_call("act"), tools=[act]).start("go")
    assert run.calls[0].outcome == "unknown"


@pytest.fixture
def held():
    """A bank whose payments wait in their threads until the test lets them go, or is over."""

    class Bank:
        def __init__(self):
            self.go, self.paid = threading.Event(), []

        def pay(self):
            self.go.wait(20)
            self.paid.append(1)
            return "paid"

        def verify(self, context):
            return Happened("it did") if self.paid else False

    bank = Bank()
    yield bank
    bank.go.set()


@pytest.mark.parametrize("idempotent", [False, True])
async def test_c35_that_it_did_not_happen_does_not_count_while_an_attempt_goes_on(house, held, idempotent):
    """`verify` tells the truth, and yet the payment comes a moment later."""

    @tool(effect="write", timeout_s=0.05, verify=held.verify, idempotent=idempotent)
    def pay() -> str:
        """Pay."""
        return held.pay()

    run = await house.runner(one_call("pay"), tools=[pay]).start("go")
    assert (run.calls[0].outcome, run.calls[0].error_code) == ("unknown", "outcome_unknown")
    assert held.paid == []


async def test_c35_that_it_happened_counts_while_the_attempt_goes_on(house, held):
    @tool(effect="write", timeout_s=0.05, verify=held.verify)
    def pay() -> str:
        """Pay, and then wait for something else."""
        held.paid.append(1)
        return held.pay()

    run = await house.runner(one_call("pay"), tools=[pay]).start("go")
    assert (run.calls[0].outcome, told(house)["data"]) == ("ok", "it did")


async def test_c35_what_verify_brings_is_a_result_and_no_question(house):
    @tool(effect="write", verify=lambda context: Happened(confirm_risky("Sure?")))
    async def pay() -> str:
        """Pay."""
        raise ConnectionResetError("gone")

    run = await house.runner(one_call("pay"), tools=[pay]).start("go")
    assert (run.status, run.calls[0].outcome) == ("finished", "ok")


async def test_c29_a_tool_error_says_what_the_model_should_see(house):
    @tool(effect="read")
    def act() -> str:
        """Act."""
        raise ToolError("no such service", code="not_found", suggestion="search first", data=[1])

    await house.runner(one_call("act"), tools=[act]).start("go")
    answer = told(house)
    assert (answer["errorCode"], answer["suggestion"], answer["data"]) == ("not_found", "search first", [1])
    assert "no such service" in answer["message"]


REFUSALS = {
    "PermissionError": PermissionError("403 from the bank"),
    "status 401": openai.AuthenticationError(
        "x", response=httpx.Response(401, request=httpx.Request("POST", "http://127.0.0.1/")), body=None
    ),
    "arguments": ToolError("no such currency", code="invalid_arguments"),
    "refused": ToolError("needs the role payer", code=ErrorCode.PERMISSION_DENIED),
}


@pytest.mark.parametrize("error", REFUSALS.values(), ids=REFUSALS)
async def test_c24_a_write_that_the_other_side_refused_has_run_and_failed(house, error):
    """Not `denied` or `invalid`, which say that it did not run: the step's later writes are skipped."""
    act, seen = flaky(9, error, effect="write")

    @tool(effect="write")
    def next_one() -> str:
        """The next write."""
        seen.append("next")
        return "ok"

    turn = says("", call("act", {}, id="a"), call("next_one", {}, id="b"))
    run = await house.runner([turn, "done"], tools=[act, next_one]).start("go")
    assert [one.outcome for one in run.calls] == ["failed", "skipped"]
    assert (run.calls[0].error_code, len(seen)) == (failure_of(error).code, 1)


async def test_c53_c55_who_is_refused_again_and_again_is_stopped(house):
    act, seen = flaky(99, PermissionError("no"), effect="read")
    turns = [says("", call("act", {}, id=f"a{n}")) for n in range(8)]
    run = await house.runner([*turns, "done"], tools=[act]).start("go")
    assert (run.stop_reason, len(seen)) == ("too_many_fails", 3)

    @tool(effect="read")
    def other(n: int) -> str:
        """Succeed."""
        return "ok"

    seen.clear()
    turns = [
        says(
            "",
            call("act", {}, id=f"b{n}"),
            call("other", {"n": n}, id=f"o{n}"),
            call("other", {"n": -n - 1}, id=f"p{n}"),
        )
        for n in range(5)
    ]
    run = await house.runner([*turns, "done"], tools=[act, other]).start("go")
    assert (run.stop_reason, len(seen)) == ("answered", 3)
    assert [one.error_code for one in run.calls if one.tool == "act"][3:] == ["tool_disabled"] * 2


@pytest.mark.parametrize("code", sorted(RAISABLE))
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_c29_a_tool_may_raise_any_code_that_it_can_bring_about(house, code, effect):
    act, _ = flaky(9, ToolError("so it is", code=code), effect=effect)
    run = await house.runner(one_call("act"), tools=[act]).start("go")
    is_open = code == "outcome_unknown" and effect == "write"
    assert (run.status, run.calls[0].outcome) == ("finished", "unknown" if is_open else "failed")
    if is_open:
        assert run.calls[0].error_code == code
    else:
        assert told(house)["message"] == "act failed: so it is"


@pytest.mark.parametrize("code", [*sorted(set(ErrorCode) - RAISABLE), "nonsense"])
async def test_c29_the_runtime_s_own_codes_are_refused_with_those_that_a_tool_has(house, code):
    with pytest.raises(UsageError, match=f"{code}; its codes are .*not_found.*unavailable"):
        ToolError("x", code=code)

    @tool(effect="write")
    def act() -> str:
        """Act."""
        raise ToolError("x", code=code)

    run = await house.runner(one_call("act"), tools=[act]).start("go")
    assert (run.status, run.calls[0].outcome, run.calls[0].error_code) == ("finished", "failed", "tool_error")


async def test_c29_a_class_of_one_s_own_may_forget_its_base(house):
    class NoMoney(ToolError):
        code = "not_found"

        def __init__(self, account):
            self.account = account

    act, _ = flaky(9, NoMoney("a-1"), effect="write")
    run = await house.runner(one_call("act"), tools=[act]).start("go")
    assert (run.calls[0].outcome, run.calls[0].error_code) == ("failed", "not_found")
    assert told(house)["message"] == "act failed: a-1"


async def test_c21_an_abandoned_read_keeps_its_place(house):
    from adjourn.graph import Limits

    release = threading.Event()
    running, most = 0, 0
    lock = threading.Lock()

    @tool(effect="read", timeout_s=0.1, retries=0)
    def slow(n: int) -> str:
        """A thread that nobody can stop."""
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        release.wait(2)
        with lock:
            running -= 1
        return "late"

    turn = says("", *(call("slow", {"n": n}, id=f"s{n}") for n in range(4)))
    runner = house.runner([turn, "done"], tools=[slow], limits=Limits(max_parallel=2))
    threading.Timer(0.5, release.set).start()
    run = await runner.start("go")
    assert most == 2
    assert [one.outcome for one in run.calls[:2]] == ["failed", "failed"]
    assert all(one.ended_at for one in run.calls)


async def test_c21_after_an_abandoned_write_no_write_starts_until_it_ended(house):
    ended = []

    @tool(effect="write", timeout_s=0.05)
    def first() -> str:
        """A thread that takes longer than it may."""
        time.sleep(0.3)
        ended.append(time.monotonic())
        return "late"

    @tool(effect="write", timeout_s=2)
    def second() -> str:
        """The next write."""
        ended.append(("second", time.monotonic()))
        return "ok"

    turns = [says("", call("first", {}, id="a")), says("", call("second", {}, id="b")), "done"]
    run = await house.runner(turns, tools=[first, second]).start("go")
    assert [one.outcome for one in run.calls] == ["unknown", "ok"]
    assert ended[1][1] >= ended[0]


async def test_c28_a_task_that_swallows_its_cancellation_is_abandoned(house):
    release = asyncio.Event()

    @tool(effect="read", timeout_s=0.05, retries=0)
    async def stubborn() -> str:
        """Stubborn."""
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    began = time.monotonic()
    run = await house.runner(one_call("stubborn"), tools=[stubborn]).start("go")
    assert time.monotonic() - began < 3
    assert run.calls[0].error_code == "timeout"
    release.set()


async def test_c37_langgraph_s_interrupt_inside_a_tool_is_refused_with_the_way_out(house):
    @tool(effect="read")
    def act() -> str:
        """Act."""
        return str(interrupt("sure?"))

    run = await house.runner(one_call("act"), tools=[act]).start("go")
    assert run.status == "finished"
    assert "params_required" in told(house)["message"]


class Response:
    def __init__(self, status, headers=None):
        self.status_code = status
        self.headers = headers or {}


class HTTPStatusError(Exception):
    def __init__(self, status, headers=None):
        super().__init__(f"status {status}")
        self.response = Response(status, headers)


@pytest.mark.parametrize(
    ("status", "code", "again"),
    [
        (400, "tool_error", False),
        (401, "permission_denied", False),
        (404, "not_found", False),
        (429, "rate_limited", True),
        (500, "unavailable", True),
        (503, "unavailable", True),
        (504, "unavailable", True),
    ],
)
def test_c29_the_status_of_an_http_client_s_exception_decides(status, code, again):
    failure = failure_of(HTTPStatusError(status))
    assert (failure.code, failure.again) == (code, again)


def test_c30_retry_after_is_read_as_seconds_or_date():
    assert failure_of(HTTPStatusError(429, {"Retry-After": "7"})).retry_after_s == 7
    past = failure_of(HTTPStatusError(429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}))
    assert past.retry_after_s == 0
    assert failure_of(HTTPStatusError(429, {"Retry-After": "soon"})).retry_after_s is None


def test_c29_exceptions_of_real_clients_are_known():
    request = httpx.Request("GET", "http://127.0.0.1/")
    assert failure_of(httpx.ReadTimeout("x", request=request)).lost
    assert not failure_of(httpx.ConnectTimeout("x", request=request)).lost
    assert failure_of(httpx.ReadError("x", request=request)).code == "unavailable"
    assert not failure_of(httpx.ConnectError("x", request=request)).lost
    too_many = httpx.HTTPStatusError(
        "x", request=request, response=httpx.Response(429, headers={"retry-after": "2"})
    )
    assert failure_of(too_many).retry_after_s == 2
