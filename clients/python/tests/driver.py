"""The Python driver of the conformance cases: operations in, answers out. See
clients/conformance/README.md."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import json
import pathlib
import sys
import threading
import time
from typing import Any, Callable

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from mainspring import (  # noqa: E402
    Cancel,
    Complete,
    Dead,
    Defer,
    Interrupted,
    JobFailed,
    Mainspring,
    MainspringError,
    NewJob,
    Options,
    Retry,
    Snooze,
)

SAFE = (1 << 53) - 1


def encode(value: Any) -> Any:
    """Marks integers that some languages cannot read."""
    if isinstance(value, dict):
        return {name: encode(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE:
        return {"$int": str(value)}
    return value


def decode(value: Any) -> Any:
    if isinstance(value, list):
        return [decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$int"}:
        return int(value["$int"])
    if set(value) == {"$text", "times"}:
        return value["$text"] * value["times"]
    return {name: decode(one) for name, one in value.items()}


def new_job(fields: dict[str, Any]) -> NewJob[Any]:
    options = {name: value for name, value in fields.items() if name not in ("kind", "args")}
    unique = options.pop("unique", None)
    if unique is not None:
        options["key"] = unique["key"]
        options["key_for"] = unique.get("for")
        options["on_conflict"] = unique.get("on_conflict")
    fence = options.pop("fence", None)
    if fence is not None:
        options["fence"] = (fence["lease"], int(fence["token"]))
    return NewJob(fields["kind"], fields.get("args", {}), Options(**options))


def texts(record: dict[str, Any]) -> dict[str, Any]:
    return {n: str(v) if n in ("id", "token", "job") else v for n, v in record.items()}


class Gates:
    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.gates: dict[str, threading.Event] = {}

    def __getitem__(self, name: str) -> threading.Event:
        with self.mutex:
            return self.gates.setdefault(name, threading.Event())


class Handler:
    """Runs the actions of a case."""

    def __init__(self, driver: Driver, runs: list[dict[str, Any]], actions: list[Any]) -> None:
        self.driver = driver
        self.runs = runs
        self.actions = actions

    def begin(self, ctx: Any) -> dict[str, Any]:
        run = {
            "id": str(ctx.id),
            "kind": ctx.kind,
            "attempt": ctx.attempt,
            "notes": [],
            "ended": "",
            "stop_reason": "",
        }
        self.runs.append(run)
        return run

    def chosen(self, ctx: Any) -> list[dict[str, Any]]:
        mine = [a for a in self.actions if a.get("attempt", ctx.attempt) == ctx.attempt]
        return [a for a in mine for _ in range(a.get("repeat", 1))]

    def sync(self, ctx: Any) -> Any:
        run = self.begin(ctx)
        try:
            for action in self.chosen(ctx):
                ended, value = self.act(ctx, run, action)
                if ended:
                    run["ended"] = "returned"
                    return value
            run["ended"] = "returned"
            return None
        except BaseException:
            run["ended"] = "raised"
            raise
        finally:
            run["stop_reason"] = ctx.stop_reason

    async def asynchronous(self, ctx: Any) -> Any:
        run = self.begin(ctx)
        try:
            for action in self.chosen(ctx):
                ended, value = self.act(ctx, run, action)
                if inspect.isawaitable(value) and not ended:
                    await value
                if ended:
                    run["ended"] = "returned"
                    return value
            run["ended"] = "returned"
            return None
        except BaseException:
            run["ended"] = "raised"
            raise
        finally:
            run["stop_reason"] = ctx.stop_reason

    def act(self, ctx: Any, run: dict[str, Any], action: dict[str, Any]) -> tuple[bool, Any]:
        is_async = self.driver.is_async
        name = next(n for n in action if n not in ("attempt", "repeat"))
        value = action[name]
        if name in ENDS:
            return True, ENDS[name](value)
        if name == "throw":
            raise RuntimeError(value)
        if name == "gate":
            return False, self.gate(ctx, value, is_async)
        if name == "hang":
            return False, self.hang(self.driver.gates[value], is_async)
        if name == "wait_stop":
            return False, self.wait_stop(ctx, run, value, is_async)
        if name == "block_ms":
            time.sleep(value / 1000)
        elif name == "check":
            ctx.check()
        elif name == "progress":
            ctx.progress(*value)
        elif name == "checkpoint":
            return False, ctx.checkpoint(value)
        elif name == "message":
            return False, ctx.message(value)
        elif name == "flush":
            return False, ctx.flush()
        elif name == "session_state":
            ctx.set_session_state(value)
        elif name == "step":
            return False, self.step(ctx, run, value, is_async)
        elif name == "step_fails":
            return False, ctx.step(value[0], self.fail, value[1])
        elif name == "note":
            run["notes"].append({value: self.noted(ctx, value)})
        elif name == "results":
            return False, self.results(ctx, run, value, is_async)
        elif name == "throw_chain":
            self.chain(value)
        elif name == "leave":
            self.left.append(ctx)
        elif name == "late":
            return False, self.late(run, value, is_async)
        elif name == "enqueue":
            self.driver.ms.enqueue(new_job(value))
        else:
            raise RuntimeError(f"no such action: {name}")
        return False, None

    def results(self, ctx: Any, run: dict[str, Any], name: str, is_async: bool) -> Any:
        if not is_async:
            run["notes"].append({"results": list(ctx.results(ctx.args[name]))})
            return None

        async def read() -> None:
            run["notes"].append({"results": [one async for one in ctx.results(ctx.args[name])]})

        return read()

    def chain(self, texts: list[str]) -> None:
        first, *causes = texts
        if not causes:
            raise RuntimeError(first)
        try:
            self.chain(causes)
        except RuntimeError as error:
            raise RuntimeError(first) from error

    left: list[Any] = []

    def late(self, run: dict[str, Any], value: Any, is_async: bool) -> Any:
        """Calls the context of an attempt that has ended."""

        async def call() -> None:
            try:
                waiting = self.left.pop().progress(value)
                if inspect.isawaitable(waiting):
                    await waiting
            except Exception as error:
                run["notes"].append({"late": type(error).__name__})

        if is_async:
            return call()
        asyncio.run(call())
        return None

    def fail(self, text: str) -> Any:
        raise RuntimeError(text)

    def noted(self, ctx: Any, name: str) -> Any:
        value = ctx.last_checkpoint if name == "checkpoint" else getattr(ctx, name)
        return str(value) if name == "token" else value

    def gate(self, ctx: Any, name: str, is_async: bool) -> Any:
        gate = self.driver.gates[name]
        if is_async:

            async def wait() -> None:
                while not gate.is_set():
                    await ctx.sleep(0.005)

            return wait()
        while not gate.wait(0.005):
            ctx.check()
        return None

    def hang(self, gate: threading.Event, is_async: bool) -> Any:
        async def wait() -> None:
            while not gate.is_set():
                try:
                    await asyncio.sleep(0.005)
                except asyncio.CancelledError:
                    pass

        return wait() if is_async else gate.wait() and None

    def wait_stop(self, ctx: Any, run: dict[str, Any], limit: str, is_async: bool) -> Any:
        until = time.monotonic() + float(limit[:-1])

        def note() -> None:
            run["notes"].append({"stop": ctx.stop_reason})

        if is_async:

            async def wait() -> None:
                try:
                    while not ctx.cancelled and time.monotonic() < until:
                        await asyncio.sleep(0.005)
                except asyncio.CancelledError:
                    pass
                note()

            return wait()
        while not ctx.cancelled and time.monotonic() < until:
            time.sleep(0.005)
        note()
        return None

    def step(self, ctx: Any, run: dict[str, Any], value: Any, is_async: bool) -> Any:
        ran: list[bool] = []

        def work() -> Any:
            ran.append(True)
            return value[1]

        def note(result: Any) -> None:
            run["notes"].append({"step": value[0], "result": result, "ran": bool(ran)})

        if is_async:

            async def step() -> None:
                note(await ctx.step(value[0], work))

            return step()
        note(ctx.step(value[0], work))
        return None


# What JSON does not have, as handlers return it.
ODD: dict[str, Callable[[], Any]] = {
    "generator": lambda: (n for n in [1]),
    "buffer": lambda: {"b": [b"x"]},
    "date": lambda: {"at": dt.datetime.now(dt.timezone.utc)},
    "infinity": lambda: {"n": [float("inf")]},
    "surrogate": lambda: {"t": "\ud83d"},
}
ENDS: dict[str, Callable[[Any], Any]] = {
    "return": lambda value: value,
    "complete": lambda value: Complete(
        value.get("result"), [new_job(job) for job in value.get("next", [])]
    ),
    "retry": lambda value: Retry(value.get("error", ""), value.get("after")),
    "snooze": lambda value: Snooze(value["after"]),
    "defer": lambda value: Defer(value.get("reason", "")),
    "cancel": lambda value: Cancel(value.get("reason", "")),
    "dead": lambda value: Dead(value.get("reason", ""), value.get("description", "")),
    "return_bad": lambda value: object(),
    "return_odd": lambda value: ODD[value](),
}


def event_loop() -> asyncio.AbstractEventLoop:
    """An event loop in a thread, for the calls of the driver in its mode `async`."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


class Driver:
    loop = event_loop()

    def __init__(self) -> None:
        self.ms = Mainspring()
        self.is_async = False
        self.options: dict[str, Any] = {}
        self.workers: dict[str, Any] = {}
        self.runs: dict[str, list[dict[str, Any]]] = {}
        self.gates = Gates()
        self.locks: dict[str, Any] = {}
        self.session: Any = None
        self.streams: dict[str, list[Any]] = {}
        self.tickets: dict[int, tuple[threading.Thread, list[Any]]] = {}

    def hello(self) -> Any:
        return {"language": "python", "has": ["wide_args", "handlers", "classes", "sync"]}

    def open(self, url: str, options: dict[str, Any]) -> Any:
        for worker in self.workers.values():
            worker.options.graceful_seconds = 0.2
            worker.request_stop()
        for worker in self.workers.values():
            worker.stop()
        for lock in [*self.locks.values(), self.session]:
            if lock is not None:
                lock._stop()
        self.__init__()  # type: ignore[misc]
        self.is_async = options.get("mode") == "async"
        self.options = options
        self.url = url
        self.ms = self.client()
        return {}

    def client(self) -> Mainspring:
        options = self.options
        return Mainspring(
            self.url,
            token=options.get("token", ""),
            ca_file=options.get("ca_file", ""),
            request_timeout=options.get("timeout_ms", 30000) / 1000,
            retry_for=options.get("retry_for_ms", 15000) / 1000,
        )

    def call(self, owner: Any, method: str, /, *args: Any, **more: Any) -> Any:
        """Calls a method. In the mode `async`: its form for coroutines."""
        if not self.is_async:
            return getattr(owner, method)(*args, **more)
        method = "await_end" if method == "wait" else "a" + method
        return self.call_named(owner, method, *args, **more)

    def call_named(self, owner: Any, method: str, /, *args: Any, **more: Any) -> Any:
        waiting = getattr(owner, method)(*args, **more)
        if not self.is_async:
            return waiting
        return asyncio.run_coroutine_threadsafe(waiting, self.loop).result()

    def enqueue(self, job: dict[str, Any]) -> Any:
        made = self.call(self.ms, "enqueue", new_job(job))
        return {"id": str(made.id), "state": made.state, "duplicate": made.duplicate}

    def enqueue_many(self, jobs: Any = None, job: Any = None, times: int = 0) -> Any:
        key = None
        if job is not None:
            jobs = [job] * times
        new = [new_job(one) for one in jobs]
        made = self.call(self.ms, "enqueue_many", new, idempotency_key=key)
        first = [
            {"id": str(one.id), "state": one.state, "duplicate": one.duplicate}
            for one in made[:100]
        ]
        return {"count": len(made), "jobs": first}

    def get(self, id: str) -> Any:
        return texts(self.call(self.ms, "get", int(id)))

    def result(self, id: str, timeout: str) -> Any:
        return {"result": self.call(self.ms.find(int(id)), "result", timeout)}

    def cancel(self, id: str, reason: str = "") -> Any:
        return {"state": self.call(self.ms, "cancel", int(id), reason)}

    def retry(self, id: str) -> Any:
        return {"state": self.call(self.ms, "retry", int(id))}

    def why(self, id: str) -> Any:
        return texts(self.call(self.ms, "why", int(id)))

    def work(self, worker: str, handlers: dict[str, Any], **options: Any) -> Any:
        runs = self.runs[worker] = []
        known = self.ms.definitions
        for kind, what in handlers.items():
            known.pop(kind, None)
            handler = Handler(self, runs, what.get("do", []))
            self.ms.job(kind, concurrency=what.get("concurrency", 0))(_named(handler))
        made = self.ms.worker(kinds=list(handlers), **options)
        made.start()
        self.workers[worker] = made
        return {}

    def stop(self, worker: str) -> Any:
        return {"clean": self.workers[worker].stop()}

    def handled(self, worker: str) -> Any:
        return {"runs": self.runs[worker]}

    def open_gate(self, gate: str) -> Any:
        self.gates[gate].set()
        return {}

    def lock(self, name: str, **options: Any) -> Any:
        lock = self.ms.lock(name, **options)
        self.call(lock, "acquire")
        self.locks[name] = lock
        return {"token": str(lock.token)}

    def unlock(self, name: str) -> Any:
        self.call(self.locks[name], "release")
        return {}

    def lock_state(self, name: str) -> Any:
        return {"lost": self.locks[name].lost}

    def hold(self, queue: str, **options: Any) -> Any:
        self.session = self.ms.sessions.accept(queue, **options)
        if not self.call(self.session, "accept"):
            return {"key": None}
        session = self.session
        return {"key": session.key, "token": str(session.token), "state": session.state}

    def next(self, wait: str = "0s") -> Any:
        job = self.call(self.session, "next", wait)
        return {"job": None if job is None else texts(job)}

    def finish(self, result: Any = None, **more: Any) -> Any:
        self.call(self.session, "finish", result, **more)
        return {}

    def release(self) -> Any:
        self.call(self.session, "release")
        return {}

    def schedule_sync(
        self, owner: str, schedules: dict[str, Any], dry_run: bool = False
    ) -> Any:
        call = "await_sync" if self.is_async else "sync"
        return self.call_named(self.ms.schedules, call, owner, schedules, dry_run=dry_run)

    def schedule_set(self, name: str, schedule: dict[str, Any]) -> Any:
        return texts(self.call(self.ms.schedules, "put", name, **schedule))

    def schedule_get(self, name: str) -> Any:
        return texts(self.call(self.ms.schedules, "get", name))

    def schedule_remove(self, name: str) -> Any:
        self.call(self.ms.schedules, "remove", name)
        return {}

    def schedule_trigger(self, name: str) -> Any:
        return {"job": str(self.call(self.ms.schedules, "trigger", name))}

    def limit(self, queue: str, limits: dict[str, Any]) -> Any:
        self.call(self.ms.queues, "set_limits", queue, **limits)
        return {}

    def pause(self, queue: str) -> Any:
        self.call(self.ms.queues, "pause", queue)
        return {}

    def resume(self, queue: str) -> Any:
        self.call(self.ms.queues, "resume", queue)
        return {}

    def workflow_start(self, workflow: dict[str, Any]) -> Any:
        made = self.call(self.ms.workflows, "start", **workflow)
        return {"id": str(made.id), "duplicate": made.duplicate}

    def workflow_wait(self, id: str, timeout: str) -> Any:
        return texts(self.call(self.ms.workflows.find(int(id)), "wait", timeout))

    def workflow_signal(
        self, id: str, name: str, signal_id: str | None = None, payload: Any = None
    ) -> Any:
        self.call(self.ms.workflows.find(int(id)), "signal", name, payload, signal_id)
        return {}

    def workflow_cancel(self, id: str) -> Any:
        return texts(self.call(self.ms.workflows.find(int(id)), "cancel"))

    def follow(self, name: str, filter: dict[str, Any]) -> Any:
        seen: list[Any] = []
        self.streams[name] = seen
        ms = self.client()

        def read() -> None:
            for event in ms.events(**filter):
                seen.append(texts(event))

        threading.Thread(target=read, daemon=True).start()
        return {}

    def followed(self, name: str) -> Any:
        return {"events": list(self.streams[name])}

    # The protocol

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        op = request.pop("op")
        method = self.handled if op == "runs" else getattr(self, op)
        try:
            return {"ok": encode(method(**decode(request)))}
        except MainspringError as error:
            out: dict[str, Any] = {
                "code": error.code,
                "class": type(error).__name__,
                "message": str(error),
            }
            if error.field:
                out["field"] = error.field
            if error.retry_after is not None:
                out["retry_after_ms"] = error.retry_after * 1000
            if error.maybe_done:
                out["maybe_done"] = True
            if isinstance(error, JobFailed):
                out.update(state=error.state, reason=error.reason)
            return {"error": out}
        except (Exception, Interrupted) as error:
            return {"error": {"code": "driver", "message": f"{type(error).__name__}: {error}"}}

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["op"] == "join":
            thread, answer = self.tickets.pop(request["ticket"])
            thread.join(30)
            return answer[0] if answer else {"error": {"code": "driver", "message": "no answer"}}
        ticket = request.pop("ticket", None)
        if ticket is None:
            return self.answer(request)
        kept: list[Any] = []
        thread = threading.Thread(target=lambda: kept.append(self.answer(request)), daemon=True)
        self.tickets[ticket] = (thread, kept)
        thread.start()
        return {"ok": {}}


def _named(handler: Handler) -> Any:
    if handler.driver.is_async:

        async def run_async(ctx: Any) -> Any:
            return await handler.asynchronous(ctx)

        return run_async

    def run(ctx: Any) -> Any:
        return handler.sync(ctx)

    return run


def main() -> None:
    driver = Driver()
    for line in sys.stdin:
        answer = driver.handle(json.loads(line))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
