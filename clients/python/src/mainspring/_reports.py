"""Sends the reports of running handlers: progress, checkpoints, messages, results of steps."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from ._attempt import MAX_MEMOS, MAX_MESSAGES, MAX_UNSENT_MESSAGES, Attempt, Memo
from ._http import Connection
from ._renewer import now, read_answer
from ._values import decode, encode
from ._wire import Call, path_part, refusal_of, require
from .errors import INTERRUPTS, AttemptEnded, Conflict, MainspringError, QueueFull, TooLarge

if TYPE_CHECKING:
    from ._worker import Worker

log = logging.getLogger("mainspring.worker")

INTERVAL = 0.1  # between two sendings that no handler waits for
MAX_CALL_BYTES = 512 * 1024
RETRY_PAUSE = 0.5
WAIT_FOR_ROOM = 10.0  # a handler that has ended waits this long for room for its messages


class _Sent:
    """What one renewal carried of one attempt."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.progress = attempt.progress
        self.checkpoint = attempt.checkpoint
        self.messages = 0
        self.memos: list[Memo] = []
        self.bytes = 128 + len(attempt.checkpoint or b"")

    def fields(self, room: int, with_messages: bool) -> dict[str, Any]:
        attempt = self.attempt
        out: dict[str, Any] = {"id": attempt.id, "token": attempt.token}
        if self.progress is not None:
            out["progress"] = {"value": self.progress[0], "text": self.progress[1]}
        if self.checkpoint is not None:
            out["checkpoint"] = decode(self.checkpoint)
        for memo in attempt.memos:
            if len(self.memos) >= MAX_MEMOS or (self.memos and self.bytes > room):
                break
            self.memos.append(memo)
            self.bytes += len(memo.data)
        if self.memos:
            out["memos"] = [{"name": m.name, "result": decode(m.data)} for m in self.memos]
        messages: list[Any] = []
        for data in attempt.messages if with_messages else ():
            if len(messages) >= MAX_MESSAGES or (messages and self.bytes > room):
                break
            messages.append(decode(data))
            self.bytes += len(data)
        self.messages = len(messages)
        if messages:
            out["messages"] = messages
            out["first_seq"] = attempt.next_seq
        return out

    def stored(self) -> None:
        """The server has all reports on disk."""
        attempt = self.attempt
        if attempt.progress == self.progress:
            attempt.progress = None
        if attempt.checkpoint == self.checkpoint:
            attempt.checkpoint = None
        for _ in range(min(self.messages, len(attempt.messages))):  # none once it has ended
            attempt.messages.popleft()
        attempt.next_seq += self.messages
        for memo in self.memos:
            memo.stored = True
            if memo in attempt.memos:
                attempt.memos.remove(memo)

    def dropped(self, error: MainspringError) -> None:
        """The server refused the report for good."""
        attempt = self.attempt
        attempt.refused = error
        if self.messages:
            attempt.not_sent = error
        for memo in self.memos:
            memo.error = error
        self.stored()


class Reports:
    """One thread sends for all attempts of a worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)  # something to send, or the end
        self._stored = threading.Condition(self._mutex)  # something was answered
        self._dirty: dict[int, Attempt] = {}
        self._waiting = 0  # handlers that wait for an answer
        self._no_room = False
        self._ended = False
        self._connection = Connection(worker.server)
        self._reads = threading.local()
        self._thread = threading.Thread(target=self._run, name="mainspring-reports", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        with self._mutex:
            self._ended = True
            self._changed.notify_all()
            self._stored.notify_all()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._connection.close()

    # Called by handlers

    def say(self, attempt: Attempt, **said: Any) -> None:
        with self._mutex:
            self._check_ended(attempt)
            for name, value in said.items():
                setattr(attempt, name, value)
            attempt.refused = None
            self._add(attempt)

    def message(self, attempt: Attempt, data: bytes) -> None:
        with self._mutex:
            while len(attempt.messages) >= MAX_UNSENT_MESSAGES and not self._ended:
                self._check(attempt)
                self._stored.wait(0.2)
            self._check(attempt)
            if attempt.not_sent is not None:
                raise attempt.not_sent
            attempt.messages.append(data)
            self._add(attempt)

    def flush(self, attempt: Attempt) -> None:
        with self._mutex:
            self._wait_until(attempt, lambda: not attempt.pending())
            if attempt.refused is not None:
                raise attempt.refused

    def remember(self, attempt: Attempt, memo: Memo) -> None:
        with self._mutex:
            self._check_ended(attempt)
            if memo.name in attempt.memo_names:
                raise Conflict(f"step {memo.name}: this attempt has run it before")
            attempt.memo_names.add(memo.name)
            attempt.memos.append(memo)
            self._add(attempt)
            self._wait_until(attempt, lambda: memo.stored or memo.error is not None)
        if memo.error is not None:
            raise memo.error

    def recall(self, attempt: Attempt, name: str) -> bytes | None:
        """The result of a step of an earlier attempt."""
        if name in attempt.memo_names:
            raise Conflict(f"step {name}: this attempt has run it before")
        if not attempt.job.get("has_memos"):
            return None
        connection = getattr(self._reads, "connection", None)
        if connection is None:
            connection = self._reads.connection = Connection(self._worker.server)
        call = Call("GET", f"/v1/jobs/{attempt.id}/memos?from={path_part(name)}&limit=1")
        pause = 0.05
        while True:
            try:
                memos = require(connection.run(call), "memos", list)
                if memos and memos[0]["name"] == name:
                    return encode(memos[0]["result"])
                return None
            except (KeyError, TypeError):
                pass
            except MainspringError as error:
                if error.status in (400, 401, 403, 404, 409, 410):
                    raise
            if attempt.stop.wait(pause):
                self._check_ended(attempt)
                raise INTERRUPTS[attempt.reason](attempt.reason)
            pause = min(pause * 2, 2.0)

    def last(self, attempt: Attempt, complete: bool) -> None:
        """Before the outcome: messages of an attempt that succeeded must not be lost silently,
        and the next attempt should find the checkpoint of one that failed. The attempt takes no
        reports after this begins."""
        with self._mutex:
            attempt.ended = True
            attempt.stop.set()  # for threads that the handler left
            if attempt.pending() and not attempt.lost and (attempt.messages or not complete):
                self._send_last(attempt)
            attempt.drop_reports()
            self._dirty.pop(attempt.id, None)
            self._stored.notify_all()

    def _send_last(self, attempt: Attempt) -> None:
        until = time.monotonic() + WAIT_FOR_ROOM
        self._waiting += 1
        self._changed.notify()
        while (
            attempt.pending()
            and not attempt.lost
            and not self._ended
            and not (self._no_room and time.monotonic() > until)
        ):
            self._stored.wait(0.2)
        self._waiting -= 1
        if attempt.messages and not attempt.lost:
            attempt.not_sent = QueueFull("the server has no room for new jobs")

    def notify(self) -> None:
        """An attempt was lost or asked to end."""
        with self._mutex:
            self._stored.notify_all()

    def _add(self, attempt: Attempt) -> None:
        self._dirty[attempt.id] = attempt
        self._changed.notify()

    def _check(self, attempt: Attempt) -> None:
        self._check_ended(attempt)
        if attempt.lost or attempt.reason == "lease_lost":
            raise INTERRUPTS["lease_lost"]("lease_lost")

    def _check_ended(self, attempt: Attempt) -> None:
        if attempt.ended:
            raise AttemptEnded(f"job {attempt.id}: the attempt has ended; nothing was sent")

    def _wait_until(self, attempt: Attempt, done: Any) -> None:
        self._waiting += 1
        self._changed.notify()
        try:
            while not done():
                self._check(attempt)
                if self._ended:
                    raise INTERRUPTS["shutdown"]("shutdown")
                self._stored.wait(0.5)
        finally:
            self._waiting -= 1

    # The thread

    def _run(self) -> None:
        sent_at = 0.0
        with self._mutex:
            while not self._ended:
                if not self._dirty:
                    self._changed.wait()
                    continue
                wait = 0.0 if self._waiting else sent_at + INTERVAL - time.monotonic()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
                sent_at = time.monotonic()
                pause = self._send()
                self._stored.notify_all()
                if pause > 0:
                    until = time.monotonic() + pause
                    while not self._ended and (left := until - time.monotonic()) > 0:
                        self._changed.wait(left)

    def _send(self) -> float:
        """One renewal with what fits. Returns how long to pause after it."""
        batch: list[_Sent] = []
        leases: list[dict[str, Any]] = []
        size = 0
        for id, attempt in list(self._dirty.items()):
            if attempt.lost or not attempt.pending():
                del self._dirty[id]
                continue
            one = _Sent(attempt)
            if batch and size + one.bytes > MAX_CALL_BYTES:
                break
            leases.append(one.fields(MAX_CALL_BYTES - size, not self._no_room))
            batch.append(one)
            size += one.bytes
            if size > MAX_CALL_BYTES or len(batch) >= 1000:
                break
        if not batch:
            return 0.0
        return self._exchange(batch, leases)

    def _exchange(self, batch: list[_Sent], leases: list[dict[str, Any]]) -> float:
        lease = self._worker.options.lease_seconds
        body = encode(
            {
                "worker": self._worker.incarnation,
                "leases": leases,
                "lease": f"{round(lease * 1000)}ms",
            }
        )
        call = Call("POST", "/v1/renew", body, answer_within=max(lease / 3, 1.0))
        self._mutex.release()
        at = now()
        error: MainspringError | None = None
        document: dict[str, Any] = {}
        try:
            document = self._connection.run(call)
        except MainspringError as failed:
            error = failed
        finally:
            self._mutex.acquire()
        if error is not None:
            return self._failed(batch, leases, error)
        answer = read_answer(document, {s.attempt.id: s.attempt.token for s in batch}, at)
        known = self._answered(batch, document, answer)
        self._mutex.release()
        try:
            self._worker.renewed(answer)
        finally:
            self._mutex.acquire()
        self._no_room = False
        return 0.0 if known else RETRY_PAUSE

    def _answered(
        self, batch: list[_Sent], document: dict[str, Any], answer: dict[str, Any]
    ) -> bool:
        """False if the answer says nothing of these attempts."""
        renewed = {id for id, _, _ in answer["renewed"]}
        full = document.get("memos_full")
        refused: dict[int, MainspringError] = {}
        for part in document.get("refused") or ():
            try:
                refused[part["id"]] = refusal_of(part["error"])
            except (AttributeError, KeyError, TypeError):
                continue
        for one in batch:
            id = one.attempt.id
            if id in refused:
                one.dropped(refused[id])
            elif id in renewed:
                if isinstance(full, list) and id in full and one.memos:
                    for memo in one.memos:
                        memo.error = TooLarge(
                            f"job {id} has the results of 1000 steps: it can keep no more"
                        )
                one.stored()
            if not one.attempt.pending():
                self._dirty.pop(id, None)
        return bool(renewed or refused or answer["lost"])

    def _failed(
        self, batch: list[_Sent], leases: list[dict[str, Any]], error: MainspringError
    ) -> float:
        if error.status in (429, 503, 507):
            # Messages make jobs: where there is no room for them the rest is still taken.
            self._no_room = self._no_room or any(one.messages for one in batch)
            return max(RETRY_PAUSE, min(error.retry_after or 0.0, 5.0))
        if error.status in (400, 404, 405, 409, 413, 431):
            if len(batch) > 1:
                for one, lease in zip(batch, leases):
                    self._exchange([one], [lease])
                return 0.0
            log.error("the server refuses a report: %s", error, extra={"job": batch[0].attempt.id})
            batch[0].dropped(error)
            self._dirty.pop(batch[0].attempt.id, None)
            return 0.0
        return RETRY_PAUSE
