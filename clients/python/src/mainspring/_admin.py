"""Queues, schedules and workflows. Every call except `trigger` is safe to repeat.

Methods that begin with `a` are the same for coroutines: `await ms.queues.apause("mail")`.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, Mapping, Sequence, TypeVar

from ._jobs import NewJob, embedded
from ._operations import Operation, Pages, request, until_state
from ._values import Duration, duration, instant
from ._wire import path_part, query, require
from .errors import (
    Conflict,
    InvalidArgument,
    JobFailed,
    MainspringError,
    NotFound,
    ResultTimeout,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import api
    from ._client import Mainspring
    from .options import (
        ForkOptions,
        PlannedSchedule,
        ScheduleOptions,
        StepOptions,
        WorkflowFilter,
        WorkflowOptions,
    )

T = TypeVar("T")
Rows = list  # classes here have a method of that name
WORKFLOW_ENDED = ("completed", "failed", "undone", "cancelled")


def _job(job: NewJob[Any] | Mapping[str, Any], where: str = "job") -> dict[str, Any]:
    return dict(job) if isinstance(job, Mapping) else embedded(job, where)


def _fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as fields of a request, without those that are None."""
    out = {name.rstrip("_"): value for name, value in options.items() if value is not None}
    for name in ("every", "misfire_window", "jitter", "sleep", "deadline"):
        if name in out:
            out[name] = duration(out[name], name)
    for name in ("at", "start_at", "end_at"):
        if name in out:
            out[name] = instant(out[name], name)
    return out


class _Group:
    def __init__(self, ms: Mainspring) -> None:
        self._ms = ms

    def _run(self, operation: Operation[T]) -> T:
        return self._ms.requests.complete(operation)

    async def _arun(self, operation: Operation[T]) -> T:
        return await self._ms.requests.acomplete(operation)


class Queues(_Group):
    """Counters, pauses and limits of queues."""

    def get(self, name: str) -> api.Queue:
        return self._run(_get_queue(name))

    async def aget(self, name: str) -> api.Queue:
        return await self._arun(_get_queue(name))

    def list(self) -> Rows[api.Queue]:
        return self._run(_all_queues())

    async def alist(self) -> Rows[api.Queue]:
        return await self._arun(_all_queues())

    def pause(self, name: str) -> None:
        self._run(_post(_queue(name, "/pause")))

    async def apause(self, name: str) -> None:
        await self._arun(_post(_queue(name, "/pause")))

    def resume(self, name: str) -> None:
        self._run(_post(_queue(name, "/resume")))

    async def aresume(self, name: str) -> None:
        await self._arun(_post(_queue(name, "/resume")))

    def set_limits(self, name: str, **limits: Unpack[api.QueueLimits]) -> dict[str, Any]:
        """Sets the limits of a queue. Omitted limits are removed.

            ms.queues.set_limits("mail", concurrency=5, rate={"count": 100, "per": "1m"})

        Fields: concurrency, rate, per_key, ageing, breaker, quarantine_after, costs, searchable.
        """
        return self._run(_limit(name, limits))

    async def aset_limits(self, name: str, **limits: Unpack[api.QueueLimits]) -> dict[str, Any]:
        return await self._arun(_limit(name, limits))

    def set_retention(
        self, name: str, *, completed: Duration | None = None, dead: Duration | None = None
    ) -> None:
        """How long ended jobs of the queue are kept; None is the server's default."""
        self._run(_retain(name, completed, dead))

    async def aset_retention(
        self, name: str, *, completed: Duration | None = None, dead: Duration | None = None
    ) -> None:
        await self._arun(_retain(name, completed, dead))


def _queue(name: str, verb: str = "") -> str:
    return f"/v1/queues/{path_part(name)}{verb}"


def _post(path: str, body: Any = None) -> Operation[dict[str, Any]]:
    document: dict[str, Any] = yield request("POST", path, body)
    return document


def _get_queue(name: str) -> Operation[api.Queue]:
    document: api.Queue = yield request("GET", _queue(name))
    return document


def _all_queues() -> Operation[list[api.Queue]]:
    queues: list[api.Queue] = require((yield request("GET", "/v1/queues")), "queues", list)
    return queues


def _limit(name: str, limits: api.QueueLimits) -> Operation[dict[str, Any]]:
    document: dict[str, Any] = yield request("PUT", _queue(name, "/limits"), limits)
    return document


def _retain(name: str, completed: Duration | None, dead: Duration | None) -> Operation[None]:
    retention = {
        which: None if value is None else duration(value, which)
        for which, value in (("completed", completed), ("dead", dead))
    }
    yield request("PUT", _queue(name), {"retention": retention})


class Schedules(_Group):
    """Schedules: jobs created by the clock."""

    def put(
        self,
        name: str,
        job: NewJob[Any] | Mapping[str, Any],
        **options: Unpack[ScheduleOptions],
    ) -> dict[str, Any]:
        """Defines a schedule. The same definition again changes nothing.

            ms.schedules.put("nightly", report.new("eu"), cron="30 2 * * *",
                             time_zone="Europe/Berlin")

        `options`: one of cron, every and at; time_zone, misfire, overlap, jitter, ….
        """
        return self._run(_put_schedule(name, job, options))

    async def aput(
        self,
        name: str,
        job: NewJob[Any] | Mapping[str, Any],
        **options: Unpack[ScheduleOptions],
    ) -> dict[str, Any]:
        return await self._arun(_put_schedule(name, job, options))

    def sync(
        self, owner: str, schedules: Mapping[str, PlannedSchedule], *, dry_run: bool = False
    ) -> dict[str, str]:
        """Makes `schedules` the only ones of `owner`: defines them, and removes those that earlier
        calls for `owner` defined and that are no longer in it.

            ms.schedules.sync("shop", {"nightly": {"job": report.new(), "cron": "30 2 * * *"}})

        Returns what happens to each: "created", "replaced", "unchanged" or "removed". With
        `dry_run` nothing is changed. A schedule of another owner is refused with Conflict, before
        anything is changed; one without an owner becomes the owner's. The jobs have the headers
        "schedule-owner" and "schedule-digest". An error in between leaves a part of the changes:
        call again.
        """
        outcomes, gone = self._run(_sync(owner, schedules, dry_run))
        for name in gone:
            with suppress(NotFound):  # another process of the owner does the same
                self.remove(name)
        return outcomes

    async def await_sync(
        self, owner: str, schedules: Mapping[str, PlannedSchedule], *, dry_run: bool = False
    ) -> dict[str, str]:
        """As `sync`, for coroutines."""
        outcomes, gone = await self._arun(_sync(owner, schedules, dry_run))
        for name in gone:
            with suppress(NotFound):
                await self.aremove(name)
        return outcomes

    def get(self, name: str) -> api.Schedule:
        return self._run(_get_schedule(name))

    async def aget(self, name: str) -> api.Schedule:
        return await self._arun(_get_schedule(name))

    def list(self) -> Iterator[dict[str, Any]]:
        return _SCHEDULES.read(self._ms.requests)

    def alist(self) -> AsyncIterator[dict[str, Any]]:
        return _SCHEDULES.aread(self._ms.requests)

    def remove(self, name: str) -> None:
        self._run(_remove_schedule(name))

    async def aremove(self, name: str) -> None:
        await self._arun(_remove_schedule(name))

    def pause(self, name: str, reason: str = "") -> None:
        self._run(_post(_schedule(name, "/pause"), _reason(reason)))

    async def apause(self, name: str, reason: str = "") -> None:
        await self._arun(_post(_schedule(name, "/pause"), _reason(reason)))

    def resume(self, name: str) -> None:
        self._run(_post(_schedule(name, "/resume")))

    async def aresume(self, name: str) -> None:
        await self._arun(_post(_schedule(name, "/resume")))

    def trigger(self, name: str) -> int:
        """Runs the job now and returns its id. If there is no answer, check the ledger before you
        repeat the call: it may have run."""
        return self._run(_trigger(name))

    async def atrigger(self, name: str) -> int:
        return await self._arun(_trigger(name))

    def preview(self, name: str, count: int = 10) -> Rows[dict[str, Any]]:
        return self._run(_ticks(_schedule(name, "/preview"), {"count": count}))

    async def apreview(self, name: str, count: int = 10) -> Rows[dict[str, Any]]:
        return await self._arun(_ticks(_schedule(name, "/preview"), {"count": count}))

    def ledger(self, name: str, limit: int = 50) -> Rows[dict[str, Any]]:
        """The outcomes of the newest ticks."""
        return self._run(_ticks(_schedule(name, "/ledger"), {"limit": limit}))

    async def aledger(self, name: str, limit: int = 50) -> Rows[dict[str, Any]]:
        return await self._arun(_ticks(_schedule(name, "/ledger"), {"limit": limit}))


_SCHEDULES = Pages("/v1/schedules", "schedules", ("after", "next"))


def _schedule(name: str, verb: str = "") -> str:
    return f"/v1/schedules/{path_part(name)}{verb}"


def _reason(reason: str) -> dict[str, str]:
    return {"reason": reason} if reason else {}


def _put_schedule(
    name: str, job: NewJob[Any] | Mapping[str, Any], options: ScheduleOptions
) -> Operation[dict[str, Any]]:
    return (yield from _put_body(name, {"job": _job(job), **_fields(options)}))


def _put_body(name: str, body: dict[str, Any]) -> Operation[dict[str, Any]]:
    document: dict[str, Any] = yield request("PUT", _schedule(name), body)
    require(document, "outcome", str)
    return document


OWNER, DIGEST = "schedule-owner", "schedule-digest"  # headers of the jobs


@contextmanager
def _naming(schedule: str) -> Iterator[None]:
    """Its errors say which schedule of many they are about."""
    try:
        yield
    except MainspringError as error:
        error.message = f"schedule {schedule}: {error.message}"
        error.args = (error.message,)
        raise


def _planned(owner: str, schedules: Mapping[str, PlannedSchedule]) -> dict[str, dict[str, Any]]:
    """The requests for the schedules of an owner."""
    if not isinstance(owner, str) or not owner:
        raise InvalidArgument(f"owner {owner!r}: must be a text", field="owner")
    bodies: dict[str, dict[str, Any]] = {}
    for name, planned in schedules.items():
        options = {key: value for key, value in planned.items() if key != "job"}
        with _naming(name):
            if "job" not in planned:
                raise InvalidArgument("job: is missing", field="job")
            body = {"job": _job(planned["job"]), **_fields(options)}
        headers = {**body["job"].get("headers", {}), OWNER: owner}
        body["job"]["headers"] = headers
        text = json.dumps(body, sort_keys=True).encode()
        headers[DIGEST] = hashlib.sha256(text).hexdigest()[:16]
        bodies[name] = body
    return bodies


def _headers_of(schedule: api.Schedule) -> Mapping[str, Any]:
    return schedule["job"].get("headers", {})


def _sync(
    owner: str, schedules: Mapping[str, PlannedSchedule], dry_run: bool
) -> Operation[tuple[dict[str, str], list[str]]]:
    """The outcomes, and the schedules that are still to be removed."""
    bodies = _planned(owner, schedules)
    there = {one["name"]: _headers_of(one) for one in (yield from _SCHEDULES.whole())}
    for name in bodies:
        other = there.get(name, {}).get(OWNER, owner)
        if other != owner:
            raise Conflict(f"schedule {name}: belongs to {other}, not to {owner}", field=name)
    outcomes: dict[str, str] = {}
    for name, body in bodies.items():
        if not dry_run:
            with _naming(name):
                outcomes[name] = (yield from _put_body(name, body))["outcome"]
        elif name not in there:
            outcomes[name] = "created"
        else:
            same = there[name].get(DIGEST) == body["job"]["headers"][DIGEST]
            outcomes[name] = "unchanged" if same else "replaced"
    gone = [name for name, has in there.items() if has.get(OWNER) == owner and name not in bodies]
    outcomes.update(dict.fromkeys(gone, "removed"))
    return outcomes, ([] if dry_run else gone)


def _get_schedule(name: str) -> Operation[api.Schedule]:
    document: api.Schedule = yield request("GET", _schedule(name))
    return document


def _remove_schedule(name: str) -> Operation[None]:
    yield request("DELETE", _schedule(name))


def _trigger(name: str) -> Operation[int]:
    document = yield request("POST", _schedule(name, "/trigger"), repeat="no")
    return int(require(document, "job", int))


def _ticks(path: str, parameters: dict[str, Any]) -> Operation[list[dict[str, Any]]]:
    document = yield request("GET", path + query(parameters))
    ticks: list[dict[str, Any]] = require(document, "ticks", list)
    return ticks


class Workflow:
    """A workflow that was started."""

    def __init__(self, group: Workflows, id: int, duplicate: bool = False) -> None:
        self._group = group
        self.id = id
        self.duplicate = duplicate

    def __repr__(self) -> str:
        return f"<Workflow {self.id}>"

    def _path(self, verb: str = "") -> str:
        return f"/v1/workflows/{self.id}{verb}"

    def get(self) -> api.Workflow:
        return self._group._run(self._get())

    async def aget(self) -> api.Workflow:
        return await self._group._arun(self._get())

    def _get(self) -> Operation[api.Workflow]:
        document: api.Workflow = yield request("GET", self._path())
        return document

    def wait(self, timeout: Duration | None = None) -> api.Workflow:
        """Waits until the workflow ends or is parked, or until `timeout` (None: forever). Returns
        its record then."""
        return self._group._run(self._wait(timeout))

    async def await_end(self, timeout: Duration | None = None) -> api.Workflow:
        """As `wait`, for coroutines."""
        return await self._group._arun(self._wait(timeout))

    def _wait(self, timeout: Duration | None) -> Operation[api.Workflow]:
        return until_state(self._path(), (*WORKFLOW_ENDED, "parked"), timeout)

    def result(self, timeout: Duration | None = None) -> Any:
        """Waits for the workflow's result. Raises JobFailed if it ends without one or is parked,
        ResultTimeout after `timeout`."""
        return self._result_of(self.wait(timeout))

    async def aresult(self, timeout: Duration | None = None) -> Any:
        return self._result_of(await self.await_end(timeout))

    def _result_of(self, record: api.Workflow) -> Any:
        state = record["state"]
        if state == "completed":
            return record.get("result")
        if state not in (*WORKFLOW_ENDED, "parked"):
            raise ResultTimeout(f"workflow {self.id} has not ended in time: it is {state}")
        why = record.get("reason") or "no reason given"
        raise JobFailed(f"workflow {self.id} is {state}: {why}", record)

    def steps(self) -> Iterator[dict[str, Any]]:
        return self._steps().read(self._group._ms.requests)

    def asteps(self) -> AsyncIterator[dict[str, Any]]:
        return self._steps().aread(self._group._ms.requests)

    def _steps(self) -> Pages:
        return Pages(self._path("/steps"), "steps", ("after", "next"))

    def signal(self, name: str, payload: Any = None, id: str | None = None) -> None:
        """Sends a signal. Repeating an `id` has no effect. None: a random id."""
        self._group._run(self._signal(name, payload, id))

    async def asignal(self, name: str, payload: Any = None, id: str | None = None) -> None:
        await self._group._arun(self._signal(name, payload, id))

    def _signal(self, name: str, payload: Any, id: str | None) -> Operation[dict[str, Any]]:
        body = {"name": name, "id": id or "py-" + secrets.token_hex(8)}
        if payload is not None:
            body["payload"] = payload
        return _post(self._path("/signal"), body)

    def cancel(self, reason: str = "") -> dict[str, Any]:
        return self._group._run(_post(self._path("/cancel"), _reason(reason)))

    async def acancel(self, reason: str = "") -> dict[str, Any]:
        return await self._group._arun(_post(self._path("/cancel"), _reason(reason)))

    def pause(self) -> dict[str, Any]:
        return self._group._run(_post(self._path("/pause"), {}))

    async def apause(self) -> dict[str, Any]:
        return await self._group._arun(_post(self._path("/pause"), {}))

    def resume(self) -> dict[str, Any]:
        return self._group._run(_post(self._path("/resume"), {}))

    async def aresume(self) -> dict[str, Any]:
        return await self._group._arun(_post(self._path("/resume"), {}))

    def retry(self, step: str | None = None) -> dict[str, Any]:
        return self._group._run(_post(self._path("/retry"), _fields({"step": step})))

    async def aretry(self, step: str | None = None) -> dict[str, Any]:
        return await self._group._arun(_post(self._path("/retry"), _fields({"step": step})))

    def fork(self, step: str, **options: Unpack[ForkOptions]) -> Workflow:
        """Starts a new workflow that runs `step` and the steps after it again."""
        return self._group._run(self._fork(step, options))

    async def afork(self, step: str, **options: Unpack[ForkOptions]) -> Workflow:
        return await self._group._arun(self._fork(step, options))

    def _fork(self, step: str, options: ForkOptions) -> Operation[Workflow]:
        key = options.get("key") or "py-" + secrets.token_hex(8)
        body = {**_fields(options), "step": step, "key": key}
        document = yield request("POST", self._path("/fork"), body)
        return Workflow(self._group, require(document, "id", int))


def step(
    name: str,
    job: NewJob[Any] | Mapping[str, Any] | None = None,
    *,
    after: Sequence[str] = (),
    undo: NewJob[Any] | Mapping[str, Any] | None = None,
    **options: Unpack[StepOptions],
) -> dict[str, Any]:
    """A step of a workflow. `options`: sleep, signal, workflow, each, deadline, on_failure, …."""
    out: dict[str, Any] = {"name": name, **_fields(options)}
    if job is not None:
        out["job"] = _job(job)
    if after:
        if isinstance(after, str):
            raise InvalidArgument(f'after "{after}": must be a list of steps', field="after")
        out["after"] = list(after)
    if undo is not None:
        out["undo"] = _job(undo, "undo")
    return out


def ref(reference: str, *, by_reference: bool = False) -> Any:
    """A reference in the args of a step: `ref("charge.id")`. `by_reference`: the handler reads the
    results of the step, however large they are, with `ctx.results`."""
    return {"$ref": reference, **({"by_reference": True} if by_reference else {})}


class Workflows(_Group):
    """Workflows: steps that are all completed or all undone."""

    def start(
        self, name: str, steps: Sequence[Mapping[str, Any]], **options: Unpack[WorkflowOptions]
    ) -> Workflow:
        """Starts a workflow. A start with the same name and key returns the first workflow.

        `options`: input, key, deadline, result, undo_order. Without a key one is made up, so that
        a repeated request starts one workflow.
        """
        return self._run(self._start(name, steps, options))

    async def astart(
        self, name: str, steps: Sequence[Mapping[str, Any]], **options: Unpack[WorkflowOptions]
    ) -> Workflow:
        return await self._arun(self._start(name, steps, options))

    def _start(
        self, name: str, steps: Sequence[Mapping[str, Any]], options: WorkflowOptions
    ) -> Operation[Workflow]:
        key = options.get("key") or "py-" + secrets.token_hex(16)
        body = {**_fields(options), "name": name, "steps": [*steps], "key": key}
        document = yield request("POST", "/v1/workflows", body)
        return Workflow(self, require(document, "id", int), document.get("duplicate") is True)

    def find(self, id: int) -> Workflow:
        """A handle of a workflow. Sends no request."""
        return Workflow(self, id)

    def list(self, **filter: Unpack[WorkflowFilter]) -> Iterator[api.Workflow]:
        """Workflows, newest first: by name and state."""
        return _workflows(filter).read(self._ms.requests)

    def alist(self, **filter: Unpack[WorkflowFilter]) -> AsyncIterator[api.Workflow]:
        return _workflows(filter).aread(self._ms.requests)


def _workflows(filter: WorkflowFilter) -> Pages:
    return Pages("/v1/workflows", "workflows", ("before", "next"), dict(filter))
