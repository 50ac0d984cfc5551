"""The worker's end of the process that renews its leases."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Iterable

from ._renewer import Renewals, renew_after
from ._server import Server

log = logging.getLogger("mainspring.worker")

WRITE_WITHIN = 2.0
RENEWER = "MAINSPRING_RENEWER"  # in the environment of the process: no worker may start in it
_START = "import sys; sys.path.insert(0, sys.argv[1]); from mainspring._renewer import main; main()"


class RenewalLink:
    """Keeps a renewing process alive and sends it the list of leases.

    If no process can be started, a thread renews instead.
    """

    def __init__(
        self,
        server: Server,
        worker: str,
        lease: float,
        report: Callable[[dict[str, Any]], None],
        own_process: bool = True,
    ) -> None:
        self._server = server
        self._worker = worker
        self._lease = lease
        self._report = report
        # A frozen program is its own interpreter: it would start itself.
        self._own_process = own_process and bool(sys.executable) and not hasattr(sys, "frozen")
        self._mutex = threading.Lock()
        self._leases: dict[int, tuple[int, float]] = {}
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._local: Renewals | None = None
        self._ended = False
        self._failures = 0
        self._ready = threading.Event()

    @property
    def pid(self) -> int:
        """Of the process; 0 if a thread renews."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        with self._mutex:
            self._start()

    def wait_ready(self, timeout: float) -> None:
        """Waits until leases would be renewed: nothing should be claimed before."""
        if not self._ready.wait(timeout):
            log.warning("the process that renews leases is slow to start")

    def _start(self) -> None:
        if self._own_process:
            try:
                self._start_process()
                return
            except OSError as error:
                log.warning("cannot start a process that renews; a thread does: %s", error)
                self._own_process = False
        self._process = None
        local = Renewals(self._server, self._worker, self._lease, self._report)
        self._local = local
        self._ready.set()
        threading.Thread(target=local.run, name="mainspring-renewals", daemon=True).start()
        local.commands.put(self._all())

    def _start_process(self) -> None:
        directory = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        command = [sys.executable, "-S", "-E", "-c", _START, directory]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, RENEWER: "1"},
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._process = process
        threading.Thread(
            target=self._listen, args=(process,), name="mainspring-renewals", daemon=True
        ).start()
        start = {"server": self._server.as_dict(), "worker": self._worker, "lease": self._lease}
        self._write(start)
        self._write({**self._all(), "groups": sorted(self._groups)})

    def _all(self) -> dict[str, Any]:
        return {"add": [(id, token, at) for id, (token, at) in self._leases.items()]}

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            self._failures = 0
            if "ready" in event:
                self._ready.set()
            else:
                self._report(event)
        process.wait()
        with self._mutex:
            if self._ended or self._process is not process:
                return
            self._failures += 1
            log.error("the process that renews leases ended; starting another one")
            if self._failures > 3:
                self._own_process = False
            self._start()

    def _write(self, command: dict[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        data = memoryview(json.dumps(command).encode() + b"\n")
        until = time.monotonic() + WRITE_WITHIN
        while data:
            try:
                data = data[os.write(process.stdin.fileno(), data) :]
            except BlockingIOError:
                if time.monotonic() > until:
                    log.error("the process that renews leases does not read; replacing it")
                    process.kill()
                    return
                time.sleep(0.005)
            except (OSError, ValueError):
                return  # it ended: `_listen` starts another one

    def _tell(self, command: dict[str, Any]) -> None:
        if self._local is not None:
            self._local.commands.put(command)
        else:
            self._write(command)

    def add(self, leases: Iterable[tuple[int, int, float]], sent_at: float) -> None:
        """Leases that were granted by a request sent at `sent_at`: id, token, seconds."""
        added = []
        with self._mutex:
            for id, token, granted in leases:
                at = sent_at + renew_after(granted, self._lease)
                self._leases[id] = (token, at)
                added.append((id, token, at))
            if added and not self._ended:
                self._tell({"add": added})

    def remove(self, leases: Iterable[tuple[int, int]]) -> None:
        removed = []
        with self._mutex:
            for id, token in leases:
                if self._leases.get(id, (0, 0.0))[0] == token:
                    del self._leases[id]
                    removed.append((id, token))
            if removed and not self._ended:
                self._tell({"remove": removed})

    def group(self, leader: int, there: bool) -> None:
        """A group of processes that must not outlive this process has started, or has ended."""
        with self._mutex:
            (self._groups.add if there else self._groups.discard)(leader)
            if self._process is not None and not self._ended:
                self._write({"groups": sorted(self._groups)})

    def soon(self) -> None:
        """Renew now: a server that is about to restart grants more than was asked for."""
        with self._mutex:
            if self._leases and not self._ended:
                self._tell({"soon": True})

    def back_at_end(self, outcomes: list[dict[str, Any]]) -> None:
        """Outcomes to send once this process has ended, handlers and all."""
        with self._mutex:
            if self._process is not None:
                self._write({"back_at_end": outcomes})

    def end(self) -> None:
        with self._mutex:
            self._ended = True
            self._ready.set()
            process, self._process = self._process, None
            if self._local is not None:
                self._local.commands.put({"end": True})
        if process is None or process.stdin is None:
            return
        try:
            process.stdin.close()
        except OSError:
            pass
        try:
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            process.kill()


