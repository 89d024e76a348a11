"""What the model was told of a call."""

import json
from typing import Any

from langchain_core.messages import ToolMessage


def told(house: Any, call_id: str, request: int = -1) -> Any:
    """The observation of a call, in a request to the model of the newest runner; the last one if not another is named."""
    messages = house.models[-1].requests[request]
    found = (one.text for one in messages if isinstance(one, ToolMessage) and one.tool_call_id == call_id)
    return json.loads(next(found))
