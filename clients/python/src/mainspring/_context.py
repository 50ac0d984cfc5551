"""The context of a handler: its job, and reports while it runs."""

from __future__ import annotations

import functools
import os
import re
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Protocol,
    Sequence,
    TypeVar,
)

from ._values import MAX_CHECKPOINT, MAX_MESSAGE, Duration, decode, encode, seconds
from .errors import INTERRUPTS, AttemptEnded, InvalidArgument, NotFound, TooLarge
from .outcomes import text as for_people

if TYPE_CHECKING:
    import logging
    import subprocess

T = TypeVar("T")
# asyncio and logging are imported where they are used: a program that only enqueues loads neither.


class Port(Protocol):
    """Connects the context of one attempt to its worker, in this process or in the parent."""

    def stop_reason(self) -> str: ...  # "ended" once the handler has returned

    def wait_stop(self, timeout: float) -> str: ...

    def progress(self, value: float, text: str) -> None: ...

    def checkpoint(self, data: bytes) -> None: ...

    def message(self, data: bytes) -> None: ...

    def set_session_state(self, data: bytes) -> None: ...

    def flush(self) -> None: ...

    def recall(self, name: str) -> bytes | None: ...

    def remember(self, name: str, data: bytes) -> None: ...

    def read(self, path: str) -> Any: ...  # the answer to a GET

    def group(self, leader: int, there: bool) -> None: ...  # of a program


class _Base:
    """Members of both kinds of context. All are safe to call from any thread.

    A context is dead once its handler has ended: calls of threads and tasks that the handler left
    raise AttemptEnded and send nothing. So do calls in forks of its process.
    """

    def __init__(self, job: dict[str, Any], port: Port) -> None:
        self.job = job
        self._port = port
        self._pid = os.getpid()
        self.id: int = job["id"]
        self.token: int = job["token"]  # grows with every attempt: fence what you write to
        self.kind: str = job["kind"]
        self.queue: str = job.get("queue", "")
        self.args: Any = job.get("args", {})
        self.attempt: int = job.get("attempt", 1)
        self.max_attempts: int = job.get("max_attempts", 0)
        self.headers: dict[str, str] = job.get("headers") or {}
        self.tags: list[str] = job.get("tags") or []
        self.correlation_id: str = job.get("correlation_id", "")
        self.last_checkpoint: Any = job.get("checkpoint")  # of an earlier attempt; None: none
        self.session: str = job.get("session", "")
        self.session_state: Any = job.get("session_state")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of job {self.id}, attempt {self.attempt}>"

    @functools.cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A log whose records carry the job's id, queue, kind and attempt."""
        import logging

        names = ("queue", "kind", "attempt")
        extra = {"job": self.id, **{name: getattr(self, name) for name in names}}
        return logging.LoggerAdapter(logging.getLogger("mainspring.job"), extra)

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end. `stop_reason` has the reason."""
        return bool(self._port.stop_reason())

    @property
    def stop_reason(self) -> str:
        """"", "cancelled", "lease_lost", "timeout" or "shutdown"; "ended" in threads that the
        handler left."""
        return self._port.stop_reason()

    def check(self) -> None:
        """Raises Cancelled, LeaseLost, TimedOut or ShuttingDown if the handler should end."""
        self._raise(self._port.stop_reason())

    def _raise(self, reason: str) -> None:
        if self._pid != os.getpid():  # its call would share the pipe or socket of the handler
            raise AttemptEnded(
                f"job {self.id}: its handler runs in process {self._pid}, this is a fork; nothing"
                " was sent. Use the context in the handler's process only"
            )
        if reason == "ended":
            raise AttemptEnded(
                f"job {self.id}: attempt {self.attempt} has ended; nothing was sent. End threads"
                " and tasks before the handler returns"
            )
        if reason:
            raise INTERRUPTS[reason](reason)

    def _check_alive(self) -> None:
        """For calls that a handler may make after a stop request."""
        reason = self._port.stop_reason()
        self._raise(reason if reason == "ended" else "")

    @property
    def idempotency_key(self) -> str:
        """The same text in every attempt of this job, unique per job. Pass it to services that
        ignore repeated requests."""
        key = self.headers.get("mainspring-idempotency-key", "")
        if key:
            return key
        h = 0xCBF29CE484222325
        for text in (self.queue, self.kind, encode(self.args).decode()):
            for byte in text.encode() + b"\0":
                h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        return f"ms-{self.id}-{h:016x}"

    def progress(self, value: float, text: str = "") -> None:
        """Reports progress, 0 to 1. Sent within 100 ms; the last value wins."""
        self.check()
        number = float(value)
        bounded = min(number, 1.0) if number >= 0 else 0.0  # also what is not a number
        self._port.progress(bounded, for_people(text))

    def set_session_state(self, value: Any) -> None:
        """Sets the state of the job's session. Saved with the outcome unless the attempt failed."""
        if not self.session:
            raise InvalidArgument("session_state: the job has no session", field="session_state")
        self._check_alive()
        self._port.set_session_state(encode(value, "session_state", 256 * 1024))


class UnusableStep(Exception):
    """A step's result cannot be stored: the job is dead, as no attempt would do better."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


_STEP_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def _check_step(name: str) -> None:
    if not isinstance(name, str) or _STEP_NAME.match(name) is None:
        raise InvalidArgument(
            f'step "{name}": must be 1 to 64 of A-Z a-z 0-9 _ -', field="step"
        )


def _step_result(name: str, value: Any) -> bytes:
    try:
        return encode(value, f"result of step {name}", MAX_MESSAGE)
    except TooLarge as error:
        raise UnusableStep("result_too_large", str(error)) from error
    except InvalidArgument as error:
        raise UnusableStep("bad_result", str(error)) from error


class _Done:
    """What a call returns that is done already, so that a coroutine may await it too."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


def results_of(of: Any) -> Generator[tuple[str | None, list[Any]], Any, None]:
    """Yields the path of the next page, None: it has none, and the results so far."""
    if isinstance(of, (list, tuple)):
        yield None, [*of]
        return
    reference = of.get("$result") if isinstance(of, dict) else None
    if not isinstance(reference, dict):
        text = f"results {of!r:.80}: must be a list, or a reference to the results of a step"
        raise InvalidArgument(text, field="results")
    workflow, name = reference["workflow"], reference["step"]
    own: dict[str, Any] | None = None
    after, elements = "", 0
    found: list[Any] = []
    while True:
        page = yield f"/v1/workflows/{int(workflow)}/steps{after}", found
        found = []
        for step in page["steps"]:
            if own is None and step["name"] == name and "of" not in step:
                own = step
            elif own is not None and step.get("of") == own["number"]:
                found.append(step.get("result"))
        elements += len(found)
        if page.get("next") is None:
            break
        after = f"?after={page['next']}"
    if own is None:
        raise NotFound(f"workflow {workflow} has no step {name}")
    if not elements and own.keys() & {"result", "job", "workflow"}:
        found = [own.get("result")]
    yield None, found


class Context(_Base):
    """For handlers that are plain functions. Calls block until the server answers if needed."""

    def sleep(self, time: Duration) -> None:
        """Sleeps, and raises at once when the handler should end."""
        self.check()
        self._raise(self._port.wait_stop(seconds(time)))

    def checkpoint(self, value: Any) -> None:
        """JSON that the next attempt finds in `last_checkpoint` if this one fails."""
        self.check()
        self._port.checkpoint(encode(value, "checkpoint", MAX_CHECKPOINT))

    def message(self, value: Any) -> None:
        """Sends JSON to the job's reply_to and follow-ups. In order, and before the outcome."""
        self.check()
        self._port.message(encode(value, "message", MAX_MESSAGE))

    def flush(self) -> None:
        """Waits until the progress, the checkpoint and the messages so far are stored."""
        self._check_alive()
        self._port.flush()

    def step(self, name: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Runs `function` once over all attempts: its result is on disk before this returns it, and
        the next attempt gets it without running `function` again. Each attempt gets the result as
        JSON gives it back: a tuple becomes a list, and keys become texts."""
        self.check()
        _check_step(name)
        kept = self._port.recall(name)
        if kept is not None:
            value: T = decode(kept)
            return value
        self.check()
        data = _step_result(name, function(*args, **kwargs))
        self._port.remember(name, data)
        fresh: T = decode(data)
        return fresh


    def results(self, of: Any) -> Iterator[Any]:
        """The results of a step that the args refer to with `by_reference`, read in pages: of each
        element of a list in order, or of the step itself. A list yields its elements.

            @ms.job()
            def total(ctx: Context, parts: list[int]) -> int:
                return sum(ctx.results(parts))

        The worker's token needs `read` and `read:payload`.
        """
        reading = results_of(of)
        page: Any = None
        try:
            while True:
                self._check_alive()
                path, found = reading.send(page)
                yield from found
                page = None if path is None else self._port.read(path)
        except StopIteration:
            return


    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Runs a program that ends with the attempt: as `subprocess.run`, with `check=True`.

            ctx.run(["ffmpeg", "-i", path, "out.mp4"])

        When the handler should stop, the program gets SIGTERM, after `grace` (2 s) SIGKILL, and
        the reason is raised. What the program has started ends with it, also when the worker is
        killed. A daemon, which has left its parent, does not.
        """
        from ._programs import run

        self.check()
        reason, done = run(self._port, command, **options)
        self._raise(reason)
        return done


class AsyncContext(_Base):
    """For handlers that are coroutines. Like Context, but blocking calls are awaited."""

    async def _wait(self, function: Callable[..., T], *args: Any) -> T:
        import asyncio

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, functools.partial(function, *args))

    def check(self) -> Awaitable[None]:  # type: ignore[override]
        super().check()
        return _Done()

    def progress(self, value: float, text: str = "") -> Awaitable[None]:  # type: ignore[override]
        super().progress(value, text)
        return _Done()

    def set_session_state(self, value: Any) -> Awaitable[None]:  # type: ignore[override]
        super().set_session_state(value)
        return _Done()

    async def sleep(self, time: Duration) -> None:
        """Sleeps. The worker cancels the task when the handler should end."""
        import asyncio

        await asyncio.sleep(seconds(time))
        self.check()

    async def checkpoint(self, value: Any) -> None:
        self.check()
        self._port.checkpoint(encode(value, "checkpoint", MAX_CHECKPOINT))

    async def message(self, value: Any) -> None:
        self.check()
        await self._wait(self._port.message, encode(value, "message", MAX_MESSAGE))

    async def flush(self) -> None:
        self._check_alive()
        await self._wait(self._port.flush)

    async def step(
        self, name: str, function: Callable[..., Awaitable[T] | T], *args: Any, **kwargs: Any
    ) -> T:
        self.check()
        _check_step(name)
        kept = await self._wait(self._port.recall, name)
        if kept is not None:
            value: T = decode(kept)
            return value
        self.check()
        result = function(*args, **kwargs)
        if isinstance(result, Awaitable):
            result = await result
        data = _step_result(name, result)
        await self._wait(self._port.remember, name, data)
        fresh: T = decode(data)
        return fresh

    async def results(self, of: Any) -> AsyncIterator[Any]:
        """As `Context.results`: `async for one in ctx.results(parts)`."""
        reading = results_of(of)
        page: Any = None
        try:
            while True:
                self._check_alive()
                path, found = reading.send(page)
                for one in found:
                    yield one
                page = None if path is None else await self._wait(self._port.read, path)
        except StopIteration:
            return

    async def run(
        self, command: Sequence[str], **options: Any
    ) -> subprocess.CompletedProcess[Any]:
        """As `Context.run`."""
        from ._programs import arun

        self.check()
        reason, done = await arun(self._port, command, **options)
        self._raise(reason)
        return done
