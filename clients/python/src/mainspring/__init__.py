"""Mainspring: durable background jobs.

    from mainspring import Mainspring, Snooze

    ms = Mainspring("http://127.0.0.1:8080")

    @ms.job(queue="photos", timeout="5m")
    def thumbnail(ctx, path: str, width: int = 200) -> dict:
        return {"width": width}

    job = thumbnail.enqueue("a.jpg", width=400)
    print(job.result(timeout="30s"))
    ms.work(slots=8)
"""

from ._client import Mainspring
from ._context import AsyncContext, Context
from ._jobs import Definition, Job, NewJob, Options
from ._middleware import Middleware
from ._policy import Backoff
from ._values import Duration
from .errors import (
    AnswerTimeout,
    AttemptEnded,
    Cancelled,
    Conflict,
    Expired,
    Forbidden,
    Interrupted,
    InvalidArgument,
    JobFailed,
    LeaseHeld,
    LeaseLost,
    LockLost,
    MainspringError,
    NotFound,
    QueueFull,
    ResultTimeout,
    ServerError,
    ShuttingDown,
    TimedOut,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from .outcomes import Cancel, Complete, Dead, Defer, Outcome, Retry, Snooze

__version__ = "0.2.0"

__all__ = [
    "AnswerTimeout",
    "AsyncContext",
    "AttemptEnded",
    "Backoff",
    "Cancel",
    "Cancelled",
    "Complete",
    "Conflict",
    "Context",
    "Dead",
    "Defer",
    "Definition",
    "Duration",
    "Expired",
    "Forbidden",
    "Interrupted",
    "InvalidArgument",
    "Job",
    "JobFailed",
    "LeaseHeld",
    "LeaseLost",
    "LockLost",
    "Mainspring",
    "MainspringError",
    "Middleware",
    "NewJob",
    "NotFound",
    "Options",
    "Outcome",
    "QueueFull",
    "ResultTimeout",
    "Retry",
    "ServerError",
    "ShuttingDown",
    "Snooze",
    "TimedOut",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
]
