#!/usr/bin/env python3
"""Clients that are slow on purpose do not keep others from the server.

Usage: slow_clients_test.py PROGRAM [--connections 500] [--seconds 16]

Runs slowhttptest in its four modes (slow heads, slow bodies, ranges, slow reading) against a server on
loopback while one ordinary client keeps sending requests. Each request must succeed, also on new
connections, and the server must cut slow heads and bodies within its limits. The latencies are printed
but are not checked: docs/reference/performance.md quotes them.
"""
import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

options = argparse.ArgumentParser()
options.add_argument("program")
options.add_argument("--connections", type=int, default=500)
options.add_argument("--seconds", type=int, default=16)
options = options.parse_args()

# An attack whose connections are all cut ends then, so its limit can be long: on a busy machine the
# last ones connect late. Less than the server's time-out of idle connections.
CUT_LIMIT_S = 45
# Name, flags, path, and whether the server has to have cut all of them before the attack ends.
MODES = [
    ("slow heads", ["-H", "-i", "3"], "/v1/queues", True),
    ("slow bodies", ["-B", "-i", "3", "-s", "8192", "-f", "application/json"], "/v1/jobs", True),
    ("ranges", ["-R", "-a", "5", "-b", "3000"], "/openapi.json", False),
    ("slow reading", ["-X", "-w", "256", "-y", "512", "-n", "3", "-z", "32", "-k", "10"], "/openapi.json", False),
]
passed = failed = 0


def check(good, text):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAILED: {text}")


def percentile(samples, part):
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * part))] * 1000


def ask(client, method, path, body=None):
    begin = time.perf_counter()
    client.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    answer = client.getresponse()
    answer.read()
    return time.perf_counter() - begin, answer.status


def serve_requests_until(port, attack):
    """Requests one after the other while the attack runs: their times, and how many went wrong."""
    times, wrong, count = [], 0, 0
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while attack is None and count < 500 or attack is not None and attack.poll() is None:
        count += 1
        if count % 50 == 0:  # as one who has just come
            client.close()
        for method, path, body, expected in (("GET", "/v1/queues", None, 200),
                                             ("POST", "/v1/jobs", '{"queue":"q","kind":"k"}', 201)):
            try:
                took, status = ask(client, method, path, body)
                times.append(took)
                wrong += status != expected
            except OSError as problem:
                print(f"{method} {path}: {problem}")
                wrong += 1
                client.close()
    client.close()
    return times, wrong


work = tempfile.mkdtemp(prefix="slow-clients-test-")
server = subprocess.Popen([options.program, "serve", "--data", os.path.join(work, "data"), "--listen", "127.0.0.1:0",
                           "--json", "--log-level", "error"], stdout=subprocess.PIPE, text=True)
try:
    port = int(json.loads(server.stdout.readline())["url"].rsplit(":", 1)[1])
    times, wrong = serve_requests_until(port, None)
    check(wrong == 0, "requests without an attack")
    print(f"{'no attack':14} p50 {percentile(times, .5):6.2f} ms  p99 {percentile(times, .99):6.2f} ms  of {len(times)}")
    for name, flags, path, cut in MODES:
        with open(os.path.join(work, "log"), "w+") as log:
            attack = subprocess.Popen(
                ["slowhttptest", *flags, "-c", str(options.connections), "-r", "250",
                 "-l", str(max(options.seconds, CUT_LIMIT_S) if cut else options.seconds),
                 "-p", "5", "-v", "1", "-u", f"http://127.0.0.1:{port}{path}"], stdout=log, stderr=log, cwd=work)
            times, wrong = serve_requests_until(port, attack)
            log.seek(0)
            text = re.sub(r"\x1b\[[0-9;]*m", "", log.read())
        ended = re.findall(r"Exit status: *(.*)", text)
        print(f"{name:14} p50 {percentile(times, .5):6.2f} ms  p99 {percentile(times, .99):6.2f} ms  of {len(times)}"
              f"  ({ended[-1] if ended else '?'})")
        check(ended, f"{name}: slowhttptest said nothing: {text[-400:]}")
        check(wrong == 0, f"{name}: {wrong} requests of others went wrong")
        check(not cut or "No open connections left" in text, f"{name}: the server did not cut them: {ended}")
    check(server.poll() is None, "the server lives")
finally:
    server.terminate()
    server.wait(60)
    shutil.rmtree(work)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
