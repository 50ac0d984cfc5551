"""A worker that lives as long as a program of FastAPI or Starlette."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
from typing import Any, AsyncIterator

import pytest

from mainspring import Context, Mainspring
from mainspring._worker import Worker
from mainspring.contrib.fastapi import TraceMiddleware, attach, lifespan

fastapi = pytest.importorskip("fastapi")
starlette = pytest.importorskip("starlette.applications")
testclient = pytest.importorskip("starlette.testclient")
has_lifespan = "lifespan" in inspect.signature(fastapi.FastAPI.__init__).parameters


def served(app: Any, job: Any) -> Any:
    """The result of a job that is enqueued while the program is served."""
    with testclient.TestClient(app):
        return job.enqueue(1).result("10s")


@pytest.fixture
def add(mainspring: Mainspring, mainspring_queue: str) -> Any:
    @mainspring.job(queue=mainspring_queue)
    def add(ctx: Context, n: int) -> int:
        return n + 1

    return add


@pytest.mark.parametrize("program", [fastapi.FastAPI, starlette.Starlette])
def test_attach_runs_a_worker_with_a_program(
    mainspring: Mainspring, add: Any, program: Any
) -> None:
    app = program()
    attach(app, mainspring, slots=2)
    assert served(app, add) == 2


def test_attach_keeps_handlers_and_lifespans_of_the_program(
    mainspring: Mainspring, add: Any
) -> None:
    seen: list[str] = []
    app = starlette.Starlette(on_startup=[lambda: seen.append("handler")])
    attach(app, mainspring, slots=2)
    assert served(app, add) == 2

    @contextlib.asynccontextmanager
    async def own(_: Any) -> AsyncIterator[dict[str, str]]:
        seen.append("start")
        yield {"name": "own"}
        seen.append("end")

    app = starlette.Starlette(lifespan=own)
    attach(app, mainspring, slots=2)
    assert served(app, add) == 2
    assert seen == ["handler", "start", "end"]


def test_the_worker_runs_between_the_start_and_the_end_of_the_program(
    mainspring: Mainspring, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    start, stop = Worker.start, Worker.stop
    monkeypatch.setattr(Worker, "start", lambda self: (seen.append("worker starts"), start(self)))
    monkeypatch.setattr(Worker, "stop", lambda self: (stop(self), seen.append("worker stopped")))

    @contextlib.asynccontextmanager
    async def own(_: Any) -> AsyncIterator[None]:
        seen.append("program started")
        yield
        seen.append("program ends")

    app = starlette.Starlette(lifespan=own)
    attach(app, mainspring, slots=2)
    assert served(app, add) == 2
    assert seen == ["program started", "worker starts", "worker stopped", "program ends"]


def test_lifespan_runs_a_worker_or_says_why_not(mainspring: Mainspring, add: Any) -> None:
    if has_lifespan:
        assert served(fastapi.FastAPI(lifespan=lifespan(mainspring, slots=2)), add) == 2
        return
    with pytest.raises(RuntimeError, match=r"FastAPI 0\.\d+\.\d+ ignores lifespan=: .* attach\("):
        fastapi.FastAPI(lifespan=lifespan(mainspring, slots=2))


def test_without_an_old_fastapi_lifespan_is_for_starlette(
    mainspring: Mainspring, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)  # not installed
    assert served(starlette.Starlette(lifespan=lifespan(mainspring, slots=2)), add) == 2


def test_jobs_of_a_request_carry_its_trace(mainspring: Mainspring, mainspring_queue: str) -> None:
    @mainspring.job(queue=mainspring_queue)
    def hello(ctx: Context) -> dict[str, str]:
        return dict(ctx.headers)

    found: list[Any] = []

    async def endpoint(scope: Any, receive: Any, send: Any) -> None:
        found.append(await (await hello.aenqueue()).aresult("10s"))

    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    scope = {"type": "http", "headers": [(b"traceparent", trace.encode())]}

    async def main() -> None:
        app = fastapi.FastAPI()
        attach(app, mainspring, slots=2)
        async with app.router.lifespan_context(app):
            await TraceMiddleware(endpoint)(scope, None, None)

    asyncio.run(main())
    assert found == [{"traceparent": trace}]
