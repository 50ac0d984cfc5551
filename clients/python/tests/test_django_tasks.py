"""Django Tasks over a real Django 6, which needs Python 3.12 or later. Skipped elsewhere: Debian 12
has Django 3.2. tests/python/django_tasks.sh runs this file in a newer Debian."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any, Callable, Iterator

import pytest

django = pytest.importorskip("django")
if django.VERSION < (6,):
    version = ".".join(str(part) for part in django.VERSION[:2])
    pytest.skip(f"needs Django 6, found {version}", allow_module_level=True)

from mainspring import Mainspring  # noqa: E402
from mainspring.testing import TestServer, advance, eventually  # noqa: E402

Start = Callable[..., Any]
ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def jobs(mainspring_server: TestServer) -> Iterator[Any]:
    """The module of the tasks, with settings that name the test's server."""
    os.environ["MAINSPRING_SERVER"] = mainspring_server.url
    os.environ["DJANGO_SETTINGS_MODULE"] = "django_settings"
    django.setup()
    import django_jobs
    from django.tasks import task_backends

    yield django_jobs
    task_backends["default"].ms.close()
    del os.environ["MAINSPRING_SERVER"]


@pytest.fixture
def worker(jobs: Any, mainspring_queue: str, mainspring_worker: Start) -> Start:
    from mainspring.contrib.django import worker_client

    return lambda: mainspring_worker(worker_client(queues=(mainspring_queue,)), slots=2)


def finished(result: Any) -> Any:
    def ended() -> bool:
        result.refresh()
        return bool(result.is_finished)

    eventually(ended)
    return result


def test_a_task_runs_and_its_result_is_found(
    jobs: Any, mainspring_queue: str, worker: Start
) -> None:
    from django.tasks import TaskResultStatus

    task = jobs.add.using(queue_name=mainspring_queue)
    result = task.enqueue(2, b=3)
    assert (result.status, result.args, result.kwargs) == (TaskResultStatus.READY, [2], {"b": 3})
    assert (result.attempts, result.enqueued_at.tzinfo is not None) == (0, True)
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    worker()
    assert finished(result).return_value == 5
    assert result.status is TaskResultStatus.SUCCESSFUL
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert (result.attempts, result.errors) == (1, [])
    assert all(result.worker_ids)
    again = jobs.add.get_result(result.id)
    assert (again.return_value, again.task) == (5, task)


def test_a_result_of_another_task_or_of_none_is_refused(
    jobs: Any, mainspring: Mainspring, mainspring_queue: str
) -> None:
    from django.tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch

    result = jobs.add.using(queue_name=mainspring_queue).enqueue(1)
    with pytest.raises(TaskResultMismatch):
        jobs.double.get_result(result.id)
    other = mainspring.enqueue(mainspring.new("plain", queue=mainspring_queue))
    args = {"task": "gone.module", "args": [], "kwargs": {}}
    gone = mainspring.enqueue(mainspring.new("django.task", args, queue=mainspring_queue))
    for id in ("999999999", "no number", str(other.id), str(gone.id)):
        with pytest.raises(TaskResultDoesNotExist):
            jobs.add.get_result(id)


@pytest.mark.parametrize(
    "path",
    [
        "subprocess.getoutput",
        "os.system",
        "django_jobs.plain",
        "django_jobs.Broken",
        "django_jobs.again",  # another name of a task
        "antigravity.geohash",  # a module that is not imported
        "",
        ["django_jobs.add"],
    ],
)
def test_a_job_that_names_no_registered_task_runs_nothing(
    jobs: Any, mainspring: Mainspring, mainspring_queue: str, worker: Start, path: Any
) -> None:
    args = {"task": path, "args": ["id -un"], "kwargs": {}}
    new = mainspring.new("django.task", args, queue=mainspring_queue, max_attempts=1)
    job = mainspring.enqueue(new)
    worker()
    record = mainspring.wait(job.id, "20s")
    assert record["state"] == "dead"
    assert "is not a task of this program" in record["errors"][0]["message"]
    assert jobs.calls == []
    assert "antigravity" not in sys.modules


def test_an_error_names_no_module_to_import(
    jobs: Any, mainspring: Mainspring, mainspring_queue: str
) -> None:
    result = jobs.add.using(queue_name=mainspring_queue).enqueue(1)
    claimed = mainspring.request(
        "POST", "/v1/claim", {"worker": "w", "queues": [mainspring_queue], "max": 1}
    )["jobs"][0]
    lease = {"id": claimed["id"], "token": claimed["token"]}
    finish = {**lease, "outcome": "retry", "error": "antigravity.Error\nTraceback"}
    mainspring.request("POST", "/v1/finish", {"worker": "w", "results": [finish]})
    result.refresh()
    assert result.errors[0].exception_class is Exception
    assert "antigravity" not in sys.modules


def test_coroutines_are_enqueued_and_run(jobs: Any, mainspring_queue: str, worker: Start) -> None:
    async def scenario() -> Any:
        result = await jobs.double.using(queue_name=mainspring_queue).aenqueue(21)
        again = await jobs.double.aget_result(result.id)
        assert again.id == result.id
        await again.arefresh()
        return result

    result = asyncio.run(scenario())
    worker()
    assert finished(result).return_value == 42


def test_a_task_with_a_context_knows_its_attempt_and_its_job(
    jobs: Any, mainspring_queue: str, worker: Start
) -> None:
    result = jobs.attempts.using(queue_name=mainspring_queue).enqueue("first")
    worker()
    assert finished(result).return_value == [1, result.id, "stepped"]


def test_a_failed_task_has_the_exceptions_class_and_traceback(
    jobs: Any, mainspring: Mainspring, mainspring_queue: str, worker: Start
) -> None:
    from django.tasks import TaskResultStatus

    result = jobs.fail.using(queue_name=mainspring_queue).enqueue("no such order")
    worker()

    def tried() -> bool:
        result.refresh()
        return len(result.errors) == 1 and result.status is TaskResultStatus.READY

    eventually(tried)  # it waits for its second attempt
    advance(mainspring, "1h")
    assert finished(result).status is TaskResultStatus.FAILED
    assert [error.exception_class for error in result.errors] == [jobs.Broken] * 2
    assert "no such order" in result.errors[0].traceback
    assert "django_jobs.py" in result.errors[0].traceback
    assert result.attempts == 2
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_priority_decides_the_order(
    jobs: Any, mainspring: Mainspring, mainspring_queue: str
) -> None:
    task = jobs.add.using(queue_name=mainspring_queue)
    found = []
    for priority in (-100, 0, 20, 100):
        result = task.using(priority=priority).enqueue(1)
        found.append(mainspring.get(int(result.id))["priority"])
        assert jobs.add.get_result(result.id).task.priority == priority
    assert found == [9, 4, 4, 0]


def test_run_after_delays_a_task(
    jobs: Any, mainspring: Mainspring, mainspring_queue: str, worker: Start
) -> None:
    from django.tasks.exceptions import InvalidTask
    from mainspring.testing import now

    task = jobs.add.using(queue_name=mainspring_queue)
    result = task.using(run_after=now(mainspring) + dt.timedelta(hours=2)).enqueue(1, 1)
    assert mainspring.get(int(result.id))["state"] == "scheduled"
    worker()
    advance(mainspring, "3h")
    assert finished(result).return_value == 2
    with pytest.raises(InvalidTask):
        task.using(run_after=dt.datetime(2030, 1, 1))


def test_times_without_use_tz_are_those_of_djangos_time_zone(
    jobs: Any, mainspring: Mainspring, mainspring_queue: str
) -> None:
    from django.test import override_settings

    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        task = jobs.add.using(queue_name=mainspring_queue)
        result = task.using(run_after=dt.datetime(2040, 1, 1, 9)).enqueue(1)
        assert mainspring.get(int(result.id))["run_at"].startswith("2040-01-01T00:00:00")
        assert jobs.add.get_result(result.id).enqueued_at.tzinfo is None


def test_a_task_is_enqueued_on_commit_and_not_after_a_rollback(
    jobs: Any, mainspring: Mainspring, mainspring_queue: str
) -> None:
    from functools import partial

    from django.db import transaction

    task = jobs.add.using(queue_name=mainspring_queue)
    with transaction.atomic():
        transaction.on_commit(partial(task.enqueue, 1))
        assert list(mainspring.jobs(queue=mainspring_queue)) == []
    assert len(list(mainspring.jobs(queue=mainspring_queue))) == 1
    with pytest.raises(RuntimeError), transaction.atomic():
        transaction.on_commit(partial(task.enqueue, 2))
        raise RuntimeError
    assert len(list(mainspring.jobs(queue=mainspring_queue))) == 1


def test_signals_are_sent(jobs: Any, mainspring_queue: str, worker: Start) -> None:
    from django.tasks import signals

    seen: list[tuple[str, str]] = []
    names = ("task_enqueued", "task_started", "task_finished")
    receivers = []
    for name in names:

        def receive(sender: Any, task_result: Any, name: str = name, **_: Any) -> None:
            seen.append((name, str(task_result.status)))

        getattr(signals, name).connect(receive)
        receivers.append((name, receive))
    try:
        result = jobs.add.using(queue_name=mainspring_queue).enqueue(1)
        worker()
        finished(result)
        eventually(lambda: len(seen) == 3)
    finally:
        for name, receive in receivers:
            getattr(signals, name).disconnect(receive)
    assert seen == list(zip(names, ("READY", "RUNNING", "SUCCESSFUL")))


def test_args_that_are_not_json_are_refused(jobs: Any, mainspring_queue: str) -> None:
    with pytest.raises(TypeError):
        jobs.add.using(queue_name=mainspring_queue).enqueue(object())


def test_the_worker_command_takes_server_and_queues_from_the_settings(
    jobs: Any, mainspring_server: TestServer, mainspring_namespace: Any
) -> None:
    queues = [mainspring_namespace.queue("default"), mainspring_namespace.queue("mail")]
    environment = {
        **os.environ,
        "TEST_QUEUES": ",".join(["default", *queues]),  # tasks name "default"
        "MAINSPRING_SERVER": mainspring_server.url,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}",
        "DJANGO_SETTINGS_MODULE": "django_settings",
    }
    command = [sys.executable, "-m", "mainspring", "work", "mainspring.contrib.django_worker"]
    worker = subprocess.Popen(command, env=environment)
    try:
        results = [jobs.add.using(queue_name=queue).enqueue(40, 2) for queue in queues]
        assert [finished(result).return_value for result in results] == [42, 42]
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0


def test_a_worker_needs_the_names_of_its_queues(jobs: Any) -> None:
    from mainspring import InvalidArgument
    from mainspring.contrib.django import worker_client

    with pytest.raises(InvalidArgument, match="QUEUES"):
        worker_client()
