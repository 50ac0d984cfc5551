"""Handlers whose exceptions and results are odd: each job still ends, and no slot is lost."""

from __future__ import annotations

import logging
from typing import Any, Callable

import pytest

from mainspring import AsyncContext, Complete, Context, JobFailed, Mainspring
from test_worker import helper  # noqa: F401

Start = Callable[..., Any]


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_without_a_text_fails_its_attempt_and_keeps_the_slot(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    @mainspring.job(queue=mainspring_queue, max_attempts=1)
    def odd(ctx: Context) -> None:
        raise NoText

    @mainspring.job(queue=mainspring_queue, max_attempts=1)
    async def odd_coroutine(ctx: AsyncContext) -> None:
        raise NoText

    @mainspring.job(queue=mainspring_queue)
    def after(ctx: Context) -> str:
        return "ran"

    jobs = [odd.enqueue(), odd_coroutine.enqueue()]
    last = after.enqueue()
    mainspring_worker(mainspring, slots=1)
    for job in jobs:
        with pytest.raises(JobFailed, match=r"NoText: \(its __str__ raised RuntimeError\)"):
            job.result("10s")
    assert last.result("10s") == "ran"


def test_a_logging_filter_that_raises_does_not_end_a_slot(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        if "raised an exception" in record.getMessage():
            raise OSError("no log")
        return True

    @mainspring.job(queue=mainspring_queue, max_attempts=1)
    def fails(ctx: Context) -> None:
        raise ValueError("handler")

    @mainspring.job(queue=mainspring_queue, max_attempts=1)
    async def fails_as_coroutine(ctx: AsyncContext) -> None:
        raise ValueError("handler")

    log = logging.getLogger("mainspring.worker")
    log.addFilter(refuse)
    try:
        jobs = [fails.enqueue(), fails_as_coroutine.enqueue(), fails.enqueue()]
        mainspring_worker(mainspring, slots=1)
        for job in jobs:
            with pytest.raises(JobFailed, match="ValueError: handler"):
                job.result("10s")
    finally:
        log.removeFilter(refuse)


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_an_outcome_that_the_server_refuses_makes_the_job_dead_and_spoils_no_other(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    runs: list[str] = []

    @mainspring.job(queue=mainspring_queue)
    def refused(ctx: Context, how: str) -> Any:
        runs.append(how)
        if how == "deep":
            return nested(70)
        if how == "next":
            return Complete(1, next=[mainspring.new("k", {}, queue="no queue!")])
        return how

    jobs: list[Any] = mainspring.enqueue_many([refused.new(how) for how in ("deep", "good", "next")])
    mainspring_worker(mainspring, slots=3)
    assert jobs[1].result("10s") == "good"
    for job, text in ((jobs[0], "deeper than 64 levels"), (jobs[2], "queue")):
        with pytest.raises(JobFailed, match=text) as failed:
            job.result("10s")
        assert (failed.value.state, failed.value.reason) == ("dead", "outcome_refused")
    assert sorted(runs) == ["deep", "good", "next"]


def test_a_result_of_a_process_may_be_json_that_cannot_be_pickled(
    helper: Any, mainspring_worker: Start  # noqa: F811
) -> None:
    job = helper.count.enqueue("abba")
    mainspring_worker(helper.ms, slots=1, processes=True)
    assert job.result("20s") == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    "value, text, stored",
    [
        (float("nan"), "a", {"value": 0.0, "text": "a"}),
        (float("inf"), "a", {"value": 1.0, "text": "a"}),
        (-1, "half of a pair \ud800", {"value": 0.0, "text": "half of a pair ?"}),
    ],
)
def test_odd_progress_is_stored_and_stops_no_other_report(
    mainspring: Mainspring,
    mainspring_queue: str,
    mainspring_worker: Start,
    value: float,
    text: str,
    stored: dict[str, Any],
) -> None:
    @mainspring.job(queue=mainspring_queue)
    def odd(ctx: Context) -> str:
        ctx.progress(value, text)
        ctx.flush()
        return "ran"

    job = odd.enqueue()
    mainspring_worker(mainspring, slots=1)
    assert job.result("10s") == "ran"
    assert job.get().get("progress") == stored
