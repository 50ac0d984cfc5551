"""Definitions of jobs, jobs to be enqueued, and enqueued jobs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import weakref
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generic,
    Literal,
    Mapping,
    ParamSpec,
    Sequence,
    TypeVar,
    cast,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import api
    from ._client import Mainspring
    from ._convert import Conversions
    from .options import JobOptions

from ._policy import Policy
from ._values import (
    MAX_PAYLOAD,
    Duration,
    duration,
    encode,
    from_keywords,
    instant,
    is_count,
)
from .errors import InvalidArgument, JobFailed, ResultTimeout

P = ParamSpec("P")
R = TypeVar("R")
ENDED = ("completed", "cancelled", "dead")

# All definitions of this process, for a process that knows where a handler is defined.
definitions: weakref.WeakSet[Definition[Any, Any]] = weakref.WeakSet()


@dataclass(frozen=True)
class Options:
    """Options of an enqueue. None: the definition's, or the server's default."""

    queue: str | None = None
    key: str | None = None  # unique key: one live job per key and queue
    key_for: Duration | None = None  # also for this long after the first was enqueued
    on_conflict: Literal["keep", "replace", "postpone"] | None = None
    delay: Duration | None = None
    run_at: str | dt.datetime | None = None
    priority: int | None = None  # 0 is first, 9 is last
    max_attempts: int | None = None
    timeout: Duration | None = None  # of one attempt; "none": no limit
    expires_in: Duration | None = None
    on_expiry: Literal["cancel", "dead"] | None = None
    tags: Sequence[str] | None = None
    headers: Mapping[str, str] | None = None
    correlation_id: str | None = None
    session: str | None = None
    session_on_dead: Literal["skip", "block", "park"] | None = None
    limit_key: str | None = None
    reply_to: str | None = None
    reply_session: str | None = None
    reply_progress: bool | None = None
    reply_expires_in: Duration | None = None  # of jobs for reply_to that nothing starts
    then: Sequence[api.FollowUp] | None = None
    callback: api.Callback | str | None = None
    # The next two are of an enqueue, not of the job: `next`, schedules and steps refuse them.
    # Made up if it is None.
    idempotency_key: str | None = None
    # The enqueue fails with LockLost unless this lock is still held: (name, token).
    fence: tuple[str, int] | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Options:
        return from_keywords(cls, options)

    def over(self, base: Options) -> Options:
        """These options, with None replaced by the value of `base`."""
        changed = {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if getattr(self, f.name) is not None
        }
        return dataclasses.replace(base, **changed) if changed else base

    def fields(self) -> dict[str, Any]:
        """As fields of a request."""
        out: dict[str, Any] = {}
        for name in _PLAIN:
            value = getattr(self, name)
            if value is not None:
                out[name] = value
        for name in ("delay", "expires_in", "reply_expires_in"):
            if getattr(self, name) is not None:
                out[name] = duration(getattr(self, name), name)
        if self.timeout is not None:
            none = self.timeout == "none"
            out["timeout"] = "none" if none else duration(self.timeout, "timeout")
        if self.run_at is not None:
            out["run_at"] = instant(self.run_at)
        if self.tags is not None:
            if isinstance(self.tags, str):
                raise InvalidArgument(f'tags "{self.tags}": must be a list of texts', field="tags")
            out["tags"] = list(self.tags)
        if self.headers is not None:
            out["headers"] = dict(self.headers)
        if self.then is not None:
            out["then"] = [dict(one) for one in self.then]
        if self.callback is not None:
            callback = self.callback
            out["callback"] = {"url": callback} if isinstance(callback, str) else dict(callback)
        for name in ("key_for", "on_conflict"):
            if self.key is None and getattr(self, name) is not None:
                raise InvalidArgument(f"{name}: needs key", field=name)
        if self.key is not None:
            unique: dict[str, Any] = {"key": self.key}
            if self.key_for is not None:
                unique["for"] = duration(self.key_for, "key_for")
            if self.on_conflict is not None:
                unique["on_conflict"] = self.on_conflict
            out["unique"] = unique
        return out


_PLAIN = (
    "queue",
    "priority",
    "max_attempts",
    "on_expiry",
    "correlation_id",
    "session",
    "session_on_dead",
    "limit_key",
    "reply_to",
    "reply_session",
    "reply_progress",
)


@dataclass(frozen=True)
class NewJob(Generic[R]):
    """A job that is not enqueued yet: for `enqueue_many`, workflows, schedules and `next`."""

    kind: str
    args: Any = dataclasses.field(default_factory=dict)
    how: Options = Options()
    ms: Mainspring | None = dataclasses.field(default=None, repr=False, compare=False)  # its maker

    def fields(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": self.kind, "args": self.args}
        out.update(self.how.fields())
        return out

    def options(self, **options: Unpack[JobOptions]) -> NewJob[R]:
        return dataclasses.replace(self, how=Options.of(options).over(self.how))


class Job(Generic[R]):
    """A job that is on the server's disk."""

    def __init__(
        self,
        ms: Mainspring,
        id: int,
        state: str = "",
        duplicate: bool = False,
        definition: Definition[Any, R] | None = None,
    ) -> None:
        self._ms = ms
        self._definition = definition
        self.id = id
        self.state = state  # when it was enqueued; `get` for now
        self.duplicate = duplicate  # a unique key or an idempotency key found it

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def get(self) -> api.Job:
        """The job's record."""
        record = self._ms.get(self.id)
        self.state = record["state"]
        return record

    async def aget(self) -> api.Job:
        record = await self._ms.aget(self.id)
        self.state = record["state"]
        return record

    def result(self, timeout: Duration | None = None) -> R:
        """Waits for the job's end and returns its result.

        Raises JobFailed if it ended without one, ResultTimeout if it has not ended within
        `timeout` (None: waits forever).
        """
        record = self._ms.wait(self.id, timeout)
        if record["state"] not in ENDED:
            raise self._late(record, timeout, self._ms._why_waits(self.id))
        return cast(R, self._result_of(record))

    async def aresult(self, timeout: Duration | None = None) -> R:
        record = await self._ms.await_job(self.id, timeout)
        if record["state"] not in ENDED:
            raise self._late(record, timeout, await self._ms._awhy_waits(self.id))
        return cast(R, self._result_of(record))

    def _late(self, record: api.Job, timeout: Duration | None, why: str) -> ResultTimeout:
        self.state = record["state"]
        within = duration(timeout or 0)
        text = f"job {self.id} has not ended within {within}: it is {self.state}"
        return ResultTimeout(f"{text}: {why}" if why else text)

    def _result_of(self, record: api.Job) -> Any:
        self.state = record["state"]
        if self.state == "completed":
            value = record.get("result")
            made = self._definition
            return value if made is None else made.conversions.load_result(value)
        why = record.get("description") or record.get("reason") or "no reason given"
        first = why.partition("\n")[0]  # the record has the traceback
        raise JobFailed(f"job {self.id} is {self.state}: {first}", record)

    def cancel(self, reason: str = "") -> str:
        """Cancels the job. Returns its state. "running": the worker is asked to stop."""
        return self._ms.cancel(self.id, reason)

    async def acancel(self, reason: str = "") -> str:
        return await self._ms.acancel(self.id, reason)

    def retry(self) -> str:
        """Makes a waiting, dead or cancelled job available now."""
        return self._ms.retry(self.id)

    async def aretry(self) -> str:
        return await self._ms.aretry(self.id)

    def why(self) -> api.Why:
        """Why the job does not run now."""
        return self._ms.why(self.id)

    async def awhy(self) -> api.Why:
        return await self._ms.awhy(self.id)


class Definition(Generic[P, R]):
    """The name, the queue and the options of a kind of job, and perhaps its handler.

    Producers need only the definition. A worker needs the handler too.
    """

    def __init__(
        self,
        ms: Mainspring,
        kind: str,
        function: Callable[..., Any],
        options: Options,
        *,
        has_context: bool,
        concurrency: int = 0,
        policy: Policy = Policy(None, None, ()),
    ) -> None:
        if not is_count(concurrency):
            text = f"concurrency {concurrency!r}: must be a whole number; 0 is the number of slots"
            raise InvalidArgument(text, field="concurrency")
        self.ms = ms
        self.kind = kind
        self.how = options
        self.concurrency = concurrency
        self.policy = policy
        self.function = function
        self.signature = _signature(kind, function, has_context)
        self._context_name = next(iter(inspect.signature(function).parameters), "")
        self._has_context = has_context
        self.handler_function: Callable[..., Any] | None = None
        self.is_async = False
        self.__name__ = getattr(function, "__name__", kind)
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        definitions.add(self)

    def __repr__(self) -> str:
        return f"<job {self.kind}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the handler directly, as a plain function."""
        return (self.handler_function or self.function)(*args, **kwargs)

    def handler(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Makes `function(ctx, …)` the handler of this kind in this process."""
        _signature(self.kind, function, True)
        self.handler_function = function
        self.is_async = inspect.iscoroutinefunction(function)
        return function

    @property
    def conversions(self) -> Conversions:
        """How values become JSON and back. Made at the first use: types may be defined later."""
        found = self.__dict__.get("_conversions")
        if found is None or found[0] is not self.handler_function:
            from ._convert import Conversions

            functions = [self.function, self.handler_function or self.function]
            found = self._conversions = (self.handler_function, Conversions(functions))
        made: Conversions = found[1]
        return made

    def find(self, id: int) -> Job[R]:
        """A handle of a job of this kind: its result is converted. Sends no request."""
        return Job(self.ms, id, definition=self)

    def bind(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The job's args: a JSON object with the parameters by name. Defaults are left out."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            text = f"{self.kind}: {error}; its parameters are {self.signature}"
            if self._has_context and self._context_name not in ("ctx", "context", "_"):
                text += f", because its first one, {self._context_name}, is the handler's context"
            raise InvalidArgument(text, field="args") from None
        out: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                out.update(value)
            else:
                out[name] = value
        return self.conversions.dump_args(out)

    def new(self, *args: P.args, **kwargs: P.kwargs) -> NewJob[R]:
        """The job, not enqueued."""
        return NewJob(self.kind, self.bind(*args, **kwargs), self.how, self.ms)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Enqueues a job. It is on disk when this returns."""
        return self.ms.enqueue(self.new(*args, **kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        return await self.ms.aenqueue(self.new(*args, **kwargs))

    def options(self, **options: Unpack[JobOptions]) -> Configured[P, R]:
        """This kind with other options: `thumbnail.options(delay="1m").enqueue("a.jpg")`."""
        return Configured(self, Options.of(options).over(self.how))


class Configured(Generic[P, R]):
    """A definition with other options for its jobs."""

    def __init__(self, definition: Definition[P, R], how: Options) -> None:
        self._definition = definition
        self._how = how

    def new(self, *args: P.args, **kwargs: P.kwargs) -> NewJob[R]:
        args_ = self._definition.bind(*args, **kwargs)
        return NewJob(self._definition.kind, args_, self._how, self._definition.ms)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        return self._definition.ms.enqueue(self.new(*args, **kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        return await self._definition.ms.aenqueue(self.new(*args, **kwargs))


def place_of(function: Any) -> tuple[str, str, int]:
    """Where a handler is defined. The same in a process that imports the same modules."""
    module = getattr(function, "__module__", "")
    code = getattr(function, "__code__", None)
    return (
        "__main__" if module == "__mp_main__" else module,
        getattr(function, "__qualname__", ""),
        code.co_firstlineno if code is not None else 0,
    )


def _signature(kind: str, function: Callable[..., Any], has_context: bool) -> inspect.Signature:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if has_context:
        if not parameters or parameters[0].kind not in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ):
            raise InvalidArgument(f"{kind}: the handler's first parameter must be its context")
        parameters = parameters[1:]
    for parameter in parameters:
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise InvalidArgument(
                f"{kind}: parameter {parameter.name}: must have a name, args are stored by name"
            )
    return signature.replace(parameters=parameters)


def encoded(jobs: Sequence[NewJob[Any]]) -> list[dict[str, Any]]:
    """The jobs as fields of a request. The args of each are checked."""
    out = []
    for i, job in enumerate(jobs):
        where = "args" if len(jobs) == 1 else f"jobs[{i}].args"
        _check_new(job, "job" if len(jobs) == 1 else f"jobs[{i}]")
        encode(job.args, where, MAX_PAYLOAD)
        out.append(job.fields())
    return out


def embedded(job: NewJob[Any], where: str) -> dict[str, Any]:
    """A job inside a completion, a schedule or a step, as fields of a request."""
    _check_new(job, where)
    for name in ("idempotency_key", "fence"):
        if getattr(job.how, name) is not None:
            field = f"{where}.{name}"
            raise InvalidArgument(f"{field}: is for an enqueue only; leave it out", field=field)
    encode(job.args, f"{where}.args", MAX_PAYLOAD)
    return job.fields()


def _check_new(job: object, where: str) -> None:
    if not isinstance(job, NewJob):
        raise InvalidArgument(
            f"{where} {job!r:.80}: must be a new job, such as greet.new(…)", field=where
        )
