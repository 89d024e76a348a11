"""The demo's flow: a database for a service, in four steps that nobody can change the order of."""

from typing import Any

from adjourn.graph.demo.tools import search_resource
from adjourn.graph.demo.workspace import DataNotFound, Workspace
from adjourn.nodes import FunctionStep, ToolContext, ToolStep, tool
from adjourn.nodes.flow_table import Step

FLOW_NAME = "open-database"
QUOTA = 3  # databases of one service, as a platform team might allow


def open_database(workspace: Workspace) -> list[Step]:
    """find, check the quota (forced), create (a person agrees), verify (without a model)."""

    @tool(effect="read", timeout_s=10)
    def check_quota(service_id: str) -> dict[str, Any]:
        """How many databases a service may still have."""
        has = len(workspace.databases(workspace.service(service_id).id))
        if has >= QUOTA:
            raise DataNotFound(
                f"{service_id} has its {QUOTA} databases already; there is no room for another"
            )
        return {"service_id": service_id, "left": QUOTA - has}

    @tool(
        effect="write",
        timeout_s=30,
        confirm={
            "en": "Create a database for {service_id} in {environment}?",
            "zh": "要在 {environment} 为 {service_id} 创建数据库吗？",
        },
        idempotent=True,  # the workspace remembers the key
    )
    def create_database(service_id: str, environment: str, context: ToolContext) -> dict[str, Any]:
        """Create a database for a service in one of its environments."""
        if environment not in workspace.service(service_id).envs:
            raise DataNotFound(f"{service_id} does not run in {environment}")
        name = workspace.create_database(service_id, environment, key=context.idempotency_key)
        return {"database": name, "service_id": service_id, "environment": environment}

    @tool(effect="read", timeout_s=10)
    def verify_database(create: dict[str, Any]) -> dict[str, Any]:
        """See that the new database is there."""
        name = create["database"]
        if name not in workspace.databases(create["service_id"]):
            raise DataNotFound(f"{name} is not there")
        return {"database": name, "state": "ready"}

    return [
        ToolStep(name="find", title="find the service", tool=search_resource(workspace)),
        ToolStep(name="quota", title="check the quota", tool=check_quota, forced=True),
        ToolStep(name="create", title="create the database", tool=create_database),
        FunctionStep(name="verify", title="verify it", function=verify_database),
    ]
