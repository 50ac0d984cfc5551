"""Tools for tests: a server of their own, handlers without a server, and what was enqueued.

With pytest the fixtures of `mainspring.pytest_plugin` are the shortest way.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any, Iterator

from . import api
from ._client import Mainspring
from ._context import AsyncContext, Context
from ._jobs import ENDED, Definition, Job
from ._values import Duration, decode, encode, seconds
from .errors import INTERRUPTS, MainspringError, Unavailable


def find_binary() -> str:
    """The server program: MAINSPRING_BINARY, else `mainspring` on the PATH."""
    found = os.environ.get("MAINSPRING_BINARY") or shutil.which("mainspring")
    if not found:
        raise FileNotFoundError(
            "no server program: put mainspring on the PATH or set MAINSPRING_BINARY"
        )
    return found


def serve_command(binary: str, directory: str) -> list[str]:
    """How a server for tests is started: the one place to change when it has a test mode."""
    command = [binary, "serve", "--data", directory, "--listen", "127.0.0.1:0"]
    return [*command, "--log-level", "error", "--restart-allowance", "0s"]


class TestServer:
    """A server with a store in a temporary directory, on a free port."""

    __test__ = False  # not a test of pytest

    def __init__(self, binary: str | None = None) -> None:
        self._directory = tempfile.mkdtemp(prefix="mainspring-test-")
        command = serve_command(binary or find_binary(), self._directory)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"http://[\d.:]+\d", line)
        if found is None:
            self.stop()
            raise Unavailable(f"the server did not start: {' '.join(command)}")
        self.url = found.group(0)

    def client(self, **options: Any) -> Mainspring:
        return Mainspring(self.url, token="", **options)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> TestServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class FakePort:
    """Takes what a handler says, for `perform`."""

    def __init__(self, memos: dict[str, Any], stop: str) -> None:
        self.memos: dict[str, Any] = dict(memos)
        self.stop = stop
        self.said_progress: list[tuple[float, str]] = []
        self.checkpoints: list[Any] = []
        self.messages: list[Any] = []
        self.session_state: Any = None

    def stop_reason(self) -> str:
        return self.stop

    def wait_stop(self, timeout: float) -> str:
        return self.stop

    def progress(self, value: float, text: str) -> None:
        self.said_progress.append((value, text))

    def checkpoint(self, data: bytes) -> None:
        self.checkpoints.append(decode(data))

    def message(self, data: bytes) -> None:
        self.messages.append(decode(data))

    def set_session_state(self, data: bytes) -> None:
        self.session_state = decode(data)

    def flush(self) -> None:
        pass

    def recall(self, name: str) -> bytes | None:
        return encode(self.memos[name]) if name in self.memos else None

    def remember(self, name: str, data: bytes) -> None:
        self.memos[name] = decode(data)


class Performed:
    """What one run of a handler came to."""

    def __init__(self, result: Any, port: FakePort) -> None:
        self.result = result  # what the handler returned: a result or an outcome
        self.progress = port.said_progress
        self.checkpoint = port.checkpoints[-1] if port.checkpoints else None
        self.messages = port.messages
        self.memos = port.memos
        self.session_state = port.session_state


def perform(
    job: Definition[Any, Any],
    *args: Any,
    attempt: int = 1,
    checkpoint: Any = None,
    memos: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    stop: str = "",
    **kwargs: Any,
) -> Performed:
    """Runs a handler here and now, without a server. Its exceptions are raised.

    `memos` are results of steps that earlier attempts kept; `stop` is a stop reason, such as
    "cancelled", that the handler hears.
    """
    if stop and stop not in INTERRUPTS:
        raise ValueError(f'stop "{stop}": must be one of {", ".join(INTERRUPTS)}')
    port = FakePort(memos or {}, stop)
    record = {
        "id": 1,
        "token": attempt,
        "kind": job.kind,
        "queue": job.how.queue or "default",
        "attempt": attempt,
        "max_attempts": job.how.max_attempts or 20,
        "args": decode(encode(job.bind(*args, **kwargs))),  # as it would come from the server
        "checkpoint": checkpoint,
        "headers": headers or {},
    }
    assert job.handler_function is not None, f"{job.kind}: has no handler"
    if not job.is_async:
        result = job.handler_function(Context(record, port), **record["args"])
    else:
        import asyncio

        result = asyncio.run(job.handler_function(AsyncContext(record, port), **record["args"]))
    return Performed(result, port)


def all_enqueued(
    ms: Mainspring,
    job: Definition[Any, Any] | str | None = None,
    *,
    queue: str | None = None,
    args: dict[str, Any] | None = None,
) -> list[api.Job]:
    """The jobs that have not ended, oldest first; of a kind, in a queue, with at least `args`."""
    kind = job.kind if isinstance(job, Definition) else job
    if queue is None and isinstance(job, Definition):
        queue = job.how.queue or "default"
    found = [
        record
        for record in ms.jobs(queue=queue, kind=kind)
        if record["state"] not in ENDED and _has(record.get("args"), args or {})
    ]
    return found[::-1]


def _has(args: Any, wanted: dict[str, Any]) -> bool:
    if not wanted:
        return True
    return isinstance(args, dict) and all(
        name in args and args[name] == value for name, value in wanted.items()
    )


def assert_enqueued(ms: Mainspring, job: Definition[Any, Any] | str, **where: Any) -> Any:
    """Fails unless there is such a job; returns the first one's record."""
    found = all_enqueued(ms, job, **where)
    if not found:
        others = [(r["kind"], r.get("args")) for r in all_enqueued(ms, queue=where.get("queue"))]
        raise AssertionError(f"no job {job!r} with {where} is enqueued; there are {others[:20]}")
    return found[0]


def refute_enqueued(ms: Mainspring, job: Definition[Any, Any] | str, **where: Any) -> None:
    """Fails if there is such a job."""
    found = all_enqueued(ms, job, **where)
    if found:
        raise AssertionError(f"job {found[0]['id']} {job!r} is enqueued: {found[0].get('args')}")


def wait_for(job: Job[Any], state: str, timeout: Duration = "10s") -> api.Job:
    """Waits until the job is in a state, or fails."""
    until = time.monotonic() + seconds(timeout)
    pause = 0.002
    while True:
        record = job.refresh()
        if record["state"] == state:
            return record
        if time.monotonic() > until or record["state"] in ENDED:
            raise AssertionError(f"job {job.id} is {record['state']}, not {state}: {record}")
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


def drain(ms: Mainspring, timeout: Duration = "30s", **options: Any) -> int:
    """Runs the handlers of this program until no job is due. Returns how many jobs ended."""
    until = time.monotonic() + seconds(timeout)
    with ms.worker(**{"slots": 4, "lease": "30s", **options}) as worker:
        while any(_due(ms, queue) for queue in worker.queues):
            if time.monotonic() > until:
                raise AssertionError(f"jobs are still due after {timeout}")
            time.sleep(0.01)
    return sum(worker.stats[name] for name in ("completed", "cancelled", "dead"))


def _due(ms: Mainspring, queue: str) -> bool:
    try:
        counts = ms.queues.get(queue)["counts"]
    except MainspringError as error:
        if error.code == "not_found":
            return False
        raise
    return bool(counts.get("available", 0) or counts.get("running", 0))


def eventually(check: Any, timeout: Duration = "10s") -> Any:
    """Calls `check` until it returns something true, and returns that."""
    until = time.monotonic() + seconds(timeout)
    pause = 0.002
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"not within {timeout}: {check}")
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


def numbered(prefix: str) -> Iterator[str]:
    """prefix-1, prefix-2, …"""
    number = 0
    while True:
        number += 1
        yield f"{prefix}-{number}"
