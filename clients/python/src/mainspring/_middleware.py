"""Code around each enqueue and each attempt."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ContextManager, Iterator, Sequence, TypeVar

if TYPE_CHECKING:
    from ._context import AsyncContext, Context
    from ._jobs import NewJob

R = TypeVar("R")

class Middleware:
    """Override what you need, and pass an instance to `Mainspring.use`. The first one is outermost.

        class Tenants(Middleware):
            @contextmanager
            def enqueue(self, job):
                yield job.options(headers={"tenant": current_tenant()})

            @contextmanager
            def attempt(self, ctx):
                with tenant(ctx.headers["tenant"]):
                    yield
    """

    def enqueue(self, job: NewJob[Any]) -> ContextManager[NewJob[Any]]:
        """Around an enqueue, also of a coroutine. Gives the job to send. Jobs in a completion, a
        schedule or a workflow do not pass here."""
        return nullcontext(job)

    def attempt(self, ctx: Context | AsyncContext) -> ContextManager[Any]:
        """Around a handler, also a coroutine, in the handler's process. Exceptions of the handler
        pass through it; `Interrupted` and raised outcomes are no `Exception`."""
        return nullcontext()


@contextmanager
def sending(used: Sequence[Middleware], jobs: Sequence[NewJob[R]]) -> Iterator[list[NewJob[R]]]:
    """Around an enqueue: the jobs as the middleware leaves them."""
    with ExitStack() as stack:
        out = []
        for job in jobs:
            for one in used:
                job = stack.enter_context(one.enqueue(job))
            out.append(job)
        yield out


@contextmanager
def attempting(used: Sequence[Middleware], ctx: Context | AsyncContext) -> Iterator[None]:
    """Around a handler."""
    with ExitStack() as stack:
        for one in used:
            stack.enter_context(one.attempt(ctx))
        yield
