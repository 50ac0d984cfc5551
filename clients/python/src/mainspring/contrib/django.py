"""Django: a backend for Django Tasks (Django 6), and enqueueing when a transaction commits.

    TASKS = {"default": {
        "BACKEND": "mainspring.contrib.django.MainspringBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"url": "http://127.0.0.1:8080", "job": {"max_attempts": 5}},
    }}

Jobs run registered tasks only: those of the module `tasks` of each installed app, and of the
modules that OPTIONS["modules"] names. A job's text imports nothing.

A worker for these tasks:

    export DJANGO_SETTINGS_MODULE=mysite.settings
    python -m mainspring work mainspring.contrib.django_worker
"""

from __future__ import annotations

import datetime as dt
import importlib
import logging
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from .._client import Mainspring
from .._context import Context
from .._jobs import Job, NewJob, Options
from .._values import check_list
from ..errors import Expired, Interrupted, InvalidArgument, NotFound
from ..outcomes import OUTCOMES, Retry

KIND = "django.task"
STATES = {
    "completed": "SUCCESSFUL",
    "dead": "FAILED",
    "cancelled": "FAILED",
    "running": "RUNNING",
}
MAX_TRACEBACK = 4000  # characters
UNKNOWN = "unknown"

log = logging.getLogger("mainspring.django")


def on_commit(
    job: NewJob[Any],
    then: Callable[[Job[Any]], None] | None = None,
    using: str | None = None,
) -> None:
    """Enqueues a job once the current transaction commits; at once outside of one.

    `using` names the database, as in Django's `transaction.on_commit`.

    A job that is enqueued inside a transaction may start before its rows can be read, and stays
    if the transaction is rolled back.
    """
    from django.db import transaction

    ms = job_client(job)

    def enqueue() -> None:
        made = ms.enqueue(job)
        if then is not None:
            then(made)

    transaction.on_commit(enqueue, using=using)


_default: list[Mainspring] = []


def job_client(job: NewJob[Any]) -> Mainspring:
    """The client that made the job; one from the environment if none did."""
    if job.ms is not None:
        return job.ms
    if not _default:
        _default.append(Mainspring())
    return _default[0]


def priority(django: int) -> int:
    """Django's -100 (last) to 100 (first) as 9 to 0."""
    return min(9, max(0, round((100 - django) * 9 / 200)))


if TYPE_CHECKING:
    BaseTaskBackend: Any = object
    Task: Any = object
    TaskContext: Any = object
    TaskResultDoesNotExist: type[Exception] = Exception
else:
    try:
        from django.tasks.backends.base import BaseTaskBackend
        from django.tasks.base import Task, TaskContext
        from django.tasks.exceptions import TaskResultDoesNotExist
    except ImportError:  # before Django 6: `on_commit` is there, the backend is not
        BaseTaskBackend, TaskContext, TaskResultDoesNotExist = object, object, LookupError
        Task = ()  # no object is a task


@dataclass(frozen=True, kw_only=True)
class MainspringTaskContext(TaskContext):  # type: ignore[misc]
    """The context of a task that takes one. `job` is Mainspring's context: steps, progress and
    cancellation."""

    job: Context


class MainspringBackend(BaseTaskBackend):  # type: ignore[misc]
    """The backend of Django Tasks. A task is a job of the kind `django.task`."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        options = dict(params.get("OPTIONS", {}))
        self.job_options = Options(**options.pop("job", {}))
        self.modules: Sequence[str] = options.pop("modules", ())
        check_list(self.modules, "modules")
        self.client_options = options
        self.ms = self.new_client()

    def new_client(self) -> Mainspring:
        options = dict(self.client_options)
        return Mainspring(options.pop("url", None), **options)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        from django.tasks.signals import task_enqueued

        self.validate_task(task)
        job = self.ms.enqueue(self._job_of(task, args, kwargs))
        result = self._enqueued(task, job.id, args, kwargs)
        task_enqueued.send(type(self), task_result=result)
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        from django.tasks.signals import task_enqueued

        self.validate_task(task)
        job = await self.ms.aenqueue(self._job_of(task, args, kwargs))
        result = self._enqueued(task, job.id, args, kwargs)
        await task_enqueued.asend(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        try:
            record = self.ms.get(int(result_id))
        except (ValueError, NotFound, Expired) as error:
            raise TaskResultDoesNotExist(result_id) from error
        return self._found(result_id, record)

    async def aget_result(self, result_id: str) -> Any:
        try:
            record = await self.ms.aget(int(result_id))
        except (ValueError, NotFound, Expired) as error:
            raise TaskResultDoesNotExist(result_id) from error
        return self._found(result_id, record)

    def _job_of(self, task: Any, args: Any, kwargs: Any) -> NewJob[Any]:
        """The job of a task. It names the task by its path."""
        options: dict[str, Any] = {"queue": task.queue_name, "priority": priority(task.priority)}
        if task.run_after is not None:
            options["run_at"] = _aware(task.run_after)
        how = Options(**options).over(self.job_options)
        return NewJob(KIND, self._job_args(task, args, kwargs), how)

    def _job_args(self, task: Any, args: Any, kwargs: Any) -> dict[str, Any]:
        from django.utils.json import normalize_json

        return {
            "task": task.module_path,
            "args": normalize_json(list(args)),
            "kwargs": normalize_json(dict(kwargs)),
            "backend": self.alias,
            "priority": task.priority,
        }

    def _enqueued(self, task: Any, id: int, args: Any, kwargs: Any) -> Any:
        record = {"id": id, "created_at": dt.datetime.now(dt.timezone.utc).isoformat()}
        return self._result(task, {**record, "args": {"args": args, "kwargs": kwargs}})

    def _found(self, result_id: str, record: Mapping[str, Any]) -> Any:
        args = record.get("args")
        if record.get("kind") != KIND or not isinstance(args, dict):
            raise TaskResultDoesNotExist(result_id)
        try:
            task = self._task_of(record)
        except (InvalidArgument, TypeError, ValueError) as error:
            raise TaskResultDoesNotExist(f"job {result_id}: {error}") from error
        return self._result(task, record)

    def _task_of(self, record: Mapping[str, Any]) -> Any:
        """The task of a job's record, with the options that it was enqueued with."""
        from dataclasses import replace

        args = record["args"]
        changes: dict[str, Any] = {"backend": self.alias, "queue_name": record["queue"]}
        if isinstance(args.get("priority"), int):
            changes["priority"] = args["priority"]
        return replace(self.task_named(args.get("task")), **changes)

    def import_tasks(self) -> None:
        """Imports the modules that define tasks, as the settings say."""
        from django.utils.module_loading import autodiscover_modules

        autodiscover_modules("tasks")
        for module in self.modules:
            importlib.import_module(module)

    def task_named(self, path: object) -> Any:
        """The registered task of this path. InvalidArgument for other text: it is untrusted."""
        found = _registered(path)
        if found is None:
            self.import_tasks()
            found = _registered(path)
        if found is None:
            raise InvalidArgument(
                f"task {path!r:.200}: is not a task of this program; define it in the module tasks"
                ' of an installed app, or name its module in OPTIONS["modules"]',
                field="args.task",
            )
        return found

    def _result(self, task: Any, record: Mapping[str, Any], status: str = "") -> Any:
        from django.tasks.base import TaskError, TaskResult, TaskResultStatus

        status = status or STATES.get(record.get("state", ""), "READY")
        errors = record.get("errors") or []
        # One for each attempt: Django counts them. A job that has ended does not name its worker.
        workers = [one.get("worker") or UNKNOWN for one in errors]
        if record.get("attempt", 0) > len(workers):
            workers.append(record.get("worker") or UNKNOWN)
        result = TaskResult(
            task=task,
            id=str(record["id"]),
            status=TaskResultStatus[status],
            enqueued_at=_time(record.get("created_at")),
            started_at=_time(record.get("started_at")),
            last_attempted_at=_time(record.get("started_at")),
            finished_at=_time(record.get("finished_at")),
            args=list(record["args"].get("args", [])),
            kwargs=dict(record["args"].get("kwargs", {})),
            backend=self.alias,
            errors=[
                TaskError(exception_class_path=path, traceback=text)
                for path, text in (_error_of(str(one.get("message", ""))) for one in errors)
            ],
            worker_ids=workers,
        )
        if status == "SUCCESSFUL":
            object.__setattr__(result, "_return_value", record.get("result"))
        return result

    # In a worker

    def run(self, ctx: Context, task: Any) -> Any:
        """Runs a registered task for a job, as its handler."""
        from django.tasks.signals import task_finished, task_started

        record = {**ctx.job, "state": "running", "args": ctx.args}
        result = self._result(self._task_of(record), record)
        task_started.send(type(self), task_result=result)
        try:
            if task.takes_context:
                context = MainspringTaskContext(task_result=result, job=ctx)
                value = task.call(context, *result.args, **result.kwargs)
            else:
                value = task.call(*result.args, **result.kwargs)
        except Interrupted:
            raise
        except Exception as error:
            log.exception("a task raised an exception; the attempt failed", extra={"job": ctx.id})
            message = _message_of(error)
            if ctx.attempt >= ctx.max_attempts > 0:
                failed = {**record, "errors": [{"message": message}]}
                self._finished(task_finished, failed, "FAILED", None)
            return Retry(message)
        if not isinstance(value, OUTCOMES):
            self._finished(task_finished, record, "SUCCESSFUL", value)
        return value

    def _finished(self, signal: Any, record: dict[str, Any], status: str, value: Any) -> None:
        record["finished_at"] = dt.datetime.now(dt.timezone.utc).isoformat()
        record["result"] = value
        result = self._result(self._task_of(record), record, status)
        signal.send(type(self), task_result=result)


def _loaded(path: object) -> Any:
    """The object at this path of an imported module; None if there is none. Runs no code: neither
    an import nor a module's `__getattr__`."""
    module, _, name = str(path).rpartition(".")
    return getattr(sys.modules.get(module), "__dict__", {}).get(name)


def _registered(path: object) -> Any:
    found = _loaded(path)
    return found if isinstance(found, Task) and found.module_path == path else None


def _aware(value: dt.datetime) -> dt.datetime:
    """Without USE_TZ, Django's times are naive, in its own time zone."""
    from django.utils import timezone

    aware: dt.datetime = value if timezone.is_aware(value) else timezone.make_aware(value)
    return aware


def _time(text: str | None) -> dt.datetime | None:
    from django.conf import settings
    from django.utils import timezone

    if not text:
        return None
    value = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    if settings.USE_TZ:
        return value
    naive: dt.datetime = timezone.make_naive(value)
    return naive


def _message_of(error: Exception) -> str:
    """The message of a failed attempt: the exception's class by its path, and the traceback."""
    kind = type(error)
    text = "".join(traceback.format_exception(kind, error, error.__traceback__))
    # The end of a traceback is the most useful part.
    return f"{kind.__module__}.{kind.__qualname__}\n{text[-MAX_TRACEBACK:]}"


def _error_of(message: str) -> tuple[str, str]:
    """The path of the exception's class and the traceback. Other failures, such as a lost lease,
    have a message only. Django imports the path, so it must be of a module that is imported."""
    first, newline, rest = message.partition("\n")
    if newline and isinstance(_loaded(first), type):
        return first, rest
    return "builtins.Exception", message


def run(
    ctx: Context,
    task: str,
    args: list[Any],
    kwargs: dict[str, Any],
    backend: str = "default",
    priority: int = 0,
) -> Any:
    """The handler of Django tasks."""
    from django.db import close_old_connections

    close_old_connections()
    try:
        known = _backend(backend)
        return known.run(ctx, known.task_named(task))
    finally:
        close_old_connections()


def _backend(alias: str) -> MainspringBackend:
    """The backend of the settings with this alias."""
    from django.tasks import task_backends

    found = task_backends[alias]
    if not isinstance(found, MainspringBackend):
        raise InvalidArgument(
            f'TASKS["{alias}"]: BACKEND is {type(found).__name__}, must be MainspringBackend'
        )
    return found


class TaskWorker(Mainspring):
    """A client that runs Django tasks of some queues."""

    task_queues: Sequence[str] = ()

    def worker(self, **options: Any) -> Any:
        if not options.get("queues"):
            options["queues"] = list(self.task_queues)
        return super().worker(**options)


def worker_client(
    url: str | None = None, queues: Sequence[str] | None = None, *, backend: str = "default"
) -> Mainspring:
    """A client that runs Django tasks.

    Without arguments the server and the queues are those of TASKS[backend] in the settings.
    """
    options: dict[str, Any] = {}
    found = _backend(backend)
    found.import_tasks()
    if url is None or queues is None:
        options = dict(found.client_options)
        queues = queues or sorted(found.queues)
    if not queues:
        raise InvalidArgument(
            f'queues: TASKS["{backend}"] names none in QUEUES; name those of this worker',
            field="queues",
        )
    known = options.pop("url", None)
    ms = TaskWorker(url or known, **options)
    ms.task_queues = tuple(queues)
    ms.job(KIND, queue=ms.task_queues[0])(run)
    return ms
