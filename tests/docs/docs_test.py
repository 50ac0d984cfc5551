#!/usr/bin/env python3
"""Checks that the documents tell the truth.

  docs_test.py --binary build/dev/mainspring            check everything; exit code 1 if something is wrong
  docs_test.py --binary build/dev/mainspring --write    rewrite the generated sections

Checked, in README.md and docs/**/*.md:
  links      every relative link leads to a file, and to a heading if it names one
  console    blocks marked `console` are run, in order, against a real server of their own per document;
             lines after "$ command" are the expected output, where … stands for any text, and a line that
             is only … for any number of lines. A command must end with 0 unless it shows "exit code N".
             In blocks marked `console eventually` a command is repeated until it says what is shown.
  cpp        blocks marked `cpp file=PATH` occur in that file, line for line
  names      commands and flags of `mainspring …` lines, metrics, settings and error codes exist; every
             route of /openapi.json is listed in docs/reference/http.md or host_api.md
  generated  sections between <!-- generated: NAME --> and <!-- end --> are up to date
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND_LIMIT_S = 120
EVENTUALLY_S = 60
SERVER_LIMIT_S = 60  # to start, to answer, to stop
failures = []
checked = 0


def expect(holds, where, message):
    global checked
    checked += 1
    if not holds:
        failures.append(f"{where}: {message}")
        print(f"FAILED {where}: {message}", flush=True)


def documents():
    return [ROOT / "README.md"] + sorted((ROOT / "docs").rglob("*.md"))


def blocks(text):
    """Fenced blocks: (line number, info string, lines)."""
    found, info, start, lines = [], None, 0, []
    for number, line in enumerate(text.split("\n"), 1):
        if info is None and line.startswith("```"):
            info, start, lines = line[3:].strip(), number, []
        elif info is not None and line.startswith("```"):
            found.append((start, info, lines))
            info = None
        elif info is not None:
            lines.append(line)
    return found


# -- links


def anchors(path):
    def slug(title):
        title = re.sub(r"[`*\[\]]|\(.*?\)", "", title.strip().lower())
        return re.sub(r"[^\w\- ]", "", title).replace(" ", "-")

    return {slug(match) for match in re.findall(r"^#+ (.*)$", path.read_text(), re.M)}


def check_links(document, text):
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"https?:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (document.parent / file).resolve() if file else document
        where = document.relative_to(ROOT)
        expect(path.exists(), where, f"link to {target} leads nowhere")
        if anchor and path.suffix == ".md" and path.exists():
            expect(anchor in anchors(path), where, f"{target}: no such heading")


# -- console


class Server:
    """A real server over a fresh directory."""

    def __init__(self, binary):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="mainspring-docs-"))
        self.home = self.directory / "home"
        (self.home / "jobs").mkdir(parents=True)
        # Bound and not listening: the kernel gives this port to no other program, and the server,
        # which sets SO_REUSEADDR, can bind it.
        self.reserved = socket.socket()
        self.reserved.bind(("127.0.0.1", 0))
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.port = self.reserved.getsockname()[1]
        self.environment = dict(
            os.environ,
            PATH=f"{binary.parent}:{os.environ['PATH']}",
            MAINSPRING_DATA=str(self.directory / "store"),
            MAINSPRING_SERVER=f"http://127.0.0.1:{self.port}",
            HOME=str(self.home),
            NO_COLOR="1",
            LC_ALL="C.UTF-8",
        )
        self.log = open(self.directory / "server.log", "wb")
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--jobs", "jobs",
             "--folder-quiet", "50ms", "--webjobs-api"],
            # With traces, so that their metrics are there too; without sending any.
            env=dict(self.environment, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
                     OTEL_TRACES_SAMPLER="always_off",
                     MAINSPRING_JOBS_USER="root" if os.geteuid() == 0 else "none"),
            cwd=self.home, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + SERVER_LIMIT_S
        while not self.ready():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("the server did not start: "
                                   + (self.directory / "server.log").read_text())
            self.wait(0.01)

    def wait(self, seconds):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SERVER_LIMIT_S)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def ready(self):
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def run(self, command):
        command = command.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}")
        done = subprocess.run(["bash", "-c", command], env=self.environment, cwd=self.home,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=COMMAND_LIMIT_S)
        output = done.stdout.decode().replace(f"127.0.0.1:{self.port}", "127.0.0.1:8080")
        return done.returncode, output

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(SERVER_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.log.close()
        self.reserved.close()
        shutil.rmtree(self.directory)
        return code


def commands(lines):
    """A console block: (offset, command, expected lines). Lines after "> " continue the command."""
    found = []
    for offset, line in enumerate(lines):
        if line.startswith("$ "):
            found.append((offset, line[2:], []))
        elif line.startswith("> ") and found and not found[-1][2]:
            found[-1] = (found[-1][0], found[-1][1] + "\n" + line[2:], [])
        elif found:
            found[-1][2].append(line)
    return found


def pattern(expected):
    parts = []
    for line in expected:
        if line.strip() == "…":
            parts.append("(?:.*\n)*?")
        else:
            parts.append(".*".join(re.escape(piece) for piece in line.rstrip().split("…")) + "[ \t]*\n")
    return "".join(parts)


def shown_exit_code(expected):
    """The exit code that a command is to have, and the lines that it is to print."""
    if expected and (shown := re.fullmatch(r"exit code (\d+)", expected[-1].strip())):
        return int(shown.group(1)), expected[:-1]
    return 0, expected


def check_console_command(server, where, command, expected, limit):
    wanted, expected = shown_exit_code(expected)
    expected = [line for line in expected if line.strip()]
    deadline = time.monotonic() + limit
    while True:
        code, output = server.run(command)
        shown = "".join(line + "\n" for line in output.split("\n") if line.strip())
        fits = not expected or re.fullmatch(pattern(expected), shown)
        if (code == wanted and fits) or time.monotonic() >= deadline:
            break
        server.wait(0.05)
    expect(code == wanted, where, f"`{command}` ended with {code}:\n{output}")
    if expected:
        expect(fits, where, f"`{command}` printed\n{output}instead of\n" + "\n".join(expected))


def check_console(document, text, binary):
    found = [b for b in blocks(text) if b[1] in ("console", "console eventually")]
    if not found:
        return
    server = Server(binary)
    try:
        for start, info, lines in found:
            limit = EVENTUALLY_S if info == "console eventually" else 0
            for offset, command, expected in commands(lines):
                where = f"{document.relative_to(ROOT)}:{start + 1 + offset}"
                check_console_command(server, where, command, expected, limit)
    finally:
        code = server.close()
        expect(code == 0, document.relative_to(ROOT), f"the server ended with {code}")


# -- C++


def check_cpp(document, text):
    for start, info, lines in blocks(text):
        if not info.startswith("cpp"):
            continue
        where = f"{document.relative_to(ROOT)}:{start}"
        match = re.fullmatch(r"cpp file=(\S+)", info)
        expect(match, where, "C++ must name its file: ```cpp file=examples/…")
        if not match:
            continue
        file = ROOT / match.group(1)
        expect(file.exists(), where, f"{match.group(1)} is not there")
        if file.exists():
            source = "\n".join(line.strip() for line in file.read_text().split("\n"))
            snippet = "\n".join(line.strip() for line in lines)
            expect(snippet in source, where, f"not found in {match.group(1)}:\n{snippet}")


# -- names


def help_of(binary, words):
    done = subprocess.run([binary, "help", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=COMMAND_LIMIT_S)
    return done.stdout.decode() if done.returncode == 0 else None


def check_command_lines(document, text, binary):
    for start, info, lines in blocks(text):
        if info not in ("console", "console eventually", "sh"):
            continue
        for offset, line in enumerate(lines):
            line = line.split(" #")[0]
            for call in re.findall(r"(?:^|[\s;|(])mainspring ((?:[\w-]+ ?)(?:[^|;]*))", line):
                check_call(f"{document.relative_to(ROOT)}:{start + 1 + offset}", call, binary)


def check_call(where, call, binary):
    call = re.sub(r"--exec (\"[^\"]*\"|'[^']*'|\S+)", "--exec X", call)
    call = re.sub(r"'[^']*'", "X", call)
    words = call.split()
    text = help_of(binary, words[:1])
    expect(text is not None, where, f"there is no command `mainspring {words[0]}`")
    if text is None:
        return
    if len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
        deeper = help_of(binary, words[:2])
        text = deeper if deeper is not None else text
    if "help connection" in text:
        text += help_of(binary, ["connection"])
    for flag in re.findall(r"(--[a-z][a-z-]*)", " ".join(words)):
        expect(flag in text, where, f"`mainspring {call}`: there is no {flag}")


def sources(*suffixes):
    return "\n".join(p.read_text() for p in sorted((ROOT / "src").rglob("*"))
                     if p.suffix in suffixes and not p.name.endswith("_test.cc"))


def check_names(document, text, metrics, errors, settings):
    where = document.relative_to(ROOT)
    for name in set(re.findall(r"\bmainspring_[a-z_]+\b", text)):
        if name in ("mainspring_torture", "mainspring_module", "mainspring_test", "mainspring_flags", "mainspring_library",
                    "mainspring_speed_up",
                    "mainspring_namespace", "mainspring_path", "mainspring_worker", "mainspring_use", "mainspring_server",  # fixtures of pytest
                    "mainspring_owner", "mainspring_enqueue"):  # roles of databases
            continue
        # Of other programs, of TLS, or of a store that several servers share.
        if name.startswith(("mainspring_role", "mainspring_tls", "mainspring_peer",
                            "mainspring_notify", "mainspring_store_oldest",
                            "mainspring_store_dead", "mainspring_store_reachable")):
            expect(f'"{name}"' in sources(".cc"), where, f"there is no metric {name}")
            continue
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        expect(base in metrics or name in metrics, where, f"there is no metric {name}")
    named = re.findall(r"`((?:max|retention|store)_[a-z_]+|[a-z_]+_(?:threads|bytes|timeout))`", text)
    of_others = {"primary_start_timeout", "retry_timeout",  # Patroni's
                 "statement_timeout", "lock_timeout", "idle_session_timeout",  # PostgreSQL's
                 "idle_in_transaction_session_timeout"}
    for name in set(named) - of_others - set(metrics) - {"max_attempts", "max_open_for", "max_runs", "store_sqlite", "store_postgres", "request_timeout", "store_full", "free_bytes", "connect_timeout"}:
        expect(name in settings, where, f"there is no setting {name}")
    for code in set(re.findall(r'"code":"([a-z_]+)"', text)):
        expect(code in errors, where, f"there is no error {code}")


def check_routes(routes):
    page = "".join((ROOT / "docs/reference" / name).read_text()
                   for name in ("http.md", "host_api.md"))
    expect(len(routes) > 10, "/openapi.json", "has hardly any routes")
    for method, path in routes:
        prefix, _, last = path.rpartition("/")
        told = re.search(rf"`{method} {re.escape(path)}[`?]", page) or (
            re.search(rf"`{method} {re.escape(prefix)}/", page) and f"`/{last}`" in page)
        expect(told, "docs/reference/http.md", f"{method} {path} is not told")


# -- generated sections


def read_errors():
    text = (ROOT / "include/mainspring/errors.def").read_text()
    rows = re.findall(r'^MS_ERROR\((\w+),\s*(\d+), (\d+), (\w+),\s*"(.*)"\)$', text, re.M)
    return {row[0]: row for row in rows}


def generated_errors(_):
    lines = ["| Code | HTTP | Exit | Again? | |", "|---|---|---|---|---|"]
    for code, http_status, exit_code, again, summary in read_errors().values():
        lines.append(f"| `{code}` | {http_status} | {exit_code} | {again} | {summary} |")
    return "\n".join(lines)


def leaves(text):
    """The commands that `mainspring help` lists: "enqueue", "jobs list", …"""
    match = re.search(r"^Commands\n(.*?)(?:\n\n|\Z)", text, re.M | re.S)
    return re.findall(r"^  ([a-z-]+(?: [a-z-]+)?)  ", match.group(1), re.M) if match else []


def generated_cli(binary):
    out = ["```text", help_of(binary, []).strip(), "```"]
    out += ["", "## `mainspring help connection`", "```text", help_of(binary, ["connection"]).strip(), "```"]
    for name in leaves(help_of(binary, ["--all"])):
        out += ["", f"## `mainspring {name}`", "```text", help_of(binary, name.split()).strip(), "```"]
    return "\n".join(out)


def read_metrics(page):
    kinds = dict(re.findall(r"^# TYPE (mainspring_\w+) (\w+)$", page, re.M))
    helps = dict(re.findall(r"^# HELP (mainspring_\w+) (.*)$", page, re.M))
    labels = {}
    for name, inside in re.findall(r"^(mainspring_\w+)\{(.*?)\} ", page, re.M):
        base = name if name in kinds else re.sub(r"_(bucket|sum|count)$", "", name)
        labels.setdefault(base, set()).update(
            label for label in re.findall(r'(\w+)="', inside) if label != "le")
    return {name: (kind, helps.get(name, ""), sorted(labels.get(name, ())))
            for name, kind in sorted(kinds.items())}


def busy_server(binary):
    """The metrics of a server that has met every outcome, and its routes."""
    server = Server(binary)
    try:
        for command in (
                "mainspring queues limit q --concurrency 5 --create",
                "mainspring enqueue q k --max-attempts 1",
                "mainspring work --queue q --exec true --drain",
                "mainspring enqueue q k",
                "mainspring jobs cancel 2",
                "mainspring breaker set geocoder",
                "echo true > true.sh && mainspring jobs-host deploy triggered/t true.sh",
                "mainspring jobs-host run t --wait",
                "curl -s http://127.0.0.1:8080/nowhere",
                "curl -s 'http://127.0.0.1:8080/v1/scale?queues=q&pool=q'",
                "curl -s http://127.0.0.1:8080/v1/queues"):
            server.run(command)
        paths = json.loads(server.get("/openapi.json")[1])["paths"]
        routes = [(method.upper(), path) for path, methods in paths.items()
                  for method in methods if method in ("get", "post", "put", "delete")]
        return read_metrics(server.get("/metrics")[1]), routes
    finally:
        server.close()


def generated_metrics(_, metrics):
    lines = ["| Name | Type | Labels | |", "|---|---|---|---|"]
    for name, (kind, text, labels) in metrics.items():
        lines.append(f"| `{name}` | {kind} | {', '.join(labels)} | {text} |")
    return "\n".join(lines)


def check_generated(document, text, makers, write):
    changed = text
    for name in re.findall(r"<!-- generated: (\w+) -->", text):
        fresh = f"<!-- generated: {name} -->\n{makers[name]()}\n<!-- end -->"
        changed, found = re.subn(rf"<!-- generated: {name} -->.*?<!-- end -->", lambda _: fresh, changed,
                                 flags=re.S)
        expect(found == 1, document.relative_to(ROOT), f"the generated section {name} has no <!-- end -->")
    if write:
        if changed != text:
            document.write_text(changed)
        return
    expect(changed == text, document.relative_to(ROOT),
           "a generated section is out of date: run tests/docs/docs_test.py --binary … --write")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True, type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", help="only documents whose path contains this")
    options = parser.parse_args()
    for lines, text, fits in ((["a…c"], "abbc\n", True), (["a…c"], "abd\n", False), (["…", "x"], "1\n2\nx\n", True),
                              (["x"], "x\ny\n", False), (["…"], "", True)):
        expect(bool(re.fullmatch(pattern(lines), text)) == fits, "canary", f"{lines} and {text!r}")
    metrics, routes = busy_server(options.binary)
    check_routes(routes)
    settings = {json.loads(line)["name"] for line in subprocess.run(
        [options.binary, "config", "--json"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()}
    errors = read_errors()
    expect(len(errors) > 10, "errors.def", "could not be read")
    makers = {
        "errors": lambda: generated_errors(options.binary),
        "cli": lambda: generated_cli(options.binary),
        "metrics": lambda: generated_metrics(options.binary, metrics),
        "config": lambda: subprocess.run([options.binary, "config", "--reference"],
                                         stdout=subprocess.PIPE, check=True).stdout.decode().strip(),
    }
    for document in documents():
        if options.only and options.only not in str(document):
            continue
        check_generated(document, document.read_text(), makers, options.write)
        text = document.read_text()
        check_links(document, text)
        check_cpp(document, text)
        check_command_lines(document, text, options.binary)
        check_names(document, text, metrics, errors, settings)
        check_console(document, text, options.binary)
    print(f"{checked} checks, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
