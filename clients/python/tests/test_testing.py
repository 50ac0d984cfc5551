"""The tools for tests that users get, and the integrations."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from mainspring import AsyncContext, Cancelled, Context, Mainspring, Snooze
from mainspring.testing import (
    all_enqueued,
    assert_enqueued,
    drain,
    perform,
    refute_enqueued,
    wait_for,
)


def test_perform_runs_a_handler_without_a_server() -> None:
    ms = Mainspring("http://127.0.0.1:1")

    @ms.job()
    def order(ctx: Context, n: int) -> Any:
        if n == 0:
            return Snooze("1m")
        ctx.progress(0.5, "half")
        ctx.message({"n": n})
        ctx.checkpoint([n])
        return [ctx.step("charge", lambda: n * 2), ctx.attempt, ctx.last_checkpoint]

    done = perform(order, 3, attempt=2, checkpoint="before", memos={"charge": 7})
    assert done.result == [7, 2, "before"]
    assert (done.progress, done.messages, done.checkpoint) == ([(0.5, "half")], [{"n": 3}], [3])
    assert perform(order, n=3).memos == {"charge": 6}
    assert perform(order, 0).result == Snooze("1m")
    with pytest.raises(Cancelled):
        perform(order, 1, stop="cancelled")

    @ms.job()
    async def later(ctx: AsyncContext, n: int) -> int:
        return await ctx.step("twice", asyncio.sleep, 0, n * 2)

    assert perform(later, 4).result == 8


def test_what_was_enqueued(mainspring: Mainspring, mainspring_queue: str) -> None:
    @mainspring.job(queue=mainspring_queue)
    def mail(ctx: Context, to: str, text: str = "") -> str:
        return to

    refute_enqueued(mainspring, mail)
    job = mail.enqueue("anna", text="hello")
    assert assert_enqueued(mainspring, mail, args={"to": "anna"})["id"] == job.id
    refute_enqueued(mainspring, mail, args={"to": "bob"})
    with pytest.raises(AssertionError, match="anna"):
        assert_enqueued(mainspring, mail, args={"to": "bob"})
    assert len(all_enqueued(mainspring, queue=mainspring_queue)) == 1
    assert drain(mainspring) == 1
    assert wait_for(job, "completed")["result"] == "anna"
    assert all_enqueued(mainspring, queue=mainspring_queue) == []


def test_fastapi_runs_a_worker_for_its_lifetime(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    fastapi = pytest.importorskip("fastapi")
    from mainspring.contrib.fastapi import TraceMiddleware, lifespan

    @mainspring.job(queue=mainspring_queue)
    def hello(ctx: Context) -> dict[str, str]:
        return dict(ctx.headers)

    app = fastapi.FastAPI(lifespan=lifespan(mainspring, slots=2))
    found: list[Any] = []

    async def endpoint(scope: Any, receive: Any, send: Any) -> None:
        found.append(await (await hello.aenqueue()).aresult("10s"))

    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    scope = {"type": "http", "headers": [(b"traceparent", trace.encode())]}

    async def main() -> None:
        context = lifespan(mainspring, slots=2)
        async with context(app):
            await TraceMiddleware(endpoint)(scope, None, None)

    asyncio.run(main())
    assert found == [{"traceparent": trace}]


def test_django_enqueues_on_commit(mainspring: Mainspring, mainspring_queue: str) -> None:
    django = pytest.importorskip("django")
    from django.conf import settings

    if not settings.configured:
        engine = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
        settings.configure(DATABASES={"default": engine}, USE_TZ=True)
        django.setup()
    from django.db import transaction
    from mainspring.contrib.django import on_commit, priority, worker_client

    @mainspring.job(queue=mainspring_queue)
    def receipt(ctx: Context, order: int) -> int:
        return order

    with transaction.atomic():
        on_commit(receipt.new(1))
        refute_enqueued(mainspring, receipt)
    assert_enqueued(mainspring, receipt, args={"order": 1})
    with pytest.raises(RuntimeError), transaction.atomic():
        on_commit(receipt.new(2))
        raise RuntimeError
    refute_enqueued(mainspring, receipt, args={"order": 2})
    assert [priority(n) for n in (-100, 0, 100)] == [9, 4, 0]

    ms = worker_client(mainspring.server.url, (mainspring_queue,))
    args = {"task": f"{__name__}.task_of_django", "args": [2], "kwargs": {"b": 3}}
    job = ms.enqueue(ms.new("django.task", args, queue=mainspring_queue))
    with ms.worker(slots=1):
        assert job.result("10s") == 5


def task_of_django(a: int, b: int) -> int:
    return a + b


def test_a_forgotten_binary_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from mainspring.testing import find_binary

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("MAINSPRING_BINARY", raising=False)
    with pytest.raises(FileNotFoundError, match="MAINSPRING_BINARY"):
        find_binary()
    assert sys.executable
