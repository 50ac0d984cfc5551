"""Celery. BENCH_REDIS is the port of Redis. One worker process, pool "solo": no other pool runs no-op tasks
faster in one process."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import NoReturn

from celery import Celery
from celery.signals import task_postrun, worker_ready
from measure import Lag, Rate, enqueues

URL = f"redis://127.0.0.1:{os.environ['BENCH_REDIS']}/0"
app = Celery("bench", broker=URL, backend=URL)
app.conf.update(task_default_queue=f"bench-{time.time_ns()}", worker_hijack_root_logger=False,
                worker_redirect_stdouts=False)  # fmt: skip


def work(prefetch: int) -> None:
    app.conf.worker_prefetch_multiplier = prefetch
    worker = app.Worker(
        pool="solo", concurrency=1, loglevel="ERROR", without_gossip=True, without_mingle=True,
        without_heartbeat=True, quiet=True,
    )  # fmt: skip
    worker.start()


def rate(count: int, prefetch: int) -> None:
    measured = Rate(count)

    @app.task(name="noop")
    def noop(i: int) -> None:
        measured.handled()

    done = 0

    @task_postrun.connect(weak=False)
    def ended(**_: object) -> None:
        nonlocal done
        done += 1
        if done == count:
            measured.ended = time.perf_counter()
            finish(measured.value())

    with app.pool.acquire(block=True) as connection, app.amqp.Producer(connection) as producer:
        for i in range(count):
            noop.apply_async((i,), producer=producer)
    work(prefetch)


def lag(count: int) -> None:
    measured = Lag()

    @app.task(name="noop")
    def noop() -> None:
        measured.started()

    @worker_ready.connect(weak=False)
    def ready(**_: object) -> None:
        threading.Thread(target=lambda: finish(measured.value(count, noop.delay))).start()

    work(4)


def enqueue(count: int) -> None:
    @app.task(name="idle")
    def idle(i: int) -> None: ...

    finish(enqueues(count, lambda: idle.apply_async((1,), queue=f"idle-{os.getpid()}")))


def finish(value: float | list[float]) -> NoReturn:
    """Exit at once: Celery's worker ends the process when it receives a stop."""
    print(json.dumps(value), flush=True)
    os._exit(0)


measure, count = sys.argv[1], int(sys.argv[2])
sys.argv[1:] = []
if measure == "lag":
    lag(count)
elif measure == "enqueue":
    enqueue(count)
else:
    # With a prefetch of 1 this pool stops after a few tasks.
    rate(count, 100 if measure == "many" else 2)
