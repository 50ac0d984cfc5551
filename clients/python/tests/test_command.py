"""The command `python -m mainspring work`: what it says, and how it refuses its arguments."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
from typing import Any, Iterator

import pytest

from mainspring import Mainspring
from mainspring.testing import TestServer

SOURCE = pathlib.Path(__file__).parent.parent / "src"
MODULE = """
import time
from mainspring import Mainspring
ms = Mainspring({url!r})
@ms.job("says", queue={queue!r}, max_attempts=1)
def says(ctx, n):
    ctx.log.info("the handler has %d", n)
    if n == 0:
        raise ValueError("none")
@ms.job("waits", queue={queue!r})
def waits(ctx):
    ctx.log.warning("it waits")
    ctx.sleep(60)
"""


class Command:
    """A running `python -m mainspring work jobs`, and the lines of its standard error."""

    def __init__(self, directory: pathlib.Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "mainspring", "work", *arguments]
        env = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            command, cwd=directory, env=env, stderr=subprocess.PIPE, text=True
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.seen: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.put(line)
        self.lines.put("")

    def line(self, text: str) -> str:
        """The next line that contains the text."""
        while True:
            line = self.lines.get(timeout=60)
            self.seen.append(line)
            assert line, f"no line with {text}: {self.seen}"
            if text in line:
                return line


@contextlib.contextmanager
def command(directory: pathlib.Path, *arguments: str) -> Iterator[Command]:
    running = Command(directory, *arguments)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait(30)


@pytest.fixture
def jobs(
    tmp_path: pathlib.Path, mainspring_server: TestServer, mainspring_queue: str
) -> pathlib.Path:
    """A directory with the module `jobs`."""
    text = MODULE.format(url=mainspring_server.url, queue=mainspring_queue)
    (tmp_path / "jobs.py").write_text(text)
    return tmp_path


def test_handlers_in_processes_log_like_the_worker(
    jobs: pathlib.Path, mainspring: Mainspring, mainspring_queue: str
) -> None:
    def new(n: int) -> Any:
        return mainspring.new("says", {"n": n}, queue=mainspring_queue, max_attempts=1)

    good, bad = (mainspring.enqueue(new(n)) for n in (1, 0))
    with command(jobs, "jobs", "--processes", "--slots", "1", "--log", "json") as running:
        said = json.loads(running.line("the handler has 1"))
        assert (said["level"], said["job"], said["message"]) == (
            "info", good.id, "the handler has 1",
        )
        raised = json.loads(running.line("raised an exception"))
        assert (raised["level"], raised["job"]) == ("error", bad.id)
        assert "ValueError: none" in raised["exception"]
    mainspring.enqueue(new(0))
    flags = ("--processes", "--slots", "1", "--log-level", "error")
    with command(jobs, "jobs", *flags) as running:
        running.line(" ERROR mainspring.worker: a handler raised an exception")
        assert "the handler has" not in "".join(running.seen)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("jobs.py", "jobs.py: name the module, not the file: jobs"),
        ("./jobs.py", "./jobs.py: name the module, not the file: jobs"),
        ("pkg/jobs.py", "pkg/jobs.py: name the module, not the file: pkg.jobs"),
        ("pkg/jobs", "pkg/jobs: name the module, not the file: pkg.jobs"),
        (".jobs", ".jobs: name the module, not the file: jobs"),
        ("nosuch.py", "nosuch.py: name the module, not the file: nosuch"),
        ("nosuch.jobs", "there is no module nosuch.jobs in {}"),
        ("pkg.nosuch", "there is no module pkg.nosuch in {}"),
    ],
)
def test_a_name_that_is_no_module_is_refused(
    jobs: pathlib.Path, name: str, problem: str
) -> None:
    (jobs / "pkg").mkdir()
    (jobs / "pkg" / "__init__.py").touch()
    with command(jobs, name) as running:
        assert running.line("") == f"mainspring: {problem.format(jobs)}\n"
        assert running.process.wait(60) == 64


def test_a_module_that_cannot_import_another_one_shows_where(jobs: pathlib.Path) -> None:
    (jobs / "broken.py").write_text("import nosuch.other\n")
    with command(jobs, "broken") as running:
        running.line("broken.py")
        running.line("No module named 'nosuch'")


@pytest.mark.parametrize("what", ["schedule", "timer", "trigger"])
def test_a_queue_that_a_definition_names_needs_no_warning(
    jobs: pathlib.Path, mainspring: Mainspring, what: str
) -> None:
    job = {"kind": "says", "queue": f"of-{what}", "args": {}}
    definition = {
        "schedule": {"every": "1h", "job": job},
        "timer": {"every": "1h", "continuous": {}, "job": job},
        "trigger": {"ended": {"queue": "elsewhere"}, "job": job},
    }[what]
    kind = "triggers" if what == "trigger" else "schedules"
    path = f"/v1/{kind}/names-a-queue"
    mainspring.request("PUT", path, definition)
    try:
        queues = ("--queue", f"of-{what}", "--queue", "typo")
        with command(jobs, "jobs", *queues) as running:
            assert '"typo" has never been used' in running.line("never been used")
            running.line("worker started")
        assert f'"of-{what}"' not in "".join(running.seen)
    finally:
        mainspring.request("DELETE", path)


def test_a_worker_says_what_it_works_on_and_how_it_stops(
    jobs: pathlib.Path, mainspring: Mainspring, mainspring_queue: str
) -> None:
    with command(jobs, "jobs", "--slots", "3") as running:
        line = running.line("worker started")
        assert "worker started; Ctrl-C stops it worker=py-" in line
        server = mainspring.server.url
        assert line.endswith(f" queues={mainspring_queue} server={server} slots=3\n")
        job = mainspring.enqueue(mainspring.new("waits", queue=mainspring_queue))
        running.line("it waits")
        running.process.send_signal(signal.SIGINT)
        line = running.line("stopping")
        rule = "1 job may run for another 20s; Ctrl-C again ends it now"
        assert f"stopping: {rule} worker=py-" in line and line.endswith(" running=1\n")
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 128 + signal.SIGINT
    job.cancel()
    with command(jobs, "jobs", "--log", "json") as running:
        started = json.loads(running.line("worker started"))
        assert (started["queues"], started["slots"]) == ([mainspring_queue], 10)
        running.process.send_signal(signal.SIGTERM)
        stopping = json.loads(running.line("stopping"))
        assert stopping["message"] == "stopping" and stopping["running"] == 0
        assert running.process.wait(60) == 0
