"""What a handler can return or raise besides a result."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Sequence, Union

from ._values import MAX_PAYLOAD, Duration, duration, encode

if TYPE_CHECKING:
    from ._jobs import NewJob

# The server keeps an open breaker within these bounds.
_MIN_BREAKER, _MAX_BREAKER = 1.0, 86400.0


class Raisable(BaseException):
    """Code that a handler calls may raise an outcome: the attempt ends with it.

    It is not an `Exception`, so that `except Exception` does not swallow it.
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()  # type: ignore

    def __hash__(self) -> int:
        return hash(type(self))

    def __str__(self) -> str:
        return repr(self)

    def _values(self) -> list[Any]:
        return [getattr(self, one.name) for one in dataclasses.fields(self)]


@dataclass(eq=False)
class Complete(Raisable):
    """Completed. `next`: jobs created in the same transaction."""

    result: Any = None
    next: Sequence["NewJob[Any]"] = field(default_factory=tuple)


@dataclass(eq=False)
class Retry(Raisable):
    """The attempt failed. Try again after `after`, or after the queue's back-off."""

    error: str = ""
    after: Duration | None = None
    open_breaker_for: Duration | None = None


@dataclass(eq=False)
class Snooze(Raisable):
    """Not now. The attempt does not count."""

    after: Duration = 0
    open_breaker_for: Duration | None = None


@dataclass(eq=False)
class Defer(Raisable):
    """Wait until a claim names the job, or an operator retries it. The attempt does not count."""

    reason: str = ""


@dataclass(eq=False)
class Cancel(Raisable):
    """Stop the job. It ends as cancelled."""

    reason: str = ""


@dataclass(eq=False)
class Dead(Raisable):
    """The job will never succeed. It goes to the dead letter."""

    reason: str = ""
    description: str = ""


Outcome = Union[Complete, Retry, Snooze, Defer, Cancel, Dead]
OUTCOMES = (Complete, Retry, Snooze, Defer, Cancel, Dead)


def _breaker(value: Duration) -> str:
    from ._values import seconds

    return duration(min(max(seconds(value, "open_breaker_for"), _MIN_BREAKER), _MAX_BREAKER))


def fields(outcome: Outcome) -> dict[str, Any]:
    """The fields of an outcome in a finish, without `id` and `token`."""
    if isinstance(outcome, Complete):
        out: dict[str, Any] = {"outcome": "complete"}
        if outcome.result is not None:
            out["result"] = outcome.result
        if outcome.next:
            from ._jobs import embedded

            out["next"] = [embedded(job, f"next[{i}]") for i, job in enumerate(outcome.next)]
        return out
    if isinstance(outcome, (Retry, Snooze)):
        out = {"outcome": "retry" if isinstance(outcome, Retry) else "snooze"}
        if isinstance(outcome, Retry):
            out["error"] = text(outcome.error)
        if outcome.after is not None:
            out["after"] = duration(outcome.after, "after")
        if outcome.open_breaker_for is not None:
            out["open_breaker_for"] = _breaker(outcome.open_breaker_for)
        return out
    if isinstance(outcome, Defer):
        return {"outcome": "defer", "reason": text(outcome.reason)}
    if isinstance(outcome, Cancel):
        return {"outcome": "cancel", "reason": text(outcome.reason)}
    return {
        "outcome": "dead",
        "reason": text(outcome.reason),
        "description": text(outcome.description),
    }


def text(value: object) -> str:
    """Text for people: it must never make an outcome fail."""
    return str(value).encode("utf-8", "replace").decode()[:16384].replace("\0", "�")


@dataclass(frozen=True)
class Ready:
    """An outcome and its JSON, without `id` and `token`: `"outcome":"dead","reason":"x"`."""

    outcome: Outcome
    data: bytes


def ready(outcome: Outcome) -> Ready:
    """Raises InvalidArgument if a payload of the outcome cannot be sent."""
    if type(outcome) is Complete and not outcome.next:
        data = b'"outcome":"complete"'
        if outcome.result is not None:
            data += b',"result":' + encode(outcome.result, "result", MAX_PAYLOAD)
        return Ready(outcome, data)
    if isinstance(outcome, Complete) and outcome.result is not None:
        encode(outcome.result, "result", MAX_PAYLOAD)
    return Ready(outcome, encode(fields(outcome), "outcome")[1:-1])
