"""Runs handlers: on threads, on an event loop, and until a signal."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from . import _groups, trace
from ._attempt import Attempt, Memo, failure, weigh
from ._context import AsyncContext, Context, UnusableStep
from ._failures import raised, text_of
from ._renewal_link import RENEWER
from ._values import duration
from ._middleware import attempting
from ._operations import request
from ._policy import GaveUp
from .errors import Interrupted, InvalidArgument, TooLarge
from .outcomes import OUTCOMES, Complete, Dead, Outcome, Ready, Retry, ready

if TYPE_CHECKING:
    from ._worker import Worker

log = logging.getLogger("mainspring.worker")
WATCHED = "MAINSPRING_WATCHED"  # in the environment of a worker with --watch


class LocalPort:
    """Connects a context to the worker in the same process."""

    def __init__(self, worker: Worker, attempt: Attempt) -> None:
        self._reports = worker.reports
        self._ms = worker.ms
        self._link = worker.link
        self._attempt = attempt

    def stop_reason(self) -> str:
        return self._attempt.stop_reason()

    def wait_stop(self, timeout: float) -> str:
        self._attempt.stop.wait(timeout)
        return self._attempt.stop_reason()

    def progress(self, value: float, text: str) -> None:
        self._reports.say(self._attempt, progress=(value, text))

    def checkpoint(self, data: bytes) -> None:
        self._reports.say(self._attempt, checkpoint=data)

    def message(self, data: bytes) -> None:
        self._reports.message(self._attempt, data)

    def set_session_state(self, data: bytes) -> None:
        self._attempt.session_state = data

    def flush(self) -> None:
        self._reports.flush(self._attempt)

    def recall(self, name: str) -> bytes | None:
        return self._reports.recall(self._attempt, name)

    def remember(self, name: str, data: bytes) -> None:
        self._reports.remember(self._attempt, Memo(name, data))

    def read(self, path: str) -> Any:
        return self._ms.requests.run(request("GET", path))

    def group(self, leader: int, there: bool) -> None:
        self._link.group(leader, there)


_ignored: set[tuple[str, str]] = set()


def arguments(definition: Any, args: Any) -> dict[str, Any]:
    """The job's args as parameters of its handler.

    Args that the handler does not know are left out, so that producers may be newer than workers.
    """
    kind, parameters = definition.kind, signature_of(definition).parameters
    if not parameters:
        return {}
    if not isinstance(args, dict):
        raise InvalidArgument(f"args: must be an object, is {type(args).__name__}", field="args")
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return dict(definition.conversions.load_args(args))
    known = {name: value for name, value in args.items() if name in parameters}
    for name in args.keys() - known.keys():
        if (kind, name) not in _ignored and len(_ignored) < 1000:
            _ignored.add((kind, name))
            log.warning("%s: the handler has no parameter %s: ignored", kind, name)
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in known:
            raise InvalidArgument(f"args.{name}: is missing", field=f"args.{name}")
    return dict(definition.conversions.load_args(known))


def signature_of(definition: Any) -> inspect.Signature:
    """Of the handler, without its context."""
    found = definition.__dict__.get("_handler_signature")
    if found is None or found[0] is not definition.handler_function:
        whole = inspect.signature(definition.handler_function)
        found = (
            definition.handler_function,
            whole.replace(parameters=list(whole.parameters.values())[1:]),
        )
        definition._handler_signature = found
    signature: inspect.Signature = found[1]
    return signature


def outcome_of(definition: Any, value: Any) -> Ready:
    """What a handler returned, as an outcome whose payload can be sent."""
    try:
        return ready(converted(definition, value))
    except TooLarge as error:
        return ready(Dead("result_too_large", str(error)))
    except InvalidArgument as error:
        return ready(Dead("bad_result", str(error)))


def converted(definition: Any, value: Any) -> Outcome:
    """What a handler returned, as an outcome whose result is JSON."""
    outcome: Outcome = value if isinstance(value, OUTCOMES) else Complete(value)
    if not isinstance(outcome, Complete):
        return outcome
    return Complete(definition.conversions.dump_result(outcome.result), outcome.next)


def run_sync(definition: Any, context: Context) -> Ready | str:
    """Calls a handler. A text is the message of a failed attempt."""
    trace.enter(context.headers)
    try:
        value: Any = None
        with attempting(definition.ms.middleware, context):
            known = arguments(definition, context.args)
            value = definition.handler_function(context, **known)
        return outcome_of(definition, value)
    except OUTCOMES as outcome:
        return outcome_of(definition, outcome)
    except BaseException as error:  # SystemExit of a handler must not end the worker
        return failed(definition, context, error)


def failed(definition: Any, context: Context | AsyncContext, error: BaseException) -> Ready | str:
    """What an exception of a handler means."""
    if isinstance(error, UnusableStep):
        return ready(Dead(error.reason, str(error)))
    text = raised(context.job, error)
    known = not isinstance(error, Interrupted) and definition.policy.gives_up(error)
    return GaveUp(text) if known else text


def settle(worker: Worker, attempt: Attempt, result: Ready | str) -> None:
    """Sends the last reports, then hands the outcome to the finisher."""
    complete = isinstance(result, Ready) and isinstance(result.outcome, Complete)
    worker.reports.last(attempt, complete)
    if isinstance(result, GaveUp) and not attempt.reason:
        counts: Outcome = Dead("gave_up", result)
    elif isinstance(result, str):
        counts = failure(attempt, result)
    else:
        counts = weigh(attempt, result.outcome)
    if isinstance(counts, Retry):
        counts = timed(attempt, counts)
    if isinstance(result, str) or counts is not result.outcome:
        result = ready(counts)
    worker.conclude(attempt, result)


def timed(attempt: Attempt, outcome: Retry) -> Retry:
    try:
        return attempt.definition.policy.timed(outcome, attempt.job.get("attempt") or 1)
    except Exception as error:  # the delay may come from a function of the user
        log.error("%s: backoff: %s", attempt.definition.kind, text_of(error), exc_info=error)
        return outcome


def slot(worker: Worker) -> None:
    """A thread that runs one handler after the other."""
    process = worker.pool.process() if worker.pool is not None else None
    while process is None or process.ensure():
        with worker.mutex:
            attempt = worker.take()
            while attempt is None:
                if worker.slots_end:
                    break
                worker.idle_threads += 1
                worker.slots_changed.wait()
                worker.idle_threads -= 1
                attempt = worker.take()
        if attempt is None:
            break
        port = LocalPort(worker, attempt)
        result: Ready | str
        try:
            if process is not None:
                result = process.run(attempt, port)
            else:
                attempt.thread = threading.get_ident()
                result = run_sync(attempt.definition, Context(attempt.job, port))
        except BaseException as error:  # of the worker's own code; the slot must not end
            result = f"{type(error).__name__}: {text_of(error)}"
        try:
            settle(worker, attempt, result)
        except BaseException:
            log.exception("an outcome could not be reported; its job is given back",
                          extra={"job": attempt.id})
            worker.conclude(attempt, ready(attempt.given_back()))
    if process is not None:
        process.end()


class Loop:
    """An event loop on a thread, for handlers that are coroutines."""

    def __init__(self, slots: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._executor = concurrent.futures.ThreadPoolExecutor(
            min(slots * 2, 64), "mainspring-async"
        )
        self._loop.set_default_executor(self._executor)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="mainspring-loop", daemon=True
        )
        self._thread.start()

    def run(self, worker: Worker, attempt: Attempt) -> None:
        def start() -> None:
            attempt.task = self._loop.create_task(self._run(worker, attempt))
            if attempt.reason:
                attempt.task.cancel()

        self._loop.call_soon_threadsafe(start)

    async def _run(self, worker: Worker, attempt: Attempt) -> None:
        definition = attempt.definition
        context = AsyncContext(attempt.job, LocalPort(worker, attempt))
        trace.enter(context.headers)
        result: Ready | str
        try:
            context.check()
            assert definition.handler_function is not None
            value: Any = None
            with attempting(definition.ms.middleware, context):
                known = arguments(definition, context.args)
                value = await definition.handler_function(context, **known)
            result = outcome_of(definition, value)
        except asyncio.CancelledError:
            result = attempt.reason or "the handler's task was cancelled"
        except OUTCOMES as outcome:
            result = outcome_of(definition, outcome)
        except BaseException as error:
            result = failed(definition, context, error)
        attempt.task = None
        if attempt.pending():
            await asyncio.get_running_loop().run_in_executor(
                None, settle, worker, attempt, result
            )
        else:
            settle(worker, attempt, result)

    def cancel(self, attempt: Attempt) -> None:
        def cancel() -> None:
            if attempt.task is not None:
                attempt.task.cancel()

        try:
            self._loop.call_soon_threadsafe(cancel)
        except RuntimeError:
            pass  # the loop has ended

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(2.0)
        self._executor.shutdown(wait=False)
        if not self._thread.is_alive():
            self._loop.close()


def interrupt(worker: Worker, attempt: Attempt) -> None:
    """Cancels waiting coroutines. A thread detects the stop at its next call of the context."""
    if attempt.definition.is_async and worker.loop is not None:
        worker.loop.cancel(attempt)


def stopping_text(worker: Worker, terminal: bool) -> str:
    count = worker.running
    if count == 0:
        return "stopping"
    jobs, them = ("job", "it") if count == 1 else ("jobs", "them")
    again = "Ctrl-C again" if terminal else "a second signal"
    left = duration(worker.options.graceful_seconds * 4 / 5)
    return f"stopping: {count} {jobs} may run for another {left}; {again} ends {them} now"


def check_start() -> None:
    """Refuses a worker in a process that runs the program again although it should not."""
    process = sys.modules.get("multiprocessing.process")
    importing = process is not None and getattr(process.current_process(), "_inheriting", False)
    if importing:
        text = "it imports the program; start workers under `if __name__ == \"__main__\":`"
    elif sys.argv[1:2] == ["--multiprocessing-fork"]:
        text = "call multiprocessing.freeze_support() first in the program"
    elif RENEWER in os.environ:
        text = 'it should renew leases; use renewals="thread"'
    else:
        return
    raise InvalidArgument(f"worker: cannot start in a process that a worker has started: {text}")


def until_signal(worker: Worker) -> None:
    stop = threading.Event()
    signals: list[int] = []
    watched = bool(os.environ.pop(WATCHED, ""))

    def note(number: int, _frame: Any) -> None:
        if watched and number == signal.SIGINT:
            return  # a terminal sends it to the parent, too, which sends SIGTERM
        if signals:
            os._exit(128 + number)  # a second signal ends the process at once
        signals.append(number)
        stop.set()

    old: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        old = {n: _groups.handle(n, note) for n in (signal.SIGTERM, signal.SIGINT)}
        worker.started_text += "; Ctrl-C stops it"
    try:
        worker.start()
        while not stop.wait(0.5):
            if worker.terminate.is_set() or worker.refused is not None or worker.stuck:
                break
        if signals:
            extra = {"worker": worker.incarnation, "running": worker.running}
            log.info(stopping_text(worker, watched or signals[0] == signal.SIGINT), extra=extra)
        ended = worker.stop()
    finally:
        for number, handler in old.items():
            _groups.restore(number, handler)
    if not ended or worker.stuck:
        logging.shutdown()
        os._exit(75)  # handlers that do not end go with the process; then their jobs are given back
    if worker.refused is not None:
        raise worker.refused


