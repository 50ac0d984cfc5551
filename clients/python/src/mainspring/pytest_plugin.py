"""Fixtures for pytest. Installed with the package; `-p mainspring.pytest_plugin` otherwise.

`mainspring_server`  a server for the whole run, in a temporary directory
`mainspring`         a client of it
`mainspring_queue`   the name of a queue of this test alone
`mainspring_worker`  starts a worker: `mainspring_worker(ms, slots=2)`; it stops with the test
"""

from __future__ import annotations

import secrets
from typing import Any, Callable, Iterator

import pytest

from ._client import Mainspring
from ._worker import Worker
from .testing import TestServer, numbered

_queues = numbered(f"test-{secrets.token_hex(4)}")


@pytest.fixture(scope="session")
def mainspring_server() -> Iterator[TestServer]:
    with TestServer() as server:
        yield server


@pytest.fixture
def mainspring(mainspring_server: TestServer) -> Iterator[Mainspring]:
    with mainspring_server.client() as ms:
        yield ms


@pytest.fixture
def mainspring_queue() -> str:
    return next(_queues)


@pytest.fixture
def mainspring_worker() -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(ms: Mainspring, **options: Any) -> Worker:
        worker = ms.worker(**{"graceful_stop": "2s", **options})
        worker.start()
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.request_stop()
    for worker in started:
        worker.stop()
