"""Sends all waiting outcomes in one request, until the server has answered each."""

from __future__ import annotations

import collections
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from ._attempt import Attempt
from ._http import Connection
from ._renewer import now
from ._values import encode
from ._wire import Call, Pauses, require
from .errors import MainspringError, ServerError
from .outcomes import Cancel, Complete, Dead, Defer, Ready, Retry, Snooze, ready

if TYPE_CHECKING:
    from ._worker import Worker

log = logging.getLogger("mainspring.worker")

MAX_RESULTS = 1000
MAX_CALL_BYTES = 512 * 1024
ANSWER_WITHIN = 10.0
HELD_FOR = 60.0  # the lease is renewed this long while its outcome gets no answer
COUNTERS: dict[type[Any], str] = {
    Complete: "completed",
    Retry: "failed",
    Snooze: "snoozed",
    Defer: "deferred",
    Cancel: "cancelled",
    Dead: "dead",
}


class Done:
    """An outcome that waits to be sent."""

    def __init__(self, attempt: Attempt, ready: Ready) -> None:
        self.attempt = attempt
        self.outcome = ready.outcome
        state = b""
        failed = isinstance(ready.outcome, (Retry, Snooze))
        if attempt.session_state is not None and not failed:
            state = b',"session_state":' + attempt.session_state
        self.data = b'{"id":%d,"token":%d,%s%s}' % (attempt.id, attempt.token, ready.data, state)
        self.until = now() + HELD_FOR
        self.alone = False  # sent in a request of its own: a request with it was refused
        self.replaced = False  # the server refused the handler's outcome; this one is sent instead


class Finisher:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._changed = threading.Condition(worker.mutex)
        self._done: collections.deque[Done] = collections.deque()
        self._sending = False
        self._end = False
        self._fails = False
        self._connection = Connection(worker.server)
        self._thread = threading.Thread(target=self._run, name="mainspring-finisher", daemon=True)

    @property
    def busy(self) -> bool:
        """Outcomes are about to be sent, and a claim with them. Needs the worker's mutex."""
        return not self._fails and (self._sending or bool(self._done))

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._changed.notify()

    def put(self, done: Done) -> None:
        """Needs the worker's mutex."""
        self._done.append(done)
        if not self._sending:
            self._changed.notify()

    def drain(self) -> None:
        """Waits until all outcomes so far are sent."""
        until = now() + ANSWER_WITHIN
        while now() < until:
            with self._worker.mutex:
                if not self._done and not self._sending:
                    return
            time.sleep(0.01)  # a wait for `_changed` could take the thread's notification

    def end(self) -> None:
        """Sends the remaining outcomes, until the worker's graceful time is over."""
        with self._worker.mutex:
            self._end = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(ANSWER_WITHIN + 2.0)
        self._connection.close()

    def _run(self) -> None:
        worker = self._worker
        pauses = Pauses()
        while True:
            with worker.mutex:
                while not self._done:
                    if self._end:
                        return
                    self._changed.wait()
                batch = self._next_batch()
                claim = self._claim()
                self._sending = True
            again, error = self._send(batch, claim)
            with worker.mutex:
                self._sending = False
                self._fails = error is not None
                if again:
                    self._done.extendleft(reversed(again))
                if not self._done and not worker.parked:
                    worker.claimer_changed.notify()
            if error is None:
                pauses.reset()
            elif not self._pause(pauses.next(error)):
                return

    def _pause(self, pause: float) -> bool:
        """Waits before the next attempt. False: the stop timeout has passed."""
        worker = self._worker
        until = now() + pause
        with worker.mutex:
            while (left := min(until, worker.give_up_at) - now()) > 0:
                self._changed.wait(left)
            if now() < worker.give_up_at:
                return True
            log.error("stopping before %d outcomes were reported", len(self._done))
            return False

    def _next_batch(self) -> list[Done]:
        batch: list[Done] = []
        size = 0
        while self._done and len(batch) < MAX_RESULTS:
            if batch and size + len(self._done[0].data) > MAX_CALL_BYTES:
                break
            if batch and self._done[0].alone:
                break
            batch.append(self._done.popleft())
            size += len(batch[-1].data)
            if batch[-1].alone:  # alone: others must not suffer for it
                break
        return batch

    def _claim(self) -> bytes:
        """The claim to send with a finish; empty if a claim already waits at the server."""
        worker = self._worker
        if worker.parked or self._fails:
            return b""
        most, kinds = worker.room()
        if most <= 0:
            return b""
        return encode({**worker.claim_fields(most, kinds), "wait": "0s"})

    def _send(self, batch: list[Done], claim: bytes) -> tuple[list[Done], MainspringError | None]:
        """What must be sent again, and why."""
        body = b'{"worker":"%s","results":[%s]%s}' % (
            self._worker.incarnation.encode(),
            b",".join(done.data for done in batch),
            b',"claim":' + claim if claim else b"",
        )
        before = now()
        try:
            call = Call("POST", "/v1/finish", body, answer_within=ANSWER_WITHIN)
            document = self._connection.run(call)
            answers = require(document, "results", list)
            if len(answers) != len(batch):
                raise ServerError(f"finish: {len(answers)} answers to {len(batch)} outcomes")
        except MainspringError as error:
            return self._failed(batch, error)
        again, unread = self._read(batch, answers)
        self._worker.accept(document, now(), before)
        if unread:
            return again, ServerError("finish: an answer that is not one of the server's")
        if self._fails:
            self._worker.complain("report outcomes; retrying")
            log.info("reporting outcomes again")
        return again, None

    def _failed(
        self, batch: list[Done], error: MainspringError
    ) -> tuple[list[Done], MainspringError | None]:
        worker = self._worker
        worker._tell_refused(error)
        worker.complain("report outcomes; retrying", error.message, error.status > 0)
        if error.status in (400, 409, 413):
            if len(batch) > 1:
                for done in batch:
                    done.alone = True
                return batch, ServerError("finish: refused; sending one by one")
            # Only the server itself names the outcome: a proxy may answer otherwise next time.
            if error.field.startswith("results[0]") and not batch[0].replaced:
                return [self._dead_instead(batch[0], error.message)], None
            self._forget(batch[0], f"refused: {error}")
            return [], None
        late = [done for done in batch if done.until < now()]
        if late:
            worker.link.remove([(done.attempt.id, done.attempt.token) for done in late])
        return batch, error

    def _dead_instead(self, done: Done, why: str) -> Done:
        """The next attempt would have the same outcome: the job is dead instead of run again."""
        log.error("the server refuses an outcome; the job is dead: %s", why,
                  extra={"job": done.attempt.id})
        done.attempt.session_state = None
        dead = Done(done.attempt, ready(Dead("outcome_refused", why)))
        dead.alone = dead.replaced = True
        return dead

    def _forget(self, done: Done, why: str) -> None:
        """The server refused this outcome for good. The job runs again when its lease ends."""
        self._worker.stats["refused"] += 1
        self._worker.link.remove([(done.attempt.id, done.attempt.token)])
        log.error(
            "the server refuses an outcome; the job will run again: %s",
            why,
            extra={"job": done.attempt.id},
        )

    def _read(self, batch: list[Done], answers: list[Any]) -> tuple[list[Done], bool]:
        """What must be sent again, and whether an answer could not be read."""
        again: list[Done] = []
        unread = False
        over: list[tuple[int, int]] = []
        for done, answer in zip(batch, answers):
            attempt = done.attempt
            status = answer.get("status") if isinstance(answer, dict) else None
            if isinstance(answer, dict) and answer.get("id") != attempt.id:
                status = None
            if status == "ok":
                self._worker.stats[COUNTERS[type(done.outcome)]] += 1
            elif status in ("stale", "not_found"):
                self._worker.stats["stale"] += 1
                log.warning("an outcome was too late: %s", status, extra={"job": attempt.id})
            elif status == "refused" and not done.replaced:
                error = answer.get("error") or {}
                text = str(error.get("message", "")) if isinstance(error, dict) else ""
                again.append(self._dead_instead(done, text))
                continue
            elif status == "refused":
                self._forget(done, str(answer.get("error")))
                continue
            else:
                again.append(done)
                unread = True
                continue
            over.append((attempt.id, attempt.token))
        if over:
            self._worker.link.remove(over)
        return again, unread
