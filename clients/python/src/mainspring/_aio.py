"""HTTP/1.1 for coroutines: connections of one event loop, and a bounded pool of them.

A connection is a protocol of asyncio. A generator reads each answer and pauses where bytes are
missing.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Callable, Generator

from ._http import MAX_ANSWER, Closed, request_bytes, unreachable
from ._server import Server
from ._wire import Answer, Call, Failover, Unanswered

MAX_CALLS = 32  # requests at once that the server answers at once
MAX_WAITS = 512  # requests at once that wait at the server; others wait here for their turn
MAX_HEAD = 64 * 1024
MAX_LINES = 100  # of a head
MAX_UNREAD = 1 << 20  # of a stream whose reader is slow
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")

Reader = Generator[None, None, None]
Take = Callable[[bytes], None]


class Malformed(Exception):
    """The bytes are not an HTTP answer, or not a whole one."""


class Ended(Exception):
    """The other side closed the connection in the regular way."""


class Head:
    """Status, headers by lower-case name, and how the body ends."""

    def __init__(self, data: bytes) -> None:
        first, *lines = data.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        status = rest.partition(" ")[0]
        if version not in ("HTTP/1.1", "HTTP/1.0") or len(status) != 3 or not _is_number(status):
            raise Malformed(f"status line {first[:80]!r}")
        if len(lines) > MAX_LINES:
            raise Malformed(f"more than {MAX_LINES} headers")
        self.status = int(status)
        self.headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name[0] in " \t":
                raise Malformed(f"header {line[:80]!r}")
            name, value = name.lower(), value.strip()
            if name == "content-length" and self.headers.get(name, value) != value:
                raise Malformed("two lengths")
            self.headers[name] = value
        coding = self.headers.get("transfer-encoding")
        length = self.headers.get("content-length")
        self.chunked = coding is not None and coding.lower() == "chunked"
        if coding is not None and not self.chunked:
            raise Malformed(f"transfer-encoding {coding[:40]!r}")
        if length is not None and not _is_number(length):
            raise Malformed(f"content-length {length[:40]!r}")
        # None: until the connection ends.
        self.length = None if length is None or self.chunked else int(length)
        if self.status in (204, 304):
            self.length, self.chunked = 0, False
        words = self.headers.get("connection", "").lower()
        self.close = "close" in words if version == "HTTP/1.1" else "keep-alive" not in words
        self.close = self.close or (self.length is None and not self.chunked)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


class AsyncConnection(asyncio.Protocol):
    """Runs one request after the other. An exception or a cancel closes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: Any = None
        self._buffer = bytearray()
        self._ended: Exception | None = None  # why it takes no more requests
        self._busy = False
        self._received = False  # bytes of the current answer
        self._waiter: asyncio.Future[None] | None = None
        self._reader: Reader | None = None
        self._timeout = 0.0
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.head: Head | None = None
        self.server: Server | None = None

    # Called by the loop

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self.close()  # bytes after an answer are not the next answer
            return
        self._buffer += data
        self._received = True
        self._deadline = self._loop.time() + self._timeout
        self._resume()

    def eof_received(self) -> bool:
        self._end(Ended("the server closed the connection"))
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error or Ended("the connection was closed"))

    def _end(self, error: Exception) -> None:
        if self._ended is None:
            self._ended = error
            self._resume()

    def _resume(self) -> None:
        if self._reader is not None:
            try:
                next(self._reader)
            except StopIteration:
                self._done(None)
            except Exception as error:
                self._done(error)

    def _done(self, error: Exception | None) -> None:
        self._reader = None
        if self._timer is not None:
            self._timer.cancel()
        if self._waiter is not None and not self._waiter.done():
            if error is None:
                self._waiter.set_result(None)
            else:
                self._waiter.set_exception(error)

    def _look(self) -> None:
        """The time-out counts from the last bytes."""
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self._done(TimeoutError("no answer in time"))

    # Readers

    def _read_head(self) -> Reader:
        buffer = self._buffer
        self.head = None
        while self.head is None:
            while (end := buffer.find(b"\r\n\r\n")) < 0 and len(buffer) <= MAX_HEAD:
                yield from self._more()
            if not 0 <= end <= MAX_HEAD:
                raise Malformed(f"a head of more than {MAX_HEAD} bytes")
            head = Head(bytes(buffer[:end]))
            del buffer[: end + 4]
            if head.status >= 200:  # others come before the answer
                self.head = head

    def _read_body(self, take: Take) -> Reader:
        """Hands over the body, as it comes."""
        head = self.head
        assert head is not None
        if head.chunked:
            while size := _chunk_size((yield from self._line())):
                yield from self._take(size, take)
                if (yield from self._line()):
                    raise Malformed("a chunk is longer than its size")
            while (yield from self._line()):
                pass  # trailers
        elif head.length is not None:
            yield from self._take(head.length, take)
        else:
            while self._buffer or self._ended is None:
                if self._buffer:
                    yield from self._take(len(self._buffer), take)
                else:
                    yield
            if not isinstance(self._ended, Ended):
                raise Malformed(str(self._ended))

    def _read_whole(self, take: Take) -> Reader:
        yield from self._read_head()
        yield from self._read_body(take)

    def _more(self) -> Reader:
        if self._ended is not None:
            raise Malformed(f"it ends early: {self._ended}")
        yield

    def _line(self) -> Generator[None, None, bytes]:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > MAX_HEAD:
                raise Malformed("a line is too long")
            yield from self._more()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _take(self, size: int, take: Take) -> Reader:
        while size > 0:
            piece = bytes(self._buffer[:size])
            if piece:
                del self._buffer[: len(piece)]
                size -= len(piece)
                take(piece)
            else:
                yield from self._more()

    # Called by the pool

    @property
    def is_open(self) -> bool:
        return self._ended is None and not self._transport.is_closing()

    def close(self) -> None:
        if self._ended is None:
            self._ended = Ended("the connection was closed here")
        if self._transport is not None and not self._loop.is_closed():
            self._transport.abort()

    def _start(self, reader: Reader) -> asyncio.Future[None]:
        self._waiter = self._loop.create_future()
        self._reader = reader
        self._deadline = self._loop.time() + self._timeout
        self._timer = self._loop.call_at(self._deadline, self._look)
        self._resume()
        return self._waiter

    async def _request(self, data: bytes, reader: Reader, timeout: float) -> None:
        """Raises Closed if the connection ended before the answer began."""
        if not self.is_open:
            raise Closed("the server closed the connection")
        self._busy, self._received, self._timeout = True, False, timeout
        try:
            self._transport.write(data)
            await self._start(reader)
        except BaseException as error:
            self._done(None)
            self.close()
            if isinstance(error, (Malformed, OSError)) and not self._received:
                if not isinstance(error, TimeoutError):
                    raise Closed(str(error)) from error
            if isinstance(error, Exception):
                raise _unanswered(error) from error
            raise

    async def send(self, data: bytes, timeout: float) -> Answer:
        pieces: list[bytes] = []
        size = 0

        def take(piece: bytes) -> None:
            nonlocal size
            pieces.append(piece)
            size += len(piece)
            if size > MAX_ANSWER:
                raise OverflowError(f"the answer is larger than {MAX_ANSWER} bytes")

        await self._request(data, self._read_whole(take), timeout)
        head = self.head
        assert head is not None
        self._busy = False
        if head.close or self._buffer:
            self.close()
        return Answer(head.status, head.headers, b"".join(pieces))

    async def begin(self, data: bytes, timeout: float) -> Head:
        """Sends a request and reads the head of its answer. `pieces` has the body."""
        await self._request(data, self._read_head(), timeout)
        assert self.head is not None
        return self.head

    async def pieces(self) -> AsyncIterator[bytes]:
        unread: list[bytes] = []
        size = 0
        arrived = asyncio.Event()

        def take(piece: bytes) -> None:
            nonlocal size
            unread.append(piece)
            size += len(piece)
            arrived.set()
            if size > MAX_UNREAD:
                self._transport.pause_reading()

        waiter = self._start(self._read_body(take))
        waiter.add_done_callback(lambda _: arrived.set())
        try:
            while True:
                await arrived.wait()
                arrived.clear()
                if unread:
                    data = b"".join(unread)
                    unread.clear()
                    if size > MAX_UNREAD and self.is_open:
                        self._transport.resume_reading()
                    size = 0
                    yield data
                if waiter.done() and not unread:
                    waiter.result()
                    return
        except (Malformed, OSError) as error:
            raise _unanswered(error) from error
        finally:
            self._done(None)
            waiter.cancelled() or waiter.exception()  # it has been read


def _chunk_size(line: bytes) -> int:
    size = line.partition(b";")[0].strip()
    if _CHUNK_SIZE.fullmatch(size) is None:
        raise Malformed(f"chunk size {size[:40]!r}")
    return int(size, 16)


def _unanswered(error: Exception) -> Unanswered:
    if isinstance(error, TimeoutError):
        return Unanswered("no answer in time", sent=True, timed_out=True)
    if isinstance(error, OverflowError):
        return Unanswered(str(error), sent=True)
    if isinstance(error, OSError):
        return Unanswered(f"reading the answer: {error!r}", sent=True)
    return Unanswered(f"the answer is cut off or not HTTP: {error}", sent=True)


class AsyncPool:
    """The connections of one event loop."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._idle: list[AsyncConnection] = []
        self._calls = asyncio.Semaphore(MAX_CALLS)
        self._waits = asyncio.Semaphore(MAX_WAITS)

    def _timeout(self, call: Call) -> float:
        within = self.server.timeout
        return within if call.answer_within is None else min(within, call.answer_within)

    async def _open(self, server: Server, timeout: float) -> AsyncConnection:
        loop = asyncio.get_running_loop()
        context: ssl.SSLContext | None = server.tls_files.context() if server.tls else None
        timeout = min(server.connect_timeout, timeout)
        try:
            if server.unix_path:
                opening: Any = loop.create_unix_connection(
                    lambda: AsyncConnection(loop), server.unix_path
                )
            else:
                name = server.host if context is not None else None
                opening = loop.create_connection(
                    lambda: AsyncConnection(loop), server.host, server.port,
                    ssl=context, server_hostname=name,
                )  # fmt: skip
            _, made = await asyncio.wait_for(opening, timeout)
        except asyncio.TimeoutError as error:
            raise unreachable(server.url, TimeoutError("timed out")) from error
        except (OSError, ValueError) as error:
            raise unreachable(server.url, error) from error
        connection: AsyncConnection = made
        connection.server = server
        return connection

    async def send(self, call: Call) -> Answer:
        """Raises Unanswered if no whole answer comes. A kept connection that the server closed
        before it answered is replaced once, if the call may be sent twice."""
        failover = Failover(self.server, call)
        async with self._waits if call.wait else self._calls:
            while True:
                try:
                    answer = await self._send_to(failover.at, call)
                except Unanswered as unanswered:
                    if failover.unanswered(unanswered):
                        continue
                    raise
                if not failover.again(answer.status, answer.headers):
                    return answer

    async def _send_to(self, server: Server, call: Call) -> Answer:
        data = request_bytes(server, call)
        within = self._timeout(call)
        while self._idle:
            kept = self._idle.pop()
            if not kept.is_open or kept.server is not server:
                kept.close()
                continue
            try:
                return self._kept(kept, await kept.send(data, within + call.wait))
            except Closed as error:
                if call.repeat != "yes":
                    raise Unanswered(str(error), sent=True) from error
                break
        made = await self._open(server, within)
        try:
            return self._kept(made, await made.send(data, within + call.wait))
        except Closed as error:
            raise Unanswered(str(error), sent=True) from error

    def _kept(self, connection: AsyncConnection, answer: Answer) -> Answer:
        if connection.is_open and len(self._idle) < MAX_CALLS:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[AsyncConnection]:
        """The head of an answer that does not end."""
        connection = await self._begin(call)
        try:
            yield connection
        finally:
            connection.close()

    async def _begin(self, call: Call) -> AsyncConnection:
        failover = Failover(self.server, call)
        within = self._timeout(call)
        while True:
            try:
                connection = await self._open(failover.at, within)
                try:
                    data = request_bytes(failover.at, call)
                    head = await connection.begin(data, within + call.wait)
                except Closed as error:
                    raise Unanswered(str(error), sent=True) from error
            except Unanswered as unanswered:
                if failover.unanswered(unanswered):
                    continue
                raise
            if not failover.again(head.status, head.headers):
                return connection
            connection.close()

    def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
