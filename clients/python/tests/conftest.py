from __future__ import annotations

import pathlib
import socket
import sys
import threading
from typing import Callable, Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "tests"))

pytest_plugins = ["mainspring.pytest_plugin"]

Serve = Callable[..., tuple[str, list[bytes]]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server that sends one answer for each request, and closes where the answer is empty.
    Returns its URL and the requests so far."""
    listeners: list[socket.socket] = []

    def start(*answers: bytes) -> tuple[str, list[bytes]]:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        requests: list[bytes] = []
        left = list(answers)

        def run() -> None:
            while left:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    while left and (request := connection.recv(65536)):
                        requests.append(request)
                        answer = left.pop(0)
                        if not answer:
                            break
                        connection.sendall(answer)

        threading.Thread(target=run, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}", requests

    yield start
    for listener in listeners:
        listener.close()
