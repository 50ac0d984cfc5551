"""Runs sync handlers in processes, one for each slot.

A handler that crashes or exits takes only its process with it: its attempt fails, with the signal
in the error. A handler over its time limit is killed. Calls of the context go to the worker.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from ._attempt import Attempt, limit_text
from ._context import Context
from ._logs import set_up_logs
from .errors import AttemptEnded, Interrupted, MainspringError, ServerError
from .outcomes import Ready, Retry, Snooze, ready, text

if TYPE_CHECKING:
    from ._run import LocalPort
    from ._worker import Worker

log = logging.getLogger("mainspring.worker")

# Between asking a handler to end and killing its process. A stop of the worker has its own time.
GRACES = {"timeout": 2.0, "lease_lost": 2.0, "cancelled": 10.0}
START_WITHIN = 60.0


class Link:
    """In the child: the end of the pipe to the parent."""

    def __init__(self, pipe: multiprocessing.connection.Connection) -> None:
        self._pipe = pipe
        self._call = threading.Lock()
        self._answers: list[tuple[str, Any]] = []
        self._answered = threading.Condition()
        self._jobs: list[tuple[dict[str, Any], PipePort] | None] = []
        self._port: PipePort | None = None  # of the last job
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                what, value = self._pipe.recv()
            except (EOFError, OSError):
                os._exit(0)  # the worker has ended
            with self._answered:
                if what == "stop":
                    if self._port is not None:
                        self._port.tell(value)
                elif what == "job":
                    self._port = PipePort(self)
                    self._jobs.append(None if value is None else (value, self._port))
                else:
                    self._answers.append((what, value))
                self._answered.notify_all()

    def next_job(self) -> tuple[dict[str, Any], PipePort] | None:
        with self._answered:
            while not self._jobs:
                self._answered.wait()
            return self._jobs.pop(0)

    def send(self, what: str, value: Any) -> None:
        with self._call:
            self._pipe.send((what, value))

    def done(self, port: PipePort, value: Any) -> None:
        """Nothing of this attempt is sent after its outcome: it would reach the next one."""
        with self._call:
            port.tell("ended")
            self._pipe.send(("done", value))

    def ask(self, port: PipePort, method: str, arguments: tuple[Any, ...]) -> Any:
        with self._call:
            if port.stop_reason() == "ended":
                raise AttemptEnded("the attempt has ended; nothing was sent")
            self._pipe.send(("call", (method, arguments)))
            with self._answered:
                while not self._answers:
                    self._answered.wait()
                what, value = self._answers.pop(0)
        if what == "raise":
            raise value
        return value


class PipePort:
    """In the child: calls of one attempt's context, as messages to the parent."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._stop = threading.Event()
        self._reason = ""

    def tell(self, reason: str) -> None:
        if self._reason != "ended":
            self._reason = reason
            self._stop.set()

    def _ask(self, method: str, *arguments: Any) -> Any:
        return self._link.ask(self, method, arguments)

    def stop_reason(self) -> str:
        return self._reason

    def wait_stop(self, timeout: float) -> str:
        self._stop.wait(timeout)
        return self._reason

    def progress(self, value: float, text: str) -> None:
        self._ask("progress", value, text)

    def checkpoint(self, data: bytes) -> None:
        self._ask("checkpoint", data)

    def message(self, data: bytes) -> None:
        self._ask("message", data)

    def set_session_state(self, data: bytes) -> None:
        self._ask("set_session_state", data)

    def flush(self) -> None:
        self._ask("flush")

    def recall(self, name: str) -> bytes | None:
        value: bytes | None = self._ask("recall", name)
        return value

    def remember(self, name: str, data: bytes) -> None:
        self._ask("remember", name, data)


def without_values(result: Ready) -> Ready:
    """The same outcome for another process.

    Its JSON is made. The handler's values may be JSON and yet not fit through a pipe, such as a
    `defaultdict` with a lambda.
    """
    outcome = result.outcome
    if isinstance(outcome, Retry):  # the worker may add to its text
        kept = Retry(text(outcome.error), outcome.after, outcome.open_breaker_for)
        return Ready(kept, result.data)
    return Ready(type(outcome)(), result.data)


def child_main(
    pipe: Any, modules: list[str], kinds: dict[str, str], logs: tuple[str, str] | None
) -> None:
    """The child: imports the modules that define the handlers, then runs job after job."""
    from ._jobs import definitions
    from ._run import run_sync

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if logs is not None:  # before the modules, as in the parent
        set_up_logs(*logs)
    for module in modules:
        importlib.import_module(module)
    link = Link(pipe)
    missing = [kind for kind in kinds if kind not in definitions]
    if missing:
        link.send("broken", f"no handler for {', '.join(missing)}: name its module in modules=")
        return
    link.send("ready", None)
    while (taken := link.next_job()) is not None:
        job, port = taken
        definition = definitions[kinds[job["kind"]]]
        result = run_sync(definition, Context(job, port))
        link.done(port, result if isinstance(result, str) else without_values(result))


class Pool:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._mutex = threading.Lock()
        self._processes: list[SlotProcess] = []
        sync = {k: d.kind for k, d in worker.kinds.items() if not d.is_async}
        modules = [*worker.options.modules]
        for definition in worker.kinds.values():
            name = getattr(definition.handler_function, "__module__", "")
            if not definition.is_async and name not in ("__main__", "__mp_main__", *modules):
                modules.append(name)
        self.arguments = (modules, sync, worker.child_logs)

    def process(self) -> SlotProcess:
        made = SlotProcess(self)
        with self._mutex:
            self._processes.append(made)
        return made

    def kill(self) -> None:
        """Ends all handlers that still run."""
        with self._mutex:
            for one in self._processes:
                one.kill()


class SlotProcess:
    """One slot's process. Used by the slot's thread; `kill` by any."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._process: Any = None
        self._pipe: Any = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=child_main, args=(theirs, *self._pool.arguments), daemon=True
        )
        process.start()
        theirs.close()
        self._process, self._pipe = process, ours
        if not ours.poll(START_WITHIN):
            self._drop()
            raise ServerError(f"a process for handlers did not start within {START_WITHIN:.0f} s")
        what, value = ours.recv()
        if what != "ready":
            self._drop()
            raise ServerError(f"a process for handlers did not start: {value}")

    def warm(self) -> None:
        """Starts the process before there is a job."""
        try:
            self._start()
        except (OSError, EOFError, MainspringError) as error:
            self._drop()
            log.error("a process for handlers did not start: %s", error)

    def _drop(self) -> str:
        """Ends the process. How it ended, for people."""
        process, self._process = self._process, None
        if process is None:
            return "it is not there"
        process.join(0.5)
        if process.is_alive():
            process.kill()
            process.join(2.0)
        self._pipe.close()
        code = process.exitcode
        if code is not None and code < 0:
            return f"it was ended by {signal.Signals(-code).name}"
        return f"it exited with {code}"

    def kill(self) -> None:
        process = self._process
        if process is not None and process.is_alive():
            process.kill()

    def end(self) -> None:
        if self._process is not None:
            try:
                self._pipe.send(("job", None))
            except OSError:
                pass
            self._drop()

    def run(self, attempt: Attempt, port: LocalPort) -> Ready | str:
        try:
            if self._process is None or not self._process.is_alive():
                self._start()
            self._pipe.send(("job", attempt.job))
        except (OSError, EOFError, MainspringError) as error:
            self._drop()  # no fault of the job
            log.error("a process for handlers did not start, the job waits: %s", error)
            return ready(Snooze("5s"))
        told = 0.0
        while True:
            try:
                if self._pipe.poll(0.05 if not told else 0.02):
                    what, value = self._pipe.recv()
                    if what == "done":
                        result: Ready | str = value
                        return result
                    self._answer(port, *value)
            except (OSError, EOFError):
                how = self._drop()
                log.error("a process of a handler ended: %s", how, extra={"job": attempt.id})
                return f"the handler's process ended: {how}"
            if attempt.reason and not told:
                told = time.monotonic()
                self._send("stop", attempt.reason)
            grace = GRACES.get(attempt.reason, float("inf"))
            if told and time.monotonic() > told + grace:
                self.kill()
                if attempt.reason == "timeout":
                    self._drop()
                    return f"killed {grace:.0f} s after its limit of {limit_text(attempt.job)}"

    def _send(self, what: str, value: Any) -> None:
        try:
            self._pipe.send((what, value))
        except OSError:
            pass  # `run` notices

    def _answer(self, port: LocalPort, method: str, arguments: tuple[Any, ...]) -> None:
        try:
            self._send("return", getattr(port, method)(*arguments))
        except (MainspringError, Interrupted) as error:
            self._send("raise", error)
