"""Requests of the public API. Calls that block use connections of `_http`. Coroutines use httpx,
which is loaded with the first of them."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import time
from contextlib import asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, TypeVar

from ._http import Connection, body, whole
from ._server import Server
from ._wire import Answer, Call, Repeats, Unanswered, document_of, error_of
from .errors import MainspringError

if TYPE_CHECKING:
    import httpx

    from ._operations import Operation

T = TypeVar("T")
MAX_IDLE = 64  # connections kept for the next calls
_UNSENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol")


def _unanswered(error: Exception) -> Unanswered:
    name = type(error).__name__
    text = str(error) or name
    if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in text:
        return Unanswered(f"no connection: {text}", sent=False, final=True)
    if name == "ConnectError":
        where = getattr(getattr(error, "_request", None), "url", None)
        text = f"no connection to {where or 'the server'}: {text}. Is `mainspring serve` running?"
        return Unanswered(text, sent=False)
    return Unanswered(f"no answer: {text}", name not in _UNSENT, name.endswith("Timeout"))


class Requests:
    """Sends calls. One per client; safe for threads and for several event loops."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._mutex = threading.Lock()
        self._idle: list[Connection] = []
        self._context: ssl.SSLContext | None = None  # of the first connection, for all others
        self._async: dict[int, tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]] = {}
        self._pid = os.getpid()

    def _options(self, transport: Any) -> dict[str, Any]:
        # trust_env=False: a proxy from the environment must not come between a program and a
        # server on the same machine.
        return {
            "base_url": self.server.base_url,
            "headers": self.server.headers(),
            "transport": transport,
            "trust_env": False,
        }

    def _transport_options(self) -> dict[str, Any]:
        import httpx

        options: dict[str, Any] = {
            "trust_env": False,
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE),
        }
        if self.server.tls:
            options["verify"] = self.server.ssl_context()
        if self.server.unix_path:
            options["uds"] = self.server.unix_path
        return options

    def _after_fork(self) -> None:
        """A child must not use its parent's connections: answers would be mixed up."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._mutex = threading.Lock()
            self._idle = []
            self._async = {}

    def async_client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        self._after_fork()
        with self._mutex:
            found = self._async.get(id(loop))
            if found is not None and found[0] is loop:
                return found[1]
            import httpx

            self._async = {k: v for k, v in self._async.items() if not v[0].is_closed()}
            transport = httpx.AsyncHTTPTransport(**self._transport_options())
            client = httpx.AsyncClient(**self._options(transport))
            self._async[id(loop)] = (loop, client)
            return client

    def _arguments(self, call: Call) -> dict[str, Any]:
        import httpx

        within = self.server.timeout
        if call.answer_within is not None:
            within = min(within, call.answer_within)
        headers = dict(call.headers)
        if call.body:
            headers.setdefault("Content-Type", "application/json")
        return {
            "method": call.method,
            "url": call.path,
            "content": call.body,
            "headers": headers,
            "timeout": httpx.Timeout(
                within + call.wait, connect=min(self.server.connect_timeout, within), pool=None
            ),
        }

    def once(self, call: Call) -> Answer:
        self._after_fork()
        with self._mutex:
            connection = (
                self._idle.pop() if self._idle else Connection(self.server, self._context)
            )
        kept = False
        try:
            answer = connection.send(call)
            self._context = connection.context
            with self._mutex:
                kept = len(self._idle) < MAX_IDLE
                if kept:
                    self._idle.append(connection)
        finally:
            if not kept:  # also after an interrupt: the next answer would be that of this call
                connection.close()
        return answer

    async def aonce(self, call: Call) -> Answer:
        import httpx

        try:
            response = await self.async_client().request(**self._arguments(call))
        except (httpx.TransportError, OSError) as error:
            raise _unanswered(error) from error
        return Answer(response.status_code, response.headers, response.content)

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

    async def arun(self, call: Call) -> Any:
        repeats = Repeats(self.server.retry_for)
        while True:
            try:
                return _outcome(await self.aonce(call))
            except Unanswered as unanswered:
                error = unanswered.error()
            except MainspringError as refused:
                error = refused
            pause = repeats.pause(call, error)
            if pause is None:
                raise error
            await asyncio.sleep(pause)

    def complete(self, operation: Operation[T]) -> T:
        """Runs an operation and returns its value."""
        document: Any = None
        with closing(operation):
            while True:
                try:
                    call = operation.send(document)
                except StopIteration as end:
                    value: T = end.value
                    return value
                document = self.run(call)

    async def acomplete(self, operation: Operation[T]) -> T:
        document: Any = None
        with closing(operation):
            while True:
                try:
                    call = operation.send(document)
                except StopIteration as end:
                    value: T = end.value
                    return value
                document = await self.arun(call)

    @contextmanager
    def stream(self, call: Call) -> Iterator[Iterator[str]]:
        """The lines of an answer that does not end."""
        try:
            with Connection(self.server, self._context).stream(call) as response:
                if response.status != 200:
                    raise error_of(whole(response))
                yield _lines(body(response))
        except Unanswered as unanswered:
            raise unanswered.error() from unanswered

    @asynccontextmanager
    async def astream(self, call: Call) -> AsyncIterator[AsyncIterator[str]]:
        import httpx

        arguments = self._arguments(call)
        try:
            async with self.async_client().stream(**arguments) as response:
                if response.status_code != 200:
                    body = await response.aread()
                    raise error_of(Answer(response.status_code, response.headers, body))
                yield _alines(response.aiter_bytes())
        except (httpx.TransportError, OSError) as error:
            raise _unanswered(error).error() from error

    def close(self) -> None:
        with self._mutex:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    async def aclose(self) -> None:
        self.close()
        loop = asyncio.get_running_loop()
        with self._mutex:
            found = self._async.pop(id(loop), None)
        if found is not None:
            await found[1].aclose()


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
