"""The inbox page: files of this package, as they are. They hold no data; the page asks for it."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent / "page"
# An update of the package must be seen at the next load; a check by ETag costs little.
_FRESH = {"Cache-Control": "no-cache"}


async def page(_: Request) -> Response:
    """The page."""
    return FileResponse(FOLDER / "index.html", headers=_FRESH)


class _Assets(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_FRESH)
        return response


def assets() -> StaticFiles:
    """The page's modules and styles."""
    return _Assets(directory=FOLDER)
