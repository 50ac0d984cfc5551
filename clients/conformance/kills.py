#!/usr/bin/env python3
"""Kills a client's worker and its server with SIGKILL, repeatedly, and checks the remaining state.

  kills.py --binary PATH --driver COMMAND [--cycles 20] [--seed N]

In each cycle a worker runs jobs of three steps while more are enqueued; then the worker, the server
or both are killed. At the end every acknowledged job must be completed, none dead or made twice, and
the server's own recount must find nothing. The seed is printed; the same seed kills alike.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from typing import Any

from patterns import Mismatch
from run import Driver, Server

JOBS_PER_CYCLE = 12
KILLED = ("worker", "server", "both")
HANDLER = {"k": {"do": [{"step": ["a", 1]}, {"progress": [0.5, ""]}, {"step": ["b", 2]},
                        {"step": ["c", 3]}, {"return": "done"}]}}  # fmt: skip


class Torture:
    def __init__(self, arguments: argparse.Namespace, directory: str) -> None:
        self.random = random.Random(arguments.seed)
        self.server = Server(arguments.binary, directory)
        self.driver = Driver(arguments.driver)
        self.acknowledged: list[int] = []
        self.unknown = 0
        self.kills = dict.fromkeys(KILLED, 0)

    def open(self) -> None:
        self.ask({"op": "open", "url": self.server.url, "options": {"retry_for_ms": 3000}})

    def ask(self, request: dict[str, Any]) -> Any:
        answer = self.driver.ask(request)
        if "ok" not in answer:
            raise Mismatch(f"{request['op']}: {json.dumps(answer)[:300]}")
        return answer["ok"]

    def work(self) -> None:
        self.ask({"op": "work", "worker": "w", "slots": 4, "queues": ["k"], "lease": "1s",
                  "handlers": HANDLER})  # fmt: skip

    def enqueue(self) -> None:
        """Through the driver, one by one and in batches. No answer: it may be there or not."""
        job = {"kind": "k", "queue": "k", "max_attempts": 1000}
        for request in (
            {"op": "enqueue", "job": job},
            {"op": "enqueue_many", "job": job, "times": JOBS_PER_CYCLE - 1},
        ):
            answer = self.driver.ask(request)
            if "ok" not in answer:
                self.unknown += request.get("times", 1)  # type: ignore[call-overload]
                continue
            made = answer["ok"].get("jobs", [answer["ok"]])
            self.acknowledged += [int(one["id"]) for one in made]

    def cycle(self) -> None:
        self.open()
        self.work()
        self.enqueue()
        time.sleep(self.random.uniform(0.0, 0.25))
        what = self.random.choice(KILLED)
        self.kills[what] += 1
        if what != "worker":
            self.server.stop(kill=True)
        if what != "server":
            self.driver.kill()
        if what != "worker":
            time.sleep(self.random.uniform(0.0, 0.2))
            self.server.start()
        if what == "server":
            self.enqueue()  # the same client continues

    def finish(self) -> None:
        """A worker without faults does the rest; back-offs are cut short."""
        self.open()
        self.work()
        until = time.monotonic() + 240
        while True:
            _, queue = self.server.ask("GET", "/v1/queues/k", None)
            counts = queue["counts"]
            if not any(counts.get(s, 0) for s in ("available", "running", "retryable")):
                return
            if time.monotonic() > until:
                raise Mismatch(f"jobs do not end: {counts}")
            _, page = self.server.ask("GET", "/v1/jobs?queue=k&state=retryable&limit=1000", None)
            for job in page["jobs"]:
                self.server.ask("POST", f"/v1/jobs/{job['id']}/retry", {})
            time.sleep(0.05)

    def check(self) -> None:
        if len(set(self.acknowledged)) != len(self.acknowledged):
            raise Mismatch("one job was acknowledged to two enqueues")
        for id in self.acknowledged:
            _, job = self.server.ask("GET", f"/v1/jobs/{id}", None)
            if (job.get("state"), job.get("result")) != ("completed", "done"):
                raise Mismatch(f"job {id} is {json.dumps(job)[:500]}")
        _, queue = self.server.ask("GET", "/v1/queues/k", None)
        most = len(self.acknowledged) + self.unknown
        if not len(self.acknowledged) <= queue["enqueued"] <= most:
            raise Mismatch(f"{queue['enqueued']} jobs were made, {most} were asked for")
        _, report = self.server.ask("GET", "/v1/verify", None)
        if report["problems"]:
            raise Mismatch(f"verify: {report['problems'][:5]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    directory = tempfile.mkdtemp(prefix="mainspring-kills-")
    torture = Torture(arguments, directory)
    try:
        for _ in range(arguments.cycles):
            torture.cycle()
        torture.finish()
        torture.check()
    except Mismatch as problem:
        print(f"FAILED (--seed {arguments.seed}): {problem}")
        return 1
    finally:
        torture.driver.kill()
        torture.server.stop(kill=True)
        shutil.rmtree(directory, ignore_errors=True)
    made = len(torture.acknowledged)
    print(f"{arguments.cycles} cycles, killed {torture.kills}: {made} jobs acknowledged and completed,"
          f" {torture.unknown} without an answer")
    return 0


if __name__ == "__main__":
    sys.exit(main())
