"""The front page: the square, the questions, and cards of the gallery."""

from typing import TYPE_CHECKING, Any

from nicegui import ui

from limitlab.explorer.frame import frame

if TYPE_CHECKING:
    from limitlab.jobs.service import Service

__all__ = ["front", "picture"]


def front(service: "Service") -> None:
    frame("", service)
    ui.html("<h1>limitlab</h1>", sanitize=False)


async def picture(request: Any) -> Any:
    from starlette.responses import Response

    return Response(status_code=404)
