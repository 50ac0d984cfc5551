#!/usr/bin/env python3
"""Measures the reads of the dashboard's pages over a large store, and what open tabs cost.

  run.py --binary build/release/mainspring [--jobs 10000000] [--rounds 200] [--dir /tmp] [--keep]

It starts a server on loopback with a temporary store below --dir, fills it with --jobs jobs in 20 queues (about 70 % of
them completed, 1 % dead, the others available), and then measures:

1. the calls of each page, one after another: median, p99 and the number of bytes;
2. store reads while tabs are open and nothing happens;
3. the throughput of one worker with and without 50 tabs, in paired rounds, and the wait from enqueue to claim.

With 10 million jobs the store needs about 8 GB, and filling it takes about ten minutes.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

QUEUES = [f"queue-{number:02}" for number in range(20)]
KINDS = ["thumbnail", "mail", "invoice", "report", "sync"]
TAB_CALLS = 4  # reads that a page makes after an event, at most every second


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Server:
    def __init__(self, binary: str, directory: pathlib.Path) -> None:
        self.process = subprocess.Popen(
            [binary, "serve", "--data", str(directory / "data"), "--listen", "127.0.0.1:0", "--json",
             "--max-finished-jobs", "100000000", "--max-live-jobs", "100000000"],
            stdout=subprocess.PIPE, stderr=open(directory / "server.log", "w"), text=True)
        assert self.process.stdout
        first = self.process.stdout.readline()
        self.port = int(json.loads(first)["url"].rsplit(":", 1)[1].strip("/"))

    def connect(self) -> "Connection":
        return Connection(self.port)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


class Connection:
    def __init__(self, port: int) -> None:
        self.port = port
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def call(self, method: str, path: str, body: Any = None) -> bytes:
        text = body if isinstance(body, str) else None if body is None else json.dumps(body)
        self.link.request(method, path, text, {"Content-Type": "application/json"} if text else {})
        answer = self.link.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]!r}")
        return data

    def get(self, path: str) -> Any:
        return json.loads(self.call("GET", path))


def batch_of(number: int, size: int, chance: random.Random) -> str:
    queue = QUEUES[number % len(QUEUES)]
    jobs = []
    for i in range(size):
        order = number * size + i
        jobs.append('{"queue":"%s","kind":"%s","priority":%d,"max_attempts":1,"args":{"order":%d,"customer":"c-%d","note":"for the benchmark"}}'
                    % (queue, KINDS[order % 5], chance.randrange(10), order, order % 50_000))
    return '{"jobs":[' + ",".join(jobs) + "]}"


def fill(server: Server, total: int, quiet: bool = False) -> None:
    """Enqueues all jobs while a second thread completes most of them."""
    size, done, failed = 10_000, 0, []
    wanted = int(total * 0.71)
    enqueued = threading.Event()

    def work() -> None:
        nonlocal done
        try:
            link = server.connect()
            while done < wanted:
                answer = json.loads(link.call("POST", "/v1/claim", {
                    "worker": "filler", "queues": QUEUES, "max": 1000, "wait": "1s"}))
                jobs = answer["jobs"]
                results = []
                for job in jobs:
                    done += 1
                    outcome = '"outcome":"dead","reason":"bad_address","description":"no such host"' if done % 71 == 0 else '"outcome":"complete","result":{"ok":true}'
                    results.append('{"id":%s,"token":%s,%s}' % (job["id"], job["token"], outcome))
                if results:
                    link.call("POST", "/v1/finish", '{"worker":"filler","results":[' + ",".join(results) + "]}")
                elif enqueued.is_set():
                    return
        except Exception as error:
            failed.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    link, chance, began = server.connect(), random.Random(1), time.monotonic()
    for number in range(total // size):
        link.call("POST", "/v1/jobs", batch_of(number, size, chance))
        if failed:
            break
        if number % 50 == 49 and not quiet:
            note(f"  {(number + 1) * size:,} enqueued, {done:,} done, {time.monotonic() - began:.0f} s")
    enqueued.set()
    while worker.is_alive():
        worker.join(20)
        if not quiet:
            note(f"  {done:,} done, {time.monotonic() - began:.0f} s")
    if failed:
        raise failed[0]


def calls_of_pages(link: Connection) -> list[tuple[str, str]]:
    one = link.get("/v1/jobs?limit=1")["jobs"][0]["id"]
    dead = link.get("/v1/jobs?state=dead&limit=1")["jobs"][0]["id"]
    cursor = link.get("/v1/jobs?limit=50")["next_cursor"]
    return [
        ("all pages: queues with counts", "/v1/queues"),
        ("overview: history of 24 h", "/v1/history?step=10m"),
        ("overview, errors: groups", "/v1/dead/groups"),
        ("overview: upcoming hour", "/v1/upcoming?within=1h"),
        ("overview, workers", "/v1/workers"),
        ("jobs: newest 50", "/v1/jobs?limit=50"),
        ("jobs: second page", f"/v1/jobs?limit=50&cursor={cursor}"),
        ("jobs: one state", "/v1/jobs?state=dead&limit=50"),
        ("jobs: queue and state", "/v1/jobs?queue=queue-03&state=completed&limit=50"),
        ("jobs: several states", "/v1/jobs?state=available,retryable,dead&limit=50"),
        ("jobs: one kind", "/v1/jobs?kind=mail&limit=50"),
        ("jobs: search args", "/v1/jobs?q=args.order%3D4711&limit=50"),
        ("jobs: search text", "/v1/jobs?q=c-4711&limit=50"),
        ("job", f"/v1/jobs/{one}"),
        ("job: why", f"/v1/jobs/{one}/why"),
        ("job: dead one", f"/v1/jobs/{dead}"),
        ("queue", "/v1/queues/queue-03"),
        ("queue: history of 1 h", "/v1/history?queue=queue-03&step=1m"),
        ("schedules", "/v1/schedules"),
        ("workflows", "/v1/workflows?limit=50"),
        ("audit", "/v1/audit?limit=50"),
        ("system: version", "/v1/version"),
    ]


def measure_pages(server: Server, rounds: int) -> None:
    link = server.connect()
    print("| Page: call | Median, ms | p99, ms | Bytes |\n|---|---:|---:|---:|")
    worst = 0.0
    for name, path in calls_of_pages(link):
        took, size = [], 0
        for _ in range(rounds):
            began = time.perf_counter()
            size = len(link.call("GET", path))
            took.append((time.perf_counter() - began) * 1000)
        took.sort()
        p99 = took[min(len(took) - 1, int(len(took) * 0.99))]
        worst = max(worst, p99)
        print(f"| {name} `{path.split('&cursor')[0]}` | {statistics.median(took):.2f} | {p99:.2f} | {size:,} |", flush=True)
    print(f"\nWorst p99: {worst:.1f} ms.\n")


def metric(link: Connection, name: str) -> float:
    for line in link.call("GET", "/metrics").decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise RuntimeError(f"no metric {name}")


class Tab:
    """Acts like an open page: follows the events and reads again, at most once per second."""

    def __init__(self, port: int) -> None:
        self.port, self.stopped = port, threading.Event()
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self.link.request("GET", "/v1/events")
        self.answer = self.link.getresponse()
        self.dirty = threading.Event()
        self.threads = [threading.Thread(target=self.follow, daemon=True), threading.Thread(target=self.read, daemon=True)]
        for thread in self.threads:
            thread.start()

    def follow(self) -> None:
        try:
            while not self.stopped.is_set() and (data := self.answer.read1(65536)):
                if b"data:" in data:  # not a comment that keeps the connection open
                    self.dirty.set()
        except Exception:
            pass

    def read(self) -> None:
        link = Connection(self.port)
        while not self.stopped.is_set():
            if self.dirty.wait(0.5):
                self.dirty.clear()
                for path in ("/v1/queues", "/v1/history?step=10m", "/v1/jobs?limit=50", "/v1/workers")[:TAB_CALLS]:
                    link.call("GET", path)
                self.stopped.wait(1)

    def close(self) -> None:
        self.stopped.set()
        try:
            self.link.sock.shutdown(2)  # type: ignore[union-attr]
        except Exception:
            pass


def measure_idle(server: Server) -> None:
    link = server.connect()
    tabs = [Tab(server.port) for _ in range(5)]
    time.sleep(3)
    before = metric(link, "mainspring_store_reads_total")
    time.sleep(60)
    after = metric(link, "mainspring_store_reads_total")
    own = 1  # the second request for the metrics reads the queues
    print(f"Five tabs without traffic: {max(0.0, after - before - own):.0f} store reads in 60 s.\n")
    for tab in tabs:
        tab.close()


def run_load(server: Server, seconds: float) -> tuple[float, float]:
    """Jobs per second at a demand of 5,000 per second, and the median wait from enqueue to claim in ms."""
    stop, waits, done = time.monotonic() + seconds, [], 0

    def work() -> None:
        nonlocal done
        link = server.connect()
        while time.monotonic() < stop:
            jobs = json.loads(link.call("POST", "/v1/claim", {"worker": "load", "queues": ["load"], "max": 500, "wait": "1s"}))["jobs"]
            now = time.time()
            if not jobs:
                continue
            waits.append((now - jobs[0]["args"]["at"]) * 1000)
            link.call("POST", "/v1/finish", {"worker": "load", "results": [
                {"id": job["id"], "token": job["token"], "outcome": "complete"} for job in jobs]})
            done += len(jobs)

    worker = threading.Thread(target=work)
    worker.start()
    link, began, sent = server.connect(), time.monotonic(), 0
    while time.monotonic() < stop:
        at = time.time()
        link.call("POST", "/v1/jobs", '{"jobs":[' + ",".join(['{"queue":"load","kind":"k","args":{"at":%r}}' % at] * 250) + "]}")
        sent += 250
        time.sleep(max(0.0, began + sent / 5000 - time.monotonic()))
    worker.join()
    return done / seconds, statistics.median(waits) if waits else float("nan")


def measure_tabs(server: Server, rounds: int) -> None:
    rates, waits = [], []
    for _ in range(rounds):
        alone = run_load(server, 10)
        tabs = subprocess.Popen([sys.executable, __file__, "--tabs", "50", "--port", str(server.port)], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        assert tabs.stdout and tabs.stdin
        tabs.stdout.readline()
        watched = run_load(server, 10)
        tabs.stdin.close()
        tabs.wait(30)
        rates.append(watched[0] / alone[0])
        waits.append(watched[1] / alone[1])
        note(f"  alone {alone[0]:,.0f} jobs/s, {alone[1]:.1f} ms; with 50 tabs {watched[0]:,.0f} jobs/s, {watched[1]:.1f} ms")
    print(f"50 tabs at 5,000 jobs/s, median of {rounds} paired rounds: throughput x {statistics.median(rates):.3f}, wait from enqueue to claim x {statistics.median(waits):.2f}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/mainspring")
    parser.add_argument("--jobs", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--dir", default="/tmp")
    parser.add_argument("--keep", action="store_true", help="keep the store")
    parser.add_argument("--tabs", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.tabs:
        open_tabs = [Tab(arguments.port) for _ in range(arguments.tabs)]
        print("open", flush=True)
        sys.stdin.read()
        for tab in open_tabs:
            tab.close()
        os._exit(0)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="mainspring-dashboard.", dir=arguments.dir))
    server = Server(arguments.binary, directory)
    try:
        note(f"filling {directory} with {arguments.jobs:,} jobs")
        fill(server, arguments.jobs)
        measure_pages(server, arguments.rounds)
        measure_idle(server)
        measure_tabs(server, 5)
    finally:
        server.stop()
        if not arguments.keep:
            shutil.rmtree(directory)


if __name__ == "__main__":
    main()
