"""`--watch`: runs the worker in a child, and starts another one when a Python file changes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

from ._run import WATCHED

IGNORED = frozenset(("__pycache__", "node_modules", "site-packages"))
LOOK = 0.3  # for signals
SETTLE = 0.05  # an editor writes a file in several steps
# Of a scan without notices of the kernel, and with them: some file systems send none.
EVERY, EVERY_WITH_NOTICES = 0.5, 5.0
SHARE = 0.02  # of a core, for scans
_EVENTS = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200  # inotify: written, moved, created, deleted
_NONBLOCK_CLOEXEC = 0x800 | 0x80000


def snapshot() -> tuple[dict[str, float], list[str]]:
    """When the Python files below this directory were changed, and the directories to watch.

    Hidden directories, virtual environments and installed packages are left out.
    """
    times: dict[str, float] = {}
    directories: list[str] = []
    for directory, names, files in os.walk("."):
        if "pyvenv.cfg" in files:
            names.clear()
            continue
        directories.append(directory)
        names[:] = [n for n in names if not n.startswith(".") and n not in IGNORED]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(directory, name)
                with contextlib.suppress(OSError):
                    times[path] = os.stat(path).st_mtime
    return times, directories


class Changes:
    """Changes of Python files since it was made."""

    def __init__(self) -> None:
        self._libc: Any = None
        self._notices = -1
        with contextlib.suppress(OSError, AttributeError):
            self._libc = ctypes.CDLL(None)
            self._notices = self._libc.inotify_init1(_NONBLOCK_CLOEXEC)
        self.scans = 0
        self._times = self._scan()

    def _scan(self) -> dict[str, float]:
        began = time.monotonic()
        times, directories = snapshot()
        for directory in directories if self._notices >= 0 else ():
            if self._libc.inotify_add_watch(self._notices, os.fsencode(directory), _EVENTS) < 0:
                self.close()  # the limit of watches: scans alone do
                break
        every = EVERY_WITH_NOTICES if self._notices >= 0 else EVERY
        took = time.monotonic() - began
        self._due = time.monotonic() + max(every, took / SHARE)
        self.scans += 1
        return times

    def wait(self, timeout: float) -> bool:
        """Whether a file has changed. Returns false at the latest after `timeout`."""
        wait = max(0.0, min(timeout, self._due - time.monotonic()))
        if self._notices < 0:
            time.sleep(wait)
        elif select.select([self._notices], [], [], wait)[0]:
            time.sleep(SETTLE)
            with contextlib.suppress(BlockingIOError):
                while os.read(self._notices, 65536):
                    pass
            self._due = 0.0
        return time.monotonic() >= self._due and self._scan() != self._times

    def close(self) -> None:
        if self._notices >= 0:
            os.close(self._notices)
            self._notices = -1


def watch(argv: list[str]) -> int:
    command = [sys.executable, "-m", "mainspring", *[a for a in argv if a != "--watch"]]
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stopping.append(number))
    while not stopping:
        changes = Changes()
        child = subprocess.Popen(command, env={**os.environ, WATCHED: "1"})
        # Also after the child has ended: a broken module is fixed by a change.
        while not stopping and not changes.wait(LOOK):
            pass
        changes.close()
        sent = 0
        while child.poll() is None:
            # The first signal lets handlers end. A second one ends those that do not.
            while sent < max(1, len(stopping)):
                child.send_signal(signal.SIGTERM)
                sent += 1
            time.sleep(0.05)
        if not stopping:
            print("mainspring: files changed; starting again", file=sys.stderr)
    return 0
