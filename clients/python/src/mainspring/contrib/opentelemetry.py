"""Spans of OpenTelemetry around enqueues and attempts: `ms.use(OpenTelemetryMiddleware())`.

The server exports spans of its own. These belong to the same trace and add what happens inside of
the program: requests and queries of a handler are below the span of its attempt.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

from opentelemetry import propagate, trace

from .._context import AsyncContext, Context
from .._jobs import NewJob
from .._middleware import Middleware


class OpenTelemetryMiddleware(Middleware):
    def __init__(self, tracer: Any = None) -> None:
        self._tracer = tracer or trace.get_tracer("mainspring")

    @contextmanager
    def enqueue(self, job: NewJob[Any]) -> Iterator[NewJob[Any]]:
        queue = job.how.queue or "default"
        attributes = {
            "messaging.system": "mainspring",
            "messaging.destination.name": queue,
            "messaging.operation.type": "send",
            "mainspring.job.kind": job.kind,
        }
        with self._tracer.start_as_current_span(
            f"send {queue}", kind=trace.SpanKind.PRODUCER, attributes=attributes
        ):
            yield job

    @contextmanager
    def attempt(self, ctx: Context | AsyncContext) -> Iterator[None]:
        attributes = {
            "messaging.system": "mainspring",
            "messaging.destination.name": ctx.queue,
            "messaging.operation.type": "process",
            "messaging.message.id": str(ctx.id),
            "mainspring.job.kind": ctx.kind,
            "mainspring.job.attempt": ctx.attempt,
        }
        with self._tracer.start_as_current_span(
            f"process {ctx.queue}",
            context=propagate.extract(ctx.headers),
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
        ):
            yield
