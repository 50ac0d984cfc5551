"""Handlers that still run although they were asked to end: each holds its slot."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._attempt import Attempt

log = logging.getLogger("mainspring.worker")

EVERY = 60.0  # between two lines about one handler
STUCK_AFTER = 10.0  # after a time limit or a lost lease, like the workers of other languages


class Overdue:
    """Needs the worker's mutex."""

    def __init__(self, exit_after: float) -> None:
        self._exit_after = exit_after
        self._asked: dict[Attempt, tuple[float, float]] = {}  # asked at, next line at
        self.stuck: set[Attempt] = set()  # as of the last look; the server hears of their number

    def add(self, attempt: Attempt, at: float) -> None:
        self._asked[attempt] = (at, at + EVERY)

    def remove(self, attempt: Attempt) -> bool:
        """Whether it was stuck: look again."""
        self._asked.pop(attempt, None)
        return attempt in self.stuck

    def slots(self) -> int:
        """That stuck handlers hold."""
        return sum(attempt.slots for attempt in self.stuck)

    def look(self, at: float) -> tuple[float, bool]:
        """Logs what is due. Returns when to look again, and whether the worker should exit."""
        exits = False
        next_look = float("inf")
        self.stuck = set()
        for attempt, (asked, due) in self._asked.items():
            for_seconds = at - asked
            exits = exits or for_seconds >= self._exit_after
            if attempt.reason != "cancelled":  # a cancelled job keeps its lease
                if for_seconds >= STUCK_AFTER:
                    self.stuck.add(attempt)
                else:
                    next_look = min(next_look, asked + STUCK_AFTER)
            if due <= at:
                due = at + EVERY
                self._asked[attempt] = (asked, due)
                log.error(
                    "a handler has not ended %.0f s after it was asked to (%s);"
                    " it holds its slot%s",
                    for_seconds, attempt.reason, _where(attempt),
                    extra={"job": attempt.id, "kind": attempt.definition.kind},
                )  # fmt: skip
            next_look = min(next_look, due, asked + self._exit_after)
        return next_look, exits


def _where(attempt: Attempt) -> str:
    """The line that the handler's thread runs."""
    frame = sys._current_frames().get(attempt.thread)
    if frame is None:
        return ""
    code = frame.f_code
    return f"; it runs {os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"
