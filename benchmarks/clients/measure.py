"""What the Python programs share: PROGRAM MEASURE COUNT prints its result as JSON. The measures are
those of measure.mjs."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import threading
import time
from typing import Any, Callable


class Rate:
    """Jobs per second, from the first handler's start to the last completion."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.began: float | None = None
        self.ended = 0.0

    def handled(self) -> None:
        if self.began is None:
            self.began = time.perf_counter()

    def value(self) -> float:
        assert self.began is not None
        return self.count / (self.ended - self.began)


class Lag:
    """The time from the call of an enqueue to the handler's first line, in ms."""

    def __init__(self) -> None:
        self.handled = threading.Event()
        self.at = 0.0

    def started(self) -> None:
        self.at = time.perf_counter()
        self.handled.set()

    def value(self, count: int, enqueue: Callable[[], Any]) -> list[float]:
        """The median and the 99th percentile."""
        times = []
        for _ in range(count + 20):
            self.handled.clear()
            began = time.perf_counter()
            enqueue()
            self.handled.wait(30)
            times.append((self.at - began) * 1000)
            time.sleep(0.005)
        times = sorted(times[20:])  # the first ones warm up
        return [statistics.median(times), times[int(len(times) * 0.99)]]


def enqueues(count: int, enqueue: Callable[[], Any]) -> float:
    """Enqueues per second, one after the other."""
    for _ in range(min(count, 200)):  # warms up
        enqueue()
    began = time.perf_counter()
    for _ in range(count):
        enqueue()
    return count / (time.perf_counter() - began)


async def aenqueues(count: int, at_once: int, enqueue: Callable[[], Any]) -> float:
    """Enqueues of coroutines per second, `at_once` at the same time."""
    for _ in range(min(count, 200)):
        await enqueue()
    began = time.perf_counter()
    for made in range(0, count, at_once):
        await asyncio.gather(*(enqueue() for _ in range(min(at_once, count - made))))
    return count / (time.perf_counter() - began)


def main(measures: dict[str, Callable[[int], Any]]) -> None:
    measure, count = sys.argv[1:3]
    print(json.dumps(measures[measure](int(count))), flush=True)
