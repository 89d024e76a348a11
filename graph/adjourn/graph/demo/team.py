"""The demo's supervisor: one who reads logs and one who knows the documents, each in a run of its own."""

from adjourn.graph.demo.tools import query_service_logs, search_docs
from adjourn.graph.demo.workspace import Workspace
from adjourn.graph.supervisor import Specialist

TEAM_NAME = "operations-team"


def specialists(workspace: Workspace) -> list[Specialist]:
    """`logs`, who asks a person which environment and service are meant, and `docs`."""
    return [
        Specialist(
            name="logs",
            about="reads the logs of a service and sums up its errors",
            prompt="You read logs. Leave out an environment or a service that you do not know: the user is asked.",
            tools=[query_service_logs(workspace)],
        ),
        Specialist(
            name="docs",
            about="finds the runbook that fits a problem, and its steps",
            prompt="You search the runbooks, and answer with the title and the steps of the one that fits.",
            tools=[search_docs(workspace)],
        ),
    ]
