"""Runs sync handlers in processes, one for each slot.

A handler that crashes or exits takes only its process with it: its attempt fails, with the signal
in the error. A handler over its time limit is killed, with the programs that it started; they also
end when the worker does. Calls of the context go to the worker.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from . import _groups
from ._attempt import Attempt, limit_text
from ._context import Context
from ._jobs import Definition, definitions, place_of
from ._logs import set_up_logs
from ._wire import Pauses
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
                _groups.end(os.getpid())  # the worker has ended
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

    def read(self, path: str) -> Any:
        return self._ask("read", path)

    def group(self, leader: int, there: bool) -> None:
        pass  # what descends from this process ends with it


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


Place = tuple[str, str, int]


def defined(kinds: dict[str, tuple[str, Place]], url: str) -> dict[str, Definition[Any, Any]]:
    """The definitions of these kinds. Other clients of the program may have the same kinds."""
    known: dict[tuple[str, Place], list[Definition[Any, Any]]] = {}
    for one in definitions:
        if one.handler_function is not None:
            known.setdefault((one.kind, place_of(one.handler_function)), []).append(one)
    found = {}
    for name, wanted in kinds.items():
        candidates = known.get(wanted, [])
        if len(candidates) > 1:  # a function that defines handlers, called for several clients
            candidates = [one for one in candidates if one.ms.server.url == url]
        if not candidates:
            raise LookupError(f"no handler for {name}: name its module in modules=")
        if len(candidates) > 1:
            raise LookupError(f"{len(candidates)} handlers for {name}: define each kind once")
        found[name] = candidates[0]
    return found


def child_main(
    pipe: Any,
    modules: list[str],
    kinds: dict[str, tuple[str, Place]],
    url: str,
    logs: tuple[str, str] | None,
) -> None:
    """The child: imports the modules that define the handlers, then runs job after job."""
    from ._run import run_sync

    _groups.lead()  # the parent decides when it ends
    # Handlers may start processes. This one is a daemon for its parent only.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    if logs is not None:  # before the modules, as in the parent
        set_up_logs(*logs)
    for module in modules:
        importlib.import_module(module)
    link = Link(pipe)
    try:
        found = defined(kinds, url)
    except LookupError as error:
        link.send("broken", str(error))
        return
    link.send("ready", None)
    while (taken := link.next_job()) is not None:
        job, port = taken
        result = run_sync(found[job["kind"]], Context(job, port))
        link.done(port, result if isinstance(result, str) else without_values(result))
        _groups.reap()


class Pool:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._mutex = threading.Lock()
        self._processes: list[SlotProcess] = []
        self.closed = False
        sync = {
            name: (d.kind, place_of(d.handler_function))
            for name, d in worker.kinds.items()
            if not d.is_async
        }
        modules = [*worker.options.modules]
        for definition in worker.kinds.values():
            name = getattr(definition.handler_function, "__module__", "")
            if not definition.is_async and name not in ("__main__", "__mp_main__", *modules):
                modules.append(name)
        self.arguments = (modules, sync, worker.server.url, worker.child_logs)
        atexit.register(self.kill)  # the end of a program would wait for them

    def process(self) -> SlotProcess:
        made = SlotProcess(self)
        with self._mutex:
            self._processes.append(made)
        return made

    def kill(self) -> None:
        """Ends all handlers that still run. Starts no process any more."""
        atexit.unregister(self.kill)
        self.closed = True
        with self._mutex:
            for one in self._processes:
                one.kill()

    def changed(self, leader: int, there: bool) -> None:
        """A process was started or has ended. The renewing process ends those of a dead worker."""
        self._worker.link.group(leader, there)

    def usable(self, change: int) -> None:
        """A slot has got its process, or has lost it: jobs are claimed for those that have one."""
        with self._worker.mutex:
            self._worker.slots_usable += change
            self._worker.claimer_changed.notify_all()

    def wait(self, pause: float) -> bool:
        """Waits before the next start. False: the worker stops."""
        worker = self._worker
        until = time.monotonic() + pause
        with worker.mutex:
            while not worker.slots_end and (left := until - time.monotonic()) > 0:
                worker.slots_changed.wait(left)
            return not worker.slots_end


def _wait(pid: int, seconds: float) -> None:
    """Waits until a child has ended, and leaves its id taken."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return
        except ChildProcessError:
            return
        time.sleep(0.005)


class SlotProcess:
    """One slot's process. Used by the slot's thread; `kill` by any."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._process: Any = None
        self._pipe: Any = None
        self._usable = False

    def _start(self) -> None:
        if self._pool.closed:
            raise ServerError("the worker stops")
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=child_main, args=(theirs, *self._pool.arguments), daemon=True
        )
        try:
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._process, self._pipe = process, ours
        self._pool.changed(process.pid or 0, True)
        if self._pool.closed:  # meanwhile
            self.kill()
        if not ours.poll(START_WITHIN):
            self._drop()
            raise ServerError(f"a process for handlers did not start within {START_WITHIN:.0f} s")
        what, value = ours.recv()
        if what != "ready":
            self._drop()
            raise ServerError(f"a process for handlers did not start: {value}")

    def ensure(self) -> bool:
        """Starts the process if there is none, before a job is taken: a process that cannot start
        is no fault of a job. Tries until the worker stops, and returns False then."""
        pauses = Pauses()
        while self._process is None or not self._process.is_alive():
            how = self._drop()
            try:
                self._start()
                break
            except Exception as error:
                how = self._drop() if isinstance(error, EOFError) else str(error)
                self._set_usable(False)
                pause = pauses.next()
                if not self._pool.closed:
                    log.error("a process for handlers did not start, no job is claimed for it; "
                              "trying again in %.1f s: %s", pause, how)
                if not self._pool.wait(pause):
                    return False
        self._set_usable(True)
        return True

    def _set_usable(self, usable: bool) -> None:
        if usable != self._usable:
            self._usable = usable
            self._pool.usable(1 if usable else -1)

    def _drop(self) -> str:
        """Ends the process. How it ended, for people."""
        process, self._process = self._process, None
        if process is None:
            return "it is not there"
        _wait(process.pid, 0.5)
        _groups.end(process.pid)  # before its id may be another's
        process.join(2.0)
        self._pool.changed(process.pid, False)
        self._pipe.close()
        code = process.exitcode
        if code is not None and code < 0:
            return f"it was ended by {signal.Signals(-code).name}"
        return f"it exited with {code}"

    def kill(self) -> None:
        process = self._process
        if process is not None and process.is_alive():
            _groups.end(process.pid)

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
        except Exception as error:
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
                elif not self._process.is_alive() and not self._pipe.poll():
                    raise EOFError  # a process that it started may keep the pipe open
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
