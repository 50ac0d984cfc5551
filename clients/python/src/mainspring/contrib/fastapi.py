"""A worker inside a FastAPI or Starlette program.

    ms = Mainspring()
    app = FastAPI()
    attach(app, ms, slots=4)
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable

from .. import trace
from .._client import Mainspring

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import WorkerKeywords


def attach(app: Any, ms: Mainspring, **options: Unpack[WorkerKeywords]) -> None:
    """A worker starts and stops with `app`, a program of FastAPI or Starlette of any version.

    The worker starts after the program's own start, and stops before its end: handlers find what
    the program's lifespan has set up. Without `slots` no worker runs here: the program only
    enqueues, and connections are closed at its end.

    Attach to the outermost program: the lifespan of a mounted one never runs.
    """
    own = app.router.lifespan_context

    @asynccontextmanager
    async def run(app: Any) -> AsyncIterator[Any]:
        try:
            async with own(app) as state, _running(ms, options):
                yield state
        finally:
            await ms.aclose()

    app.router.lifespan_context = run


def lifespan(
    ms: Mainspring, **options: Unpack[WorkerKeywords]
) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """The same for `FastAPI(lifespan=…)`, which needs FastAPI 0.93 or later. See `attach`."""
    _check_fastapi()

    @asynccontextmanager
    async def run(_: Any) -> AsyncIterator[None]:
        try:
            async with _running(ms, options):
                yield
        finally:
            await ms.aclose()

    return run


@asynccontextmanager
async def _running(ms: Mainspring, options: WorkerKeywords) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    worker = ms.worker(**options) if options else None
    if worker is not None:
        await loop.run_in_executor(None, worker.start)
    try:
        yield
    finally:
        if worker is not None:
            await loop.run_in_executor(None, worker.stop)


def _check_fastapi() -> None:
    """Older versions take any argument, and ignore this one: no worker would run."""
    try:
        import fastapi
    except ImportError:
        return  # the program uses Starlette
    if "lifespan" not in inspect.signature(fastapi.FastAPI.__init__).parameters:
        raise RuntimeError(
            f"FastAPI {fastapi.__version__} ignores lifespan=: use 0.93 or later, or call"
            " attach(app, ms, slots=…) of mainspring.contrib.fastapi"
        )


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
