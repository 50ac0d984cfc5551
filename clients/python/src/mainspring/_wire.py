"""One HTTP request, and the rules for repeating it. No sockets here."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping
from urllib.parse import quote

from ._server import Server
from ._values import decode
from .errors import (
    BY_CODE,
    CODE_BY_STATUS,
    AnswerTimeout,
    InvalidArgument,
    MainspringError,
    ServerError,
    Unavailable,
)

FIRST_PAUSE = 0.02
QUIET = 0.25
LONGEST_PAUSE = 2.0
FIRST_RECONNECT = 0.05
LONGEST_RECONNECT = 5.0
LONGEST_RETRY_AFTER = 60.0  # a wrong Retry-After must not stop a worker for a day


@dataclass
class Call:
    """A request of the API."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    # "yes": the server does it once however often it is sent. "no": the caller decides.
    repeat: str = "yes"
    # A refusal for now, with 429, is an answer: the caller sends the call again in another way.
    repeat_refused: bool = True
    # Besides the time-out of the transport: how long the server may wait before it answers.
    wait: float = 0.0
    # Shortens the time-out of the transport.
    answer_within: float | None = None


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class Unanswered(Exception):
    """No whole answer came. `sent` is false if the server cannot have seen the request."""

    def __init__(
        self, message: str, sent: bool, timed_out: bool = False, final: bool = False
    ) -> None:
        super().__init__(message)
        self.sent = sent
        self.timed_out = timed_out
        self.final = final  # trying again cannot help: a certificate that is not trusted

    def error(self) -> MainspringError:
        kind = AnswerTimeout if self.timed_out and self.sent else Unavailable
        return kind(str(self), maybe_done=self.sent, status=-1 if self.final else 0)


class Failover:
    """Which server of a list gets a call.

    If a server is unreachable, or refuses for now, the next one becomes the current one. The call
    is sent to it at once if the first server has not executed it, or if repeating is safe. A wrong
    token is an answer like any other.
    """

    def __init__(self, servers: Server, call: Call) -> None:
        self._servers = servers
        self._call = call
        self._left = len(servers.each)
        self.at = servers.current

    def again(self, status: int, headers: Mapping[str, str] | None) -> bool:
        """After an answer with lower-case headers: whether to send the call to `at`."""
        refused = status == 503 and headers is not None and "retry-after" in headers
        return (refused or status in (502, 504)) and self._next(refused)

    def unanswered(self, error: Unanswered) -> bool:
        return self._next(not error.sent)

    def _next(self, undone: bool) -> bool:
        if len(self._servers.each) == 1:
            return False
        self._left -= 1
        self._servers.leave(self.at)
        self.at = self._servers.current
        return self._left > 0 and (undone or self._call.repeat == "yes")


def path_part(text: str) -> str:
    """A name in a path: a "/" in it becomes %2F."""
    return quote(text, safe="")


def query(parameters: Mapping[str, Any]) -> str:
    """`?a=b&c=d` of those that are not None; lists are repeated."""
    parts: list[str] = []
    for name, value in parameters.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is None:
                continue
            text = ("true" if one else "false") if isinstance(one, bool) else str(one)
            parts.append(f"{name}={quote(text, safe='')}")
    return "?" + "&".join(parts) if parts else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After header. A date counts from the answer's own Date, so that a wrong
    clock on either side does not matter."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isdigit() and len(text) <= 9:
        return float(text)
    import email.utils

    try:
        until = email.utils.parsedate_to_datetime(text).timestamp()
        now = email.utils.parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, until - now)


def error_of(answer: Answer) -> MainspringError:
    """The error of an answer that is not 2xx."""
    code, message, field_name, after = "", "", "", retry_after(answer.headers)
    try:
        document = decode(answer.body)
        part = document["error"]
        code = str(part["code"])
        message = str(part["message"])
        field_name = str(part.get("field", ""))
        if after is None and isinstance(part.get("retry_after_ms"), int):
            after = part["retry_after_ms"] / 1000
    except (ValueError, KeyError, TypeError, AttributeError):
        # Another server, such as a proxy, knows nothing about jobs and access tokens.
        known = answer.status not in (401, 403, 404, 409, 410)
        code = CODE_BY_STATUS.get(answer.status, "internal") if known else "internal"
        message = f"the answer {answer.status} is not from Mainspring: {answer.body[:200]!r}"
    kind = BY_CODE.get(code)
    if kind is None:
        kind = BY_CODE.get(CODE_BY_STATUS.get(answer.status, ""), ServerError)
    return kind(
        message,
        code=code,
        field=field_name,
        status=answer.status,
        retry_after=after,
        maybe_done=answer.status in (500, 502, 504),
    )


def refusal_of(part: dict[str, Any]) -> MainspringError:
    """The error of one part of a request, in an answer that is 2xx as a whole."""
    code = str(part.get("code", ""))
    kind = BY_CODE.get(code, InvalidArgument)
    return kind(str(part.get("message", "")), code=code, field=str(part.get("field", "")))


def document_of(answer: Answer) -> Any:
    """The JSON object of a 2xx answer. Anything else is not an answer of the server."""
    try:
        document = decode(answer.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ServerError(
            f"the answer {answer.status} is not JSON of Mainspring: {answer.body[:200]!r}",
            status=answer.status,
            maybe_done=True,
        )
    return document


def may_repeat(call: Call, error: MainspringError) -> bool:
    """Whether repeating the call can help and is safe."""
    if call.repeat != "yes":
        return False
    if error.status == 429 and not call.repeat_refused:
        return False
    if error.status == 0 or error.status in (408, 429, 502, 503, 504, 507):
        return True
    return 200 <= error.status < 300  # a broken answer to a call that was perhaps done


class Repeats:
    """How long to pause before a call is sent again. What it waited at the server is no repeat."""

    def __init__(
        self,
        retry_for: float,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] | None = None,
    ) -> None:
        self._clock = clock
        if uniform is None:
            import random

            uniform = random.uniform
        self._uniform = uniform
        self._began = self._sent = clock()
        self._give_up = self._began + retry_for
        self._limit = FIRST_PAUSE
        self._told = False

    def pause(self, call: Call, error: MainspringError) -> float | None:
        """Seconds, or None to give up: the time is over, or would be after Retry-After."""
        if not may_repeat(call, error):
            return None
        waited = min(self._clock() - self._sent, call.wait)
        self._began += waited
        self._give_up += waited
        pause = max(self._uniform(self._limit / 8, self._limit), error.retry_after or 0.0)
        self._limit = min(self._limit * 2, LONGEST_PAUSE)
        if self._clock() + pause >= self._give_up:
            return None
        # A pause of a moment is not worth a line.
        if not self._told and self._clock() + pause > self._began + QUIET:
            self._told = True
            import logging

            logging.getLogger("mainspring").warning(
                "%s %s failed: %s; trying again for up to %.0f s",
                call.method, call.path, error, self._give_up - self._clock(),
            )  # fmt: skip
        self._sent = self._clock() + pause
        return pause


class Pauses:
    """Growing pauses between attempts to reach the server, of what never gives up."""

    def __init__(self) -> None:
        self._limit = FIRST_RECONNECT

    def next(self, error: MainspringError | None = None) -> float:
        import random

        pause = random.uniform(self._limit / 8, self._limit * 9 / 8)
        self._limit = min(self._limit * 2, LONGEST_RECONNECT)
        wanted = error.retry_after if error is not None else None
        return max(pause, min(wanted or 0.0, LONGEST_RETRY_AFTER))

    def reset(self) -> None:
        self._limit = FIRST_RECONNECT


def require(document: Any, name: str, kind: type | tuple[type, ...]) -> Any:
    """A field that the answer must have. An answer without it is broken."""
    value = document.get(name) if isinstance(document, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool) and kind is int:
        raise ServerError(
            f'the answer has no usable "{name}": {str(document)[:200]}', maybe_done=True
        )
    return value


def check_header(name: str, value: str) -> str:
    if not value or any(c in value for c in "\r\n\0"):
        raise InvalidArgument(f"{name}: must be a text without line breaks", field=name)
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name} {value!r}: must be Latin-1", field=name) from None
    return value
