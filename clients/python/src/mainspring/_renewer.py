"""Renews leases, by default in a process of its own.

A handler in C code can hold the interpreter's lock for minutes: no thread of that process runs
then, and no lease would be renewed. This process shares no lock with handlers. It reads the
list of leases from standard input, and answers on standard output, one JSON object a line. It
ends when its parent does, so that the leases of a dead worker run out, and ends the processes of
its handlers.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any, Callable, TypeGuard

from . import _groups
from ._http import Connection
from ._server import Server
from ._values import encode
from ._wire import Call
from .errors import MainspringError

MAX_LEASES = 5000  # in one renewal
RETRY_PAUSE = 0.5
LOOK = 1.0  # at the longest: sleep of the machine is noticed soon after it


def now() -> float:
    """Seconds that also pass while the machine sleeps; the same for all processes."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def margin(lease: float) -> float:
    """How long before the end of the lease the handler learns that it is lost."""
    return min(lease / 6, 5.0)


def renew_after(granted: float, lease: float) -> float:
    """Near a job's time limit the server grants less and less; before a restart, more."""
    return max(min(granted, lease) / 3, min(lease / 12, 1.0))


class Renewals:
    """The leases of one worker and the loop that renews them. `report` gets the answers."""

    def __init__(
        self, server: Server, worker: str, lease: float, report: Callable[[dict[str, Any]], None]
    ) -> None:
        self._connection = Connection(server)
        self._worker = worker
        self._lease = lease
        self._report = report
        self._leases: dict[int, tuple[int, float]] = {}  # id: token, renew at
        self._not_before = 0.0
        self.commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def _obey(self, command: dict[str, Any]) -> bool:
        for id, token, renew_at in command.get("add", ()):
            self._leases[id] = (token, renew_at)
        for id, token in command.get("remove", ()):
            if self._leases.get(id, (0, 0.0))[0] == token:
                del self._leases[id]
        if command.get("soon"):
            at = now()
            self._leases = {id: (token, min(due, at)) for id, (token, due) in self._leases.items()}
        for outcome in command.get("back", ()):
            self._give_back(outcome)
        return not command.get("end")

    def run(self) -> None:
        while True:
            due = min((at for _, at in self._leases.values()), default=float("inf"))
            wait = max(due, self._not_before) - now()
            if wait > 0:
                try:
                    command = self.commands.get(timeout=min(wait, LOOK))
                except queue.Empty:
                    continue
                if not self._obey(command):
                    return
                continue
            while not self.commands.empty():
                if not self._obey(self.commands.get()):
                    return
            self._renew()

    def _renew(self) -> None:
        """Renews all leases, not only those that are due: one request for all."""
        sent = [(id, token) for id, (token, _) in self._leases.items()]
        for start in range(0, len(sent), MAX_LEASES):
            self._renew_some(sent[start : start + MAX_LEASES])

    def _renew_some(self, sent: list[tuple[int, int]]) -> None:
        body = {
            "worker": self._worker,
            "leases": [{"id": id, "token": token} for id, token in sent],
            "lease": f"{round(self._lease * 1000)}ms",
        }
        call = Call("POST", "/v1/renew", encode(body), answer_within=max(self._lease / 3, 0.2))
        at = now()
        try:
            document = self._connection.run(call)
            answer = read_answer(document, dict(sent), at)
        except MainspringError as error:
            pause = min(RETRY_PAUSE, self._lease / 12)
            wanted = min(error.retry_after or 0.0, self._lease / 6)
            self._not_before = now() + max(pause, wanted)
            self._report({"failed": error.code, "message": error.message})
            return
        self._not_before = 0.0
        answered = set()
        for id, token, granted in answer["renewed"]:
            answered.add(id)
            if self._leases.get(id, (0, 0.0))[0] == token:
                self._leases[id] = (token, at + renew_after(granted, self._lease))
        for id, token in answer["lost"]:
            answered.add(id)
            if self._leases.get(id, (0, 0.0))[0] == token:
                del self._leases[id]
        for id, token in sent:  # a job that the answer says nothing of is not renewed
            if id not in answered and self._leases.get(id, (0, 0.0))[0] == token:
                self._leases[id] = (token, now() + min(RETRY_PAUSE, self._lease / 12))
        self._report(answer)

    def _give_back(self, outcome: dict[str, Any]) -> None:
        body = encode({"worker": self._worker, "results": [outcome]})
        for _ in range(3):
            try:
                self._connection.run(Call("POST", "/v1/finish", body, answer_within=2.0))
                return
            except MainspringError:
                time.sleep(0.05)


def read_answer(document: Any, sent: dict[int, int], at: float) -> dict[str, Any]:
    """What a renewal's answer says about the leases that were sent at `at`.

    Ignores what it does not understand: a broken answer renews nothing and loses nothing.
    """
    renewed = []
    for one in _list(document, "renewed"):
        id = one.get("id") if isinstance(one, dict) else None
        ms = one.get("lease_expires_in_ms") if isinstance(one, dict) else None
        if _is_int(id) and _is_int(ms) and id in sent:
            renewed.append([id, sent[id], ms / 1000])
    lost = [[id, sent[id]] for id in _list(document, "lost") if _is_int(id) and id in sent]
    return {
        "at": at,
        "renewed": renewed,
        "lost": lost,
        "cancel": [id for id in _list(document, "cancel") if _is_int(id)],
        "quiet": document.get("quiet") is True,
        "terminate": document.get("terminate") is True,
    }


def _list(document: Any, name: str) -> list[Any]:
    value = document.get(name)
    return value if isinstance(value, list) else []


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def main() -> None:
    """The process: the first line of standard input says which server and worker it is for."""
    for number in (2, 15):  # SIGINT and SIGTERM go to the whole group; the parent ends this one
        import signal

        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    start = json.loads(sys.stdin.readline())

    def report(event: dict[str, Any]) -> None:
        try:
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()
        except (OSError, ValueError):
            os._exit(0)

    server = Server(**start["server"])
    server.tls_files.warns = False  # the parent does
    renewals = Renewals(server, start["worker"], start["lease"], report)

    groups: list[int] = []

    def end_groups() -> None:
        for leader in groups:
            _groups.end(leader)

    def read() -> None:
        back: list[dict[str, Any]] = []
        for line in sys.stdin:
            command = json.loads(line)
            groups[:] = command.get("groups", groups)
            if "back_at_end" in command:
                back = command["back_at_end"]
            else:
                renewals.commands.put(command)
        end_groups()
        renewals.commands.put({"back": back, "end": True})

    def watch_parent() -> None:
        # A child that a handler forked may keep our standard input open.
        while os.getppid() == parent:
            time.sleep(LOOK)
        end_groups()
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    threading.Thread(target=watch_parent, daemon=True).start()
    report({"ready": True})
    renewals.run()
    os._exit(0)
