"""What a failed attempt means for its job: when it runs again, and whether."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Callable, Sequence, Union

from ._values import Duration, seconds
from .errors import InvalidArgument
from .outcomes import Retry

Errors = Sequence[type[BaseException]]


@dataclass(frozen=True)
class Backoff:
    """`first` after the first attempt, then `factor` times longer each time, up to `most`.

    Each delay differs by up to the share `jitter`, so that jobs that failed together do not come
    back together.
    """

    first: Duration = "1s"
    factor: float = 2.0
    most: Duration = "1h"
    jitter: float = 0.1

    def __post_init__(self) -> None:
        seconds(self.first, "backoff.first")
        seconds(self.most, "backoff.most")
        if not self.factor >= 1:
            text = f"backoff.factor {self.factor}: must be 1 or more"
            raise InvalidArgument(text, field="backoff.factor")
        if not 0 <= self.jitter <= 1:
            text = f"backoff.jitter {self.jitter}: must be 0 to 1"
            raise InvalidArgument(text, field="backoff.jitter")

    def __call__(self, attempt: int) -> float:
        import random

        most = seconds(self.most)
        try:
            delay = min(seconds(self.first) * self.factor ** (attempt - 1), most)
        except OverflowError:
            delay = most
        return delay * random.uniform(1 - self.jitter, 1 + self.jitter)


Delays = Union[Backoff, Duration, Sequence[Duration], Callable[[int], Duration]]
"""A `Backoff`, the same delay each time, a list of delays (the last one repeats), or a function of
the attempt's number, which counts from 1."""


class GaveUp(str):
    """The text of an exception after which no other attempt would do better."""


class Policy:
    """Of a kind of job."""

    def __init__(
        self, backoff: Delays | None, retry_on: Errors | None, give_up_on: Errors
    ) -> None:
        self.backoff = backoff
        self._retry_on = None if retry_on is None else _classes(retry_on, "retry_on")
        self._give_up_on = _classes(give_up_on, "give_up_on")
        if isinstance(backoff, Sequence) and not isinstance(backoff, str):
            if not backoff:
                raise InvalidArgument("backoff: must not be empty", field="backoff")
            for one in backoff:
                seconds(one, "backoff")
        elif backoff is not None and not callable(backoff):
            seconds(backoff, "backoff")

    def gives_up(self, error: BaseException) -> bool:
        """`give_up_on` wins over `retry_on`. Without both every exception is retried."""
        if isinstance(error, self._give_up_on):
            return True
        return self._retry_on is not None and not isinstance(error, self._retry_on)

    def timed(self, outcome: Retry, attempt: int) -> Retry:
        """The outcome with the delay of the definition, unless it has its own."""
        if self.backoff is None or outcome.after is not None:
            return outcome
        backoff = self.backoff
        delay: Duration
        if callable(backoff):
            delay = backoff(attempt)
        elif isinstance(backoff, Sequence) and not isinstance(backoff, str):
            delay = backoff[min(attempt, len(backoff)) - 1]
        else:
            delay = backoff
        return dataclasses.replace(outcome, after=max(0.0, seconds(delay, "backoff")))


def _classes(errors: Errors, field: str) -> tuple[type[BaseException], ...]:
    found: tuple[Any, ...] = (errors,) if isinstance(errors, type) else tuple(errors)
    for one in found:
        if not isinstance(one, type) or not issubclass(one, BaseException):
            text = f"{field} {one!r:.80}: must be classes of exceptions"
            raise InvalidArgument(text, field=field)
    return found
