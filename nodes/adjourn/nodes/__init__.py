"""What happens in one step: the model is asked, its calls are run, a person is asked."""

from adjourn.nodes.ask import AskNode
from adjourn.nodes.context import Happened, ToolContext
from adjourn.nodes.finish import FinishNode
from adjourn.nodes.guards import Limits
from adjourn.nodes.model import ModelNode
from adjourn.nodes.questions import approve, confirm_risky, edit, params_required, reject
from adjourn.nodes.scripted import ScriptedModel
from adjourn.nodes.state import RunState
from adjourn.nodes.tool import Tool, tool
from adjourn.nodes.tool_errors import NotDone, RateLimited, ToolError
from adjourn.nodes.tools import ToolsNode

__all__ = [
    "AskNode",
    "FinishNode",
    "Happened",
    "Limits",
    "ModelNode",
    "NotDone",
    "RateLimited",
    "RunState",
    "ScriptedModel",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolsNode",
    "approve",
    "confirm_risky",
    "edit",
    "params_required",
    "reject",
    "tool",
]
