#!/usr/bin/env python3
"""Runs the conformance cases against the client of one language. See README.md."""

from __future__ import annotations

import argparse
import fnmatch
import http.client
import json
import os
import pathlib
import queue
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from patterns import Mismatch, check, expand, fill
from proxy import Proxy

HERE = pathlib.Path(__file__).resolve().parent
EVENTUALLY = 60.0
ANSWER_WITHIN = 120.0


class Server:
    """A server in a temporary directory; `port` stays the same when it restarts."""

    def __init__(self, binary: str, directory: str, *flags: str, listen: str = "") -> None:
        self.binary, self.directory, self.flags = binary, directory, flags
        self.listen = listen or "127.0.0.1:0"
        self.port = 0
        self.url = ""
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        command = [self.binary, "serve", "--data", self.directory, "--listen", self.listen]
        command += ["--log-level", "error", *self.flags]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"(https?://[^\s,]+|unix:[^\s,]+)", line)
        if found is None:
            raise SystemExit(f"the server did not start: {line}")
        self.url = found.group(1)
        if not self.url.startswith("unix:"):
            self.port = int(self.url.rpartition(":")[2])
            self.listen = f"127.0.0.1:{self.port}"

    def stop(self, kill: bool) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self.process.wait(30)

    def ask(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=70)
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode("utf-8", "replace")


class Driver:
    """The process of one language. Started again after it was killed or did not answer."""

    def __init__(self, command: str) -> None:
        self.command = shlex.split(command)
        self.process: subprocess.Popen[bytes] | None = None
        self.buffer = b""
        self.has: list[str] = []

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.buffer = b""
        self.has = self.ask({"op": "hello"})["ok"].get("has", [])

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.process is None:
            self.start()
        assert self.process is not None and self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        until = time.monotonic() + ANSWER_WITHIN
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                if not selector.select(max(0.0, until - time.monotonic())):
                    self.kill()
                    raise Mismatch(f"the driver does not answer to {request['op']}")
                data = os.read(self.process.stdout.fileno(), 1 << 20)
                if not data:
                    self.kill()
                    raise Mismatch(f"the driver ended at {request['op']}")
                self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()


class Runner:
    """One server, one proxy and one driver, for one case after the other."""

    def __init__(self, arguments: argparse.Namespace, directory: str) -> None:
        self.arguments = arguments
        self.directory = directory
        self.server = Server(arguments.binary, f"{directory}/data")
        self.proxy = Proxy(self.server.port)
        self.first: Proxy | None = None  # before `proxy` in the list of URLs
        self.driver = Driver(arguments.driver)
        self.extra: dict[str, Server] = {}
        self.options = dict(one.split("=", 1) for one in arguments.option)
        self.count = 0
        self.open: dict[str, Any] = {}
        self.values: dict[str, Any] = {}

    def url(self, via: str) -> str:
        if via == "server":
            return self.server.url
        if via == "proxy":
            return self.proxy.url
        if via == "list":
            self.first = Proxy(self.server.port)
            return f"{self.first.url},{self.proxy.url}"
        return self.extra_server(via).url

    def extra_server(self, via: str) -> Server:
        if via not in self.extra:
            data = f"{self.directory}/{via}"
            if via == "unix":
                listen = f"unix:{self.directory}/socket"
                self.extra[via] = Server(self.arguments.binary, data, listen=listen)
            else:
                files = f"{self.directory}/certificates"
                make = [self.arguments.binary, "tls", "init", "--dir", files]
                make += ["--host", "127.0.0.1"]
                subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
                flags = ["--tls-cert", f"{files}/server.pem", "--tls-key", f"{files}/server.key"]
                self.extra[via] = Server(self.arguments.binary, data, *flags)
        return self.extra[via]

    def close(self) -> None:
        self.driver.kill()
        for server in (self.server, *self.extra.values()):
            server.stop(kill=True)

    def run(self, case: dict[str, Any]) -> None:
        self.count += 1
        queue = f"q{self.count}"
        self.values = {"queue": queue}
        self.proxy.reset()
        if self.driver.process is None:
            self.driver.start()
        options = {**self.options, **expand(case.get("client", {}))}
        self.open = {"op": "open", "url": self.url(case.get("via", "server")), "options": options}
        if case.get("via") == "tls":
            options["ca_file"] = f"{self.directory}/certificates/ca.pem"
        self.reopen()
        self.proxy.reset()  # what the case before still sent when it was closed
        for number, step in enumerate(case["steps"], 1):
            try:
                self.step(fill(step, self.values))
            except Mismatch as problem:
                raise Mismatch(f"step {number} {json.dumps(step)[:300]}\n    {problem}") from None

    def reopen(self) -> None:
        options = fill(self.open, self.values)
        answer = self.driver.ask(options)
        if "ok" not in answer:
            raise Mismatch(f"open: {answer}")

    def step(self, step: dict[str, Any]) -> None:
        until = time.monotonic() + (EVENTUALLY if step.get("eventually") else 0)
        pause = 0.005
        while True:
            try:
                return self.once(step)
            except Mismatch:
                if time.monotonic() >= until:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 0.1)

    def once(self, step: dict[str, Any]) -> None:
        if "join" in step:
            ticket = self.values[step["join"]]
            self.answer(step, self.driver.ask({"op": "join", "ticket": ticket}))
        elif "op" in step:
            self.operation(step)
        elif "server" in step:
            status, document = self.server.ask(step["server"], step["path"], step.get("body"))
            check(step.get("status", {"$lte": 299}), status, "status")
            self.keep(step, document)
        elif "proxy" in step:
            self.proxy.add(expand(step["proxy"]))
        elif "first" in step:
            assert self.first is not None
            if step["first"] == "close":
                self.first.close()
            else:
                self.first.add(expand(step["first"]))
        elif "requests" in step:
            self.requests(step["requests"])
        elif "further" in step:
            self.further(step["further"])
        elif "repeat" in step:
            for one in step["repeat"]:
                self.once(one)
        elif "restart" in step:
            self.server.stop(step["restart"] == "kill")
            self.server.start()
        elif "driver" in step:
            self.driver.kill()
            self.reopen()
        elif "clock" in step:
            self.values[step["clock"]] = time.monotonic()
        elif "since" in step:
            ms = (time.monotonic() - self.values[step["since"]]) * 1000
            check(step["expect_ms"], ms, "ms")
        elif "wait_ms" in step:
            time.sleep(step["wait_ms"] / 1000)
        elif "open" in step:
            self.open["options"].update(step["open"])
            self.reopen()
        elif "open_url" in step:
            options = {**self.open["options"], **step.get("options", {})}
            request = {"op": "open", "url": step["open_url"], "options": options}
            self.answer(step, self.driver.ask(request))
        else:
            raise Mismatch(f"no such step: {step}")

    def operation(self, step: dict[str, Any]) -> None:
        ours = ("expect", "error", "as", "eventually", "start")
        request = {name: value for name, value in step.items() if name not in ours}
        if "start" in step:
            self.count += 1
            request["ticket"] = self.values[step["start"]] = self.count
        self.answer(step, self.driver.ask(request))

    def answer(self, step: dict[str, Any], answer: dict[str, Any]) -> None:
        if "error" in step:
            if "error" not in answer:
                raise Mismatch(f"expected an error, got {json.dumps(answer)[:300]}")
            check(step["error"], answer["error"], "error")
        elif "ok" not in answer:
            raise Mismatch(f"error: {json.dumps(answer)[:500]}")
        else:
            self.keep(step, answer["ok"])

    def keep(self, step: dict[str, Any], value: Any) -> None:
        if "expect" in step:
            check(step["expect"], value, "answer")
        if "as" in step:
            self.values[step["as"]] = value

    def requests(self, wanted: dict[str, Any]) -> None:
        seen = self.proxy.seen(wanted["match"])
        if "count" in wanted:
            check(wanted["count"], len(seen), f"requests {wanted['match']}")
        if "same_header" in wanted:
            values = {one["headers"].get(wanted["same_header"]) for one in seen}
            if len(values) != 1 or None in values:
                raise Mismatch(f"{wanted['same_header']} differs or is missing: {values}")
        if wanted.get("same_body") and len({one["body"] for one in seen}) != 1:
            raise Mismatch("the bodies differ")
        if "gap_ms" in wanted:
            if len(seen) < 2:
                raise Mismatch(f"only {len(seen)} requests")
            check(wanted["gap_ms"], (seen[1]["at"] - seen[0]["at"]) * 1000, "gap_ms")
        if "header" in wanted:
            check(wanted["header"], seen[-1]["headers"] if seen else {}, "header")
        if "body" in wanted:
            check(wanted["body"], json.loads(seen[-1]["body"]) if seen else {}, "body")

    def further(self, wanted: dict[str, Any]) -> None:
        seen = len(self.proxy.seen(wanted["match"]))
        goal = wanted.setdefault("goal", seen + wanted["count"])
        check({"$gte": goal}, seen, f"requests {wanted['match']}")


def read_cases(only: str) -> list[dict[str, Any]]:
    cases = []
    for path in sorted((HERE / "cases").glob("*.json")):
        for case in json.loads(path.read_text()):
            case["name"] = f"{path.stem}: {case['name']}"
            if any(fnmatch.fnmatchcase(case["name"], f"*{one}*") for one in only.split(",")):
                cases.append(case)
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="the mainspring program")
    parser.add_argument("--driver", required=True, help="the command that starts the driver")
    parser.add_argument("--only", default="", help="cases with one of these texts in their name")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE for the driver")
    parser.add_argument("--parallel", type=int, default=4, help="servers and drivers at once [4]")
    parser.add_argument("--times", action="store_true", help="print the time of each case")
    arguments = parser.parse_args()
    cases: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    for case in read_cases(arguments.only):
        cases.put(case)
    results: list[str] = []
    threads = [
        threading.Thread(target=work, args=(arguments, cases, results))
        for _ in range(arguments.parallel)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not cases.empty():
        results.append("failed")
        print("FAILED: not all cases were run")
    passed, failed, skipped = (results.count(w) for w in ("passed", "failed", "skipped"))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


def work(
    arguments: argparse.Namespace, cases: queue.SimpleQueue[dict[str, Any]], results: list[str]
) -> None:
    """Runs case after case with a server, a proxy and a driver of its own."""
    directory = tempfile.mkdtemp(prefix="mainspring-conformance-")
    runner = Runner(arguments, directory)
    try:
        while True:
            try:
                case = cases.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            results.append(run_case(runner, case))
            if arguments.times:
                print(f"{time.monotonic() - began:6.2f} {case['name']}", flush=True)
    finally:
        runner.close()
        shutil.rmtree(directory, ignore_errors=True)


def run_case(runner: Runner, case: dict[str, Any]) -> str:
    try:
        if runner.driver.process is None:
            runner.driver.start()
        if any(word not in runner.driver.has for word in case.get("needs", [])):
            return "skipped"
        runner.run(case)
        return "passed"
    except (Mismatch, OSError, KeyError, ValueError, http.client.HTTPException) as problem:
        print(f"FAILED {case['name']}\n    {problem!r}", flush=True)
        return "failed"


if __name__ == "__main__":
    sys.exit(main())
