"""The client: one object for a server, its jobs and its workers."""

from __future__ import annotations

import datetime as dt
import os
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Concatenate,
    Iterable,
    Iterator,
    ParamSpec,
    Protocol,
    Sequence,
    TypeVar,
    overload,
)

from . import trace
from ._context import AsyncContext, Context
from ._jobs import ENDED, Definition, Job, NewJob, Options, encoded
from ._middleware import Middleware, sending
from ._operations import Operation, Pages, request, until_state
from ._policy import Policy
from ._server import Server, from_environment
from ._values import Duration, check_list, encode, from_keywords, instant, seconds
from ._wire import Answer, Call, check_header, document_of, require
from .errors import InvalidArgument, MainspringError, ServerError
from .outcomes import Outcome

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import _admin, _locks, _worker, api
    from ._policy import Delays, Errors
    from ._requests import Requests
    from .options import EventFilter, JobFilter, JobOptions, WorkerKeywords

P = ParamSpec("P")
R = TypeVar("R")
MAX_ENQUEUE_BYTES = 15 * 1024 * 1024  # below the server's limit for a batch
MAX_ENQUEUE_JOBS = 10_000


class _Decorator(Protocol):
    """The type of a handler after `@ms.job(…)`: args and result keep their types."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[AsyncContext, P], Awaitable[R | Outcome]], /
    ) -> Definition[P, R]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], R | Outcome], /
    ) -> Definition[P, R]: ...


class Mainspring:
    """A server and the kinds of jobs that this program knows.

    Without arguments the URL and the token come from MAINSPRING_SERVER and
    MAINSPRING_ACCESS_TOKEN. Opening makes no connection. All methods are safe for threads.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        ca_file: str = "",
        certificate_file: str = "",
        key_file: str = "",
        request_timeout: Duration = "30s",
        connect_timeout: Duration = "5s",
        retry_for: Duration = "15s",
    ) -> None:
        url, token = from_environment(url, token)
        self.server = Server(
            url,
            token,
            ca_file,
            certificate_file,
            key_file,
            seconds(request_timeout, "request_timeout"),
            seconds(connect_timeout, "connect_timeout"),
            seconds(retry_for, "retry_for"),
        )
        self.definitions: dict[str, Definition[Any, Any]] = {}
        self.middleware: list[Middleware] = []
        self._started: list[_worker.Worker] = []

    def __repr__(self) -> str:
        return f"Mainspring({self.server.url!r})"

    def __enter__(self) -> Mainspring:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Mainspring:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @cached_property
    def requests(self) -> Requests:
        from ._requests import Requests

        return Requests(self.server)

    def close(self) -> None:
        """Closes the connections. The next call opens new ones."""
        if "requests" in self.__dict__:
            self.requests.close()

    async def aclose(self) -> None:
        if "requests" in self.__dict__:
            await self.requests.aclose()

    def use(self, middleware: Middleware) -> None:
        """Adds code around each enqueue and each attempt of this client. See `Middleware`."""
        self.middleware.append(middleware)

    # Definitions

    def job(
        self,
        kind: str | None = None,
        *,
        aliases: Sequence[str] = (),
        concurrency: int = 0,
        backoff: Delays | None = None,
        retry_on: Errors | None = None,
        give_up_on: Errors = (),
        **options: Unpack[JobOptions],
    ) -> _Decorator:
        """Defines a kind with the handler `handler(ctx, …)`. Default kind: the function's name.

        `aliases` are older names that this handler takes too; `concurrency` is how many jobs of
        the kind this worker runs at once (0: the number of slots). `backoff` is the delay after a
        failed attempt, instead of the server's: a `Backoff`, a duration, a list of them, or a
        function of the attempt's number. An exception of `give_up_on`, or one that is not of
        `retry_on`, makes the job dead. The other options are those of `Options`, such as queue,
        timeout and max_attempts.
        """

        _check_kind(kind, "job")
        policy = Policy(backoff, retry_on, give_up_on)

        def decorate(function: Callable[..., Any]) -> Definition[Any, Any]:
            name = kind or function.__name__
            made: Definition[Any, Any] = Definition(
                self, name, function, Options.of(options), has_context=True,
                concurrency=concurrency, policy=policy,
            )  # fmt: skip
            made.handler(function)
            return self._add(made, aliases)

        return decorate

    def define(
        self,
        kind: str | None = None,
        *,
        aliases: Sequence[str] = (),
        concurrency: int = 0,
        backoff: Delays | None = None,
        retry_on: Errors | None = None,
        give_up_on: Errors = (),
        **options: Unpack[JobOptions],
    ) -> Callable[[Callable[P, R]], Definition[P, R]]:
        """Defines a kind by a function without a body. The worker adds the handler:

            @ms.define(queue="photos")
            def thumbnail(path: str, width: int = 200) -> dict[str, int]: ...

            @thumbnail.handler
            def make(ctx, path, width=200): ...
        """

        _check_kind(kind, "define")
        policy = Policy(backoff, retry_on, give_up_on)

        def decorate(function: Callable[P, R]) -> Definition[P, R]:
            name = kind or function.__name__
            made: Definition[P, R] = Definition(
                self, name, function, Options.of(options), has_context=False,
                concurrency=concurrency, policy=policy,
            )  # fmt: skip
            self._add(made, aliases)
            return made

        return decorate

    def _add(
        self, made: Definition[Any, Any], aliases: Sequence[str]
    ) -> Definition[Any, Any]:
        check_list(aliases, "aliases")
        for name in (made.kind, *aliases):
            old = self.definitions.get(name)
            same = old is not None and (old.__module__, old.__name__) == (
                made.__module__,
                made.__name__,
            )
            if old is not None and not same:
                raise InvalidArgument(f"kind {name}: is defined twice", field="kind")
            self.definitions[name] = made
        return made

    # Jobs

    def new(
        self, kind: str, args: Any = None, **options: Unpack[JobOptions]
    ) -> NewJob[Any]:
        """A job of a kind without a definition in this program."""
        return NewJob(kind, {} if args is None else args, Options.of(options), self)

    def enqueue(self, job: NewJob[R]) -> Job[R]:
        """Enqueues a job. It is on disk when this returns."""
        with sending(self.middleware, [job]) as [job]:
            call = self._enqueue_call(job)
            return self._enqueued_one(self.requests.run(call), job)

    async def aenqueue(self, job: NewJob[R]) -> Job[R]:
        """Enqueues a job. It is on disk when this returns. Jobs that tasks enqueue at the same
        time share requests."""
        with sending(self.middleware, [job]) as [job]:
            call = self._enqueue_call(job)
            if job.how.fence is not None or job.how.idempotency_key is not None:
                return self._enqueued_one(await self.requests.arun(call), job)
            document = await self.requests.of_loop().enqueues.add(call.body)
            return self._enqueued_one(document, job)

    def enqueue_many(
        self, jobs: Iterable[NewJob[R]], *, idempotency_key: str | None = None
    ) -> list[Job[R]]:
        """Enqueues up to 10,000 jobs in one transaction: all or nothing."""
        jobs = list(jobs)
        if not jobs:
            return []
        with sending(self.middleware, jobs) as jobs:
            call = self._enqueue_many_call(jobs, idempotency_key)
            return self._enqueued_many(self.requests.run(call), jobs)

    async def aenqueue_many(
        self, jobs: Iterable[NewJob[R]], *, idempotency_key: str | None = None
    ) -> list[Job[R]]:
        jobs = list(jobs)
        if not jobs:
            return []
        with sending(self.middleware, jobs) as jobs:
            call = self._enqueue_many_call(jobs, idempotency_key)
            return self._enqueued_many(await self.requests.arun(call), jobs)

    def _enqueue_call(self, job: NewJob[Any]) -> Call:
        [fields] = encoded([job])
        if job.how.fence is not None:
            fields["fence"] = {"lease": job.how.fence[0], "token": job.how.fence[1]}
        trace.inject(fields)
        key = job.how.idempotency_key or "py-" + os.urandom(16).hex()
        headers = {"Idempotency-Key": check_header("idempotency_key", key)}
        return Call("POST", "/v1/jobs", encode(fields, "job"), headers)

    def _enqueue_many_call(self, jobs: Sequence[NewJob[Any]], key: str | None) -> Call:
        if len(jobs) > MAX_ENQUEUE_JOBS:
            raise InvalidArgument(
                f"jobs: {len(jobs)} given, must be at most {MAX_ENQUEUE_JOBS} in one transaction",
                field="jobs",
            )
        for at, job in enumerate(jobs):
            if job.how.idempotency_key is not None:
                field = f"jobs[{at}].idempotency_key"
                raise InvalidArgument(
                    f"{field}: enqueue_many() has one key for all jobs; pass it to the call",
                    field=field,
                )
        fields = encoded(jobs)
        body: dict[str, Any] = {"jobs": fields}
        fences = {job.how.fence for job in jobs if job.how.fence is not None}
        if len(fences) > 1:
            raise InvalidArgument("fence: must be the same for all jobs", field="fence")
        for lease, token in fences:
            body["fence"] = {"lease": lease, "token": token}
        for one in fields:
            trace.inject(one)
        data = encode(body, "jobs")
        key = key or "py-" + os.urandom(16).hex()
        headers = {"Idempotency-Key": check_header("idempotency_key", key)}
        return Call("POST", "/v1/jobs", data, headers)

    def _enqueued_one(self, document: Any, job: NewJob[Any]) -> Job[Any]:
        return Job(
            self,
            require(document, "id", int),
            require(document, "state", str),
            document.get("duplicate") is True,
            self.definitions.get(job.kind),
        )

    def _enqueued_many(self, document: Any, jobs: Sequence[NewJob[Any]]) -> list[Job[Any]]:
        made = require(document, "jobs", list)
        if len(made) != len(jobs):
            raise ServerError(
                f"enqueue: {len(made)} answers to {len(jobs)} jobs", status=200, maybe_done=True
            )
        return [self._enqueued_one(one, job) for one, job in zip(made, jobs)]

    def find(self, id: int) -> Job[Any]:
        """A handle of a job. Sends no request."""
        return Job(self, id)

    def get(self, id: int) -> api.Job:
        """The record of a job."""
        return self.requests.complete(_get(id))

    async def aget(self, id: int) -> api.Job:
        return await self.requests.acomplete(_get(id))

    def wait(self, id: int, timeout: Duration | None = None) -> api.Job:
        """Waits until the job ends, or until `timeout` (None: forever). Returns its record then."""
        return self.requests.complete(_wait(id, timeout))

    async def await_job(self, id: int, timeout: Duration | None = None) -> api.Job:
        """As `wait`, for coroutines."""
        return await self.requests.acomplete(_wait(id, timeout))

    def jobs(self, **filter: Unpack[JobFilter]) -> Iterator[api.Job]:
        """Jobs, newest first: by queue, state, kind, tag. Reads pages while you iterate."""
        return _list(filter).read(self.requests)

    def ajobs(self, **filter: Unpack[JobFilter]) -> AsyncIterator[api.Job]:
        return _list(filter).aread(self.requests)

    def cancel(self, id: int, reason: str = "") -> str:
        """Cancels a job. Returns its state. "running": the worker is asked to stop."""
        return self.requests.complete(_cancel(id, reason))

    async def acancel(self, id: int, reason: str = "") -> str:
        return await self.requests.acomplete(_cancel(id, reason))

    def retry(self, id: int) -> str:
        """Makes a waiting, dead or cancelled job available now. Returns its state."""
        return self.requests.complete(_retry(id))

    async def aretry(self, id: int) -> str:
        return await self.requests.acomplete(_retry(id))

    def why(self, id: int) -> api.Why:
        """Why a job does not run now."""
        return self.requests.complete(_why(id))

    async def awhy(self, id: int) -> api.Why:
        return await self.requests.acomplete(_why(id))

    def _why_waits(self, id: int) -> str:
        """Why a job does not run, for the message of a time-out; "" if unknown."""
        from ._wire import Unanswered

        try:
            return _why_of(self.requests.once(_why_call(id)))
        except Unanswered:
            return ""

    async def _awhy_waits(self, id: int) -> str:
        from ._wire import Unanswered

        try:
            return _why_of(await self.requests.aonce(_why_call(id)))
        except Unanswered:
            return ""

    def events(self, **filter: Unpack[EventFilter]) -> Iterator[dict[str, Any]]:
        """Events of jobs and queues as they happen: by queue, kind, type, tag, job.

        Reconnects until you stop reading, and continues after the last event. An event of type
        "gap" says that events may be missing. A refusal, such as a wrong token, raises.
        """
        from ._events import follow

        return follow(self.requests, dict(filter))

    def aevents(self, **filter: Unpack[EventFilter]) -> AsyncIterator[dict[str, Any]]:
        from ._events import afollow

        return afollow(self.requests, dict(filter))

    def request(self, method: str, path: str, body: Any = None, *, repeat: bool = False) -> Any:
        """Any other request of the HTTP API. `repeat`: the request is safe to repeat."""
        return self.requests.run(request(method, path, body, "yes" if repeat else "no"))

    async def arequest(
        self, method: str, path: str, body: Any = None, *, repeat: bool = False
    ) -> Any:
        return await self.requests.arun(request(method, path, body, "yes" if repeat else "no"))

    # Groups of calls

    @cached_property
    def queues(self) -> _admin.Queues:
        from ._admin import Queues

        return Queues(self)

    @cached_property
    def schedules(self) -> _admin.Schedules:
        from ._admin import Schedules

        return Schedules(self)

    @cached_property
    def workflows(self) -> _admin.Workflows:
        from ._admin import Workflows

        return Workflows(self)

    def lock(
        self,
        name: str,
        *,
        ttl: Duration = "15s",
        wait: Duration = 0,
        holder: str | None = None,
    ) -> _locks.Lock:
        """A lock in the whole system: `with ms.lock("report/eu", wait="10s") as lock: …`."""
        from ._locks import Lock

        return Lock(self, name, ttl, wait, holder)

    @cached_property
    def sessions(self) -> _locks.Sessions:
        from ._locks import Sessions

        return Sessions(self)

    # Workers

    def worker(self, **options: Unpack[WorkerKeywords]) -> _worker.Worker:
        """A worker for the handlers of this program. See `WorkerOptions`."""
        from ._worker import Worker, WorkerOptions

        return Worker(self, from_keywords(WorkerOptions, options))

    def work(self, **options: Unpack[WorkerKeywords]) -> None:
        """Runs jobs until SIGTERM or SIGINT, then finishes or releases the remaining jobs."""
        from ._worker import run_until_signal

        run_until_signal(self.worker(**options))


def _job(id: int, verb: str = "") -> str:
    return f"/v1/jobs/{int(id)}{verb}"


def _record(document: Any) -> api.Job:
    require(document, "id", int)
    require(document, "state", str)
    record: api.Job = document
    return record


def _get(id: int) -> Operation[api.Job]:
    return _record((yield request("GET", _job(id))))


def _wait(id: int, timeout: Duration | None) -> Operation[api.Job]:
    return _record((yield from until_state(_job(id), ENDED, timeout)))


def _list(filter: JobFilter) -> Pages:
    parameters: dict[str, Any] = {}
    for name, value in filter.items():
        if isinstance(value, (list, tuple)):
            value = ",".join(str(one) for one in value)
        elif isinstance(value, dt.datetime):
            value = instant(value, name)
        # A flag of the server is true or absent.
        parameters[name.rstrip("_")] = None if value is False else value
    return Pages("/v1/jobs", "jobs", ("cursor", "next_cursor"), parameters)


def _cancel(id: int, reason: str) -> Operation[str]:
    body = {"reason": reason} if reason else {}
    return str(require((yield request("POST", _job(id, "/cancel"), body)), "state", str))


def _retry(id: int) -> Operation[str]:
    return str(require((yield request("POST", _job(id, "/retry"))), "state", str))


def _why(id: int) -> Operation[api.Why]:
    document: api.Why = yield request("GET", _job(id, "/why"))
    return document


def _why_call(id: int) -> Call:
    return Call("GET", _job(id, "/why"), answer_within=2.0)


def _why_of(answer: Answer) -> str:
    if answer.status != 200:
        return ""
    try:
        return str(document_of(answer).get("why", ""))
    except MainspringError:
        return ""


def _check_kind(kind: object, decorator: str) -> None:
    if callable(kind):
        raise TypeError(f"write @ms.{decorator}() with parentheses")
