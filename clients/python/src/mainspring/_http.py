"""A connection for the worker and for calls that block. Not safe for threads.

`http.client` reads the answers. Coroutines have connections of their own: see `_aio`.
"""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import Iterator

from ._server import Server
from ._wire import Answer, Call, Failover, Unanswered, document_of, error_of

MAX_ANSWER = 64 * 1024 * 1024  # http.client limits a head to 100 lines of 64 KiB
PIECE = 64 * 1024


class Closed(Exception):
    """The connection was closed before its answer began."""


def request_bytes(server: Server, call: Call) -> bytes:
    """Head and body in one piece: in two, the second would wait for an acknowledgement."""
    path = (server.prefix + call.path).encode()
    request = b"%s %s HTTP/1.1\r\n%s" % (call.method.encode(), path, server.head)
    for name, value in call.headers.items():
        request += f"{name}: {value}\r\n".encode("latin-1")
    if call.body:
        request += b"Content-Type: application/json\r\n"
    if call.method != "GET":
        request += b"Content-Length: %d\r\n" % len(call.body)
    return request + b"\r\n" + call.body


class Connection:
    def __init__(self, server: Server) -> None:
        self.server = server
        self._socket: socket.socket | None = None
        self._at = server.current  # of the socket

    def _open(self, server: Server, timeout: float) -> socket.socket:
        if server.unix_path:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.settimeout(timeout)
            try:
                made.connect(server.unix_path)
            except OSError:
                made.close()
                raise
            return made
        made = socket.create_connection((server.host, server.port), timeout)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if server.tls:
                context = server.tls_files.context()
                made = context.wrap_socket(made, server_hostname=server.host)
        except OSError:
            made.close()
            raise
        return made

    def _kept(self, server: Server) -> socket.socket | None:
        """The open connection to the server, unless the server has closed it meanwhile."""
        kept = self._socket
        if kept is not None and self._at is not server:
            self.close()
            kept = None
        if kept is None:
            return None
        try:
            poll = select.poll()  # select() takes no descriptor above 1023
            poll.register(kept, select.POLLIN)
            closed = bool(poll.poll(0)) and not (server.tls and _is_open(kept))
        except (OSError, ValueError):
            closed = True
        if closed:
            self.close()
            return None
        return kept

    def close(self) -> None:
        kept, self._socket = self._socket, None
        if kept is not None:
            kept.close()

    def abort(self) -> None:
        """Ends a request that waits in another thread."""
        kept = self._socket
        if kept is not None:
            try:
                kept.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def send(self, call: Call) -> Answer:
        """Sends the call. Raises Unanswered if no whole answer comes.

        A kept connection that the server closed before it answered is replaced once, if the call
        may be sent twice.
        """
        response = self._begin(call)
        keep = False
        try:
            answer = whole(response)
            keep = not response.will_close
        finally:
            response.close()
            if not keep:
                self.close()
        return answer

    @contextmanager
    def stream(self, call: Call) -> Iterator[HTTPResponse]:
        """The head of an answer that does not end. `body` gives what follows, as it comes."""
        try:
            with self._begin(call) as response:
                yield response
        finally:
            self.close()

    def _begin(self, call: Call) -> HTTPResponse:
        """Sends the call and reads the head of its answer, of the next server if one is away."""
        failover = Failover(self.server, call)
        while True:
            try:
                response = self._begin_at(failover.at, call)
            except Unanswered as unanswered:
                if failover.unanswered(unanswered):
                    continue
                raise
            headers = {name.lower(): value for name, value in response.getheaders()}
            if not failover.again(response.status, headers):
                return response
            response.close()
            self.close()

    def _begin_at(self, server: Server, call: Call) -> HTTPResponse:
        within = server.timeout
        if call.answer_within is not None:
            within = min(within, call.answer_within)
        kept = self._kept(server)
        if kept is not None:
            try:
                return self._exchange(kept, call, within + call.wait)
            except Closed as error:
                self.close()
                if call.repeat != "yes":
                    raise Unanswered(str(error), sent=True) from error
        if server.tls:
            server.tls_files.context()  # a file that cannot be read is no network error
        try:
            self._socket = self._open(server, min(server.connect_timeout, within))
        except (OSError, ValueError) as error:
            raise unreachable(server.url, error) from error
        self._at = server
        try:
            return self._exchange(self._socket, call, within + call.wait)
        except Closed as error:
            self.close()
            raise Unanswered(str(error), sent=True) from error

    def _exchange(self, to: socket.socket, call: Call, timeout: float) -> HTTPResponse:
        to.settimeout(timeout)
        try:
            to.sendall(request_bytes(self._at, call))
        except OSError as error:
            raise Closed(f"sending: {error}") from error
        try:
            return head(to, call.method)
        except BaseException:
            self.close()
            raise

    def run(self, call: Call) -> dict[str, object]:
        """The JSON object of the answer; MainspringError if there is none. Repeats nothing."""
        try:
            answer = self.send(call)
        except Unanswered as unanswered:
            raise unanswered.error() from unanswered
        if not 200 <= answer.status < 300:
            raise error_of(answer)
        document: dict[str, object] = document_of(answer)
        return document


def head(source: socket.socket, method: str) -> HTTPResponse:
    """Reads the head of an answer. The response holds the socket open: close it."""
    response = HTTPResponse(source, method=method)
    try:
        with _reading():
            try:
                response.begin()
                while response.status < 200:  # http.client skips 100, but not 103 Early Hints
                    response.headers = None  # type: ignore[assignment]
                    response.begin()
            except ConnectionResetError as error:  # RemoteDisconnected is one, too
                raise Closed(str(error)) from error
            _check(response)
    except BaseException:
        response.close()
        raise
    return response


def _check(response: HTTPResponse) -> None:
    """Refuses heads that http.client reads as if the body ended with the connection."""
    headers = response.headers
    if headers.defects:  # a line without a colon, which ends the headers
        raise HTTPException(str(headers.defects[0]))
    if response.length is None and not response.chunked:
        for name in ("Transfer-Encoding", "Content-Length"):
            if name in headers:
                raise HTTPException(f"{name} {headers[name][:40]}")


def body(response: HTTPResponse) -> Iterator[bytes]:
    """The body, as it comes."""
    with _reading():
        while piece := response.read1(PIECE):
            yield piece
        if response.length:
            raise HTTPException(f"cut off {response.length} bytes before its end")


def whole(response: HTTPResponse) -> Answer:
    """The answer with its whole body."""
    pieces, size = [], 0
    for piece in body(response):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER:
            raise Unanswered(f"the answer is larger than {MAX_ANSWER} bytes", sent=True)
    headers = {name.lower(): value.strip() for name, value in response.getheaders()}
    return Answer(response.status, headers, b"".join(pieces))


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except HTTPException as error:
        raise Unanswered(f"the answer is cut off or not HTTP: {error!r}", sent=True) from error
    except (OSError, ValueError) as error:
        timed_out = isinstance(error, TimeoutError)
        text = "no answer in time" if timed_out else f"reading the answer: {error!r}"
        raise Unanswered(text, sent=True, timed_out=timed_out) from error


def _is_open(kept: socket.socket) -> bool:
    """Whether a TLS connection with bytes to read is open: the bytes may be session tickets."""
    timeout = kept.gettimeout()
    try:
        kept.settimeout(0)
        kept.recv(1)
        return False  # its end, or an answer to nothing
    except (ssl.SSLWantReadError, BlockingIOError):
        return True
    except OSError:
        return False
    finally:
        kept.settimeout(timeout)


def unreachable(url: str, error: Exception) -> Unanswered:
    text = f"no connection to {url}: {error}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unanswered(text, sent=False, final=True)
    return Unanswered(f"{text}. Is `mainspring serve` running?", sent=False)
