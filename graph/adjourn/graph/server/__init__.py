"""The HTTP door: runs, their events and the inbox page. It needs the extra `server`."""

from adjourn.graph.server.access import Access, read_tokens
from adjourn.graph.server.app import make_app
from adjourn.graph.server.bounds import Bounds

__all__ = ["Access", "Bounds", "make_app", "read_tokens"]
