"""A worker inside a FastAPI or Starlette program.

    ms = Mainspring()
    app = FastAPI(lifespan=lifespan(ms, slots=4))
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, AsyncIterator, Callable

from .. import trace
from .._client import Mainspring


def lifespan(
    ms: Mainspring, **options: Any
) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """For `FastAPI(lifespan=…)`: a worker starts and stops with the program.

    Without `slots` no worker runs here: the program only enqueues, and connections are closed
    at its end.
    """

    @asynccontextmanager
    async def run(_: Any) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        worker = ms.worker(**options) if options else None
        if worker is not None:
            await loop.run_in_executor(None, worker.start)
        try:
            yield
        finally:
            if worker is not None:
                await loop.run_in_executor(None, worker.stop)
            await ms.aclose()

    return run


class TraceMiddleware:
    """ASGI: jobs that a request enqueues carry the request's `traceparent`."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in scope["headers"]}
        with trace.context(headers):
            await self.app(scope, receive, send)
