"""The tools of the scenarios: a fictional shop's services, documents, logs and releases.

Each instance counts what was really executed and when, so that a test can tell what overlapped.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from adjourn.graph import Limits
from adjourn.nodes import Tool, tool

LIMITS = Limits(max_steps=8, max_parallel=4)
TIMEOUT_S = 1.0
RESULT_LIMIT = 4_000
SERVICE = {"id": "svc-pay-001", "name": "payment-service", "envs": ["prod", "staging"]}
DOC = {"title": "支付服务 5xx 处理手册", "steps": ["查依赖", "回滚"]}

Environment = Literal["prod", "staging"]
ServiceId = Literal["svc-pay-001", "svc-shop-002"]


@dataclass
class Shop:
    """`delays` maps a tool's name (or name and argument) to seconds; `ran` is (tool, argument, began, ended)."""

    delays: Mapping[str, float] = field(default_factory=dict)
    fails: Mapping[str, Exception] = field(default_factory=dict)
    ran: list[tuple[str, str, float, float]] = field(default_factory=list)

    def count(self, name: str) -> int:
        """How often a tool was really executed."""
        return sum(one[0] == name for one in self.ran)

    async def work(self, name: str, what: str) -> None:
        """Take the time that the test gave this tool, then fail if it said so."""
        began = time.monotonic()
        delay = self.delays.get(f"{name}:{what}", self.delays.get(name, 0.0))
        if delay:
            await asyncio.sleep(delay)
        self.ran.append((name, what, began, time.monotonic()))
        error = self.fails.get(f"{name}:{what}", self.fails.get(name))
        if error is not None:
            raise error

    def tools(self) -> list[Tool]:
        """The scenario's five tools."""

        @tool(effect="read", timeout_s=TIMEOUT_S, result_limit=RESULT_LIMIT)
        async def search_resource(
            query: str, kind: Literal["service", "db"] = "service"
        ) -> list[dict[str, Any]]:
            """Find a service or a database by name."""
            await self.work("search_resource", query)
            return [SERVICE]

        @tool(effect="read", timeout_s=TIMEOUT_S, result_limit=RESULT_LIMIT)
        async def search_docs(
            query: str, top_k: Annotated[int, Field(ge=1, le=10)] = 3
        ) -> list[dict[str, Any]]:
            """Search the runbooks."""
            await self.work("search_docs", query)
            return [DOC]

        @tool(effect="read", timeout_s=TIMEOUT_S, ask_for=("environment", "service_id"))
        async def query_logs(
            environment: Environment, service_id: ServiceId, minutes: int = 30
        ) -> list[dict[str, Any]]:
            """Read the newest log lines of a service."""
            await self.work("query_logs", f"{environment}/{service_id}/{minutes}")
            return [{"level": "ERROR", "text": "pool exhausted"}]

        @tool(effect="write", timeout_s=TIMEOUT_S, confirm="Restart {service_id} in {environment}?")
        async def restart_service(service_id: str, environment: Environment) -> dict[str, Any]:
            """Restart a service."""
            await self.work("restart_service", f"{environment}/{service_id}")
            return {"restarted": service_id}

        @tool(effect="write", timeout_s=TIMEOUT_S)
        async def publish_release(service_id: str, version: str) -> dict[str, Any]:
            """Publish a release."""
            await self.work("publish_release", version)
            return {"published": version}

        return [search_resource, search_docs, query_logs, restart_service, publish_release]
