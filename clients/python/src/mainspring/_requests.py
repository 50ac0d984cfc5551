"""Requests of the public API. Calls that block use connections of `_http`. Coroutines use those of
`_aio`, which is loaded with the first of them."""

from __future__ import annotations

import os
import threading
import time
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Iterator, TypeVar

from ._http import Connection, body, whole
from ._server import Server
from ._wire import Answer, Call, Repeats, Unanswered, document_of, error_of
from .errors import MainspringError

if TYPE_CHECKING:
    import asyncio

    from ._aio import AsyncPool
    from ._coalesce import Enqueues
    from ._operations import Operation

T = TypeVar("T")
MAX_IDLE = 64  # connections kept for the next calls


class OfLoop:
    """What the client has for one event loop."""

    def __init__(self, requests: Requests, loop: asyncio.AbstractEventLoop) -> None:
        from ._aio import AsyncPool
        from ._coalesce import Enqueues

        self.loop = loop
        self.pool: AsyncPool = AsyncPool(requests.server)
        self.enqueues: Enqueues = Enqueues(requests)


class Requests:
    """Sends calls. One per client; safe for threads and for several event loops."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._mutex = threading.Lock()
        self._idle: list[Connection] = []
        self._loops: dict[int, OfLoop] = {}
        self._pid = os.getpid()

    def _after_fork(self) -> None:
        """A child must not use its parent's connections: answers would be mixed up."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._mutex = threading.Lock()
            self._idle = []
            self._loops = {}

    def of_loop(self) -> OfLoop:
        """Of the event loop that runs in this thread."""
        import asyncio

        loop = asyncio.get_running_loop()
        self._after_fork()
        with self._mutex:
            found = self._loops.get(id(loop))
            if found is None or found.loop is not loop:
                self._loops = {k: v for k, v in self._loops.items() if not v.loop.is_closed()}
                found = self._loops[id(loop)] = OfLoop(self, loop)
            return found

    def once(self, call: Call) -> Answer:
        self._after_fork()
        with self._mutex:
            connection = self._idle.pop() if self._idle else Connection(self.server)
        kept = False
        try:
            answer = connection.send(call)
            with self._mutex:
                kept = len(self._idle) < MAX_IDLE
                if kept:
                    self._idle.append(connection)
        finally:
            if not kept:  # also after an interrupt: the next answer would be that of this call
                connection.close()
        return answer

    async def aonce(self, call: Call) -> Answer:
        return await self.of_loop().pool.send(call)

    def run(self, call: Call, sleep: Any = time.sleep) -> Any:
        """The JSON object of the answer. Repeats the call where that is safe."""
        repeats = Repeats(self.server.retry_for)
        while True:
            try:
                return _outcome(self.once(call))
            except Unanswered as unanswered:
                error = unanswered.error()
            except MainspringError as refused:
                error = refused
            pause = repeats.pause(call, error)
            if pause is None:
                raise error
            sleep(pause)

    async def arun(self, call: Call, tried: Callable[[], None] | None = None) -> Any:
        """`tried` is called after the first attempt."""
        repeats = Repeats(self.server.retry_for)
        pool = self.of_loop().pool
        while True:
            try:
                return _outcome(await pool.send(call))
            except Unanswered as unanswered:
                error = unanswered.error()
            except MainspringError as refused:
                error = refused
            finally:
                if tried is not None:
                    tried()
                    tried = None
            pause = repeats.pause(call, error)
            if pause is None:
                raise error
            import asyncio

            await asyncio.sleep(pause)

    def complete(self, operation: Operation[T]) -> T:
        """Runs an operation and returns its value. Errors of its calls go through it."""
        step = partial(operation.send, None)
        with closing(operation):
            while True:
                try:
                    call = step()
                except StopIteration as end:
                    value: T = end.value
                    return value
                try:
                    step = partial(operation.send, self.run(call))
                except MainspringError as error:
                    step = partial(operation.throw, error)

    async def acomplete(self, operation: Operation[T]) -> T:
        step = partial(operation.send, None)
        with closing(operation):
            while True:
                try:
                    call = step()
                except StopIteration as end:
                    value: T = end.value
                    return value
                try:
                    step = partial(operation.send, await self.arun(call))
                except MainspringError as error:
                    step = partial(operation.throw, error)

    @contextmanager
    def stream(self, call: Call) -> Iterator[Iterator[str]]:
        """The lines of an answer that does not end."""
        try:
            with Connection(self.server).stream(call) as response:
                if response.status != 200:
                    raise error_of(whole(response))
                yield _lines(body(response))
        except Unanswered as unanswered:
            raise unanswered.error() from unanswered

    @asynccontextmanager
    async def astream(self, call: Call) -> AsyncIterator[AsyncIterator[str]]:
        try:
            async with self.of_loop().pool.stream(call) as connection:
                head, pieces = connection.head, connection.pieces()
                assert head is not None
                if head.status != 200:
                    body = b"".join([piece async for piece in pieces])
                    raise error_of(Answer(head.status, head.headers, body))
                yield _alines(pieces)
        except Unanswered as unanswered:
            raise unanswered.error() from unanswered

    def close(self) -> None:
        with self._mutex:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    async def aclose(self) -> None:
        import asyncio

        self.close()
        with self._mutex:
            found = self._loops.pop(id(asyncio.get_running_loop()), None)
        if found is not None:
            found.pool.close()
            await asyncio.sleep(0)  # the loop closes them


def _outcome(answer: Answer) -> Any:
    if 200 <= answer.status < 300:
        return document_of(answer)
    raise error_of(answer)


# Lines end with a line feed and nothing else: JSON may hold other separators of Unicode.


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")


async def _alines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
