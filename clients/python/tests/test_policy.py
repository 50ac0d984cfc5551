"""When a failed attempt is tried again, and outcomes that are raised."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Callable

import pytest

from mainspring import (
    AsyncContext,
    Backoff,
    Cancel,
    Complete,
    Context,
    Dead,
    Defer,
    InvalidArgument,
    Mainspring,
    Retry,
    Snooze,
)
from mainspring._policy import Policy
from mainspring.outcomes import OUTCOMES
from mainspring.testing import now, perform, wait_for
from test_worker import helper  # noqa: F401

Start = Callable[..., Any]
ms = Mainspring("http://127.0.0.1:1")


def delays(backoff: Any, attempts: int) -> list[Any]:
    policy = Policy(backoff, None, ())
    return [policy.timed(Retry("x"), n + 1).after for n in range(attempts)]


def test_a_definition_says_how_long_to_wait() -> None:
    assert delays("30s", 3) == [30.0] * 3
    assert delays(["10s", 30, "1m"], 5) == [10.0, 30.0, 60.0, 60.0, 60.0]
    assert delays(lambda attempt: attempt * 2, 3) == [2.0, 4.0, 6.0]
    assert delays(Backoff("1s", 3, "20s", jitter=0), 5) == [1.0, 3.0, 9.0, 20.0, 20.0]
    assert delays(Backoff("1s", 2, "1h", jitter=0), 5000)[-1] == 3600.0
    spread = delays(Backoff("10s", 1, jitter=0.5), 200)
    assert all(5 <= one <= 15 for one in spread) and len(set(spread)) > 100
    assert delays(None, 1) == [None]
    assert Policy("30s", None, ()).timed(Retry("x", after="1s"), 1).after == "1s"


@pytest.mark.parametrize(
    "options, text",
    [
        ({"backoff": "soon"}, 'backoff "soon": must be a duration'),
        ({"backoff": []}, "backoff: must not be empty"),
        ({"backoff": ["1s", -1]}, "backoff -1: must be 0 or more"),
        ({"retry_on": ["OSError"]}, "retry_on 'OSError': must be classes of exceptions"),
        ({"give_up_on": [int]}, "give_up_on <class 'int'>: must be classes"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_at_once(options: dict[str, Any], text: str) -> None:
    for decorate in (ms.job, ms.define):
        with pytest.raises(InvalidArgument, match=text):
            decorate("k", **options)
    for wrong in ({"factor": 0.5}, {"jitter": 2}, {"first": "x"}):
        with pytest.raises(InvalidArgument, match=r"^backoff\."):
            Backoff(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("processes", [False, True])
def test_exceptions_are_retried_later_or_given_up(
    helper: Any, mainspring_worker: Start, processes: bool  # noqa: F811
) -> None:
    names = ["LookupError", "KeyError", "ValueError"]
    retried, given_up, other = [helper.with_policy.enqueue(name) for name in names]
    mainspring_worker(helper.ms, slots=1, processes=processes)
    record = wait_for(retried, "retryable", "60s")
    failed_at = record["errors"][0]["at"][:16]
    assert failed_at < record["run_at"] and record["run_at"] > now(helper.ms).isoformat()
    for job, name in ((given_up, "KeyError"), (other, "ValueError")):
        record = wait_for(job, "dead", "30s")
        assert (record["reason"], record["attempt"]) == ("gave_up", 1)
        assert record["description"].startswith(f"{name}: ")
        assert "helper_jobs.py" in record["description"]


def test_a_stop_of_the_worker_is_no_reason_to_give_up(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    """The exception may be an effect of the stop."""

    @mainspring.job(queue=mainspring_queue, give_up_on=[Exception])
    def stops(ctx: Context) -> None:
        while not ctx.cancelled:
            ctx._port.wait_stop(0.01)
        raise ValueError("closed")

    job = stops.enqueue()
    with mainspring.worker(slots=1, graceful_stop="0s"):
        wait_for(job, "running", "60s")
    assert wait_for(job, "available", "60s")["attempt"] == 0


def test_a_backoff_that_fails_leaves_the_servers(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    def odd(attempt: int) -> float:
        raise OSError("odd")

    @mainspring.job(queue=mainspring_queue, backoff=odd)
    def fails(ctx: Context) -> None:
        raise ValueError("handler")

    job = fails.enqueue()
    mainspring_worker(mainspring, slots=1)
    assert "ValueError: handler" in wait_for(job, "retryable", "30s")["errors"][0]["message"]


RAISED: dict[str, tuple[Any, str]] = {
    "complete": (Complete({"a": 1}), "completed"),
    "retry": (Retry("later", after="1h"), "retryable"),
    "snooze": (Snooze("1h"), "scheduled"),
    "defer": (Defer("wait"), "waiting"),
    "cancel": (Cancel("not needed"), "cancelled"),
    "dead": (Dead("bad_args", "no such user"), "dead"),
}


def test_outcomes_may_be_raised_from_deep_code(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    def deep(how: str) -> None:
        try:
            raise RAISED[how][0]
        except Exception:
            raise AssertionError("swallowed") from None

    @mainspring.job(queue=mainspring_queue)
    def raises(ctx: Context, how: str) -> None:
        deep(how)

    @mainspring.job(queue=mainspring_queue)
    async def raises_in_a_coroutine(ctx: AsyncContext, how: str) -> None:
        deep(how)

    definitions = (raises, raises_in_a_coroutine)
    jobs = [(job.enqueue(how), state) for how, (_, state) in RAISED.items() for job in definitions]
    mainspring_worker(mainspring, slots=2)
    for job, state in jobs:
        wait_for(job, state, "20s")
    assert jobs[0][0].result() == {"a": 1}
    assert jobs[-1][0].get()["reason"] == "bad_args"
    assert perform(raises, "snooze").result == Snooze("1h")


def test_outcomes_are_values_too() -> None:
    for outcome, _ in RAISED.values():
        assert isinstance(outcome, OUTCOMES)
        for same in (copy.copy(outcome), pickle.loads(pickle.dumps(outcome))):
            assert same == outcome and hash(same) == hash(outcome)
        assert repr(outcome) == str(outcome) and type(outcome).__name__ in str(outcome)
    assert Snooze("1h") != Snooze("2h") and Snooze() != Defer()
    assert pickle.loads(pickle.dumps(Retry(error="x", after="2s"))) == Retry("x", "2s")
