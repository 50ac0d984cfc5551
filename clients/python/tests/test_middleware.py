"""Code around enqueues and attempts, and what is built on it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import sys
import types
from typing import Any, Callable, Iterator

import pytest

from mainspring import AsyncContext, Context, Dead, JobFailed, Mainspring, Middleware, NewJob, Snooze
from mainspring.testing import wait_for
from test_worker import helper  # noqa: F401

Start = Callable[..., Any]


class Notes(Middleware):
    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self.seen = seen

    @contextlib.contextmanager
    def enqueue(self, job: NewJob[Any]) -> Iterator[NewJob[Any]]:
        self.seen.append(f"{self.name} sends")
        yield job.options(tags=[*(job.how.tags or ()), self.name])
        self.seen.append(f"{self.name} sent")

    @contextlib.contextmanager
    def attempt(self, ctx: Context | AsyncContext) -> Iterator[None]:
        self.seen.append(f"{self.name} begins {ctx.kind}")
        try:
            yield
        except BaseException as error:
            self.seen.append(f"{self.name} sees {type(error).__name__}")
            raise
        self.seen.append(f"{self.name} ends")


class Around(Notes):
    enqueue = Middleware.enqueue  # type: ignore[assignment]


def test_middleware_is_around_each_enqueue_and_may_change_the_job(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    seen: list[str] = []
    for name in ("a", "b"):
        mainspring.use(Notes(name, seen))
    new = mainspring.new("k", queue=mainspring_queue)
    jobs = [mainspring.enqueue(new), *mainspring.enqueue_many([new, new])]
    assert seen[:4] == ["a sends", "b sends", "b sent", "a sent"]

    async def main() -> None:
        jobs.append(await mainspring.aenqueue(new))
        jobs.extend(await mainspring.aenqueue_many([new]))
        await mainspring.aclose()

    asyncio.run(main())
    assert len(seen) == 5 * 4
    assert [job.get()["tags"] for job in jobs] == [["a", "b"]] * 5


def test_middleware_is_around_each_attempt(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    seen: list[str] = []

    @mainspring.job(queue=mainspring_queue, max_attempts=1)
    def plain(ctx: Context, how: str) -> str:
        seen.append("handler")
        if how == "raise":
            raise ValueError("no")
        if how == "snooze":
            raise Snooze("1h")
        return how

    @mainspring.job(queue=mainspring_queue)
    async def coroutine(ctx: AsyncContext) -> str:
        await asyncio.sleep(0)
        seen.append("handler")
        return "done"

    mainspring_worker(mainspring, slots=1)
    for name in ("a", "b"):
        mainspring.use(Around(name, seen))
    job = plain.enqueue("good")
    assert job.result("30s") == "good"
    assert seen == ["a begins plain", "b begins plain", "handler", "b ends", "a ends"]
    with pytest.raises(JobFailed):
        plain.enqueue("raise").result("30s")
    assert seen[-2:] == ["b sees ValueError", "a sees ValueError"]
    wait_for(plain.enqueue("snooze"), "scheduled", "30s")
    assert seen[-2:] == ["b sees Snooze", "a sees Snooze"]
    assert coroutine.enqueue().result("30s") == "done"
    assert seen[-3:] == ["handler", "b ends", "a ends"]


def test_middleware_that_fails_fails_the_attempt(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    class Odd(Middleware):
        def attempt(self, ctx: Any) -> Any:
            raise OSError("odd middleware")

    @mainspring.job(queue=mainspring_queue, max_attempts=1)
    def good(ctx: Context) -> None: ...

    mainspring.use(Odd())
    job = good.enqueue()
    mainspring_worker(mainspring, slots=1)
    with pytest.raises(JobFailed, match="OSError: odd middleware"):
        job.result("30s")


def test_middleware_runs_in_the_process_of_a_handler(
    helper: Any, mainspring_worker: Start  # noqa: F811
) -> None:
    mainspring_worker(helper.ms, slots=1, processes=True)
    assert helper.shows_middleware.enqueue().result("60s") == "set by the middleware"


@pytest.mark.parametrize("log_jobs", [True, False])
def test_one_line_for_each_attempt(
    mainspring: Mainspring,
    mainspring_queue: str,
    mainspring_worker: Start,
    caplog: pytest.LogCaptureFixture,
    log_jobs: bool,
) -> None:
    @mainspring.job(queue=mainspring_queue, max_attempts=1)
    def says(ctx: Context, how: str) -> Any:
        if how == "failed":
            raise ValueError
        return Dead("not for us") if how == "dead" else how

    with caplog.at_level(logging.INFO, "mainspring.worker"):
        mainspring_worker(mainspring, slots=1, log_jobs=log_jobs)
        jobs = [says.enqueue(how) for how in ("completed", "failed", "dead")]
        for job, state in zip(jobs, ("completed", "dead", "dead")):
            wait_for(job, state, "30s")
    lines = [one for one in caplog.records if one.getMessage().startswith("job ")]
    if not log_jobs:
        assert lines == []
        return
    assert [one.getMessage() for one in lines] == ["job completed", "job failed", "job dead"]
    assert lines[1].__dict__["why"].startswith("ValueError") and lines[2].__dict__["why"] == "not for us"
    facts = lines[0].__dict__
    assert (facts["job"], facts["kind"], facts["attempt"]) == (jobs[0].id, "says", 1)
    assert facts["queue"] == mainspring_queue and facts["took_ms"] >= 0


def fake_sentry(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """The functions of sentry_sdk that are used, in version 1 or 2."""
    seen: list[Any] = []

    class Scope:
        def set_tag(self, name: str, value: Any) -> None:
            seen.append((name, value))

        def set_context(self, name: str, value: Any) -> None:
            seen.append((name, value["id"]))

    module: Any = types.ModuleType("sentry_sdk")
    setattr(module, name, lambda: contextlib.nullcontext(Scope()))
    module.capture_exception = lambda error: seen.append(error)
    monkeypatch.setitem(sys.modules, "sentry_sdk", module)
    return seen


@pytest.mark.parametrize("scope", ["push_scope", "isolation_scope"])
def test_sentry_gets_exceptions_with_the_job(
    mainspring: Mainspring,
    mainspring_queue: str,
    mainspring_worker: Start,
    monkeypatch: pytest.MonkeyPatch,
    scope: str,
) -> None:
    seen = fake_sentry(monkeypatch, scope)
    monkeypatch.delitem(sys.modules, "mainspring.contrib.sentry", raising=False)
    mainspring.use(importlib.import_module("mainspring.contrib.sentry").SentryMiddleware())
    error = ValueError("no")

    @mainspring.job(queue=mainspring_queue, max_attempts=1)
    def fails(ctx: Context, how: str) -> None:
        if how == "snooze":
            raise Snooze("1h")
        raise error

    mainspring_worker(mainspring, slots=1)
    job = fails.enqueue("raise")
    wait_for(job, "dead", "30s")
    names = ("mainspring.queue", "mainspring.kind", "mainspring.attempt", "mainspring.job")
    assert seen == [*zip(names, (mainspring_queue, "fails", 1, str(job.id))), error]
    wait_for(fails.enqueue("snooze"), "scheduled", "30s")
    assert seen.count(error) == 1
    sys.modules.pop("mainspring.contrib.sentry")


def test_the_real_sentry(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    sentry_sdk = pytest.importorskip("sentry_sdk")
    from mainspring.contrib.sentry import SentryMiddleware

    events: list[Any] = []
    sentry_sdk.init(
        dsn="https://key@localhost/1", transport=lambda event: events.append(event),
        default_integrations=False, debug=False,
    )  # fmt: skip
    try:
        mainspring.use(SentryMiddleware())

        @mainspring.job(queue=mainspring_queue, max_attempts=1)
        def fails(ctx: Context) -> None:
            raise ValueError("for sentry")

        mainspring_worker(mainspring, slots=1)
        job = fails.enqueue()
        wait_for(job, "dead", "30s")
    finally:
        sentry_sdk.init()
    [event] = events
    event = getattr(event, "get_event", lambda: event)()
    assert event["exception"]["values"][-1]["value"] == "for sentry"
    assert event["tags"]["mainspring.kind"] == "fails"


def test_opentelemetry_spans_belong_to_the_trace_of_the_job(
    mainspring: Mainspring,
    mainspring_queue: str,
    mainspring_worker: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With fakes of the functions that are used: Debian 12 has no opentelemetry."""
    trace_of = "00-0af7651916cd43dd8448eb211c80319c-{}-01"
    spans: list[Any] = []
    current: list[str] = []

    class Tracer:
        @contextlib.contextmanager
        def start_as_current_span(self, name: str, **how: Any) -> Iterator[None]:
            spans.append((name, how["kind"], how.get("context"), how["attributes"]))
            current.append(trace_of.format(f"{len(spans):016x}"))
            yield
            current.pop()

    def inject(carrier: dict[str, str]) -> None:
        if current:
            carrier["traceparent"] = current[-1]

    trace: Any = types.ModuleType("opentelemetry.trace")
    trace.get_tracer = lambda name: Tracer()
    trace.SpanKind = types.SimpleNamespace(PRODUCER="producer", CONSUMER="consumer")
    propagate: Any = types.ModuleType("opentelemetry.propagate")
    propagate.inject = inject
    propagate.extract = lambda headers: headers.get("traceparent")
    package: Any = types.ModuleType("opentelemetry")
    package.trace, package.propagate = trace, propagate
    for module in (package, trace, propagate):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    name = "mainspring.contrib.opentelemetry"
    mainspring.use(importlib.import_module(name).OpenTelemetryMiddleware())
    sys.modules.pop(name)

    @mainspring.job(queue=mainspring_queue)
    def traced(ctx: Context) -> str:
        return ctx.headers["traceparent"]

    job = traced.enqueue()
    mainspring_worker(mainspring, slots=1)
    assert job.result("30s") == trace_of.format("0000000000000001")
    [send, process] = spans
    assert send[:2] == (f"send {mainspring_queue}", "producer")
    assert process[:3] == (f"process {mainspring_queue}", "consumer", job.result())
    assert process[3]["messaging.message.id"] == str(job.id)
