"""The Python client. MAINSPRING_SERVER is the server."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from measure import Lag, Rate, aenqueues, enqueues, main

from mainspring import Context, Mainspring

ms = Mainspring()
QUEUE = f"bench-{time.time_ns()}"


def rate(count: int, **options: Any) -> float:
    measured = Rate(count)

    @ms.job(queue=QUEUE)
    def noop(ctx: Context, i: int) -> None:
        measured.handled()

    for start in range(0, count, 10_000):
        ms.enqueue_many([noop.new(i) for i in range(min(10_000, count - start))])
    worker = ms.worker(kinds=["noop"], queues=[QUEUE], **options)
    worker.start()
    while worker.stats["completed"] < count:
        time.sleep(0.001)
    measured.ended = time.perf_counter()
    worker.stop()
    return measured.value()


def lag(count: int) -> list[float]:
    measured = Lag()

    @ms.job(queue=QUEUE)
    def noop(ctx: Context) -> None:
        measured.started()

    with ms.worker(kinds=["noop"], queues=[QUEUE], slots=4):
        return measured.value(count, noop.enqueue)


new = ms.new("idle", {"i": 1}, queue=f"{QUEUE}-idle")

main({
    "many": lambda count: rate(count, slots=1, claim_ahead=99),
    "one": lambda count: rate(count, slots=1, claim_ahead=0),
    "lag": lag,
    "enqueue": lambda count: enqueues(count, lambda: ms.enqueue(new)),
    "aenqueue": lambda count: asyncio.run(aenqueues(count, 1, lambda: ms.aenqueue(new))),
    "burst": lambda count: asyncio.run(aenqueues(count, 256, lambda: ms.aenqueue(new))),
})
