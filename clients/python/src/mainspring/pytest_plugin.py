"""Fixtures for pytest. Installed with the package; `-p mainspring.pytest_plugin` otherwise.

`mainspring_server`     a test server for the whole run: `mainspring serve --test`
`mainspring`            a client of it
`mainspring_namespace`  names of this test alone; what has them ends with the test
`mainspring_queue`      the name of a queue of this test alone
`mainspring_use`        points a client of your program at the test server: `mainspring_use(shop.ms)`
`mainspring_worker`     starts a worker: `mainspring_worker(ms, slots=2)`; it stops with the test
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Iterator

import pytest

from ._client import Mainspring
from ._server import Server
from ._worker import Worker
from .testing import Namespace, TestServer, eventually

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import WorkerKeywords


@pytest.fixture(scope="session")
def mainspring_server() -> Iterator[TestServer]:
    with TestServer() as server:
        yield server


@pytest.fixture
def mainspring(mainspring_server: TestServer) -> Iterator[Mainspring]:
    with mainspring_server.client() as ms:
        yield ms


@pytest.fixture
def mainspring_namespace(mainspring: Mainspring) -> Iterator[Namespace]:
    space = Namespace(mainspring)
    yield space
    space.reset()


@pytest.fixture
def mainspring_queue(mainspring_namespace: Namespace) -> str:
    return mainspring_namespace.queue()


def _redirect(ms: Mainspring, server: Server) -> None:
    ms.close()
    ms.__dict__.pop("requests", None)  # opened for the other server
    ms.server = server


@pytest.fixture
def mainspring_use(mainspring: Mainspring) -> Iterator[Callable[[Mainspring], Mainspring]]:
    used: list[tuple[Mainspring, Server]] = []

    def use(ms: Mainspring) -> Mainspring:
        """Its definitions, too, use the test server until the test ends."""
        used.append((ms, ms.server))
        _redirect(ms, mainspring.server)
        return ms

    yield use
    for ms, server in reversed(used):
        _redirect(ms, server)


def _is_known(ms: Mainspring, worker: Worker) -> bool:
    known = ms.request("GET", "/v1/workers", repeat=True)["workers"]
    return any(one["id"] == worker.incarnation for one in known)


@pytest.fixture
def mainspring_worker() -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(ms: Mainspring, **options: Unpack[WorkerKeywords]) -> Worker:
        chosen: WorkerKeywords = {"graceful_stop": "2s"}
        chosen.update(options)
        worker = ms.worker(**chosen)
        worker.start()
        started.append(worker)
        eventually(lambda: _is_known(ms, worker))  # an advance waits for workers that it knows
        return worker

    yield start
    for worker in started:
        worker.request_stop()
    for worker in started:
        worker.stop()
