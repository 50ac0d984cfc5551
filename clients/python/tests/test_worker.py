"""The worker against a real server: tests beyond the conformance cases."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Iterator

import pytest

from mainspring import (
    AsyncContext,
    Context,
    InvalidArgument,
    JobFailed,
    Mainspring,
    MainspringError,
    NewJob,
    Options,
    ResultTimeout,
    Retry,
    Snooze,
)
from mainspring._logs import JsonLines
from mainspring.testing import TestServer, eventually, wait_for

Start = Callable[..., Any]
HERE = pathlib.Path(__file__).parent
SOURCE = HERE.parent / "src"


@pytest.fixture
def helper(
    mainspring_server: TestServer, mainspring_queue: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """The module helper_jobs with its own queue; also for processes."""
    monkeypatch.setenv("MAINSPRING_SERVER", mainspring_server.url)
    monkeypatch.setenv("MAINSPRING_ACCESS_TOKEN", "")
    monkeypatch.setenv("HELPER_QUEUE", mainspring_queue)
    monkeypatch.setenv("PYTHONPATH", f"{SOURCE}:{HERE}")
    import helper_jobs

    yield importlib.reload(helper_jobs)


def regex_of(seconds: float) -> int:
    """The length for helper_jobs.block that takes at least this long on this machine."""
    length = 18
    while True:
        began = time.thread_time()  # a busy machine must not make the length too short
        re.match("(a+)+$", "a" * length + "b")
        took = time.thread_time() - began
        if took > 0.05:
            while took < seconds:
                took *= 2
                length += 1
            return length
        length += 1


def test_leases_are_renewed_while_a_handler_holds_the_interpreters_lock(
    helper: Any, mainspring_worker: Start
) -> None:
    job = helper.block.enqueue(regex_of(8))
    mainspring_worker(helper.ms, slots=1, lease="4s")
    took = job.result("120s")
    assert took > 5.5  # longer than the lease and the server's patience
    record = job.get()
    assert record["attempt"] == 1 and not record.get("errors")


def test_the_server_lists_what_a_worker_reports(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    @mainspring.job(queue=mainspring_queue)
    def nothing(ctx: Context) -> None: ...

    worker = mainspring_worker(mainspring, slots=3, version="v1.4")

    def listed() -> Any:
        workers = mainspring.request("GET", "/v1/workers")["workers"]
        return next((one for one in workers if one["id"] == worker.incarnation), None)

    eventually(lambda: listed() is not None)
    found = listed()
    assert found["pid"] == os.getpid()
    assert found["version"] == "v1.4"
    assert found["language"].startswith("Python 3.")
    assert found["slots"] == 3
    assert found["host"]
    with pytest.raises(InvalidArgument, match="version"):
        mainspring_worker(mainspring, version="v" * 101)
    with pytest.raises(InvalidArgument, match="version"):
        mainspring_worker(mainspring, version="v\n1")


def test_without_a_process_of_their_own_renewals_starve(
    helper: Any, mainspring_worker: Start
) -> None:
    """The same with a thread. Shows that the test above can fail."""
    job = helper.block.enqueue(regex_of(2.5))
    worker = mainspring_worker(helper.ms, slots=1, lease="1s", renewals="thread")
    eventually(lambda: worker.stats["stale"] or job.get().get("errors"), "30s")


def test_a_renewing_process_that_ends_is_replaced(
    helper: Any, mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    gate = threading.Event()

    @mainspring.job(queue=mainspring_queue)
    def waits(ctx: Context) -> str:
        while not gate.wait(0.01):
            ctx.check()
        return "kept"

    job = waits.enqueue()
    worker = mainspring_worker(mainspring, slots=1, lease="2s")
    wait_for(job, "running")
    first = worker.link.pid
    os.kill(first, signal.SIGKILL)
    eventually(lambda: worker.link.pid not in (0, first))
    renewals = worker.stats["renews"]
    eventually(lambda: worker.stats["renews"] > renewals + 2)
    gate.set()
    assert job.result("10s") == "kept"
    assert job.get()["attempt"] == 1


def test_the_renewing_process_ends_with_its_worker(
    helper: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELPER_FILE", str(tmp_path / "started"))
    helper.slow.enqueue("deaf")
    command = [sys.executable, "-m", "mainspring", "work", "helper_jobs", "--slots", "1"]
    process = subprocess.Popen([*command, "--lease", "1s"])
    eventually(lambda: (tmp_path / "started").exists(), "15s")
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    found = [int(pid) for pid in children.read_text().split()]
    assert len(found) == 1
    process.kill()
    process.wait()
    eventually(lambda: not pathlib.Path(f"/proc/{found[0]}/cmdline").exists())


@pytest.mark.parametrize("how, text", [("kill", "SIGKILL"), ("exit", "exited with 3")])
def test_a_handler_that_ends_its_process_fails_alone(
    helper: Any, mainspring_worker: Start, how: str, text: str
) -> None:
    job = helper.crash.enqueue(how)
    other = helper.steps.enqueue(4)
    mainspring_worker(helper.ms, slots=2, processes=True)
    pid, twice = other.result("20s")
    assert twice == 8 and pid != os.getpid()
    eventually(lambda: job.get().get("errors"), "30s")
    if job.get()["state"] == "retryable":
        job.retry()
    assert job.result("30s") == f"after {how}"
    assert text in job.get()["errors"][0]["message"]
    assert other.get()["progress"]["text"] == "half"


def test_a_handler_in_a_process_is_killed_after_its_time_limit(
    helper: Any, mainspring_worker: Start
) -> None:
    job = helper.never.enqueue()
    mainspring_worker(helper.ms, slots=1, processes=True)
    with pytest.raises(JobFailed, match="limit of 1s"):
        job.result("20s")


def test_sigterm_gives_back_what_listens_and_exits_with_0(
    helper: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, job = _start_slow(helper, tmp_path, monkeypatch, "listens")
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 0
    record = job.get()
    assert (record["state"], record["attempt"]) == ("available", 0)


def test_sigterm_gives_back_a_deaf_handlers_job_once_its_process_has_ended(
    helper: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, job = _start_slow(helper, tmp_path, monkeypatch, "deaf")
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 75
    record = wait_for(job, "available")
    assert record["attempt"] == 0


def test_an_outcome_after_the_stop_of_an_embedded_worker_is_still_sent(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    gate, started = threading.Event(), threading.Event()

    @mainspring.job(queue=mainspring_queue)
    def deaf(ctx: Context) -> str:
        started.set()
        gate.wait(30)
        return "late"

    job = deaf.enqueue()
    worker = mainspring.worker(slots=1, graceful_stop="200ms")
    worker.start()
    assert started.wait(60)  # a job is running for the server before its handler starts
    assert worker.stop() is False
    gate.set()
    assert job.result("10s") == "late"


def _start_slow(
    helper: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> tuple[subprocess.Popen[bytes], Any]:
    monkeypatch.setenv("HELPER_FILE", str(tmp_path / "started"))
    job = helper.slow.enqueue(how)
    command = [sys.executable, "-m", "mainspring", "work", "helper_jobs", "--slots", "1"]
    process = subprocess.Popen([*command, "--graceful-stop", "1s", "--log", "json"])
    eventually(lambda: (tmp_path / "started").exists(), "15s")
    return process, job


def test_a_module_that_is_missing_is_named(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "mainspring", "work", "nosuch"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 64
    assert done.stderr == f"mainspring: there is no module nosuch in {tmp_path}\n"


def test_a_queue_that_was_never_used_is_named(helper: Any) -> None:
    command = [sys.executable, "-m", "mainspring", "work", "helper_jobs", "--queue", "typo"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "never been used" in line)
        assert line == 'mainspring: warning: queue "typo" has never been used: check its name\n'
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_a_result_that_does_not_come_in_time_says_what_the_job_waits_for(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    job = mainspring.enqueue(NewJob("lonely", {}, Options(queue=mainspring_queue)))
    begins = f"job {job.id} has not ended within 50ms: it is available: "
    with pytest.raises(ResultTimeout, match=begins + f".*{mainspring_queue}"):
        job.result("50ms")
    with pytest.raises(ResultTimeout, match=begins):
        asyncio.run(job.aresult(0.05))


def test_what_is_tried_again_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with Mainspring("http://127.0.0.1:1", retry_for=3) as ms, pytest.raises(MainspringError):
        ms.enqueue(NewJob("k"))
    [record] = [one for one in caplog.records if "trying again" in one.getMessage()]
    assert record.getMessage().startswith("POST /v1/jobs failed: no connection to http://127")


def test_watch_starts_the_worker_again_when_a_file_changes(
    mainspring_server: TestServer,
    mainspring: Mainspring,
    mainspring_queue: str,
    tmp_path: pathlib.Path,
) -> None:
    module = tmp_path / "watched.py"
    text = f"""
from mainspring import Mainspring
ms = Mainspring({mainspring_server.url!r})
@ms.job("watched", queue={mainspring_queue!r})
def watched(ctx):
    return 1
"""
    module.write_text(text)
    command = [sys.executable, "-m", "mainspring", "work", "watched", "--watch", "--slots", "1"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        new = mainspring.new("watched", queue=mainspring_queue)
        assert mainspring.enqueue(new).result("20s") == 1
        module.write_text(text.replace("return 1", "return 2"))
        eventually(lambda: mainspring.enqueue(new).result("20s") == 2, "30s")
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_handlers_are_typed_by_name_and_newer_producers_may_send_more(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    @mainspring.job(queue=mainspring_queue, max_attempts=1)
    def add(ctx: Context, a: int, b: int = 2) -> int:
        return a + b

    assert add(None, 1, 5) == 6  # still the function
    jobs = [
        add.enqueue(1),
        add.enqueue(b=3, a=1),
        mainspring.enqueue(mainspring.new("add", {"a": 1, "c": 9}, queue=mainspring_queue)),
    ]
    bad = mainspring.enqueue(
        mainspring.new("add", {"b": 1}, queue=mainspring_queue, max_attempts=1)
    )
    mainspring_worker(mainspring)
    assert [job.result("10s") for job in jobs] == [3, 4, 3]
    with pytest.raises(JobFailed, match="args.a: is missing"):
        bad.result("10s")
    for arguments in [(), (1, 2, 3)]:
        with pytest.raises(InvalidArgument, match="add"):
            add.enqueue(*arguments)


def test_enqueue_many_takes_any_iterable_of_new_jobs_and_nothing_else(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    @mainspring.job(queue=mainspring_queue)
    def one(ctx: Context, n: int) -> None: ...

    assert len(mainspring.enqueue_many(one.new(n) for n in range(3))) == 3
    assert asyncio.run(mainspring.aenqueue_many(iter([one.new(1)])))
    assert mainspring.enqueue_many(iter(())) == []
    wrong: Any = [one.new(1), one]
    with pytest.raises(InvalidArgument, match=r"jobs\[1\] <job one>: must be a new job"):
        mainspring.enqueue_many(wrong)
    with pytest.raises(InvalidArgument, match="job <job one>: must be a new job"):
        mainspring.enqueue(wrong[1])
    with pytest.raises(InvalidArgument, match="slots 4: must be a whole number"):
        mainspring.worker(slots="4")


def test_a_definition_is_enough_to_enqueue_and_the_handler_comes_later(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    @mainspring.define(queue=mainspring_queue, max_attempts=3)
    def resize(path: str, width: int = 200) -> dict[str, Any]: ...  # type: ignore[empty-body]

    job = resize.options(priority=1, key="a.jpg").enqueue("a.jpg", width=7)
    assert resize.options(key="a.jpg").enqueue("a.jpg").duplicate
    with pytest.raises(InvalidArgument, match="no handler"):
        mainspring.worker()

    @resize.handler
    def run(ctx: Context, path: str, width: int = 200) -> dict[str, Any]:
        return {"path": path, "width": width, "priority": ctx.job["priority"]}

    mainspring_worker(mainspring)
    assert job.result("10s") == {"path": "a.jpg", "width": 7, "priority": 1}


def test_coroutines_run_side_by_side_and_are_cancelled_where_they_wait(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    running: set[int] = set()
    most: list[int] = []

    @mainspring.job(queue=mainspring_queue)
    async def waits(ctx: AsyncContext, n: int) -> int:
        running.add(n)
        most.append(len(running))
        await asyncio.sleep(0.2 if n else 60)
        running.discard(n)
        return n

    mainspring_worker(mainspring, slots=20, lease="1s")
    jobs = [waits.enqueue(n) for n in range(1, 11)]
    forever = waits.enqueue(0)
    assert [job.result("10s") for job in jobs] == list(range(1, 11))
    assert max(most) > 3
    forever.cancel("enough")
    with pytest.raises(JobFailed, match="enough"):
        forever.result("10s")


def test_async_client(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    @mainspring.job(queue=mainspring_queue)
    async def double(ctx: AsyncContext, n: int) -> int:
        return await ctx.step("double", asyncio.sleep, 0, n * 2)

    mainspring_worker(mainspring)

    async def main() -> list[int]:
        one = await double.aenqueue(1)
        many = await mainspring.aenqueue_many([double.new(n) for n in (2, 3)])
        results = [await job.aresult("10s") for job in (one, *many)]
        await mainspring.aclose()
        return results

    assert asyncio.run(main()) == [2, 4, 6]
    assert asyncio.run(main()) == [2, 4, 6]  # in another event loop


def test_except_exception_does_not_swallow_a_cancel(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    @mainspring.job(queue=mainspring_queue)
    def stubborn(ctx: Context) -> None:
        while True:
            try:
                ctx.progress(0.1)
                time.sleep(0.01)
            except Exception:
                continue

    job = stubborn.enqueue()
    mainspring_worker(mainspring, lease="1s")
    wait_for(job, "running")
    job.cancel("stop")
    with pytest.raises(JobFailed, match="stop"):
        job.result("10s")


def test_enqueue_in_a_handler_carries_the_trace_and_logs_carry_the_job(
    mainspring: Mainspring,
    mainspring_queue: str,
    mainspring_worker: Start,
    caplog: pytest.LogCaptureFixture,
) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    @mainspring.job(queue=mainspring_queue)
    def parent(ctx: Context) -> int:
        ctx.log.warning("hello")
        return mainspring.enqueue(mainspring.new("child", queue="unclaimed")).id

    with caplog.at_level(logging.WARNING, "mainspring"):
        job = parent.options(headers={"traceparent": trace}).enqueue()
        mainspring_worker(mainspring)
        child = job.result("10s")
    assert mainspring.get(child)["headers"] == {"traceparent": trace}
    record = next(r for r in caplog.records if r.getMessage() == "hello")
    line = json.loads(JsonLines().format(record))
    assert (line["job"], line["kind"], line["attempt"]) == (job.id, "parent", 1)


def test_a_handler_may_say_when_to_try_again(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    @mainspring.job(queue=mainspring_queue)
    def later(ctx: Context, n: int) -> Any:
        return Snooze("1h") if n else Retry("not yet", after="1h")

    snoozed, failed = later.enqueue(1), later.enqueue(0)
    mainspring_worker(mainspring)
    assert wait_for(snoozed, "scheduled")["attempt"] == 0
    assert wait_for(failed, "retryable")["errors"][0]["message"] == "not yet"


def test_importing_the_client_is_cheap() -> None:
    """It loads none of the modules that take long: they are loaded when they are needed."""
    slow = {"asyncio", "email", "http", "httpx", "logging", "random", "socket", "ssl"}
    slow |= {"multiprocessing", "subprocess", "mainspring._worker", "mainspring.api"}
    code = "import sys, mainspring; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", code]
    loaded = set(subprocess.check_output(command, env=environment, text=True).split())
    assert "mainspring" in loaded and loaded & slow == set()
