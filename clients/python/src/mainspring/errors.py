"""Errors of the client. Each code of the server has a class: act on the class or on `code`."""

from __future__ import annotations

from typing import Any, Mapping


class MainspringError(Exception):
    """A call failed. `maybe_done`: the server may have executed the request."""

    code = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        field: str = "",
        status: int = 0,
        retry_after: float | None = None,
        maybe_done: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code:
            self.code = code
        self.field = field
        self.status = status
        self.retry_after = retry_after  # seconds, None if the server did not say
        self.maybe_done = maybe_done

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


def _rebuild(cls: type[MainspringError], message: str, state: dict[str, Any]) -> MainspringError:
    error = cls(message)
    error.__dict__.update(state)
    return error


class InvalidArgument(MainspringError, ValueError):
    """A field breaks a rule. `field` names it."""

    code = "invalid_argument"


class Unauthenticated(MainspringError):
    """The access token is missing, wrong, revoked or expired."""

    code = "unauthenticated"


class Forbidden(MainspringError):
    """The access token lacks a scope. The message names it."""

    code = "forbidden"


class NotFound(MainspringError):
    code = "not_found"


class Conflict(MainspringError):
    """The current state of the job, schedule or workflow does not allow the call."""

    code = "conflict"


class AttemptEnded(Conflict):
    """The context of an attempt that has ended was used, such as by a thread that its handler left,
    or a context was used in a fork of its process. Nothing was sent."""

    code = "attempt_ended"


class LeaseHeld(Conflict):
    """Another holder has the lock or the session. `retry_after`: the remaining time."""

    code = "lease_held"


class LockLost(Conflict):
    """The lock or the session is no longer held. Stop the protected work."""

    code = "lease_lost"


class Expired(NotFound):
    """The record existed and its retention has ended."""

    code = "expired"


class TooLarge(InvalidArgument):
    """More bytes or items than the limit in the message."""

    code = "too_large"


class QueueFull(MainspringError):
    """The server accepts no more work now. Try again after `retry_after`."""

    code = "overloaded"


class Unavailable(MainspringError):
    """No server answered, or it is starting or stopping."""

    code = "unavailable"


class AnswerTimeout(MainspringError, TimeoutError):
    """No answer in time. The server may have executed the request."""

    code = "timeout"


class ServerError(MainspringError):
    """The server failed, or the answer is not from a Mainspring server."""

    code = "internal"


class ResultTimeout(MainspringError, TimeoutError):
    """The job has not ended in the time given to `result`. It continues to run."""

    code = "result_timeout"


class JobFailed(MainspringError):
    """The job ended without a result: `state` is "dead" or "cancelled", `job` its record."""

    code = "job_failed"

    def __init__(self, message: str, job: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.job: Mapping[str, Any] = job or {}

    @property
    def state(self) -> str:
        return str(self.job.get("state", ""))

    @property
    def reason(self) -> str:
        return str(self.job.get("reason", ""))


class Interrupted(BaseException):
    """Raised inside a handler that should end now.

    It is not an `Exception`, so that `except Exception` in a handler does not swallow it.
    """

    reason = ""


class Cancelled(Interrupted):
    """The job was cancelled."""

    reason = "cancelled"


class LeaseLost(Interrupted):
    """Another worker may have the job. The outcome of this attempt is dropped."""

    reason = "lease_lost"


class TimedOut(Interrupted):
    """The attempt exceeded its time limit. It counts as failed."""

    reason = "timeout"


class ShuttingDown(Interrupted):
    """The worker stops. The job is released and the attempt is not counted."""

    reason = "shutdown"


INTERRUPTS: dict[str, type[Interrupted]] = {
    kind.reason: kind for kind in (Cancelled, LeaseLost, TimedOut, ShuttingDown)
}

BY_CODE: dict[str, type[MainspringError]] = {
    "invalid_argument": InvalidArgument,
    "unauthenticated": Unauthenticated,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "method_not_allowed": InvalidArgument,
    "request_timeout": AnswerTimeout,
    "conflict": Conflict,
    "lease_held": LeaseHeld,
    "lease_lost": LockLost,
    "expired": Expired,
    "too_large": TooLarge,
    "overloaded": QueueFull,
    "headers_too_large": InvalidArgument,
    "internal": ServerError,
    "io_error": ServerError,
    "unavailable": Unavailable,
    "timeout": AnswerTimeout,
    "storage_full": QueueFull,
}

# For answers of proxies, which carry no code, and for codes of newer servers.
CODE_BY_STATUS: dict[int, str] = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "conflict",
    410: "expired",
    413: "too_large",
    429: "overloaded",
    431: "headers_too_large",
    502: "unavailable",
    503: "unavailable",
    504: "timeout",
    507: "storage_full",
}
