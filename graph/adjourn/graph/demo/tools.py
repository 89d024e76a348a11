"""The demo's four tools, made for a workspace: what a model can find out, and the one thing it can do."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field

from adjourn.graph.demo.logs import read_records, summarise
from adjourn.graph.demo.search import DocumentIndex
from adjourn.graph.demo.workspace import DataNotFound, Service, Workspace
from adjourn.nodes import Tool, ToolContext, tool

Minutes = Annotated[
    int, Field(ge=1, le=1440, description="How far back from the log's newest line, in minutes.")
]
RESTART_TAKES_S = 0.3  # a restart that took no time would look like a fake on the screen


def make_tools(workspace: Workspace) -> list[Tool]:
    """The tools that fit the workspace's data.

    With services in its table all four; for a plain folder `search_docs`, and `query_logs` by file where it holds
    logs: nothing there can be restarted.
    """
    if _restartable(workspace):
        makers = (search_resource, search_docs, query_service_logs, restart_service)
        return [make(workspace) for make in makers]
    logs = [query_file_logs(workspace)] if workspace.settings.logs else []
    return [search_docs(workspace), *logs]


def search_docs(workspace: Workspace) -> Tool:
    """`search_docs`: the best documents for a query, each with its best section and its numbered steps."""
    index = DocumentIndex(workspace.index_file, workspace.data_dir, workspace.documents)

    @tool(effect="read", timeout_s=20)
    def search_docs(query: str, top_k: Annotated[int, Field(ge=1, le=10)] = 3) -> list[dict[str, Any]]:
        """Search the documents and runbooks, Chinese or English. Use it when the user asks how to handle
        something. Gives title, path, section, excerpt and steps of the best ones; an empty list: none fits."""
        return [
            {key: value for key, value in asdict(hit).items() if key != "score"}
            for hit in index.search(query, top_k)
        ]

    return search_docs


def search_resource(workspace: Workspace) -> Tool:
    """`search_resource`: rows of the services table."""

    @tool(effect="read", timeout_s=10)
    def search_resource(
        query: str = "", kind: Literal["service", "db"] | None = None
    ) -> list[dict[str, Any]]:
        """Find services and databases by id, name or owner, in Chinese or English; an empty query lists all.
        Gives their ids, environments, owners and what they depend on."""
        fitting = [service for service in workspace.services if kind in (None, service.kind)]
        return [_row(service, workspace) for service in fitting if _fits(service, query)]

    return search_resource


def query_service_logs(workspace: Workspace) -> Tool:
    """`query_logs` over the services table; what the model does not know, a person is asked for."""

    def query_logs(environment: str, service_id: str, minutes: Minutes = 30) -> dict[str, Any]:
        """Read the newest log lines of a service and summarise its errors: counts, first and last error,
        patterns, changes just before the first error. Leave environment or service_id out when you do not
        know them for sure: the user is asked."""
        file = workspace.service_log(service_id, environment)
        return {
            "service_id": service_id,
            "environment": environment,
            **summarise(read_records(file), minutes),
        }

    _offer(query_logs, environment=workspace.environments, service_id=_restartable(workspace))
    return tool(effect="read", timeout_s=20, ask_for=("environment", "service_id"))(query_logs)


def query_file_logs(workspace: Workspace) -> Tool:
    """`query_logs` over the log files of a folder."""

    def query_logs(file: str, minutes: Minutes = 60) -> dict[str, Any]:
        """Read the newest lines of a log file and summarise its errors: counts, first and last error,
        patterns, changes just before the first error. Leave file out when you do not know which one is
        meant: the user is asked."""
        return {"file": file, **summarise(read_records(workspace.log_file(file)), minutes)}

    _offer(query_logs, file=workspace.settings.logs)
    return tool(effect="read", timeout_s=30, ask_for=("file",))(query_logs)


def restart_service(workspace: Workspace) -> Tool:
    """`restart_service`: counts a restart in the workspace's state file, after a person agreed."""

    def restart_service(service_id: str, environment: str, context: ToolContext) -> dict[str, Any]:
        """Restart a service. A person has to agree first. Propose it only when a document advises it or the
        user asks for it."""
        if environment not in workspace.service(service_id).envs:
            raise DataNotFound(f"{service_id} does not run in {environment}")
        time.sleep(RESTART_TAKES_S)
        restarts = workspace.restart(
            service_id, environment, key=context.idempotency_key, approved_by=context.approved_by
        )
        return {
            "service_id": service_id,
            "environment": environment,
            "status": "restarted",
            "restarts": restarts,
        }

    _offer(restart_service, environment=workspace.environments, service_id=_restartable(workspace))
    return tool(
        effect="write",
        timeout_s=30,
        confirm={
            "en": "Restart {service_id} in {environment}?",
            "zh": "要重启 {environment} 环境的 {service_id} 吗？",
        },
        idempotent=True,  # the state file remembers the key
        resource=lambda arguments: f"{arguments.get('service_id')}@{arguments.get('environment')}",
    )(restart_service)


def _offer(function: Callable[..., Any], **choices: tuple[str, ...]) -> None:
    # A type checker knows no Literal of values that are read from a file, so the signature says `str` and
    # the choices are set here: a form then shows them, and a model cannot name others.
    for name, values in choices.items():
        function.__annotations__[name] = Literal[values]


def _restartable(workspace: Workspace) -> tuple[str, ...]:
    return tuple(service.id for service in workspace.services if service.kind == "service")


def _fits(service: Service, query: str) -> bool:
    wanted = query.casefold().strip()
    known = [name.casefold() for name in (service.id, service.name, service.owner, *service.names)]
    return not wanted or any(wanted in name or name in wanted for name in known if name)


def _row(service: Service, workspace: Workspace) -> dict[str, Any]:
    row = {key: value for key, value in asdict(service).items() if key != "names"}
    if service.kind == "service":
        row["restarts"] = {env: workspace.restarts(service.id, env) for env in service.envs}
    return row
