"""Django: a backend for Django Tasks (Django 6), and enqueueing when a transaction commits.

    TASKS = {"default": {
        "BACKEND": "mainspring.contrib.django.MainspringBackend",
        "OPTIONS": {"url": "http://127.0.0.1:8080"},
    }}

A worker of such tasks: `python -m mainspring work mysite.worker`, where mysite/worker.py is

    import django
    django.setup()
    from mainspring.contrib.django import worker_client
    ms = worker_client()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Callable, Mapping

from .._client import Mainspring
from .._context import Context
from .._jobs import Job, NewJob, Options
from ..errors import Expired, NotFound

KIND = "django.task"
STATES = {
    "completed": "SUCCESSFUL",
    "dead": "FAILED",
    "cancelled": "FAILED",
    "running": "RUNNING",
}


def on_commit(job: NewJob[Any], then: Callable[[Job[Any]], None] | None = None) -> None:
    """Enqueues a job once the current transaction commits; at once outside of one.

    A job that is enqueued inside a transaction may start before its rows can be read, and stays
    if the transaction is rolled back.
    """
    from django.db import transaction

    ms = job_client(job)

    def enqueue() -> None:
        made = ms.enqueue(job)
        if then is not None:
            then(made)

    transaction.on_commit(enqueue)


_default: list[Mainspring] = []


def job_client(job: NewJob[Any]) -> Mainspring:
    """The client of the job's definition; for other kinds one from the environment."""
    from .._jobs import definitions

    known = definitions.get(job.kind)
    if known is not None:
        return known.ms
    if not _default:
        _default.append(Mainspring())
    return _default[0]


def job_of(task: Any, args: Any, kwargs: Any) -> NewJob[Any]:
    """The job of a Django task: it names the function, so that a worker can import it."""
    options: dict[str, Any] = {"queue": task.queue_name, "priority": priority(task.priority)}
    if task.run_after is not None:
        options["run_at"] = task.run_after
    function = task.func
    name = f"{function.__module__}.{function.__qualname__}"
    return NewJob(KIND, {"task": name, "args": list(args), "kwargs": kwargs}, Options(**options))


def priority(django: int) -> int:
    """Django's -100 (last) to 100 (first) as 9 to 0."""
    return min(9, max(0, round((100 - django) * 9 / 200)))


def run(ctx: Context, task: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The handler of Django tasks."""
    module, _, name = task.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    function = getattr(found, "func", found)
    if getattr(found, "takes_context", False):
        args = [ctx, *args]
    result = function(*args, **kwargs)
    if hasattr(result, "__await__"):
        import asyncio

        async def wait() -> Any:
            return await result

        result = asyncio.run(wait())
    return result


def worker_client(url: str | None = None, queues: tuple[str, ...] = ("default",)) -> Mainspring:
    """A client that runs Django tasks of these queues."""
    ms = Mainspring(url)
    for queue in queues[:1]:
        ms.job(KIND, queue=queue)(run)
    return ms


if TYPE_CHECKING:
    BaseTaskBackend: Any = object
    TaskResultDoesNotExist: type[Exception] = Exception
else:
    try:
        from django.tasks.backends.base import BaseTaskBackend
        from django.tasks.exceptions import TaskResultDoesNotExist
    except ImportError:  # before Django 6: `on_commit` is there, the backend is not
        BaseTaskBackend, TaskResultDoesNotExist = object, LookupError


class MainspringBackend(BaseTaskBackend):  # type: ignore[misc]
    """The backend of Django Tasks."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        options = dict(params.get("OPTIONS", {}))
        self.ms = Mainspring(options.pop("url", None), **options)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        self.validate_task(task)
        job = self.ms.enqueue(job_of(task, args, kwargs))
        return self._result(task, job.id, "READY", args, kwargs, {})

    def get_result(self, result_id: str) -> Any:
        try:
            record = self.ms.get(int(result_id))
        except (ValueError, NotFound, Expired) as error:
            raise TaskResultDoesNotExist(result_id) from error
        given = record.get("args") or {}
        module, _, name = str(given.get("task", "")).rpartition(".")
        task = getattr(importlib.import_module(module), name)
        status = STATES.get(record["state"], "READY")
        return self._result(
            task, record["id"], status, given.get("args", []), given.get("kwargs", {}), record
        )

    def _result(
        self, task: Any, id: int, status: str, args: Any, kwargs: Any, record: Mapping[str, Any]
    ) -> Any:
        from datetime import datetime, timezone

        from django.tasks.base import TaskError, TaskResult, TaskResultStatus

        def time(name: str) -> datetime | None:
            text = record.get(name)
            return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None

        errors = [
            TaskError(
                exception_class_path="builtins.Exception", traceback=str(one.get("message", ""))
            )
            for one in record.get("errors", [])
        ]
        result = TaskResult(
            task=task,
            id=str(id),
            status=TaskResultStatus[status],
            enqueued_at=time("created_at") or datetime.now(timezone.utc),
            started_at=time("started_at"),
            last_attempted_at=time("started_at"),
            finished_at=time("finished_at"),
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=errors,
            worker_ids=[record["worker"]] if record.get("worker") else [],
        )
        if status == "SUCCESSFUL":
            object.__setattr__(result, "_return_value", record.get("result"))
        return result
