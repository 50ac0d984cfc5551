"""A context is dead once its handler has ended: nothing of one attempt reaches another."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable

import pytest

import helper_jobs
from mainspring import AsyncContext, AttemptEnded, Context, Mainspring
from mainspring.testing import perform
from test_worker import helper  # noqa: F401

Start = Callable[..., Any]
ALL_REFUSED = [f"{name}: AttemptEnded" for name in helper_jobs.LATE]


@pytest.mark.parametrize("processes", [False, True])
def test_late_calls_of_a_thread_do_not_reach_the_next_job_of_its_slot(
    helper: Any, mainspring_worker: Start, processes: bool  # noqa: F811
) -> None:
    first, second = helper.leaves_a_thread.enqueue(), helper.after_the_thread.enqueue()
    mainspring_worker(helper.ms, slots=1, processes=processes)
    assert second.result("30s") == ["second", ALL_REFUSED]
    for job in (first, second):
        record = job.get()
        assert "progress" not in record and "checkpoint" not in record


@pytest.mark.parametrize("processes", [False, True])
def test_calls_of_a_fork_reach_no_attempt(
    helper: Any, mainspring_worker: Start, processes: bool  # noqa: F811
) -> None:
    job = helper.leaves_a_fork.enqueue()
    mainspring_worker(helper.ms, slots=1, processes=processes)
    assert job.result("30s") == [ALL_REFUSED, "second"]
    record = job.get()
    assert "progress" not in record and "checkpoint" not in record


def test_a_thread_that_reports_when_its_handler_returns_causes_no_endless_renewals(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    errors: list[BaseException] = []
    threads: list[threading.Thread] = []

    @mainspring.job(queue=mainspring_queue)
    def leaves(ctx: Context) -> str:
        def report() -> None:
            try:
                for number in range(1_000_000):
                    ctx.step(f"s{number}", lambda: number)  # noqa: B023
                    ctx.checkpoint(number)
            except BaseException as error:
                errors.append(error)

        threads.append(threading.Thread(target=report))
        threads[0].start()
        ctx.step("one", lambda: 1)
        return "done"

    job = leaves.enqueue()
    worker = mainspring_worker(mainspring, slots=1)
    assert job.result("30s") == "done"
    threads[0].join(30)
    [error] = errors
    assert isinstance(error, AttemptEnded) and f"job {job.id}" in str(error)
    with worker.reports._mutex:
        assert worker.reports._dirty == {}


def test_a_thread_that_sleeps_wakes_when_its_handler_returns(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    seen: list[Any] = []
    asleep = threading.Event()
    threads: list[threading.Thread] = []

    @mainspring.job(queue=mainspring_queue)
    def leaves(ctx: Context) -> None:
        def sleep() -> None:
            asleep.set()
            try:
                ctx.sleep("1h")
            except AttemptEnded as error:
                seen.extend([error.code, ctx.cancelled, ctx.stop_reason])

        threads.append(threading.Thread(target=sleep))
        threads[0].start()
        asleep.wait(30)

    job = leaves.enqueue()
    mainspring_worker(mainspring, slots=1)
    job.result("30s")
    threads[0].join(30)
    assert seen == ["attempt_ended", True, "ended"]


def test_a_task_that_a_coroutine_left_is_refused(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    over, refused = threading.Event(), threading.Event()
    left: list[asyncio.Task[None]] = []

    @mainspring.job(queue=mainspring_queue)
    async def leaves(ctx: AsyncContext) -> None:
        async def late() -> None:
            while not over.is_set():
                await asyncio.sleep(0.01)
            calls: list[Callable[[], Any]] = [
                lambda: ctx.step("charge", asyncio.sleep, 0),
                lambda: ctx.checkpoint(1),
                lambda: ctx.message(1),
                ctx.flush,
                lambda: ctx.sleep(0),
                lambda: ctx.run(["true"]),
                lambda: anext(ctx.results([1])),
            ]
            for call in calls:
                with pytest.raises(AttemptEnded):
                    await call()
            with pytest.raises(AttemptEnded):
                ctx.progress(0.5)
            refused.set()

        left.append(asyncio.create_task(late()))

    job = leaves.enqueue()
    mainspring_worker(mainspring, slots=1)
    job.result("30s")
    over.set()
    assert refused.wait(30)


def test_perform_ends_its_context_too() -> None:
    kept: list[Context] = []
    ms = Mainspring("http://127.0.0.1:1")

    @ms.job()
    def keeps(ctx: Context) -> None:
        kept.append(ctx)

    perform(keeps)
    assert helper_jobs.use_late(kept[0]) == ALL_REFUSED
