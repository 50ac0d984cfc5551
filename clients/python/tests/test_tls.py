"""Client certificates: renewed files are used for the next connection; their end is announced."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import shutil
import socket
import ssl
import subprocess
import threading
from typing import Any, Callable, Iterator

import pytest

from mainspring import Mainspring, _server
from mainspring._server import TlsFiles, end_of_certificate
from mainspring.testing import find_binary

ANSWER = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
BOTH = pytest.mark.parametrize("how", ["sync", "async"])


class Authority:
    """Certificates of `mainspring tls`, and a server that wants one of each client."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._run("init", "--dir", str(directory))
        self.serials: list[str] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "server.pem", directory / "server.key")
        context.load_verify_locations(directory / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        self._listener = context.wrap_socket(
            socket.create_server(("127.0.0.1", 0)), server_side=True
        )
        threading.Thread(target=self._serve, daemon=True).start()

    def _run(self, *arguments: str) -> None:
        command = [find_binary(), "tls", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def issue(self, days: int) -> None:
        arguments = ("--client", "--days", str(days), "--dir", str(self.directory))
        self._run("issue", "worker", *arguments)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
                with connection:
                    connection.recv(65536)
                    found: Any = connection.getpeercert()
                    self.serials.append(found["serialNumber"])
                    connection.sendall(ANSWER)
            except ssl.SSLError:
                continue
            except (OSError, ValueError):
                return

    def client(self) -> Mainspring:
        port = self._listener.getsockname()[1]
        names = {"ca_file": "ca.pem", "certificate_file": "worker.pem", "key_file": "worker.key"}
        files: Any = {option: str(self.directory / name) for option, name in names.items()}
        return Mainspring(f"https://127.0.0.1:{port}", token="", retry_for="0s", **files)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def authority(tmp_path: pathlib.Path) -> Iterator[Authority]:
    made = Authority(tmp_path / "tls")
    made.issue(90)
    yield made
    made.close()


Ask = Callable[[], Any]


def asker(ms: Mainspring, how: str) -> Ask:
    async def ask() -> Any:
        async with ms:
            return await ms.arequest("GET", "/v1/queues", repeat=True)

    if how == "async":
        return lambda: asyncio.run(ask())
    return lambda: ms.request("GET", "/v1/queues", repeat=True)


@BOTH
def test_a_renewed_certificate_is_used_for_the_next_connection(
    authority: Authority, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    with authority.client() as ms:
        ask = asker(ms, how)
        ask()
        ask()
        authority.issue(91)
        ask()
        before = authority.serials[2]
        assert authority.serials == [authority.serials[0]] * 2 + [before]
        assert before != authority.serials[0]
        # Half of a renewal: the key of the last certificate does not fit.
        shutil.copy(authority.directory / "server.key", authority.directory / "worker.key")
        ask()
        assert authority.serials[3] == before
        [warning] = caplog.messages
        assert warning.startswith("certificate_file ")
        assert warning.endswith("the files that were read before are used")
        authority.issue(92)
        ask()
        assert authority.serials[4] not in authority.serials[:4]


@BOTH
def test_a_certificate_that_ends_soon_is_announced_once_a_day(
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    authority.issue(6)
    file = authority.directory / "worker.pem"
    end = end_of_certificate(str(file))
    assert end is not None
    day = [0.0]
    monkeypatch.setattr(_server, "time", FakeTime(lambda: end - 6 * 86400 + day[0]))
    with authority.client() as ms:
        ask = asker(ms, how)
        ask()
        ask()
        [warning] = caplog.messages
        assert warning.startswith(f"the client certificate {file} ends at 20")
        day[0] = 86401.0
        ask()
        assert len(caplog.messages) == 2
        authority.issue(90)
        day[0] = 2 * 86401.0
        ask()
        assert len(caplog.messages) == 2


class FakeTime:
    def __init__(self, now: Callable[[], float]) -> None:
        import time

        self.time = now
        self.gmtime, self.strftime = time.gmtime, time.strftime


def test_a_worker_looks_at_its_certificate_while_its_connections_last(
    authority: Authority, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Event()
    check = TlsFiles.check_end

    def note(self: TlsFiles) -> None:
        check(self)
        if threading.current_thread().name == "mainspring-watcher":
            looked.set()

    monkeypatch.setattr(TlsFiles, "check_end", note)
    ms = authority.client()
    ms.job("nothing")(lambda ctx: None)
    with caplog.at_level(logging.CRITICAL), ms.worker(renewals="thread", graceful_stop="0s"):
        assert looked.wait(30)
