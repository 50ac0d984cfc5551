"""A job's errors say why its attempts failed: the chain of exceptions, in bounded bytes."""

from __future__ import annotations

import logging
import sys
from typing import Any, Callable

import pytest

from mainspring import AsyncContext, Context, JobFailed, Mainspring
from mainspring._failures import MAX_BYTES, bounded, raised
from test_worker import helper  # noqa: F401

Start = Callable[..., Any]


@pytest.mark.parametrize("how", ["threads", "coroutines", "processes"])
def test_an_error_has_the_traceback_and_the_causes(
    helper: Any,  # noqa: F811
    mainspring_worker: Start,
    caplog: pytest.LogCaptureFixture,
    how: str,
) -> None:
    job = (helper.achains if how == "coroutines" else helper.chains).enqueue()
    with caplog.at_level(logging.ERROR, "mainspring"):
        mainspring_worker(helper.ms, slots=1, processes=how == "processes")
        with pytest.raises(JobFailed) as failed:
            job.result("30s")
    assert str(failed.value).endswith(r": cannot charge (helper_jobs.py:%d)" % helper.CHAIN_LINE)
    message = failed.value.job["errors"][0]["message"]
    first, rest = message.split("\n", 1)
    assert first == f"ValueError: cannot charge (helper_jobs.py:{helper.CHAIN_LINE})"
    for text in ("KeyError: 'no row'", "LookupError: no order", "ValueError: cannot charge",
                 "During handling of the above exception", "the direct cause", "in fail_in_a_chain"):
        assert text in rest
    assert "mainspring/_run.py" not in rest  # frames of the worker say nothing
    if how != "processes":  # those have a log of their own
        record = next(one for one in caplog.records if one.exc_info)
        assert "no row" in logging.Formatter().format(record)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups")
def test_an_error_has_the_exceptions_of_a_group(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    @mainspring.job(queue=mainspring_queue, max_attempts=1)
    async def groups(ctx: AsyncContext) -> None:
        raise ExceptionGroup("two", [ValueError("first of two"), OSError("second of two")])

    job = groups.enqueue()
    mainspring_worker(mainspring, slots=1)
    with pytest.raises(JobFailed, match=r"ExceptionGroup: two \(2 sub-exceptions\)") as failed:
        job.result("30s")
    message = failed.value.job["errors"][0]["message"]
    assert "ValueError: first of two" in message and "OSError: second of two" in message


def deep(n: int) -> None:
    try:
        raise ValueError(f"level {n} " + "x" * 100)
    except ValueError as error:
        if n:
            deep(n - 1)
        raise RuntimeError("outermost") from error


@pytest.mark.parametrize("error", ["chain", "message", "recursion", "wide"])
def test_an_error_is_bounded_and_keeps_both_ends(error: str) -> None:
    def recurse() -> None:
        recurse()

    try:
        if error == "chain":
            deep(150)
        if error == "recursion":
            recurse()
        raise ValueError("é" * 100_000 if error == "message" else "last")
    except (RuntimeError, RecursionError, ValueError) as caught:
        text = raised({"id": 1}, caught)
        name = type(caught).__name__
    assert len(text.encode()) <= MAX_BYTES
    assert text.startswith(f"{name}: ")
    assert name in text[-MAX_BYTES // 3 :] or error == "message"


def test_a_text_is_cut_between_characters() -> None:
    for shift in range(4):
        text = bounded("a" * shift + "€" * 10_000)
        assert len(text.encode()) <= MAX_BYTES and "�" not in text


def test_a_chain_that_cannot_be_shown_leaves_the_exception() -> None:
    class Odd(Exception):
        def __getattribute__(self, name: str) -> Any:
            if name == "__cause__":
                raise OSError("odd")
            return super().__getattribute__(name)

    try:
        raise Odd("kept")
    except Odd as caught:
        assert raised({"id": 1}, caught).startswith("Odd: kept")
