"""What a worker says when something is wrong: servers of other versions, stuck handlers."""

from __future__ import annotations

import json
import logging
import pathlib
import subprocess
import sys
import threading
from typing import Any, Callable, Iterator

import pytest

from conftest import Serve
from mainspring import Context, Mainspring, _overdue, _worker
from mainspring import __version__ as MINE
from mainspring._server import Server
from mainspring._versions import versions
from mainspring.testing import eventually
from test_worker import helper  # noqa: F401

Start = Callable[..., Any]


def answer(status: int, document: Any) -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def server(version: str, api: str = "v1") -> bytes:
    return answer(200, {"name": "mainspring", "version": version, "api": api})


@pytest.mark.parametrize(
    "answer, text, fits",
    [
        (server(MINE), f"the server is {MINE}; this client is {MINE}", True),
        (server("99.9.3"), f"the server is 99.9.3; this client is {MINE}", True),
        (server("nightly"), "the server is nightly", True),
        (server("0.0.9"), f"is 0.0.9, which is older: upgrade it first; this client is {MINE}",
         False),
        (server("99.0.0", "v2"), f"is 99.0.0 with API v2; this client is {MINE} with v1", False),
        (answer(404, {"error": {"code": "not_found"}}), "no Mainspring server or a much old", False),
        (answer(200, b"<html>welcome"), "answers GET /v1/version with 200, so it is no", False),
        (answer(200, {"name": "other"}), "no Mainspring server", False),
        (answer(401, {"error": {"code": "unauthenticated"}}), "", True),
        (answer(503, b""), "", True),
        (b"", "", True),
    ],
)
def test_both_versions_are_named(serve: Serve, answer: bytes, text: str, fits: bool) -> None:
    url, _ = serve(answer)
    found, good = versions(Server(url))
    assert text in found and good is fits and bool(found) is bool(text)


def test_a_worker_names_the_versions_at_start_and_each_minute_of_errors(
    serve: Serve, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = answer(400, {"error": {"code": "invalid_argument", "message": "unknown field pid"}})
    monkeypatch.setattr(_worker, "COMPLAIN_EVERY", 0.0)
    monkeypatch.setattr(_worker, "versions", lambda _: ("the server is 0.0.9; older", False))
    url, _ = serve(*[unknown] * 3)
    ms = Mainspring(url)

    @ms.job()
    def nothing(ctx: Context) -> None: ...

    with ms.worker(slots=1, renewals="thread"):
        line = "cannot claim; retrying with back-off: unknown field pid"
        line += " (the server is 0.0.9; older)"
        eventually(lambda: caplog.messages.count(line) >= 2, "30s")
    assert caplog.messages[0] == "the server is 0.0.9; older"


@pytest.fixture
def deaf(mainspring: Mainspring, mainspring_queue: str) -> Iterator[Any]:
    gate = threading.Event()

    @mainspring.job(queue=mainspring_queue, timeout="1s", max_attempts=1)
    def deaf(ctx: Context) -> None:
        gate.wait(60)

    yield deaf
    gate.set()


def test_a_handler_that_does_not_end_is_logged_again_and_again(
    mainspring: Mainspring,
    deaf: Any,
    mainspring_worker: Start,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_overdue, "EVERY", 0.05)
    job = deaf.enqueue()
    worker = mainspring_worker(mainspring, slots=1, graceful_stop="0s")

    def lines() -> list[logging.LogRecord]:
        return [one for one in caplog.records if "has not ended" in one.getMessage()]

    eventually(lambda: len(lines()) >= 3, "60s")
    [first, *_] = lines()
    assert (first.levelname, first.__dict__["job"]) == ("ERROR", job.id)
    assert "asked to (timeout); it holds its slot; it runs threading.py:" in first.getMessage()
    assert not worker.stuck and not worker.stopping


def test_a_worker_may_exit_when_a_handler_is_stuck(
    helper: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    monkeypatch.setenv("HELPER_FILE", str(tmp_path / "started"))
    helper.slow.options(timeout="1s").enqueue("deaf")
    flags = ["--slots", "1", "--exit-when-stuck", "200ms", "--graceful-stop", "200ms"]
    command = [sys.executable, "-m", "mainspring", "work", "helper_jobs", *flags]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=90)
    assert done.returncode == 75
    assert "a handler does not end; the worker exits" in done.stderr
