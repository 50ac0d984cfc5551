"""The result backend of Celery applications.

A result is a job of the queue `celery.results`, which no worker serves. Its unique key is
Celery's name of the result. It waits until `result_expires` with the states before the
task's end, and is completed with the final state, which never changes.
"""

from __future__ import annotations

import base64
import logging
import os
import time
from collections import OrderedDict
from typing import Any

from celery import states
from celery.backends.base import KeyValueStoreBackend
from celery.canvas import maybe_signature
from celery.exceptions import ChordError, TimeoutError
from celery.result import GroupResult, allow_join_result
from kombu.utils.encoding import bytes_to_str

from .._client import Mainspring
from .._values import encode
from .._wire import Call
from ..errors import Conflict, Expired, NotFound
from .celery import client_of
from .celery_broker import post

QUEUE = "celery.results"
KIND = "result"
WORKER = "celery-results-" + os.urandom(6).hex()
FOREVER = 365 * 86400
MAX_KNOWN = 10_000
LONGEST_WAIT = 30.0
logger = logging.getLogger("mainspring.celery")


class MainspringBackend(KeyValueStoreBackend):  # type: ignore[misc]
    implements_incr = True  # chords count finished tasks; see on_chord_part_return
    supports_native_join = False
    persistent = True

    def __init__(self, app: Any, url: str | None = None, **options: Any) -> None:
        super().__init__(app, url=url, **options)
        chosen = dict(app.conf.get("result_backend_transport_options") or {})
        self.queue: str = chosen.get("queue", QUEUE)
        self.ms: Mainspring = client_of(url or "", chosen)
        self._known: OrderedDict[str, int] = OrderedDict()

    # Records

    def _record(self, key: str | bytes, args: Any = None) -> int:
        """The job of a key. `args`, if given, replaces its own unless it has ended."""
        name = bytes_to_str(key)
        found = self._known.get(name)
        if found is not None and args is None:
            return found
        life = min(max(int(self.expires or FOREVER), 1), FOREVER - 60)
        conflict = "replace" if args else "keep"
        job = {
            "queue": self.queue, "kind": KIND, "args": args or {}, "delay": f"{life}s",
            "expires_in": f"{life + 60}s", "timeout": "none", "correlation_id": name[-36:],
            "unique": {"key": name, "for": f"{life}s", "on_conflict": conflict},
        }  # fmt: skip
        headers = {"Idempotency-Key": "celery-" + os.urandom(16).hex()}
        document = self.ms.requests.run(Call("POST", "/v1/jobs", encode(job, "result"), headers))
        self._known[name] = document["id"]
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return int(document["id"])

    def _read(self, key: str | bytes, wait: float = 0.0) -> Any:
        """The job of a key, after waiting for its end."""
        id = self._record(key)
        try:
            path = f"/v1/jobs/{id}" + (f"?wait={int(wait * 1000)}ms" if wait else "")
            return self.ms.requests.run(Call("GET", path, wait=wait))
        except (Expired, NotFound):
            return {"state": "expired", "args": {}}

    def _end(self, id: int, result: Any) -> None:
        """Completes a record. Its first result stays."""
        claim = {"worker": WORKER, "queues": [self.queue], "job": id}
        try:
            [job] = post(self.ms, "/v1/claim", claim)["jobs"]
        except (Conflict, NotFound, ValueError):
            return  # it has ended, or another worker stores the same result
        done = {"id": id, "token": job["token"], "outcome": "complete", "result": result}
        [answer] = post(self.ms, "/v1/finish", {"worker": WORKER, "results": [done]})["results"]
        if answer["status"] == "refused":
            giving_up = {"id": id, "token": job["token"], "outcome": "snooze", "after": "1s"}
            post(self.ms, "/v1/finish", {"worker": WORKER, "results": [giving_up]})
            raise ValueError(f"result: {answer['error']['message']}")

    # What the base class asks for

    def get(self, key: Any) -> Any:
        job = self._read(key)
        return _unpack(job.get("result") or job["args"])

    def mget(self, keys: Any) -> list[Any]:
        return [self.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> None:
        self._record(key, _pack(value))

    def delete(self, key: Any) -> None:
        id = self._record(key)
        try:
            self.ms.request("POST", f"/v1/jobs/{id}/cancel", {"reason": "forgotten"}, repeat=True)
        except (Conflict, NotFound, Expired):
            pass  # it has ended; retention removes it

    def _set_with_state(self, key: Any, value: Any, state: str) -> None:
        if state in states.READY_STATES:
            self._end(self._record(key), _pack(value))
        else:
            self.set(key, value)

    def _store_result(
        self,
        task_id: str,
        result: Any,
        state: str,
        traceback: Any = None,
        request: Any = None,
        **_: Any,
    ) -> Any:
        meta = self._get_result_meta(
            result=result, state=state, traceback=traceback, request=request
        )
        meta["task_id"] = bytes_to_str(task_id)
        self._set_with_state(self.get_key_for_task(task_id), self.encode(meta), state)
        return result

    def wait_for(
        self,
        task_id: str,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_interval: Any = None,
    ) -> Any:
        """Waits at the server: the answer comes with the result."""
        self._ensure_not_eager()
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            left = LONGEST_WAIT if ends is None else max(0.0, ends - time.monotonic())
            wait = min(left, LONGEST_WAIT, interval if on_interval else LONGEST_WAIT)
            job = self._read(self.get_key_for_task(task_id), wait)
            if job.get("result"):
                meta = self.get_task_meta(task_id)
                if meta["status"] in states.READY_STATES:
                    return meta
            if on_interval:
                on_interval()
            if ends is not None and time.monotonic() >= ends:
                raise TimeoutError("The operation timed out.")

    # Chords

    def on_chord_part_return(self, request: Any, state: str, result: Any, **_: Any) -> None:
        """Marks a task of a chord's header as done, and sends the body after the last one.

        The marks are a set: a task that is delivered twice counts once. The record ends after the
        body is sent, so a worker that is killed in between sends it when the task runs again.
        """
        group = request.group
        if not group or not request.chord:
            return
        callback = maybe_signature(request.chord, app=self.app)
        header = GroupResult.restore(group, backend=self)
        if header is None:
            error = ChordError(f"GroupResult {group} no longer exists")
            self.chord_error_from_stack(callback, error)
            return
        chord = self._record(self.get_key_for_chord(group))
        places = [one.id for one in header.results]
        if request.id not in places:
            return
        size = request.chord.get("chord_size") or len(places)
        if self._mark(chord, places.index(request.id)) < size:
            return
        self._send_body(callback, header)
        self._end(chord, {"json": '"sent"'})

    def _mark(self, chord: int, place: int) -> int:
        """Adds a place to the set of a chord. Returns the size, or -1 if the body was sent."""
        while True:
            job = self.ms.requests.run(Call("GET", f"/v1/jobs/{chord}"))
            if job["state"] != "scheduled":
                return -1
            marks = int(job["args"].get("done", "0"), 16)
            new = marks | 1 << place
            if new == marks:
                return new.bit_count()
            change = {"args": {"done": f"{new:x}"}, "version": job["version"]}
            try:
                self.ms.request("PATCH", f"/v1/jobs/{chord}", change)
                return new.bit_count()
            except Conflict:
                continue  # another task of the header has changed it

    def _send_body(self, callback: Any, header: Any) -> None:
        try:
            with allow_join_result():
                within = self.app.conf.result_chord_join_timeout
                results = header.join(timeout=within, propagate=True)
        except Exception as error:
            failed = next(header._failed_join_report(), None)
            reason = f"Dependency {failed.id} raised {error!r}" if failed else repr(error)
            logger.error("chord %s: %s", header.id, reason)
            self.chord_error_from_stack(callback, ChordError(reason))
            return
        try:
            callback.delay(results)
        except Exception as error:
            logger.exception("chord %s: cannot send its body", header.id)
            self.chord_error_from_stack(callback, ChordError(f"Callback error: {error!r}"))


def _pack(value: Any) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return {"json": value}


def _unpack(kept: Any) -> Any:
    if "base64" in kept:
        return base64.b64decode(kept["base64"])
    return kept.get("json")
