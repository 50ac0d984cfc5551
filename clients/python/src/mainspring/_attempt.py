"""One claim of one job, from the claim to its outcome, and the reports of its handler so far."""

from __future__ import annotations

import collections
import threading
from typing import TYPE_CHECKING, Any

from ._renewer import margin
from .errors import MainspringError
from .outcomes import Cancel, Complete, Defer, Outcome, Retry, Snooze

if TYPE_CHECKING:
    import asyncio

    from ._jobs import Definition

MAX_MESSAGES = 16  # in one renewal
MAX_UNSENT_MESSAGES = 64
MAX_MEMOS = 16


class Memo:
    """A step's result on its way to the server."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.data = data
        self.stored = False
        self.error: MainspringError | None = None


class Attempt:
    def __init__(self, job: dict[str, Any], definition: Definition[Any, Any], slots: int) -> None:
        self.job = job
        self.id: int = job["id"]
        self.token: int = job["token"]
        self.definition = definition
        self.slots = slots
        self.lease_end = 0.0  # on the clock of `now`; a margin before the server's
        self.time_limit = float("inf")
        self.started = False
        self.lost = False
        self.ended = False  # the handler has ended: its context is dead
        self.reason = ""  # why the handler should end; the first one stays
        self.stop = threading.Event()
        self.thread = 0  # that runs the handler; 0: a coroutine or a process
        self.task: asyncio.Task[Any] | None = None
        self.began = 0.0
        # Reports, guarded by the reporter's mutex.
        self.progress: tuple[float, str] | None = None
        self.checkpoint: bytes | None = None
        self.messages: collections.deque[bytes] = collections.deque()
        self.next_seq = 1
        self.memos: collections.deque[Memo] = collections.deque()
        self.memo_names: set[str] = set()
        self.refused: MainspringError | None = None
        self.not_sent: MainspringError | None = None
        self.session_state: bytes | None = None

    def set_lease(self, sent_at: float, granted: float) -> None:
        self.lease_end = max(self.lease_end, sent_at + granted - margin(granted))

    def tell(self, reason: str) -> bool:
        """Asks the handler to end. False if it was asked before."""
        if self.reason:
            return False
        self.reason = reason
        self.stop.set()
        return True

    def stop_reason(self) -> str:
        return "ended" if self.ended else self.reason

    def drop_reports(self) -> None:
        self.progress = self.checkpoint = None
        self.messages.clear()
        self.memos.clear()

    def pending(self) -> bool:
        return bool(
            self.progress is not None
            or self.checkpoint is not None
            or self.messages
            or self.memos
        )

    def given_back(self) -> Outcome:
        """Defers again a job that was claimed by its id."""
        return Defer() if self.job.get("deferred") else Snooze(0)


def failure(attempt: Attempt, message: str, retry: Retry | None = None) -> Outcome:
    """The outcome of an attempt that failed, or raised after a stop request."""
    if attempt.reason == "cancelled":
        return Cancel()  # for the reason that the canceller gave
    if attempt.reason in ("shutdown", "lease_lost"):
        return attempt.given_back()
    if attempt.reason == "timeout":
        message = f"over its time limit of {limit_text(attempt.job)}: {message}"
    if retry is not None:
        return Retry(message, retry.after, retry.open_breaker_for)
    return Retry(message)


def limit_text(job: dict[str, Any]) -> str:
    from ._values import duration

    return duration((job.get("timeout_ms") or 0) / 1000)


def weigh(attempt: Attempt, outcome: Outcome) -> Outcome:
    """The outcome to report for an outcome that a handler returned."""
    if isinstance(outcome, Complete) and attempt.not_sent is not None:
        return failure(attempt, f"a message could not be sent: {attempt.not_sent}")
    if isinstance(outcome, Defer) and attempt.job.get("session"):
        return failure(attempt, "a job of a session cannot be deferred")
    if isinstance(outcome, Retry):
        return failure(attempt, outcome.error, outcome)
    return outcome


