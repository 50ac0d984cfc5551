#!/usr/bin/env python3
"""Figures of the Python client: one worker process, no-op jobs, medians of three runs.

  throughput.py [--jobs N] [--binary PATH]    print a table

`many`   N jobs wait; the worker claims them in hundreds and sends outcomes in hundreds
`one`    one slot, nothing claimed ahead: each job is claimed, run and finished by itself
`async`  as `many`, with coroutines
`lag`    from the call of enqueue to the handler's first line, worker idle
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "src"))

from mainspring import AsyncContext, Context, Mainspring  # noqa: E402
from mainspring.testing import find_binary  # noqa: E402


def run_all(ms: Mainspring, job: Any, count: int, **options: Any) -> float:
    """Jobs per second, from the start of the worker to the last outcome on disk."""
    for start in range(0, count, 10_000):
        ms.enqueue_many([job.new() for _ in range(min(10_000, count - start))])
    worker = ms.worker(kinds=[job.kind], queues=[job.how.queue], **options)
    began = time.perf_counter()
    worker.start()
    while worker.stats["completed"] < count:
        time.sleep(0.002)
    took = time.perf_counter() - began
    worker.stop()
    return count / took


def lags(ms: Mainspring, count: int) -> list[float]:
    began: list[float] = []
    handled = threading.Event()

    @ms.job(queue="lag")
    def lag(ctx: Context) -> None:
        began.append(time.perf_counter())
        handled.set()

    out = []
    with ms.worker(kinds=["lag"], queues=["lag"], slots=4):
        for _ in range(count):
            handled.clear()
            at = time.perf_counter()
            lag.enqueue()
            handled.wait()
            out.append(began[-1] - at)
            time.sleep(0.005)
    return out


def import_time() -> float:
    code = "import time; t = time.perf_counter(); import mainspring; print(time.perf_counter() - t)"
    times = []
    for _ in range(7):
        source = pathlib.Path(__file__).resolve().parents[1] / "src"
        out = subprocess.check_output([sys.executable, "-c", code], env={"PYTHONPATH": str(source)})
        times.append(float(out))
    return statistics.median(times)


@contextlib.contextmanager
def durable_server(binary: str | None) -> Iterator[Mainspring]:
    """A server that syncs each commit, as in production. Servers for tests do not."""
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as directory:
        command = [binary or find_binary(), "serve", "--data", directory]
        command += ["--listen", "127.0.0.1:0", "--json", "--log-level", "error"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            with Mainspring(json.loads(process.stdout.readline())["url"], token="") as ms:
                yield ms
        finally:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--binary", default=None, help="the server program")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()

    def row(name: str, measure: Callable[[], float], unit: str) -> None:
        values = [measure() for _ in range(arguments.runs)]
        print(f"{name:28} {statistics.median(values):10.1f} {unit}", flush=True)

    with durable_server(arguments.binary) as ms:

        @ms.job(queue="bench")
        def noop(ctx: Context) -> None:
            return None

        @ms.job("noop_async", queue="bench")
        async def noop_async(ctx: AsyncContext) -> None:
            return None

        jobs = arguments.jobs
        row("many, 8 slots", lambda: run_all(ms, noop, jobs, slots=8), "jobs/s")
        hundreds = lambda: run_all(ms, noop, jobs, slots=1, claim_ahead=99)  # noqa: E731
        row("many, claims of 100", hundreds, "jobs/s")
        row("async, 100 slots", lambda: run_all(ms, noop_async, jobs, slots=100), "jobs/s")
        one = lambda: run_all(ms, noop, jobs // 10, slots=1, claim_ahead=0)  # noqa: E731
        row("one at a time", one, "jobs/s")
        row("enqueue to handler, p50", lambda: statistics.median(lags(ms, 200)) * 1000, "ms")
        row("enqueue_many of 10,000", lambda: enqueue_rate(ms, noop), "jobs/s")
        row("enqueue", lambda: enqueue_one_rate(ms, noop), "jobs/s")
    row("import mainspring", lambda: import_time() * 1000, "ms")


def enqueue_rate(ms: Mainspring, job: Any) -> float:
    new = [job.options(queue="filled").new() for _ in range(10_000)]
    at = time.perf_counter()
    ms.enqueue_many(new)
    return 10_000 / (time.perf_counter() - at)


def enqueue_one_rate(ms: Mainspring, job: Any) -> float:
    configured = job.options(queue="filled")
    at = time.perf_counter()
    for _ in range(300):
        configured.enqueue()
    return 300 / (time.perf_counter() - at)


if __name__ == "__main__":
    main()
