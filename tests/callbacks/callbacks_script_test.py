#!/usr/bin/env python3
"""Callbacks end to end: the program, a receiver, and signatures computed by Python.

Usage: callbacks_script_test.py PROGRAM
"""
import base64
import hashlib
import hmac
import http.server
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = os.path.realpath(sys.argv[1])
LIMIT = 60  # seconds, for anything that is waited for
TIMEOUT = "5m"  # of a callback: a receiver may be slow


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers as configured and records the requests."""

    seen = queue.Queue()
    answers = queue.Queue()  # a status, or a function that is called before 200

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            answer = Receiver.answers.get_nowait()
        except queue.Empty:
            answer = 200
        Receiver.seen.put((self.path, dict(self.headers), body))
        if callable(answer):
            answer()
            answer = 200
        try:
            self.send_response(answer)
            if answer == 500:
                # The delivery waits for a retry by hand: its own delay of 5 s may pass unseen.
                self.send_header("Retry-After", "3600")
            self.send_header("Content-Length", "0")
            self.end_headers()
        except OSError:
            pass  # who asked is gone

    def log_message(self, *args):
        pass


class Server:
    def __init__(self, data, *flags):
        self.log = open(os.path.join(data, "log"), "ab")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--json", "--listen", "127.0.0.1:0", "--data", os.path.join(data, "store"),
             "--outgoing-allow", "127.0.0.0/8", "--callback-timeout", TIMEOUT, *flags],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.url = json.loads(self.process.stdout.readline())["url"]

    def run(self, *words, expect=0, text=""):
        done = subprocess.run([PROGRAM, *words, "--server", self.url], input=text, capture_output=True,
                              text=True, timeout=LIMIT)
        assert done.returncode == expect, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait(timeout=LIMIT)


def offline(*words, expect=0, body=b""):
    done = subprocess.run([PROGRAM, *words], input=body, capture_output=True, timeout=LIMIT)
    assert done.returncode == expect, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout.decode().strip()


def header(headers, name):
    return next(v for k, v in headers.items() if k.lower() == name)


def check_signature(headers, body, key):
    """As the standard says, without a line of ours."""
    signed = b".".join([header(headers, "webhook-id").encode(),
                        header(headers, "webhook-timestamp").encode(), body])
    raw = base64.b64decode(key.removeprefix("whsec_"))
    wanted = "v1," + base64.b64encode(hmac.new(raw, signed, hashlib.sha256).digest()).decode()
    assert wanted in header(headers, "webhook-signature").split(" "), headers
    assert abs(time.time() - int(header(headers, "webhook-timestamp"))) < 300, headers


def jobs(server, *flags):
    return [json.loads(line) for line in server.run("jobs", "list", "--json", *flags).splitlines()]


def wait_until(holds):
    """Asks the server, which has no signal for it that is nearer than its answer."""
    deadline = time.monotonic() + LIMIT
    gate = threading.Event()
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        gate.wait(0.1)


def main():
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{receiver.server_port}/hook/path-secret"
    with tempfile.TemporaryDirectory() as data:
        server = Server(data)
        store = os.path.join(data, "store")
        key = offline("callbacks", "key", "--data", store)
        assert key.startswith("whsec_") and len(base64.b64decode(key[6:])) == 32, key

        # A completed job makes one signed callback.
        made = server.run("enqueue", "mails", "send", '{"to":"a"}', "--callback", url).split()[0]
        server.run("work", "--queue", "mails", "--exec", "echo '{\"sent\":1}'", "--drain")
        path, headers, body = Receiver.seen.get(timeout=LIMIT)
        assert path == "/hook/path-secret"
        check_signature(headers, body, key)
        told = json.loads(body)
        assert told["type"] == "job.completed", told
        assert told["data"]["job"] == int(made) and told["data"]["kind"] == "send", told
        assert "data" not in told["data"], told
        words = ("callbacks", "verify", "--data", store, "--id", header(headers, "webhook-id"),
                 "--timestamp", header(headers, "webhook-timestamp"),
                 "--signature", header(headers, "webhook-signature"))
        assert offline(*words, body=body) == "verified"
        assert offline(*words, body=body + b" ", expect=1).startswith("not verified")
        queue_name = ("--queue", "mainspring.callbacks")
        wait_until(lambda: [j["state"] for j in jobs(server, *queue_name)] == ["completed"])

        # Only the ends that were asked for.
        made = server.run("enqueue", "mails", "send", "--callback", url, "--callback-on", "dead,cancelled").split()[0]
        server.run("jobs", "cancel", made)
        told = json.loads(Receiver.seen.get(timeout=LIMIT)[2])
        assert told["type"] == "job.cancelled" and told["data"]["job"] == int(made), told

        # What a running job says, and then how it ended.
        made = server.run("enqueue", "mails", "send", "--callback", url, "--callback-on", "message,completed").split()[0]
        says = "sh -c \"echo '{\\\"message\\\":{\\\"row\\\":7}}' >&3\""
        server.run("work", "--queue", "mails", "--exec", says, "--drain")
        told = sorted((json.loads(Receiver.seen.get(timeout=LIMIT)[2]) for _ in range(2)), key=lambda t: t["type"])
        assert [t["type"] for t in told] == ["job.completed", "job.message"], told
        assert told[1]["data"]["job"] == int(made) and told[1]["data"]["message"] == {"row": 7}, told
        assert told[1]["data"]["state"] == "running" and told[1]["data"]["seq"] == 1, told

        # A receiver that is gone, and one that fails: the delivery is a job, with all that jobs have.
        Receiver.answers.put(410)
        server.run("jobs", "cancel", server.run("enqueue", "m", "k", "--callback", url).split()[0])
        Receiver.seen.get(timeout=LIMIT)
        wait_until(lambda: jobs(server, *queue_name)[0]["state"] == "cancelled")
        Receiver.answers.put(500)
        server.run("jobs", "cancel", server.run("enqueue", "m", "k", "--callback", url).split()[0])
        first = Receiver.seen.get(timeout=LIMIT)
        wait_until(lambda: jobs(server, *queue_name)[0]["state"] == "retryable")
        server.run("jobs", "retry", str(jobs(server, *queue_name)[0]["id"]))
        again = Receiver.seen.get(timeout=LIMIT)
        assert header(first[1], "webhook-id") == header(again[1], "webhook-id")

        # Only the engine may enqueue or claim jobs of this queue.
        server.run("enqueue", "mainspring.callbacks", "callback", expect=64)
        server.run("enqueue", "m", "k", "--callback", "http://169.254.169.254/latest", expect=64)

        # The server dies between the post and the finish: the next one posts again, under the same id.
        # The cancel has its answer before: the post may be faster.
        cancelled, gone = threading.Event(), threading.Event()
        Receiver.answers.put(
            lambda: (cancelled.wait(LIMIT), server.end(signal.SIGKILL), gone.set()))
        server.run("jobs", "cancel", server.run("enqueue", "m", "k", "--callback", url).split()[0])
        cancelled.set()
        first = Receiver.seen.get(timeout=LIMIT)
        assert gone.wait(LIMIT)
        server = Server(data)
        again = Receiver.seen.get(timeout=LIMIT)
        check_signature(again[1], again[2], key)
        assert header(first[1], "webhook-id") == header(again[1], "webhook-id")
        assert first[2] == again[2]
        wait_until(lambda: jobs(server, *queue_name)[0]["state"] == "completed")
        assert server.end(signal.SIGTERM) == 0
        with open(os.path.join(data, "log"), encoding="utf-8") as log:
            text = log.read()
        assert "path-secret" not in text and key[6:] not in text, text
    print("callbacks: good")


main()
