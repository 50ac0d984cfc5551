"""The broker of Celery applications: a virtual transport of Kombu."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import threading
import time
from datetime import datetime
from queue import Empty
from typing import Any, Callable, Iterable

from kombu.transport import base, virtual

from .. import __version__
from .._client import Mainspring
from .._values import encode, seconds
from .._wire import Call, path_part
from ..errors import Forbidden, MainspringError, NotFound, Unavailable
from .celery import NAME, client_of

KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}", re.ASCII)
LEASE = "30s"
MAX_ATTEMPTS = 1000  # a message is delivered until it is acknowledged
MAX_CLAIM = 100
LONGEST_WAIT = 30.0
QUIET_PAUSE = 1.0
logger = logging.getLogger("mainspring.celery")
Key = tuple[int, int]  # a job's id and the token of its claim


def post(ms: Mainspring, path: str, body: Any, wait: float = 0.0) -> Any:
    return ms.requests.run(Call("POST", path, encode(body, "request"), wait=wait))


class Leases:
    """The messages that this process has received and not acknowledged. A thread renews their
    leases. Safe for threads."""

    def __init__(self, ms: Mainspring, lease: Any) -> None:
        self.ms = ms
        self.lease = lease
        self.pause = seconds(lease, "lease") / 3
        self.worker = f"celery-{os.getpid()}-{os.urandom(6).hex()}"
        self.quiet = False
        self._held: dict[Key, str] = {}  # with the task's id
        self._cancelled: set[Key] = set()
        self._room = threading.Condition()
        self._stopped = threading.Event()
        self._renewer: threading.Thread | None = None

    def claim(self, queues: list[str], count: int, wait: float) -> list[dict[str, Any]]:
        request = {
            "worker": self.worker, "queues": queues, "max": count, "lease": self.lease,
            "wait": f"{int(wait * 1000)}ms", "host": socket.gethostname(), "pid": os.getpid(),
            "language": "python (celery)", "version": __version__,
        }  # fmt: skip
        answer = post(self.ms, "/v1/claim", request, wait)
        jobs: list[dict[str, Any]] = answer["jobs"]
        with self._room:
            self._held.update({(job["id"], job["token"]): task_of(job["args"]) for job in jobs})
        self._obey(answer)
        if jobs and self._renewer is None:
            self._renewer = threading.Thread(target=self._renew, name="leases", daemon=True)
            self._renewer.start()
        return jobs

    def finish(self, keys: Iterable[Key], outcome: str, **fields: Any) -> None:
        """Reports the outcome of messages. Their leases are renewed until the server has it."""
        keys, results = list(keys), []
        for id, token in keys:
            if outcome == "complete" and (id, token) in self._cancelled:
                results.append({"id": id, "token": token, "outcome": "cancel"})
            else:
                results.append({"id": id, "token": token, "outcome": outcome, **fields})
        if not results:
            return
        answer = post(self.ms, "/v1/finish", {"worker": self.worker, "results": results})
        for one in answer["results"]:
            if one["status"] != "ok":
                logger.warning(
                    "job %s: the outcome came too late (%s); the task may run again",
                    one["id"], one["status"],
                )  # fmt: skip
        with self._room:
            for key in keys:
                self._held.pop(key, None)
                self._cancelled.discard(key)
            self._room.notify_all()

    def wait_for_room(self, has_room: Callable[[], bool], timeout: float) -> None:
        with self._room:
            self._room.wait_for(has_room, timeout)

    def close(self) -> None:
        self._stopped.set()

    def _renew(self) -> None:
        while not self._stopped.wait(self.pause):
            try:
                self.renew()
            except MainspringError as error:
                logger.warning("cannot renew leases of messages: %s", error)

    def renew(self) -> None:
        with self._room:
            held = list(self._held)
        if not held and not self.quiet:
            return
        leases = [{"id": id, "token": token} for id, token in held]
        request = {"worker": self.worker, "leases": leases, "lease": self.lease}
        answer = post(self.ms, "/v1/renew", request)
        lost = set(answer["lost"])
        for id, token in held:
            if id in lost:
                with self._room:
                    known = self._held.pop((id, token), None) is not None
                if known:
                    logger.warning("job %s: its lease is lost; the task may run twice", id)
        self._obey(answer)

    def _obey(self, answer: Any) -> None:
        self.quiet = answer.get("quiet") is True
        state: Any = sys.modules.get("celery.worker.state")
        if state is None:
            return
        if answer.get("terminate") is True:
            state.should_stop = 0  # a warm shutdown
        ids = set(answer.get("cancel") or ())
        with self._room:
            for key, task in self._held.items():
                if key[0] in ids:
                    self._cancelled.add(key)
                    state.revoked.add(task)  # a task that has started continues


def task_of(message: Any) -> str:
    headers = message.get("headers") if isinstance(message, dict) else None
    return str((headers or {}).get("id", ""))


def key_of(tag: str) -> Key:
    id, _, token = tag.partition(".")
    return int(id), int(token)


class QoS(virtual.QoS):  # type: ignore[misc]
    """Acknowledges at the server. The channel gives the rest back when it closes."""

    restore_at_shutdown = False  # the base class would enqueue copies

    def ack(self, delivery_tag: str) -> None:
        self.channel.leases.finish([key_of(delivery_tag)], "complete")
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        keys = [key_of(delivery_tag)]
        if requeue:
            self.channel.leases.finish(keys, "snooze", after="0s")
        else:
            self.channel.leases.finish(keys, "dead", reason="rejected")
        super().ack(delivery_tag)

    def restore_unacked(self) -> list[Any]:
        self._flush()
        keys = [key_of(tag) for tag in self._delivered]
        self._delivered.clear()
        try:
            self.channel.leases.finish(keys, "snooze", after="0s")
        except MainspringError as error:
            logger.warning("%d messages are delivered after their lease: %s", len(keys), error)
        return []


class Channel(virtual.Channel):  # type: ignore[misc]
    QoS = QoS

    def __init__(self, connection: Any, **options: Any) -> None:
        super().__init__(connection, **options)
        self.leases: Leases = connection.leases
        self.ms: Mainspring = connection.ms
        self.ready: list[tuple[Any, str]] = []
        self.without_ack: set[str] = set()

    # Publishing

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[Any, str | None]:
        """JSON and YAML stay readable. Only bytes are encoded."""
        if isinstance(body, bytes):
            encoded: tuple[Any, str | None] = super().encode_body(body, "base64")
            return encoded
        return body, None

    def _put(self, queue: str, message: Any, **_: Any) -> None:
        headers = message.get("headers") or {}
        name = str(headers.get("task") or "")
        job: dict[str, Any] = {
            "queue": queue,
            "kind": name if KIND.fullmatch(name) else "celery-message",
            "args": message,
            "priority": self._get_message_priority(message, reverse=True),  # 0 is first here
            "timeout": "none",  # the worker has time limits of its own
            "max_attempts": self.connection.max_attempts,
        }
        if headers.get("id"):
            job["correlation_id"] = str(headers["id"])
        run_at = instant_of(headers.get("eta"))
        if run_at:
            job["run_at"] = run_at
        key = {"Idempotency-Key": "celery-" + os.urandom(16).hex()}
        self.ms.requests.run(Call("POST", "/v1/jobs", encode(job, "message"), key))

    # Consuming

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **options: Any) -> Any:
        if no_ack:
            self.without_ack.add(queue)
        return super().basic_consume(queue, no_ack, *args, **options)

    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Any:
        message = super().basic_get(queue, no_ack, **options)
        if message is not None and no_ack:
            self.leases.finish([key_of(message.delivery_tag)], "complete")
        return message

    def room(self) -> int:
        """How many messages the channel takes now."""
        if not self._consumers or self.closed:
            return 0
        most: int | None = self.qos.can_consume_max_estimate()
        return 1 if most is None else min(most, MAX_CLAIM)

    def claim(self, queues: list[str], count: int, wait: float) -> list[tuple[Any, str]]:
        found = []
        for job in self.leases.claim(queues, count, wait):
            message, key = job["args"], f"{job['id']}.{job['token']}"
            try:
                properties = message["properties"]
                properties["delivery_tag"] = key
                properties["delivery_info"]["redelivered"] = job["attempt"] > 1
            except (TypeError, KeyError):
                logger.error("job %s of queue %s is no message of Celery", job["id"], job["queue"])
                self.leases.finish([key_of(key)], "dead", reason="not a Celery message")
                continue
            if job["queue"] in self.without_ack:
                self.leases.finish([key_of(key)], "complete")
            found.append((message, job["queue"]))
        return found

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        found = self.claim([queue], 1, 0.0)
        if not found:
            raise Empty
        return found[0][0]

    # Queues

    def _count(self, queue: str) -> int | None:
        try:
            document = self.ms.request("GET", f"/v1/queues/{path_part(queue)}", repeat=True)
        except (NotFound, Forbidden):
            return None
        return int(document["counts"].get("available", 0))

    def _size(self, queue: str) -> int:
        return self._count(queue) or 0

    def _has_queue(self, queue: str, **_: Any) -> bool:
        return self._count(queue) is not None

    def queue_declare(self, queue: str | None = None, passive: bool = False, **options: Any) -> Any:
        if passive or not queue:
            return super().queue_declare(queue, passive, **options)
        return virtual.base.queue_declare_ok_t(queue, 0, 0)  # queues are made by their first job

    def _purge(self, queue: str) -> int:
        """Cancels the messages that wait in a queue."""
        states = ["scheduled", "available", "retryable", "waiting"]
        body = {"action": "cancel", "filter": {"queue": queue, "state": states}, "reason": "purged"}
        done = post(self.ms, "/v1/bulk", body)
        while done["state"] in ("queued", "running"):
            time.sleep(0.02)
            done = self.ms.request("GET", f"/v1/bulk/{done['id']}", repeat=True)
        return int(done["changed"])

    def _delete(self, queue: str, *_: Any, **__: Any) -> None:
        """A queue without jobs is removed by the server. Its messages stay."""

    def close(self) -> None:
        if not self.closed and self._qos is not None:
            self._qos.restore_unacked()
        super().close()


class Transport(virtual.Transport):  # type: ignore[misc]
    Channel = Channel
    driver_type = NAME
    driver_name = NAME
    can_parse_url = True
    connection_errors = (*base.Transport.connection_errors, Unavailable, OSError)
    channel_errors = (*base.Transport.channel_errors, MainspringError)

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        chosen = client.transport_options
        self.ms = client_of(client.hostname or "", chosen)
        self.leases = Leases(self.ms, chosen.get("lease", LEASE))
        self.max_attempts = chosen.get("max_attempts", MAX_ATTEMPTS)

    def driver_version(self) -> str:
        return __version__

    def establish_connection(self) -> Any:
        self.ms.request("GET", "/v1/version", repeat=True)
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        super().close_connection(connection)
        self.leases.close()
        self.ms.close()

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Delivers the messages of one claim. Waits for them up to `timeout`."""
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            left = LONGEST_WAIT if ends is None else max(0.0, ends - time.monotonic())
            if self._deliver_some(min(left, LONGEST_WAIT)):
                return
            if ends is not None and time.monotonic() >= ends:
                raise socket.timeout()

    def _deliver_some(self, wait: float) -> bool:
        ready = [channel for channel in self.channels if channel.room() > 0]
        if not ready or self.leases.quiet:
            self.leases.wait_for_room(self._has_room, min(wait, QUIET_PAUSE))
            return False
        queues = sorted({queue for channel in ready for queue in channel._active_queues})
        count = min(channel.room() for channel in ready)
        found = ready[0].claim(queues, count, wait)
        for message, queue in found:
            self._deliver(message, queue)
        return bool(found)

    def _has_room(self) -> bool:
        return not self.leases.quiet and any(channel.room() > 0 for channel in self.channels)


def instant_of(eta: Any) -> str | None:
    """The instant of a task's ETA. Without a time zone the worker waits for it."""
    if not isinstance(eta, str):
        return None
    try:
        at = datetime.fromisoformat(eta.replace("Z", "+00:00"))
    except ValueError:
        return None
    return None if at.tzinfo is None else at.isoformat(timespec="milliseconds")
