"""The testing tools for users, and the integrations."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
from typing import Any, Callable

import pytest

from mainspring import AsyncContext, Cancelled, Context, Mainspring, Snooze, Unavailable
from mainspring.testing import (
    Namespace,
    NotIdempotent,
    TestServer,
    advance,
    all_enqueued,
    assert_enqueued,
    assert_idempotent,
    chaos,
    drain,
    eventually,
    now,
    perform,
    refute_enqueued,
    wait_for,
)

Start = Callable[..., Any]


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


def test_django_enqueues_on_commit(mainspring: Mainspring, mainspring_queue: str) -> None:
    django = pytest.importorskip("django")
    from django.conf import settings

    if not settings.configured:
        engine = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
        settings.configure(DATABASES={"default": engine}, USE_TZ=True)
        django.setup()
    from django.db import transaction
    from django.utils.connection import ConnectionDoesNotExist
    from mainspring.contrib.django import job_client, on_commit, priority

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
    with transaction.atomic():  # of the database "default" only
        on_commit(receipt.new(3), using="default")
        refute_enqueued(mainspring, receipt, args={"order": 3})
    assert_enqueued(mainspring, receipt, args={"order": 3})
    with pytest.raises(ConnectionDoesNotExist):
        on_commit(receipt.new(4), using="other")
    assert [priority(n) for n in (-100, 0, 100)] == [9, 4, 0]
    other = Mainspring("http://127.0.0.1:1")  # another client with the same kind
    other.job("receipt")(lambda ctx: None)
    assert job_client(receipt.new(1)) is mainspring
    assert job_client(receipt.options(priority=1).new(1)) is mainspring
    assert job_client(other.new("receipt")) is other


def test_a_forgotten_binary_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from mainspring.testing import find_binary

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("MAINSPRING_BINARY", raising=False)
    with pytest.raises(FileNotFoundError, match="MAINSPRING_BINARY"):
        find_binary()
    assert sys.executable


def test_an_advance_fires_what_is_due_in_order(
    mainspring: Mainspring, mainspring_namespace: Namespace, mainspring_worker: Start
) -> None:
    ran: list[str] = []

    @mainspring.job(queue=mainspring_namespace.queue("mail"), max_attempts=3)
    def mail(ctx: Context, to: str) -> None:
        ran.append(to)
        if to == "bob" and ctx.attempt == 1:
            raise RuntimeError("not now")

    late = mail.options(delay="3h").enqueue("anna")
    early = mail.options(delay="1h").enqueue("bob")
    mainspring_worker(mainspring)
    before = now(mainspring)
    fired = advance(mainspring, "4h")
    mine = [(one.what, one.job) for one in fired if one.job in (late.id, early.id)]
    assert mine == [("scheduled", early.id), ("retry", early.id), ("scheduled", late.id)]
    assert (now(mainspring) - before).total_seconds() >= 4 * 3600
    mainspring_namespace.drain()
    assert ran == ["bob", "bob", "anna"]


def test_a_lease_of_a_handler_that_runs_outlasts_an_advance(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    running, release = threading.Event(), threading.Event()

    @mainspring.job(queue=mainspring_queue)
    def slow(ctx: Context) -> int:
        running.set()
        release.wait(30)
        return ctx.attempt

    job = slow.enqueue()
    mainspring_worker(mainspring, slots=2)
    assert running.wait(30)
    eventually(lambda: any(w["parked"] for w in mainspring.request("GET", "/v1/workers")["workers"]))
    assert [one for one in advance(mainspring, "25h", settle="0s") if one.job == job.id] == []
    release.set()
    assert job.result("10s") == 1


def test_under_chaos_every_job_completes_and_the_seed_is_printed(
    mainspring: Mainspring,
    mainspring_namespace: Namespace,
    mainspring_worker: Start,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs: list[int] = []

    @mainspring.job(queue=mainspring_namespace.queue("numbers"))
    def square(ctx: Context, n: int) -> int:
        runs.append(n)
        return n * n

    mainspring_worker(mainspring, slots=4)
    faults = {"duplicate_delivery": 0.3, "lost_lease": 0.3, "lost_finish": 0.3}
    with chaos(mainspring, 7, namespace=mainspring_namespace, **faults):
        jobs = [square.enqueue(n) for n in range(40)]
        for job in jobs:
            wait_for(job, "completed", "30s")
    assert [job.result("10s") for job in jobs] == [n * n for n in range(40)]
    assert len(runs) > 40
    assert "chaos: seed 7" in capsys.readouterr().out


def test_assert_idempotent_catches_a_handler_that_adds(mainspring: Mainspring) -> None:
    seen: list[str] = []

    @mainspring.job()
    def add(ctx: Context, to: str) -> None:
        seen.append(to)

    @mainspring.job()
    async def once(ctx: AsyncContext, to: str) -> None:
        await ctx.step("add", lambda: seen.append(to))

    @mainspring.job()
    def fails(ctx: Context) -> None:
        raise RuntimeError("no stamp")

    with pytest.raises(NotIdempotent, match=r"after one run there was \['a'\], after a second run"):
        assert_idempotent(mainspring, add, {"to": "a"}, lambda: seen)
    seen.clear()
    assert_idempotent(mainspring, once, {"to": "b"}, lambda: seen)
    assert seen == ["b"]
    with pytest.raises(AssertionError, match="fails failed in run 1"):
        assert_idempotent(mainspring, fails, {}, lambda: 0)


@pytest.mark.parametrize(
    "options", [{"delay": "1h"}, {"run_at": "2999-01-01T00:00:00Z"}, {"idempotency_key": "k"}]
)
def test_assert_idempotent_runs_a_job_at_once_and_again(
    mainspring: Mainspring, options: dict[str, Any]
) -> None:
    seen: set[str] = set()

    @mainspring.job("later", max_attempts=1, **options)
    def later(ctx: Context, to: str) -> None:
        seen.add(to)

    for _ in range(2):
        assert_idempotent(mainspring, later, {"to": "a"}, lambda: seen)


def test_a_server_that_crashes_is_there_again_with_its_jobs() -> None:
    with TestServer(seed=3) as server, server.client() as ms:
        assert server.seed == 3
        job = ms.enqueue(ms.new("later", queue="q"))
        advance(ms, "1h")
        time = now(ms)
        with contextlib.suppress(Unavailable):  # the answer may be lost with the server
            ms.request("POST", "/v1/test/faults", {"crash": True})
        eventually(lambda: len({ms.get(job.id)["state"] for _ in range(20)}) == 1)
        assert ms.get(job.id)["state"] == "available"
        assert now(ms) >= time


def test_a_server_ends_and_removes_its_store_when_the_tests_are_killed() -> None:
    program = (
        "import os, signal, sys\n"
        "from mainspring.testing import TestServer\n"
        "server = TestServer()\n"
        "print(server.pid, server.url, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    source = str(pathlib.Path(__file__).resolve().parents[1] / "src")
    environment = {**os.environ, "PYTHONPATH": source}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    pid, url = done.stdout.split()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))
    with pytest.raises(Exception, match="connect|refused|reach"):
        Mainspring(url, token="", retry_for=0).get(1)
