"""The text of an exception that a handler raised: for the job's error and for the log."""

from __future__ import annotations

import contextlib
import logging
import os
import traceback
from types import TracebackType
from typing import Any

from .errors import Interrupted

log = logging.getLogger("mainspring.worker")

MAX_BYTES = 8192  # of an error; the server keeps one for each attempt
HEAD_BYTES = 5120  # of a longer one: the rest is its end, which has the last exception
MAX_FRAMES = 12  # of each exception in the chain, the innermost
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def raised(job: dict[str, Any], error: BaseException) -> str:
    """The text of an exception of a handler; logs it with its stack.

    The first line is the exception. Its traceback follows, with causes, contexts and the
    exceptions of a group.
    """
    if isinstance(error, Interrupted):
        return text_of(error) or error.reason
    extra = {name: job.get(name) for name in ("queue", "kind", "attempt")}
    with contextlib.suppress(Exception):  # a logging filter is code of the user
        log.error("a handler raised an exception; the attempt failed",
                  extra={"job": job["id"], **extra}, exc_info=error)
    stack = _without_ours(error.__traceback__)
    last = traceback.extract_tb(stack)[-1:]
    where = f" ({os.path.basename(last[0].filename)}:{last[0].lineno})" if last else ""
    summary = f"{type(error).__name__}: {text_of(error)}{where}"
    with contextlib.suppress(Exception):  # the attributes are data of the user
        chained = error.__cause__ or error.__context__ or getattr(error, "exceptions", None)
        if stack is not None or chained:
            chain = traceback.TracebackException(
                type(error), error, stack, limit=-MAX_FRAMES, compact=True
            )
            summary += "\n" + "".join(chain.format()).rstrip()
    return bounded(summary)


def _without_ours(stack: TracebackType | None) -> TracebackType | None:
    """The stack from the handler on."""
    while stack is not None and stack.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        stack = stack.tb_next
    return stack


def bounded(text: str) -> str:
    """The text in at most MAX_BYTES, cut in its middle."""
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_BYTES:
        return data.decode()
    gap = f"\n… {len(data) - MAX_BYTES} bytes …\n"
    tail = MAX_BYTES - HEAD_BYTES - len(gap.encode())
    return data[:HEAD_BYTES].decode(errors="ignore") + gap + data[-tail:].decode(errors="ignore")


def text_of(error: BaseException) -> str:
    """The message of an exception. Its `__str__` is code of the user and may raise, too."""
    try:
        return str(error)
    except BaseException as second:
        return f"(its __str__ raised {type(second).__name__})"
