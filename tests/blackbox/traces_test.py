"""One trace through everything that a job causes: the spans that a real server exports to a collector.

Usage: traces_test.py MAINSPRING [EXAMPLE_ORDERS]
"""

import contextlib
import http.server
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

MAINSPRING = sys.argv[1]
ORDERS = sys.argv[2] if len(sys.argv) > 2 else None
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
LIMIT_S = 60

# OpenTelemetry semantic conventions, messaging spans; and our own names.
STANDARD = {
    "messaging.system", "messaging.destination.name", "messaging.operation.name",
    "messaging.operation.type", "messaging.message.id", "messaging.message.conversation_id",
    "messaging.client.id", "error.type", "server.address", "server.port",
}
OWN = {
    "mainspring.job.kind", "mainspring.job.attempt", "mainspring.job.outcome",
    "mainspring.why.gates", "mainspring.workflow.name",
}


class Receiver(http.server.ThreadingHTTPServer):
    """Takes exports at /v1/traces and callbacks elsewhere."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.changed = threading.Condition()
        self.spans, self.callbacks, self.exports = [], [], 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def wait(self, condition, what):
        with self.changed:
            if not self.changed.wait_for(condition, LIMIT_S):
                raise AssertionError(f"{what}: not within {LIMIT_S} s; {[s['name'] for s in self.spans]}")

    def named(self, name):
        return [span for span in self.spans if span["name"] == name]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.changed:
            if self.path == "/v1/traces":
                self.server.exports += 1
                for resource in body["resourceSpans"]:
                    for scope in resource["scopeSpans"]:
                        self.server.spans.extend(scope["spans"])
            else:
                self.server.callbacks.append((dict(self.headers), body))
            self.server.changed.notify_all()
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


RESERVED = []  # sockets that keep ports for servers that bind them later


def reserve_port():
    """A port that the kernel gives to no other program. A server with SO_REUSEADDR can bind it,
    because this socket does not listen."""
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    RESERVED.append(one)
    return one.getsockname()[1]


class Server:
    def __init__(self, receiver, **variables):
        self.directory = tempfile.TemporaryDirectory(prefix="mainspring-traces-")
        self.url = f"http://127.0.0.1:{reserve_port()}"
        self.log = open(os.path.join(self.directory.name, "log"), "w+", encoding="utf-8")
        environment = dict(os.environ, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url(),
                           OTEL_BSP_SCHEDULE_DELAY="20", **variables)
        self.process = subprocess.Popen(
            [MAINSPRING, "serve", "--data", os.path.join(self.directory.name, "store"),
             "--listen", self.url[7:], "--outgoing-allow", "127.0.0.1"],
            env=environment, stdout=self.log, stderr=self.log)
        until = time.monotonic() + LIMIT_S
        while True:
            try:
                urllib.request.urlopen(self.url + "/readyz").close()
                return
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    self.log.seek(0)
                    raise AssertionError(self.log.read())

    def post(self, path, body, **headers):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), method="POST")
        request.add_header("Content-Type", "application/json")
        for name, value in headers.items():
            request.add_header(name, value)
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return json.load(answer)

    def run(self, *words, **variables):
        environment = dict(os.environ, MAINSPRING_SERVER=self.url, **variables)
        environment["PATH"] = os.path.dirname(MAINSPRING) + ":" + environment["PATH"]
        return subprocess.run([MAINSPRING, *words], env=environment, check=True, text=True,
                              stdout=subprocess.PIPE, timeout=LIMIT_S).stdout

    def stop(self):
        self.process.terminate()
        code = self.process.wait(LIMIT_S)
        self.directory.cleanup()
        self.log.close()
        return code


def connected(spans, root):
    """Names of the spans that have no parent among the spans and are not below `root`."""
    known = {span["spanId"] for span in spans} | {root}
    return [s["name"] for s in spans if s.get("parentSpanId") not in known and s["spanId"] != root]


class Traces(unittest.TestCase):
    def setUp(self):
        self.receiver = Receiver()

    def tearDown(self):
        self.receiver.shutdown()
        self.receiver.server_close()

    def serve(self, **variables):
        server = Server(self.receiver, **variables)
        self.addCleanup(server.stop)
        return server

    def test_request_program_follow_up_retry_workflow_and_callback_are_one_trace(self):
        server = self.serve()
        server.post("/v1/jobs", {"queue": "first", "kind": "k", "max_attempts": 5,
                                 "callback": {"url": self.receiver.url() + "/hook"},
                                 "then": [{"queue": "after", "kind": "k"}]}, traceparent=PARENT)
        # Fails once, then enqueues a job itself.
        program = ('test "$MAINSPRING_ATTEMPT" = 2 || exit 75; '
                   'mainspring enqueue inner k "{}" >&2')
        server.run("work", "--queue", "first", "--exec", "sh -c '" + program + "'", "--drain")
        server.run("work", "--queue", "after", "--queue", "inner", "--exec", "true", "--drain")
        server.post("/v1/workflows", {"name": "order", "steps": [
            {"name": "a", "job": {"queue": "steps", "kind": "k"}},
            {"name": "b", "after": ["a"], "job": {"queue": "steps", "kind": "k"}}]},
            traceparent=PARENT)
        server.run("work", "--queue", "steps", "--exec", "true", "--drain")
        spans = self.receiver
        spans.wait(lambda: len(spans.named("process steps")) == 2 and spans.callbacks
                   and spans.named("process inner") and spans.named("process after")
                   and spans.named("process mainspring.callbacks")
                   # A span is exported when it ends: a parent may come after its children.
                   and not connected(spans.spans, "00f067aa0ba902b7"), "all spans, connected")
        self.assertEqual({s["traceId"] for s in spans.spans}, {TRACE})
        attempts = spans.named("process first")
        self.assertEqual(len(attempts), 2)
        self.assertEqual([s["status"].get("code", 0) for s in attempts], [2, 0])
        inner = spans.named("send inner")[0]
        self.assertEqual(inner["parentSpanId"], attempts[1]["spanId"])
        headers, _ = spans.callbacks[0]
        self.assertIn(TRACE, headers["traceparent"])
        names = {a["key"] for s in spans.spans for a in s["attributes"]}
        self.assertEqual(names - STANDARD - OWN, set())

    def test_without_a_callers_trace_the_sampler_starts_one_for_each_enqueue(self):
        server = self.serve()
        server.post("/v1/jobs", {"jobs": [{"queue": "q", "kind": "k"}] * 3})
        self.receiver.wait(lambda: len(self.receiver.named("send q")) == 3, "three sends")
        self.assertEqual(len({s["traceId"] for s in self.receiver.spans}), 3)

    def test_what_is_switched_off_or_not_sampled_is_not_exported(self):
        quiet = self.serve(OTEL_TRACES_SAMPLER="always_off")
        off = self.serve(OTEL_SDK_DISABLED="true")
        for server in (quiet, off):
            server.post("/v1/jobs", {"queue": "q", "kind": "k"}, traceparent=PARENT)
            server.run("work", "--queue", "q", "--exec", "true", "--drain")
            server.process.terminate()
            self.assertEqual(server.process.wait(LIMIT_S), 0)
        self.assertEqual(self.receiver.exports, 0)

    def test_a_job_keeps_its_trace_for_its_program_without_any_export(self):
        server = self.serve(OTEL_SDK_DISABLED="true")
        job = server.post("/v1/jobs", {"queue": "q", "kind": "k"}, traceparent=PARENT,
                          tracestate="vendor=1")
        server.run("work", "--queue", "q", "--exec", "sh -c 'echo \\\"$TRACEPARENT $TRACESTATE\\\"'",
                   "--drain")
        with urllib.request.urlopen(f"{server.url}/v1/jobs/{job['id']}") as answer:
            self.assertEqual(json.load(answer)["result"], f"{PARENT} vendor=1")

    def place_orders(self, server, books):
        """Until all have ended. An undo may die, by its job's number, and park its workflow."""
        until = time.monotonic() + LIMIT_S
        while (code := subprocess.run([ORDERS, "place", books, server.url], timeout=LIMIT_S,
                                      stdout=subprocess.DEVNULL).returncode) != 0:
            self.assertEqual(code, 75)
            self.assertLess(time.monotonic(), until)
            parked = server.run("workflow", "list", "--state", "parked", "--all", "--json")
            for line in parked.splitlines():
                server.run("workflow", "retry", str(json.loads(line)["id"]))

    @unittest.skipUnless(ORDERS, "the orders example has not been built")
    def test_a_run_of_the_orders_example_is_one_connected_trace_for_each_order(self):
        server = self.serve()
        books = os.path.join(server.directory.name, "books.sqlite")
        subprocess.run([ORDERS, "open", books, "20", "1"], check=True, stdout=subprocess.DEVNULL)
        worker = subprocess.Popen([ORDERS, "work", books, server.url], stdout=subprocess.DEVNULL)
        try:
            self.place_orders(server, books)
        finally:
            worker.terminate()
            worker.wait(LIMIT_S)
        server.process.terminate()  # sends what waits
        self.assertEqual(server.process.wait(LIMIT_S), 0)
        with contextlib.closing(sqlite3.connect(books)) as shop:
            cancelled, = shop.execute(
                "SELECT count(*) FROM orders WHERE outcome = 'cancelled'").fetchone()
        starts = self.receiver.named("start order")
        self.assertEqual(len(starts), 20)
        short = 0
        for start in starts:
            trace = [s for s in self.receiver.spans if s["traceId"] == start["traceId"]]
            short += len(trace) < 3  # start, wait and process of the first step
            self.assertEqual(connected(trace, start["spanId"]), [])
        # A customer may cancel an order before its first step starts.
        self.assertLessEqual(short, cancelled)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
