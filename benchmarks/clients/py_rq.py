"""RQ. BENCH_REDIS is the port of Redis. SimpleWorker runs jobs in its own process; RQ's usual worker forks for
each job, and is slower. It takes one job at a time: `many` and `one` are the same."""

from __future__ import annotations

import os
import threading
import time

import py_rq  # the job's function is found by this name
from measure import Lag, Rate, enqueues, main
from redis import Redis
from rq import Queue, SimpleWorker

redis = Redis(port=int(os.environ["BENCH_REDIS"]))
state: dict[str, Rate | Lag] = {}


def noop(i: int) -> None:
    measured = py_rq.state["now"]
    measured.handled() if isinstance(measured, Rate) else measured.started()


def rate(count: int) -> float:
    queue = Queue(f"bench-{time.time_ns()}", connection=redis)
    py_rq.state["now"] = measured = Rate(count)
    data = [Queue.prepare_data(py_rq.noop, (i,)) for i in range(count)]
    for start in range(0, count, 1000):
        queue.enqueue_many(data[start : start + 1000])
    SimpleWorker([queue], connection=redis).work(burst=True, logging_level="ERROR")
    measured.ended = time.perf_counter()
    return measured.value()


def enqueue(count: int) -> float:
    queue = Queue(f"idle-{time.time_ns()}", connection=redis)
    return enqueues(count, lambda: queue.enqueue(py_rq.noop, 0))


def lag(count: int) -> list[float]:
    queue = Queue(f"bench-{time.time_ns()}", connection=redis)
    py_rq.state["now"] = measured = Lag()
    out: list[list[float]] = []

    def produce() -> None:
        time.sleep(0.5)
        out.append(measured.value(count, lambda: queue.enqueue(py_rq.noop, 0)))
        worker._stop_requested = True
        queue.enqueue(py_rq.noop, 0)  # wakes the worker, which sees that it must stop

    worker = SimpleWorker([queue], connection=redis)
    threading.Thread(target=produce).start()
    worker.work(logging_level="ERROR")
    return out[0]


if __name__ == "__main__":
    main({"many": rate, "one": rate, "lag": lag, "enqueue": enqueue})
