"""A proxy between a client and a server that breaks requests and answers by rules."""

from __future__ import annotations

import email.utils
import http.client
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def fits(match: str, line: str) -> bool:
    """The beginning of "METHOD path"; with a $ at its end the whole."""
    return line == match[:-1] if match.endswith("$") else line.startswith(match)


class Proxy:
    def __init__(self, port: int) -> None:
        self.server_port = port
        self.rules: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.connections: set[socket.socket] = set()
        self.mutex = threading.Lock()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self.http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """As a machine that goes away: its port refuses, and open connections break."""
        self.http.shutdown()
        self.http.server_close()
        with self.mutex:
            for connection in self.connections:
                _hang_up(connection)

    def reset(self) -> None:
        with self.mutex:
            self.rules = []
            self.requests = []

    def add(self, rules: list[dict[str, Any]]) -> None:
        with self.mutex:
            self.rules += [{"times": 1 << 30, "skip": 0, **rule} for rule in rules]

    def pick(self, method: str, path: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
        """Notes the request; the rule for it, {} for none."""
        line = f"{method} {path}"
        with self.mutex:
            self.requests.append(
                {"line": line, "at": time.monotonic(), "headers": headers, "body": body}
            )
            for rule in self.rules:
                if rule["times"] <= 0 or not fits(rule["match"], line):
                    continue
                if rule["skip"] > 0:
                    rule["skip"] -= 1
                    return {}
                rule["times"] -= 1
                return rule
        return {}

    def seen(self, match: str) -> list[dict[str, Any]]:
        with self.mutex:
            return [one for one in self.requests if fits(match, one["line"])]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    owner: Proxy

    def setup(self) -> None:
        super().setup()
        with self.owner.mutex:
            self.owner.connections.add(self.connection)

    def finish(self) -> None:
        with self.owner.mutex:
            self.owner.connections.discard(self.connection)
        super().finish()

    def log_message(self, *_: Any) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        rule = self.owner.pick(self.command, self.path, headers, body)
        do = rule.get("do", "")
        if do == "refuse":
            return self._hang_up()
        if do == "answer":
            return self._answer(rule["status"], rule.get("headers", {}), _body(rule))
        if do == "hold":
            time.sleep(rule["by_ms"] / 1000)
        upstream = http.client.HTTPConnection("127.0.0.1", self.owner.server_port, timeout=90)
        try:
            upstream.request(self.command, self.path, body or None, self._passed_on())
            answer = upstream.getresponse()
            if answer.getheader("content-type", "").startswith("text/event-stream"):
                return self._stream(answer)
            data = answer.read()
        except OSError:
            return self._hang_up()
        finally:
            upstream.close()
        if do == "drop_answer":
            return self._hang_up()
        if do == "delay":
            time.sleep(rule["by_ms"] / 1000)
        if do == "replace":
            data = _body(rule)
        if do == "set":
            data = _set(data, rule["values"])
        kept = {
            name: value
            for name, value in answer.getheaders()
            if name.lower() not in ("content-length", "connection", "date", "server")
        }
        by = rule.get("by_s", 0) if do == "skew" else 0
        kept["Date"] = email.utils.formatdate(time.time() + by, usegmt=True)
        if do == "cut_answer":
            kept["Content-Length"] = str(len(data))
            self._head(answer.status, kept)
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            return self._hang_up()
        self._answer(answer.status, kept, data)

    def _passed_on(self) -> dict[str, str]:
        kept = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
        kept["Host"] = f"127.0.0.1:{self.owner.server_port}"
        return kept

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
        headers = {"Content-Type": "application/json", **headers, "Content-Length": str(len(data))}
        self._head(status, headers)
        if self.command != "HEAD":
            self.wfile.write(data)
        self.wfile.flush()

    def _stream(self, answer: http.client.HTTPResponse) -> None:
        self._head(200, {"Content-Type": "text/event-stream", "Connection": "close"})
        self.close_connection = True
        while True:
            data = answer.read1(65536)
            if not data:
                return
            self.wfile.write(data)
            self.wfile.flush()

    def _hang_up(self) -> None:
        self.close_connection = True
        _hang_up(self.connection)

    do_GET = do_POST = do_PUT = do_DELETE = _serve


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _body(rule: dict[str, Any]) -> bytes:
    if "text" in rule:
        return str(rule["text"]).encode()
    return json.dumps(rule.get("body", {})).encode()


def _set(data: bytes, values: dict[str, Any]) -> bytes:
    document = json.loads(data)
    for pointer, value in values.items():
        at = document
        parts = pointer.strip("/").split("/")
        try:
            for part in parts[:-1]:
                at = at[int(part)] if isinstance(at, list) else at[part]
            last = parts[-1]
            if isinstance(at, list):
                at[int(last)] = value
            else:
                at[last] = value
        except (KeyError, IndexError):
            return data
    return json.dumps(document).encode()


