"""A connection for the worker: the standard library only, so that the process that renews leases
starts in a few milliseconds. One request at a time; not safe for threads."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
from urllib.parse import urlsplit

from ._server import Server
from ._wire import Answer, Call, Unanswered, document_of, error_of

MAX_ANSWER = 64 * 1024 * 1024


class Connection:
    def __init__(self, server: Server) -> None:
        self.server = server
        self._socket: socket.socket | None = None
        self._context: ssl.SSLContext | None = None
        parts = urlsplit(server.base_url)
        self._host = parts.hostname or "localhost"
        self._port = parts.port or (443 if server.tls else 80)
        head = f"Host: {parts.netloc}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in server.headers().items())
        self._head = head.encode("latin-1")

    def _open(self, timeout: float) -> socket.socket:
        if self.server.unix_path:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.settimeout(timeout)
            try:
                made.connect(self.server.unix_path)
            except OSError:
                made.close()
                raise
            return made
        made = socket.create_connection((self._host, self._port), timeout)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.server.tls:
                if self._context is None:
                    self._context = self.server.ssl_context()
                made = self._context.wrap_socket(made, server_hostname=self._host)
        except OSError:
            made.close()
            raise
        return made

    def _kept(self) -> socket.socket | None:
        """The open connection, unless the server has closed it meanwhile."""
        kept = self._socket
        if kept is None:
            return None
        try:
            poll = select.poll()  # select() takes no descriptor above 1023
            poll.register(kept, select.POLLIN)
            closed = bool(poll.poll(0)) and not self.server.tls
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

        A kept connection that the server closed before it read the request is replaced once.
        """
        within = self.server.timeout
        if call.answer_within is not None:
            within = min(within, call.answer_within)
        kept = self._kept()
        if kept is not None:
            try:
                return self._exchange(kept, call, within + call.wait)
            except _ClosedBeforeAnswer:
                self.close()
        try:
            self._socket = self._open(min(self.server.connect_timeout, within))
        except (OSError, ValueError) as error:
            raise Unanswered(f"no connection to {self.server.url}: {error}", sent=False) from error
        try:
            return self._exchange(self._socket, call, within + call.wait)
        except _ClosedBeforeAnswer as error:
            self.close()
            raise Unanswered(str(error), sent=True) from error

    def _exchange(self, to: socket.socket, call: Call, timeout: float) -> Answer:
        request = b"%s %s HTTP/1.1\r\n%s" % (
            call.method.encode(),
            call.path.encode(),
            self._head,
        )
        for name, value in call.headers.items():
            request += f"{name}: {value}\r\n".encode("latin-1")
        if call.body:
            request += b"Content-Type: application/json\r\n"
        if call.method != "GET":
            request += b"Content-Length: %d\r\n" % len(call.body)
        to.settimeout(timeout)
        try:
            # Head and body in one piece: in two, the second would wait for an acknowledgement.
            to.sendall(request + b"\r\n" + call.body)
        except OSError as error:
            raise _ClosedBeforeAnswer(f"sending: {error}") from error
        response = http.client.HTTPResponse(to, method=call.method)
        try:
            response.begin()
            body = response.read(MAX_ANSWER + 1)
            whole = len(body) <= MAX_ANSWER and (not response.length)
        except http.client.RemoteDisconnected as error:
            raise _ClosedBeforeAnswer("the server closed the connection") from error
        except ConnectionResetError as error:
            raise _ClosedBeforeAnswer(str(error)) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            timed_out = isinstance(error, TimeoutError)
            text = "no answer in time" if timed_out else f"reading the answer: {error!r}"
            raise Unanswered(text, sent=True, timed_out=timed_out) from error
        if not whole:
            self.close()
            raise Unanswered("the answer is cut off or too large", sent=True)
        headers = {name.lower(): value for name, value in response.getheaders()}
        if response.will_close:
            self.close()
        response.close()
        return Answer(response.status, headers, body)

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


class _ClosedBeforeAnswer(Exception):
    pass


