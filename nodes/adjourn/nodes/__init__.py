"""What happens in one step: the model is asked, its calls are run, a person is asked."""

from adjourn.nodes.approvers import Approvers
from adjourn.nodes.ask import AskNode
from adjourn.nodes.attachments import Attachment
from adjourn.nodes.checked_types import ArgumentList, HostIn, PathInside, UrlIn
from adjourn.nodes.context import Happened, RunInfo, ToolContext
from adjourn.nodes.evidence import Evidence
from adjourn.nodes.finish import FinishNode
from adjourn.nodes.flow_table import ApprovalStep, BranchStep, FunctionStep, GraphStep, LoopStep, ToolStep
from adjourn.nodes.foreign import as_tool
from adjourn.nodes.guards import Limits
from adjourn.nodes.model import ModelNode
from adjourn.nodes.parameters import Secret
from adjourn.nodes.questions import approve, confirm_risky, edit, params_required, reject
from adjourn.nodes.results import Told
from adjourn.nodes.scripted import ScriptedModel
from adjourn.nodes.spending import Price
from adjourn.nodes.state import RunState
from adjourn.nodes.texts import add_language
from adjourn.nodes.tool import Tool, tool
from adjourn.nodes.tool_errors import NotDone, RateLimited, ToolError
from adjourn.nodes.tools import ToolsNode

__all__ = [
    "ApprovalStep",
    "Approvers",
    "ArgumentList",
    "AskNode",
    "Attachment",
    "BranchStep",
    "Evidence",
    "FinishNode",
    "FunctionStep",
    "GraphStep",
    "Happened",
    "HostIn",
    "Limits",
    "LoopStep",
    "ModelNode",
    "NotDone",
    "PathInside",
    "Price",
    "RateLimited",
    "RunInfo",
    "RunState",
    "ScriptedModel",
    "Secret",
    "Told",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolStep",
    "ToolsNode",
    "UrlIn",
    "add_language",
    "approve",
    "as_tool",
    "confirm_risky",
    "edit",
    "params_required",
    "reject",
    "tool",
]
