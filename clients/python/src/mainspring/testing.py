"""Tools for tests: a test server, handlers without a server, and assertions on jobs.

With pytest the fixtures of `mainspring.pytest_plugin` are the shortest way.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime as dt
import json
import os
import random
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NamedTuple

from . import api
from ._client import Mainspring
from ._context import AsyncContext, Context
from ._jobs import ENDED, Definition, Job, NewJob, Options
from ._run import converted
from ._values import Duration, decode, duration, encode, instant, seconds
from ._wire import Call, query
from .errors import INTERRUPTS, Conflict, MainspringError, Unavailable
from .outcomes import OUTCOMES, Complete, ready

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import WorkerKeywords


def find_binary() -> str:
    """The server program: MAINSPRING_BINARY, else `mainspring` on the PATH."""
    found = os.environ.get("MAINSPRING_BINARY") or shutil.which("mainspring")
    if not found:
        raise FileNotFoundError(
            "no server program: put mainspring on the PATH or set MAINSPRING_BINARY"
        )
    return found


def serve_command(binary: str, seed: int | None = None) -> list[str]:
    """How a server for tests is started."""
    return [binary, "serve", "--test", *(["--seed", str(seed)] if seed is not None else [])]


class TestServer:
    """A server with a temporary store, on a free port: `mainspring serve --test`.

    It ends with `stop`, and by itself when this process ends, however that happens.
    """

    __test__ = False  # not a test of pytest

    def __init__(self, binary: str | None = None, *, seed: int | None = None) -> None:
        command = serve_command(binary or find_binary(), seed)
        # The server ends when its standard input is closed, which the kernel does with this end.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            started = json.loads(line)
            self.url: str = started["url"]
            self.token: str = started["token"]
            self.seed: int = started["seed"]  # of its faults
        except (ValueError, KeyError):
            self.stop()
            raise Unavailable(f"the server did not start: {' '.join(command)}") from None

    @property
    def pid(self) -> int:
        return self._process.pid

    def client(self, **options: Any) -> Mainspring:
        return Mainspring(self.url, **{"token": self.token, **options})

    def stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> TestServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Namespace:
    """Names for one test only: `namespace.queue("mail")`. Other tests do not see its jobs."""

    def __init__(self, ms: Mainspring, name: str | None = None) -> None:
        self.ms = ms
        body = {} if name is None else {"name": name}
        made = ms.request("POST", "/v1/test/namespace", body)
        self.name: str = made["namespace"]
        self.prefix: str = made["prefix"]

    def queue(self, name: str = "default") -> str:
        """The queue of this namespace. Schedules, locks and sessions are named the same way."""
        return self.prefix + name

    def drain(self, timeout: Duration = "10s") -> None:
        """Waits until no job is available, running or due. Other workers run the jobs."""
        body = {"namespace": self.name, "timeout": duration(timeout, "timeout")}
        data, wait = encode(body, "body"), seconds(timeout, "timeout")
        done = self.ms.requests.run(
            Call("POST", "/v1/test/drain", data, repeat="no", wait=wait)
        )
        if not done["drained"]:
            raise AssertionError(f"{done['left']} jobs of {self.prefix}* are left after {timeout}")

    def reset(self) -> None:
        """Ends its jobs and removes its schedules, triggers and locks, and the namespace itself."""
        self.ms.request("POST", "/v1/test/reset", {"namespace": self.name})


class Fired(NamedTuple):
    """An event that became due while the clock moved."""

    at: str
    what: str  # schedule, scheduled, retry, lease, expiry, workflow
    job: int | None = None
    queue: str | None = None
    schedule: str | None = None
    lock: str | None = None
    session: str | None = None
    workflow: int | None = None


def now(ms: Mainspring) -> dt.datetime:
    """The time of a test server."""
    text: str = ms.request("GET", "/v1/test/clock")["now"]
    return dt.datetime.fromisoformat(text.replace("Z", "+00:00"))


def advance(
    ms: Mainspring,
    by: Duration | None = None,
    *,
    to: dt.datetime | str | None = None,
    leases: str = "live",
    settle: Duration = "1s",
) -> list[Fired]:
    """Moves the clock of a test server, and returns what fired, in order.

    The clock stops at each instant at which something is due, and workers that wait get up to
    `settle` of real time to do it. `leases`: "live" keeps those of workers that are alive, "keep"
    keeps all, "lose" loses all whose end is passed.
    """
    body: dict[str, Any] = {"leases": leases, "settle": duration(settle, "settle")}
    if by is not None:
        body["advance"] = duration(by, "by")
    if to is not None:
        body["to"] = instant(to)
    moved = ms.request("POST", "/v1/test/clock", body)
    if not moved["complete"]:
        raise AssertionError(f"advance: more is due than one call does; the time is {moved['now']}")
    return [Fired(**one) for one in moved["fired"]]


@contextlib.contextmanager
def chaos(
    ms: Mainspring,
    seed: int | None = None,
    *,
    namespace: Namespace | None = None,
    duplicate_delivery: float = 0.1,
    lost_lease: float = 0.1,
    lost_finish: float = 0.1,
    delay: float = 0.0,
    max_delay: Duration = "50ms",
) -> Iterator[int]:
    """Injects faults while the block runs. Prints the seed; the same seed gives the same faults.

    No fault takes the last attempt of a job, so each job ends as its handler says.
    """
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000_000)
    body: dict[str, Any] = {"seed": seed}
    body |= {"duplicate_delivery": duplicate_delivery, "lost_lease": lost_lease}
    body |= {"lost_finish": lost_finish}
    if delay:
        body["delay"] = {"p": delay, "max": duration(max_delay, "max_delay")}
    where = ""
    if namespace is not None:
        body["namespace"] = namespace.name
        where = "?namespace=" + namespace.name
    ms.request("POST", "/v1/test/faults", body)
    print(f"chaos: seed {seed}")
    try:
        yield seed
    finally:
        ms.request("DELETE", "/v1/test/faults" + where)


class NotIdempotent(AssertionError):
    """A job's effect changed when it ran again."""

    def __init__(self, kind: str, run: str, first: Any, then: Any) -> None:
        super().__init__(
            f"{kind} is not idempotent: after one run there was {first!r}, after {run} {then!r}"
        )
        self.run = run
        self.first = first
        self.then = then


def assert_idempotent(
    ms: Mainspring,
    job: Definition[Any, Any],
    args: Mapping[str, Any],
    observe: Callable[[], Any],
    *,
    timeout: Duration = "30s",
) -> None:
    """Fails if running a job again changes what `observe` returns.

    One job is enqueued on a test server. The finishes of its first two runs are lost, so its
    handler runs three times. `observe` is called after each run. Saved step results last from run
    to run, as they do after a crash.
    """
    assert job.handler_function is not None, f"{job.kind}: has no handler"
    seen: list[Any] = []
    failures: list[BaseException] = []
    inner = job.handler_function

    def note() -> None:
        seen.append(copy.deepcopy(observe()))

    def run(ctx: Any, /, **values: Any) -> Any:
        try:
            result = inner(ctx, **values)
            note()
            return result
        except Exception as error:
            failures.append(error)
            raise

    async def arun(ctx: Any, /, **values: Any) -> Any:
        try:
            result = await inner(ctx, **values)
            note()
            return result
        except Exception as error:
            failures.append(error)
            raise

    space = Namespace(ms)
    runs = ("one run", "a second run", "a third run")
    faults = {"namespace": space.name, "lost_finish": 1, "lost_finish_of": "request"}
    ms.request("POST", "/v1/test/faults", faults)
    watched = Mainspring(ms.server.url, token=ms.server.token)
    definition: Definition[Any, Any] = Definition(
        watched, job.kind, inner, job.how, has_context=True, policy=job.policy
    )
    definition.handler_function = arun if job.is_async else run
    definition.is_async = job.is_async
    watched.definitions[job.kind] = definition
    queue = space.queue("once")
    # The runs start at once: a delay of the definition would only postpone them.
    how = Options(queue=queue, max_attempts=len(runs)).over(job.how)
    how = dataclasses.replace(how, delay=None, run_at=None, idempotency_key=None, fence=None)
    try:
        with watched.worker(slots=1, queues=[queue]):
            enqueued: Job[Any] = watched.enqueue(NewJob(job.kind, job.conversions.dump_args(args), how))
            record = watched.wait(enqueued.id, timeout)
    finally:
        watched.close()
        space.reset()
    if failures:
        raise AssertionError(f"{job.kind} failed in run {len(seen) + 1}") from failures[0]
    if record["state"] != "completed" or len(seen) != len(runs):
        raise AssertionError(f"{job.kind} is {record['state']} after {len(seen)} runs: {record}")
    for name, value in zip(runs[1:], seen[1:]):
        if value != seen[0]:
            raise NotIdempotent(job.kind, name, seen[0], value)


class FakePort:
    """Records the reports of a handler, for `perform`."""

    def __init__(self, memos: dict[str, Any], stop: str) -> None:
        if stop and stop not in INTERRUPTS:
            raise ValueError(f'stop "{stop}": must be one of {", ".join(INTERRUPTS)}')
        self.memos: dict[str, Any] = dict(memos)
        self.stop = stop
        self.said_progress: list[tuple[float, str]] = []
        self.checkpoints: list[Any] = []
        self.messages: list[Any] = []
        self.session_state: Any = None
        self.steps: set[str] = set()

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
        if name not in self.memos:
            if name in self.steps:
                raise Conflict(f"step {name}: this attempt has run it before")
            return None
        self._once(name)
        return encode(self.memos[name])

    def remember(self, name: str, data: bytes) -> None:
        self._once(name)
        self.memos[name] = decode(data)

    def group(self, leader: int, there: bool) -> None:
        pass

    def read(self, path: str) -> Any:
        raise ValueError("results: pass a list in tests")

    def _once(self, name: str) -> None:
        if name in self.steps:
            raise Conflict(f"step {name}: this attempt has run it before")
        self.steps.add(name)


class Performed:
    """The outcome and the reports of one run of a handler."""

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
    """Runs a handler directly, without a server. Its exceptions are raised. Also raises for a
    result or an outcome that a worker could not report. The result is as `result()` returns it.

    `memos` are results of steps that earlier attempts kept; `stop` is a stop reason, such as
    "cancelled", that the handler hears. In a coroutine use `aperform`.
    """
    if job.is_async:
        import asyncio

        if asyncio._get_running_loop() is not None:
            raise RuntimeError("perform: an event loop runs in this thread; await aperform(…)")
    record = _record_of(job, job.bind(*args, **kwargs), attempt, checkpoint, headers)
    known = job.conversions.load_args(record["args"])
    port = FakePort(memos or {}, stop)
    assert job.handler_function is not None
    try:
        if job.is_async:
            result = asyncio.run(job.handler_function(AsyncContext(record, port), **known))
        else:
            result = job.handler_function(Context(record, port), **known)
    except OUTCOMES as outcome:
        result = outcome
    finally:
        port.stop = "ended"
    return Performed(_reported(job, result), port)


async def aperform(
    job: Definition[Any, Any],
    *args: Any,
    attempt: int = 1,
    checkpoint: Any = None,
    memos: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    stop: str = "",
    **kwargs: Any,
) -> Performed:
    """As `perform`, for coroutines: `await aperform(fetch, "https://example.org")`."""
    record = _record_of(job, job.bind(*args, **kwargs), attempt, checkpoint, headers)
    port = FakePort(memos or {}, stop)
    assert job.handler_function is not None
    context = AsyncContext(record, port) if job.is_async else Context(record, port)
    try:
        result = job.handler_function(context, **job.conversions.load_args(record["args"]))
        if job.is_async:
            result = await result
    except OUTCOMES as outcome:
        result = outcome
    finally:
        port.stop = "ended"
    return Performed(_reported(job, result), port)


def _record_of(
    job: Definition[Any, Any], args: Any, attempt: int, checkpoint: Any, headers: Any
) -> dict[str, Any]:
    assert job.handler_function is not None, f"{job.kind}: has no handler"
    return {
        "id": 1,
        "token": attempt,
        "kind": job.kind,
        "queue": job.how.queue or "default",
        "attempt": attempt,
        "max_attempts": job.how.max_attempts or 20,
        "args": decode(encode(args)),  # as it would come from the server
        "checkpoint": checkpoint,
        "headers": headers or {},
        "session": job.how.session or "test",
    }


def _reported(job: Definition[Any, Any], result: Any) -> Any:
    """The result as `Job.result` would return it."""
    outcome = converted(job, result)
    ready(outcome)
    if not isinstance(outcome, Complete):
        return outcome
    value = job.conversions.load_result(decode(encode(outcome.result, "result")))
    return Complete(value, outcome.next) if isinstance(result, OUTCOMES) else value


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
    wanted = query({"job": job.id, "state": state, "timeout": duration(timeout, "timeout")})
    call = Call("GET", "/v1/test/await" + wanted, wait=seconds(timeout, "timeout"))
    try:
        record: api.Job = job._ms.requests.run(call)
        return record
    except MainspringError as error:
        if error.code not in ("request_timeout", "conflict"):
            raise
        record = job.get()
        raise AssertionError(
            f"job {job.id} is {record['state']}, not {state}: {record}"
        ) from error


def drain(
    ms: Mainspring, timeout: Duration = "30s", **options: Unpack[WorkerKeywords]
) -> int:
    """Runs the handlers of this program until no job is due. Returns how many jobs ended."""
    until = time.monotonic() + seconds(timeout)
    chosen: WorkerKeywords = {"slots": 4, "lease": "30s"}
    chosen.update(options)
    with ms.worker(**chosen) as worker:
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
