"""Sends jobs that coroutines enqueue at the same time in one request.

A request of its own for each would cost more than the server needs to store it. While few requests
are on their way a job is sent at once; the jobs that come meanwhile share the next one. A request
that the server refuses is sent again in halves, so no job fails for another one.
"""

from __future__ import annotations

import asyncio
import collections
import copy
import os
from typing import TYPE_CHECKING, Any

from ._wire import Call, require
from .errors import MainspringError, ServerError

if TYPE_CHECKING:
    from ._requests import Requests

MAX_ON_THEIR_WAY = 4  # requests, until they are answered or repeated
MAX_JOBS = 500  # in one request
MAX_BYTES = 1024 * 1024

Waiting = tuple[bytes, "asyncio.Future[Any]"]


class Enqueues:
    """Of one event loop."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._queue: collections.deque[Waiting] = collections.deque()
        self._on_their_way = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, job: bytes) -> Any:
        """Enqueues a job, given as JSON. Returns the answer's document for it."""
        if self._on_their_way < MAX_ON_THEIR_WAY:
            self._on_their_way += 1
            return await self._requests.arun(call_of([job]), self._free)
        made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((job, made))
        return await made

    def _free(self) -> None:
        self._on_their_way -= 1
        while self._queue and self._on_their_way < MAX_ON_THEIR_WAY:
            batch = self._next_batch()
            if batch:
                self._on_their_way += 1
                task = asyncio.get_running_loop().create_task(self._send(batch, True))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _next_batch(self) -> list[Waiting]:
        batch: list[Waiting] = []
        size = 0
        while self._queue and len(batch) < MAX_JOBS and size < MAX_BYTES:
            job, made = self._queue.popleft()
            if not made.done():  # its task was cancelled
                batch.append((job, made))
                size += len(job)
        return batch

    async def _send(self, batch: list[Waiting], counted: bool) -> None:
        call = call_of([job for job, _ in batch])
        try:
            answer = await self._requests.arun(call, self._free if counted else None)
            documents = [answer] if len(batch) == 1 else require(answer, "jobs", list)
            if len(documents) != len(batch):
                text = f"enqueue: {len(documents)} answers to {len(batch)} jobs"
                raise ServerError(text, status=200, maybe_done=True)
        except MainspringError as error:
            if len(batch) > 1 and 400 <= error.status < 500 and error.status != 408:
                half = len(batch) // 2
                halves = (batch[:half], batch[half:])
                await asyncio.gather(*(self._send(one, False) for one in halves))
                return
            for _, made in batch:
                if not made.done():
                    made.set_exception(copy.copy(error))
        except BaseException:
            for _, made in batch:
                made.cancel()
            raise
        else:
            for (_, made), document in zip(batch, documents):
                if not made.done():
                    made.set_result(document)


def call_of(jobs: list[bytes]) -> Call:
    body = jobs[0] if len(jobs) == 1 else b'{"jobs":[%s]}' % b",".join(jobs)
    headers = {"Idempotency-Key": "py-" + os.urandom(16).hex()}
    return Call("POST", "/v1/jobs", body, headers, repeat_refused=len(jobs) == 1)
