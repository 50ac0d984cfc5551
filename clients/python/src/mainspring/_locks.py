"""Locks in the whole system, and sessions that this program holds.

Methods that begin with `a` are the same for coroutines. A thread renews the lease in both cases:
a busy event loop does not lose it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from typing import TYPE_CHECKING, Any, Callable

from ._operations import Operation, request
from ._renewer import margin, now
from ._values import Duration, duration, encode, seconds
from ._wire import Call, path_part, refusal_of, require
from .errors import Conflict, InvalidArgument, LockLost, MainspringError
from .outcomes import OUTCOMES, Complete, ready

if TYPE_CHECKING:
    from . import api
    from ._client import Mainspring

log = logging.getLogger("mainspring.lock")

RETRY_PAUSE = 0.5
JOIN_SECONDS = 5.0


class _Kept:
    """A lease that a thread renews until it is released or lost."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._mutex = threading.Lock()
        self._end = threading.Event()
        self._lost = threading.Event()
        self._lost_at = 0.0
        self._granted = 0.0
        self._thread: threading.Thread | None = None
        self.token = 0  # grows with every holder: hand it to what you write to

    def _keep(self, sent_at: float, granted: float, renew: Callable[[], float]) -> None:
        self._end.clear()
        self._lost.clear()
        self._note(sent_at, granted)
        self._thread = threading.Thread(target=self._run, args=(renew,), daemon=True)
        self._thread.start()

    def _note(self, sent_at: float, granted: float) -> None:
        self._granted = granted
        self._lost_at = sent_at + granted - margin(granted)

    def _run(self, renew: Callable[[], float]) -> None:
        pause = self._granted / 3
        while not self._end.wait(min(pause, max(0.0, self._lost_at - now()))):
            if now() >= self._lost_at:
                break
            at = now()
            try:
                granted = renew()
                with self._mutex:
                    self._note(at, granted)
                pause = granted / 3
            except LockLost:
                break
            except MainspringError:
                pause = min(RETRY_PAUSE, self._granted / 12)
        if not self._end.is_set():
            log.warning("%s: lost", self._what)
            self._lost.set()

    def _ending(self) -> threading.Thread | None:
        """Ends the renewals. Returns the thread to wait for: it may be sending the last one."""
        self._end.set()
        thread, self._thread = self._thread, None
        return None if thread is threading.current_thread() else thread

    def _stop(self) -> None:
        thread = self._ending()
        if thread is not None:
            thread.join(JOIN_SECONDS)

    async def _astop(self) -> None:
        thread = self._ending()
        if thread is not None:
            await asyncio.to_thread(thread.join, JOIN_SECONDS)

    @property
    def lost(self) -> bool:
        """Whether another holder may have the lease by now."""
        return self._lost.is_set() or now() >= self._lost_at

    def check(self) -> None:
        """Raises LockLost if the lock is no longer held. Call it before each write."""
        if self.lost:
            raise LockLost(f"{self._what}: it has been lost")


class Lock(_Kept):
    """A named lock with one holder in the whole system. Created by `Mainspring.lock`."""

    def __init__(
        self, ms: Mainspring, name: str, ttl: Duration, wait: Duration, holder: str | None
    ) -> None:
        super().__init__(f'lock "{name}"')
        self._ms = ms
        self.name = name
        self._path = f"/v1/leases/{path_part(name)}"
        self._ttl = ttl
        self._wait = wait
        self._given_holder = holder
        self._holder = ""
        self.value: Any = None  # what the holder before left

    def acquire(self) -> Lock:
        """Acquires the lock. Raises LeaseHeld if another holder has it for longer than `wait`."""
        self._ms.requests.complete(self._acquire())
        return self

    async def aacquire(self) -> Lock:
        await self._ms.requests.acomplete(self._acquire())
        return self

    def _acquire(self) -> Operation[None]:
        # The same holder gets the same lease, so an acquire can be repeated.
        self._holder = self._given_holder or "py-" + secrets.token_hex(8)
        wait = seconds(self._wait, "wait")
        body = {"holder": self._holder, "ttl": duration(self._ttl, "ttl"), "wait": duration(wait)}
        at = now()
        document = yield Call("POST", f"{self._path}/acquire", encode(body), wait=wait)
        self.token = require(document, "token", int)
        self.value = document.get("value")
        granted = require(document, "expires_in_ms", int) / 1000
        if now() - at > granted / 12:
            # It began some time between request and answer: a renewal says more.
            self._granted = granted
            at = now()
            granted = yield from self._renewal()
        self._keep(at, granted, lambda: self._ms.requests.complete(self._renewal()))

    def _renewal(self) -> Operation[float]:
        body = {"holder": self._holder, "token": self.token}
        within = max(self._granted / 3, 0.5)
        document = yield Call(
            "POST", f"{self._path}/renew", encode(body), repeat="no", answer_within=within
        )
        return float(require(document, "expires_in_ms", int) / 1000)

    def release(self, value: Any = None) -> None:
        """Releases the lock and stores `value` for the next holder unless it is None."""
        if self._thread is not None:
            self._stop()
            self._ms.requests.complete(self._release(value))

    async def arelease(self, value: Any = None) -> None:
        if self._thread is not None:
            await self._astop()
            await self._ms.requests.acomplete(self._release(value))

    def _release(self, value: Any) -> Operation[None]:
        self.check()
        body: dict[str, Any] = {"holder": self._holder, "token": self.token}
        if value is not None:
            body["value"] = value
        yield Call("POST", f"{self._path}/release", encode(body), repeat="no")

    def __enter__(self) -> Lock:
        return self.acquire()

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.release()
        except MainspringError:
            if kind is None:
                raise

    async def __aenter__(self) -> Lock:
        return await self.aacquire()

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            await self.arelease()
        except MainspringError:
            if kind is None:
                raise


class Session(_Kept):
    """A session held by this program: only this program gets its jobs. Created by
    `Mainspring.sessions.accept`."""

    def __init__(
        self, ms: Mainspring, queue: str, key: str | None, lease: Duration, wait: Duration
    ) -> None:
        super().__init__(f'session "{key}" of {queue}')
        self._ms = ms
        self.queue = queue
        self.key = key or ""
        self._lease = duration(lease, "lease")
        self._wait = seconds(wait, "wait")
        self._worker = "py-" + secrets.token_hex(8)
        self.state: Any = None
        self._first: dict[str, Any] | None = None  # the job that came with the session
        self._running: dict[str, Any] | None = None

    @property
    def _path(self) -> str:
        return _session(self.queue, self.key)

    def accept(self) -> bool:
        """Acquires the session, or the next free one with a job. False: there was none."""
        return self._ms.requests.complete(self._accept())

    async def aaccept(self) -> bool:
        return await self._ms.requests.acomplete(self._accept())

    def _accept(self) -> Operation[bool]:
        body: dict[str, Any] = {"worker": self._worker, "lease": self._lease}
        if self.key:
            body["session"] = self.key
        else:
            body["wait"] = duration(self._wait)
        at = now()
        path = f"/v1/queues/{path_part(self.queue)}/sessions/accept"
        document = yield Call("POST", path, encode(body), wait=self._wait)
        grant = document.get("session")
        if grant is None:
            return False
        self.key = require(grant, "key", str)
        self.token = require(grant, "token", int)
        self.state = grant.get("state")
        jobs = document.get("jobs") or []
        self._first = jobs[0] if jobs else None
        granted = require(grant, "lease_expires_in_ms", int) / 1000
        if now() - at > granted / 12:
            at = now()
            granted = yield from self._renewal()
        self._keep(at, granted, lambda: self._ms.requests.complete(self._renewal()))
        return True

    def _renewal(self) -> Operation[float]:
        body = {"token": self.token, "lease": self._lease}
        document = yield Call(
            "POST", f"{self._path}/renew", encode(body), repeat="no", answer_within=10.0
        )
        granted = require(document, "lease_expires_in_ms", int) / 1000
        job = self._running or self._first
        if job is not None:
            leases = [{"id": job["id"], "token": job["token"]}]
            renewal = {"worker": self._worker, "leases": leases, "lease": self._lease}
            yield Call("POST", "/v1/renew", encode(renewal), repeat="no", answer_within=10.0)
        return float(granted)

    def next(self, wait: Duration = 0) -> dict[str, Any] | None:
        """The session's next job. None: no job within `wait`."""
        return self._ms.requests.complete(self._next(wait))

    async def anext(self, wait: Duration = 0) -> dict[str, Any] | None:
        return await self._ms.requests.acomplete(self._next(wait))

    def _next(self, wait: Duration) -> Operation[dict[str, Any] | None]:
        self.check()
        if self._running is not None:
            raise Conflict(f"{self._what}: finish job {self._running['id']} before the next")
        job, self._first = self._first, None
        if job is None:
            held = {"queue": self.queue, "key": self.key, "token": self.token}
            body = {"worker": self._worker, "session": held, "lease": self._lease}
            body["wait"] = duration(seconds(wait, "wait"))
            document = yield Call(
                "POST", "/v1/claim", encode(body), repeat="no", wait=seconds(wait)
            )
            jobs = require(document, "jobs", list)
            job = jobs[0] if jobs else None
        if job is not None:
            require(job, "id", int)
            require(job, "token", int)
            self._running = job
            self.state = job.get("session_state")
        return job

    def finish(self, outcome: Any = None, *, session_state: Any = ...) -> None:
        """Ends the running job: with a result, or an outcome such as `Retry("…")`.

        Raises InvalidArgument for what is not JSON. The job then still runs.
        """
        self._ms.requests.complete(self._finish(outcome, session_state))

    async def afinish(self, outcome: Any = None, *, session_state: Any = ...) -> None:
        await self._ms.requests.acomplete(self._finish(outcome, session_state))

    def _finish(self, outcome: Any, session_state: Any) -> Operation[None]:
        if self._running is None:
            raise InvalidArgument(f"{self._what}: no job of it is running")
        job = self._running
        state = b""
        if session_state is not ...:
            state = b',"session_state":' + encode(session_state, "session_state", 256 * 1024)
        data = ready(outcome if isinstance(outcome, OUTCOMES) else Complete(outcome)).data
        one = b'{"id":%d,"token":%d,%s%s}' % (job["id"], job["token"], data, state)
        body = b'{"worker":"%s","results":[%s]}' % (self._worker.encode(), one)
        document = yield Call("POST", "/v1/finish", body)
        answer = require(document, "results", list)[0]
        status = require(answer, "status", str)
        if status == "refused":  # a part is over its limit; the job still runs
            raise refusal_of(require(answer, "error", dict))
        self._running = None
        if status != "ok":
            raise Conflict(f"job {job['id']}: its outcome was too late: {status}")
        if session_state is not ...:
            self.state = session_state

    def set_state(self, state: Any) -> None:
        """Sets the session's state without ending a job."""
        self._ms.requests.complete(self._set_state(state))

    async def aset_state(self, state: Any) -> None:
        await self._ms.requests.acomplete(self._set_state(state))

    def _set_state(self, state: Any) -> Operation[None]:
        body = {"token": self.token, "state": state}
        yield Call("PUT", f"{self._path}/state", encode(body))
        self.state = state

    def release(self) -> None:
        """Releases the session. Its running job becomes available again."""
        if self._thread is not None:
            self._stop()
            self._ms.requests.complete(self._release())

    async def arelease(self) -> None:
        if self._thread is not None:
            await self._astop()
            await self._ms.requests.acomplete(self._release())

    def _release(self) -> Operation[None]:
        job = self._running or self._first
        if job is not None and not self.lost:
            back = {"id": job["id"], "token": job["token"], "outcome": "snooze", "after": "0s"}
            yield Call("POST", "/v1/finish", encode({"worker": self._worker, "results": [back]}))
        self._running = self._first = None
        self.check()
        body = encode({"token": self.token})
        yield Call("POST", f"{self._path}/release", body, repeat="no")

    def __enter__(self) -> Session:
        if not self.accept():
            raise self._none()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.release()
        except MainspringError:
            if kind is None:
                raise

    async def __aenter__(self) -> Session:
        if not await self.aaccept():
            raise self._none()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            await self.arelease()
        except MainspringError:
            if kind is None:
                raise

    def _none(self) -> Conflict:
        return Conflict(f"no free session of {self.queue}")


class Sessions:
    """Sessions of queues: the jobs of one run in their order."""

    def __init__(self, ms: Mainspring) -> None:
        self._ms = ms

    def accept(
        self,
        queue: str,
        key: str | None = None,
        *,
        lease: Duration = "30s",
        wait: Duration = 0,
    ) -> Session:
        """Holds a session, `with ms.sessions.accept("orders", "anna") as session: …`: only this
        program gets its jobs, in order. Without a key it is the next free one with a job."""
        return Session(self._ms, queue, key, lease, wait)

    def get(self, queue: str, key: str) -> api.Session:
        return self._ms.requests.complete(_get(queue, key))

    async def aget(self, queue: str, key: str) -> api.Session:
        return await self._ms.requests.acomplete(_get(queue, key))

    def resume(self, queue: str, key: str) -> None:
        """Continues a session that a dead job has stopped."""
        self._ms.requests.complete(_resume(queue, key))

    async def aresume(self, queue: str, key: str) -> None:
        await self._ms.requests.acomplete(_resume(queue, key))


def _session(queue: str, key: str) -> str:
    return f"/v1/queues/{path_part(queue)}/sessions/{path_part(key)}"


def _get(queue: str, key: str) -> Operation[api.Session]:
    document: api.Session = yield request("GET", _session(queue, key))
    return document


def _resume(queue: str, key: str) -> Operation[None]:
    yield request("POST", _session(queue, key) + "/resume")
