"""Reports exceptions of handlers to Sentry, with the job: `ms.use(SentryMiddleware())`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import sentry_sdk

from .._context import AsyncContext, Context
from .._middleware import Middleware


class SentryMiddleware(Middleware):
    """Each attempt has a scope of its own, with queue, kind and attempt as tags. Outcomes that a
    handler returns or raises, and stop requests, are not reported."""

    @contextmanager
    def attempt(self, ctx: Context | AsyncContext) -> Iterator[None]:
        new_scope: Any = getattr(sentry_sdk, "isolation_scope", None)  # since 2.0
        with (new_scope or sentry_sdk.push_scope)() as scope:
            scope.set_tag("mainspring.queue", ctx.queue)
            scope.set_tag("mainspring.kind", ctx.kind)
            scope.set_tag("mainspring.attempt", ctx.attempt)
            facts: dict[str, Any] = {"id": str(ctx.id), "max_attempts": ctx.max_attempts}
            scope.set_context("mainspring.job", {**facts, "correlation_id": ctx.correlation_id})
            try:
                yield
            except Exception as error:
                sentry_sdk.capture_exception(error)
                raise
