"""A Celery application for the tests. Only its first import knows Mainspring."""

from __future__ import annotations

import os
import pathlib
import time
from typing import Any

import mainspring.contrib.celery  # noqa: F401
from celery import Celery

URL = "mainspring+" + os.environ["MAINSPRING_SERVER"]
ACCESS = {"ca_file": os.environ.get("CELERY_CA_FILE", "")}
app = Celery("shop", broker=URL, backend=URL)
app.conf.update(
    task_default_queue=os.environ["CELERY_QUEUE"],
    worker_hijack_root_logger=False,
    broker_transport_options={**ACCESS, "lease": os.environ.get("CELERY_LEASE", "30s")},
    result_backend_transport_options={
        **ACCESS,
        "queue": os.environ["CELERY_QUEUE"] + ".results",
    },
    task_track_started=True,
)


def note(text: str) -> None:
    with open(os.environ["CELERY_NOTES"], "a") as file:
        file.write(text + "\n")


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def fail(text: str) -> None:
    raise ValueError(text)


@app.task(bind=True, max_retries=3)
def third_time(self: Any) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0.01)
    return int(self.request.retries)


@app.task
def named(name: str) -> str:
    note(name)
    return name


@app.task(acks_late=True)
def slow(name: str) -> str:
    """Ends when its file is there."""
    note(f"{name} {os.getppid()}")
    while not pathlib.Path(os.environ["CELERY_NOTES"] + ".go").exists():
        time.sleep(0.01)
    return name


@app.task
def slow_early(name: str) -> str:
    return str(slow(name))


@app.task(acks_late=True)
def part(n: int) -> int:
    """The first attempt of 3 lasts until its file is there."""
    note(f"part {n} {os.getppid()}")
    if n == 3:
        while not pathlib.Path(os.environ["CELERY_NOTES"] + ".go").exists():
            time.sleep(0.01)
    return n
