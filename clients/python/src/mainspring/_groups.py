"""Process groups of handlers: a handler's programs end with it.

Each process of a handler leads a group of its own, so a terminal's Ctrl-C does not reach it, and
one signal ends it with the programs that it started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import Any

SET_CHILD_SUBREAPER = 36  # of prctl
KEPT_ZOMBIES = 100

_ours: set[int] = set()  # signals whose handlers are for this process, not for its forks
_registered: list[bool] = []
_forking = threading.local()


def _before_fork() -> None:
    # A signal that comes before the fork has its default action would be lost.
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ours)


def _after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _in_fork() -> None:
    for number in _ours:
        signal.signal(number, signal.SIG_DFL)
    _ours.clear()
    _after_fork()


def handle(number: int, handler: Any) -> Any:
    """As signal.signal, and the signal has its default action in forks and programs of this
    process. They would inherit a signal that is ignored, and an inherited handler is not theirs."""
    if not _registered:
        _registered.append(True)
        os.register_at_fork(
            before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_fork
        )
    _ours.add(number)
    return signal.signal(number, handler)


def restore(number: int, handler: Any) -> None:
    """Sets the handler that was there before `handle`; forks inherit it again."""
    _ours.discard(number)
    signal.signal(number, handler)


def lead() -> None:
    """Makes this process the leader of a new group, and deaf to SIGTERM and SIGINT.

    It adopts what its descendants leave, so that daemons end with it, too.
    """
    import ctypes  # most users of this module do not need it

    os.setsid()
    with contextlib.suppress(OSError, AttributeError):  # other systems have no prctl
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT):
        handle(number, lambda *_: None)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except (OSError, ValueError):
        pass  # it has ended, or this system has no such files
    return found


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def reap() -> None:
    """Removes zombies that this process adopted. The newest may be children whose exit code a
    handler asks for."""
    zombies = [pid for pid in _children(os.getpid()) if _is_zombie(pid)]
    for pid in zombies[:-KEPT_ZOMBIES]:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def end(leader: int) -> None:
    """Kills a group and the descendants of its leader, such as those in sessions of their own."""
    tree = [leader]
    for pid in tree:
        tree += _children(pid)
    # The group last: this process may be in it. A process that has just started leads none yet.
    targets = [*((os.kill, pid) for pid in tree[1:]), (os.killpg, leader), (os.kill, leader)]
    for kill, pid in targets:
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
