"""Queues, schedules and workflows. Every call except `trigger` is safe to repeat."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from ._jobs import NewJob, embedded
from ._values import Duration, duration, encode, instant, seconds
from ._wire import Call, path_part, query, require
from .errors import InvalidArgument

if TYPE_CHECKING:
    from . import api
    from ._client import Mainspring

WORKFLOW_ENDED = ("completed", "failed", "undone", "cancelled")
WAIT_SLICE = 30.0


def _job(job: NewJob[Any] | Mapping[str, Any], where: str = "job") -> dict[str, Any]:
    return dict(job) if isinstance(job, Mapping) else embedded(job, where)


class _Group:
    def __init__(self, ms: Mainspring) -> None:
        self._ms = ms

    def _ask(self, method: str, path: str, body: Any = None, repeat: str = "yes") -> Any:
        data = b"" if body is None else encode(body, "body")
        return self._ms.requests.run(Call(method, path, data, repeat=repeat))

    def _pages(self, path: str, name: str) -> Iterator[dict[str, Any]]:
        after: str | None = None
        while True:
            page = self._ask("GET", path + query({"after": after}))
            yield from require(page, name, list)
            after = page.get("next")
            if after is None:
                return


class Queues(_Group):
    """Counters, pauses and limits of queues."""

    def get(self, name: str) -> api.Queue:
        document: api.Queue = self._ask("GET", f"/v1/queues/{path_part(name)}")
        return document

    def all(self) -> list[api.Queue]:
        queues: list[api.Queue] = require(self._ask("GET", "/v1/queues"), "queues", list)
        return queues

    def pause(self, name: str) -> None:
        self._ask("POST", f"/v1/queues/{path_part(name)}/pause")

    def resume(self, name: str) -> None:
        self._ask("POST", f"/v1/queues/{path_part(name)}/resume")

    def limit(self, name: str, **limits: Any) -> dict[str, Any]:
        """Sets the limits of a queue. Omitted limits are removed.

            ms.queues.limit("mail", concurrency=5, rate={"count": 100, "per": "1m"})

        Fields: concurrency, rate, per_key, ageing, breaker, quarantine_after, costs, searchable.
        """
        document: dict[str, Any] = self._ask("PUT", f"/v1/queues/{path_part(name)}/limits", limits)
        return document

    def retain(
        self, name: str, *, completed: Duration | None = None, dead: Duration | None = None
    ) -> None:
        """How long ended jobs of the queue are kept; None is the server's default."""
        retention = {
            which: None if value is None else duration(value, which)
            for which, value in (("completed", completed), ("dead", dead))
        }
        self._ask("PUT", f"/v1/queues/{path_part(name)}", {"retention": retention})


class Schedules(_Group):
    """Schedules: jobs created by the clock."""

    def set(
        self,
        name: str,
        job: NewJob[Any] | Mapping[str, Any],
        *,
        cron: str | None = None,
        every: Duration | None = None,
        at: str | dt.datetime | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Defines a schedule. The same definition again changes nothing.

            ms.schedules.set("nightly", report.new("eu"), cron="30 2 * * *",
                             time_zone="Europe/Berlin")

        `more` are the other fields of a schedule: time_zone, misfire, overlap, jitter, ….
        """
        body: dict[str, Any] = {"job": _job(job), **more}
        if cron is not None:
            body["cron"] = cron
        if every is not None:
            body["every"] = duration(every, "every")
        if at is not None:
            body["at"] = instant(at, "at")
        document: dict[str, Any] = self._ask("PUT", f"/v1/schedules/{path_part(name)}", body)
        require(document, "outcome", str)
        return document

    def get(self, name: str) -> api.Schedule:
        document: api.Schedule = self._ask("GET", f"/v1/schedules/{path_part(name)}")
        return document

    def all(self) -> Iterator[dict[str, Any]]:
        return self._pages("/v1/schedules", "schedules")

    def remove(self, name: str) -> None:
        self._ask("DELETE", f"/v1/schedules/{path_part(name)}")

    def pause(self, name: str, reason: str = "") -> None:
        body = {"reason": reason} if reason else {}
        self._ask("POST", f"/v1/schedules/{path_part(name)}/pause", body)

    def resume(self, name: str) -> None:
        self._ask("POST", f"/v1/schedules/{path_part(name)}/resume")

    def trigger(self, name: str) -> int:
        """Runs the job now and returns its id. If there is no answer, check the ledger before you
        repeat the call: it may have run."""
        document = self._ask("POST", f"/v1/schedules/{path_part(name)}/trigger", repeat="no")
        return int(require(document, "job", int))

    def preview(self, name: str, count: int = 10) -> list[dict[str, Any]]:
        path = f"/v1/schedules/{path_part(name)}/preview" + query({"count": count})
        ticks: list[dict[str, Any]] = require(self._ask("GET", path), "ticks", list)
        return ticks

    def ledger(self, name: str, limit: int = 50) -> list[dict[str, Any]]:
        """The outcomes of the newest ticks."""
        path = f"/v1/schedules/{path_part(name)}/ledger" + query({"limit": limit})
        ticks: list[dict[str, Any]] = require(self._ask("GET", path), "ticks", list)
        return ticks


class Workflow:
    """A workflow that was started."""

    def __init__(self, group: Workflows, id: int, duplicate: bool = False) -> None:
        self._group = group
        self.id = id
        self.duplicate = duplicate

    def __repr__(self) -> str:
        return f"<Workflow {self.id}>"

    def _post(self, verb: str, body: Any = None) -> dict[str, Any]:
        path = f"/v1/workflows/{self.id}/{verb}"
        document: dict[str, Any] = self._group._ask("POST", path, {} if body is None else body)
        return document

    def get(self) -> api.Workflow:
        document: api.Workflow = self._group._ask("GET", f"/v1/workflows/{self.id}")
        return document

    def wait(self, timeout: Duration = "60s") -> api.Workflow:
        """Waits until the workflow ends or is parked, or until `timeout`. Returns its record."""
        until = time.monotonic() + seconds(timeout, "timeout")
        while True:
            left = max(0.0, until - time.monotonic())
            slice = min(left, WAIT_SLICE)
            path = f"/v1/workflows/{self.id}?wait={duration(round(slice, 3))}"
            document: api.Workflow = self._group._ms.requests.run(Call("GET", path, wait=slice))
            ended = require(document, "state", str) in (*WORKFLOW_ENDED, "parked")
            if ended or left <= WAIT_SLICE:
                return document

    def steps(self) -> Iterator[dict[str, Any]]:
        return self._group._pages(f"/v1/workflows/{self.id}/steps", "steps")

    def signal(self, name: str, payload: Any = None, id: str | None = None) -> None:
        """Sends a signal. Repeating an `id` has no effect. None: a random id."""
        body = {"name": name, "id": id or "py-" + secrets.token_hex(8)}
        self._post("signal", body if payload is None else {**body, "payload": payload})

    def cancel(self, reason: str = "") -> dict[str, Any]:
        return self._post("cancel", {"reason": reason} if reason else {})

    def pause(self) -> dict[str, Any]:
        return self._post("pause")

    def resume(self) -> dict[str, Any]:
        return self._post("resume")

    def retry(self, step: str | None = None) -> dict[str, Any]:
        return self._post("retry", {} if step is None else {"step": step})

    def fork(self, step: str, *, key: str | None = None, **more: Any) -> Workflow:
        """Starts a new workflow that runs `step` and the steps after it again."""
        key = key or "py-" + secrets.token_hex(8)
        document = self._post("fork", {"step": step, "key": key, **more})
        return Workflow(self._group, require(document, "id", int))


def step(
    name: str,
    job: NewJob[Any] | Mapping[str, Any] | None = None,
    *,
    after: Sequence[str] = (),
    undo: NewJob[Any] | Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A step of a workflow. `more`: sleep, signal, workflow, each, deadline, on_failure, …."""
    out: dict[str, Any] = {"name": name, **more}
    if job is not None:
        out["job"] = _job(job)
    if after:
        if isinstance(after, str):
            raise InvalidArgument(f'after "{after}": must be a list of steps', field="after")
        out["after"] = list(after)
    if undo is not None:
        out["undo"] = _job(undo, "undo")
    return out


def ref(reference: str) -> Any:
    """A reference in the args of a step: `ref("charge.id")`."""
    return {"$ref": reference}


class Workflows(_Group):
    """Workflows: steps that are all completed or all undone."""

    def start(
        self,
        name: str,
        steps: Sequence[Mapping[str, Any]],
        *,
        input: Any = None,
        key: str | None = None,
        **more: Any,
    ) -> Workflow:
        """Starts a workflow. A start with the same name and key returns the first workflow.

        Without a key one is made up, so that a repeated request starts one workflow.
        """
        key = key or "py-" + secrets.token_hex(16)
        body: dict[str, Any] = {"name": name, "steps": list(steps), "key": key, **more}
        if input is not None:
            body["input"] = input
        document = self._ask("POST", "/v1/workflows", body)
        return Workflow(self, require(document, "id", int), document.get("duplicate") is True)

    def find(self, id: int) -> Workflow:
        return Workflow(self, id)
