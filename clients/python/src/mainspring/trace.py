"""W3C trace context: it travels with a job from the program that enqueues it to its handler."""

from __future__ import annotations

import contextvars
import re
import sys
from contextlib import contextmanager
from typing import Any, Iterator

_current: contextvars.ContextVar[dict[str, str]] = contextvars.ContextVar("mainspring_trace")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
NAMES = ("traceparent", "tracestate")


@contextmanager
def context(headers: dict[str, str]) -> Iterator[None]:
    """Jobs that are enqueued in this block carry the trace of these headers.

    Handlers run in such a block with the headers of their job.
    """
    token = _current.set(picked(headers))
    try:
        yield
    finally:
        _current.reset(token)


def picked(headers: Any) -> dict[str, str]:
    """The trace headers, by lower-case name; none if they are not well formed."""
    if not isinstance(headers, dict):
        return {}
    found = {
        name.lower(): value
        for name, value in headers.items()
        if isinstance(name, str) and name.lower() in NAMES and isinstance(value, str)
    }
    return found if _TRACEPARENT.fullmatch(found.get("traceparent", "")) else {}


def enter(headers: Any) -> None:
    """The same as `context`, for a thread or a task that runs one job after the other."""
    _current.set(picked(headers))


def current() -> dict[str, str]:
    """The trace headers for a job that is enqueued now.

    OpenTelemetry's, if this program uses it and a span is active; else those of the running job.
    """
    if "opentelemetry.propagate" in sys.modules:
        carrier: dict[str, str] = {}
        sys.modules["opentelemetry.propagate"].inject(carrier)
        found = picked(carrier)
        if found:
            return found
    return _current.get({})


def inject(fields: dict[str, Any]) -> None:
    """Adds the current trace to the headers of a job unless it has its own."""
    found = current()
    if found and "traceparent" not in fields.get("headers", {}):
        fields["headers"] = {**fields.get("headers", {}), **found}
