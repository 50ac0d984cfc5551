#!/usr/bin/env python3
"""The files of packaging/nginx and packaging/caddy, in front of a real server. Usage: proxy_test.py PROGRAM

Only addresses and certificates are replaced, and the time-out for one check. Caddy is tested where it
is installed.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging"
PROGRAM = os.path.abspath(sys.argv[1])
PATIENCE = 60


def expect(good, what):
    if not good:
        raise SystemExit("FAILED: " + what)
    print("ok: " + what)


RESERVED = []  # sockets that keep ports for servers that bind them later


def reserve_port():
    """A port that the kernel gives to no other program. A server with SO_REUSEADDR can bind it,
    because this socket does not listen."""
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    RESERVED.append(one)
    return one.getsockname()[1]


def listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def wait_for(port, process):
    end = time.monotonic() + PATIENCE
    while not listens(port):
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"FAILED: nothing listens on {port}")
        time.sleep(0.02)


def replaced(text, *pairs):
    for old, new in pairs:
        if old not in text:
            raise SystemExit(f"FAILED: the file has no {old!r}")
        text = text.replace(old, new)
    return text


class Through:
    """Requests to the proxy, as a client of jobs.example.org sends them."""

    def __init__(self, port, token):
        self.port, self.headers = port, {"Host": "jobs.example.org", "Authorization": "Bearer " + token}

    def open(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = dict(self.headers, **(headers or {}))
        if body is not None:
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        connection.request(method, path, body, sent)
        return connection, connection.getresponse()

    def ask(self, method, path, body=None, headers=None):
        connection, answer = self.open(method, path, body, headers)
        try:
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            connection.close()


def checks(name, proxy, server):
    status, _, headers = proxy.ask("GET", "/jobs")
    expect(status in (301, 302) and headers["Location"].endswith("/jobs/ui/"), f"{name}: the prefix leads to the dashboard")
    status, page, _ = proxy.ask("GET", "/jobs/ui/")
    files = re.findall(r'(?:src|href)="([^":]+)"', page.decode())
    expect(status == 200 and files, f"{name}: the dashboard is served under the prefix")
    for file in files:
        expect(not file.startswith("/"), f"{name}: {file} is relative")
        expect(proxy.ask("GET", urllib.parse.urljoin("/jobs/ui/", file))[0] == 200, f"{name}: {file} is served under the prefix")
    expect(proxy.ask("GET", "/jobs/v1/queues", headers={"Authorization": "Bearer mst_wrong"})[0] == 401, f"{name}: a request that is passed on needs a token")
    status, text, headers = proxy.ask("POST", "/jobs/v1/session", {}, {"X-Forwarded-Proto": "https"})
    expect(status == 200 and "Set-Cookie" in headers, f"{name}: a browser can sign in ({status} {text} {headers})")

    for queue in ("a%2Fb", "a%2F..%2Fb%3Ac", "%61%2Fb"):
        expect(proxy.ask("PUT", f"/jobs/v1/queues/{queue}?create=true", {"retention": {}})[0] == 200, f"{name}: {queue} is a queue")
        status, text, _ = proxy.ask("GET", f"/jobs/v1/queues/{queue}?")
        expect(status == 200 and json.loads(text)["name"] == urllib.parse.unquote(queue), f"{name}: {queue} keeps its name ({status} {text[:200]})")
    status, text, _ = proxy.ask("GET", "/jobs/v1/jobs?queue=a%2Fb&q=x%26y")
    expect(status == 200, f"{name}: a query is passed on as it is ({status} {text[:200]})")

    # A claim that waits is answered when the job comes.
    answers = []
    claim = {"worker": "w", "queues": ["q"], "wait": "50s"}
    waiting = threading.Thread(target=lambda: answers.append(proxy.ask("POST", "/jobs/v1/claim", claim)))
    waiting.start()
    connection, events = proxy.open("GET", "/jobs/v1/events")
    expect(events.status == 200, f"{name}: events are streamed")
    expect(proxy.ask("POST", "/jobs/v1/jobs", {"queue": "q", "kind": "k"})[0] == 201, f"{name}: a job is enqueued")
    line = events.readline()
    while line and b"data" not in line:
        line = events.readline()
    expect(line, f"{name}: an event arrives while its stream is open")
    connection.close()
    waiting.join(PATIENCE)
    expect(answers and answers[0][0] == 200 and len(json.loads(answers[0][1])["jobs"]) == 1, f"{name}: a waiting claim gets the job")

    jobs = [{"queue": "big", "kind": "k", "args": {"text": "x" * 60_000}} for _ in range(200)]
    status, text, _ = proxy.ask("POST", "/jobs/v1/jobs", {"jobs": jobs})
    expect(status in (200, 201), f"{name}: a batch of 12 MB is passed on ({status} {text[:200]})")
    expect(proxy.ask("POST", "/jobs/v1/claim", dict(claim, wait="1s"))[0] == 200, f"{name}: a claim that waits less than the proxy is answered empty")


def checks_impatient(name, proxy):
    claim = {"worker": "w", "queues": ["none"], "wait": "50s"}
    expect(proxy.ask("POST", "/jobs/v1/claim", claim)[0] == 504, f"{name}: a proxy that waits less than the claim cuts it off")


# `timeout` is the proxy's: that of the file, or a short one.
def nginx(directory, server, port, timeout="90s"):
    text = replaced((PACKAGING / "nginx/mainspring.conf").read_text(), ("server 127.0.0.1:8080", f"server 127.0.0.1:{server}"), ("listen 443 ssl", f"listen 127.0.0.1:{port}"), ("proxy_read_timeout 90s", f"proxy_read_timeout {timeout}"))
    text = re.sub(r"^ *ssl_certificate.*\n", "", text, flags=re.M)
    (directory / "mainspring.conf").write_text(text)
    paths = "".join(f"{kind}_temp_path {directory}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;\n" if os.geteuid() == 0 else ""
    (directory / "nginx.conf").write_text(f"{user}daemon off;\nmaster_process off;\npid {directory}/pid;\nerror_log {directory}/error.log;\nevents {{}}\nhttp {{\n{paths}access_log off;\ninclude {directory}/mainspring.conf;\n}}\n")
    return ["nginx", "-p", str(directory), "-e", f"{directory}/error.log", "-c", str(directory / "nginx.conf")]


def caddy(directory, server, port, timeout="90s"):
    text = replaced((PACKAGING / "caddy/Caddyfile").read_text(), ("reverse_proxy 127.0.0.1:8080", f"reverse_proxy 127.0.0.1:{server}"), ("jobs.example.org {", f"http://jobs.example.org:{port} {{\n\tbind 127.0.0.1"), ("response_header_timeout 90s", f"response_header_timeout {timeout}"))
    (directory / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https off\n}\n" + text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(directory / "Caddyfile")]


@contextlib.contextmanager
def running(make, place, backend, *timeout):
    """The port of a proxy that listens."""
    place.mkdir()
    port = reserve_port()
    proxy = subprocess.Popen(make(place, backend, port, *timeout), env=dict(os.environ, HOME=str(place)), stderr=subprocess.DEVNULL)
    try:
        wait_for(port, proxy)
        yield port
    finally:
        proxy.terminate()
        proxy.wait(PATIENCE)


with tempfile.TemporaryDirectory(prefix="mainspring-proxy.") as name:
    directory = pathlib.Path(name)
    made = subprocess.run([PROGRAM, "token", "create", "admin", "--json", "--data", str(directory / "store"), *sum((["--scope", scope] for scope in ("admin", "read", "work", "enqueue", "read:payload")), [])], capture_output=True, text=True)
    expect(made.returncode == 0, "a token is made " + made.stderr)
    token = re.search(r"mst_[\w-]+", made.stdout)[0]
    server = subprocess.Popen([PROGRAM, "serve", "--json", "--data", str(directory / "store"), "--listen", "127.0.0.1:0", "--require-token", "--allowed-hosts", "jobs.example.org", "--restart-allowance", "0s", "--stop-timeout", "2s", "--log-level", "warn"], stdout=subprocess.PIPE, text=True)
    try:
        backend = int(json.loads(server.stdout.readline())["url"].rsplit(":", 1)[1])
        for make in (nginx, caddy):
            if shutil.which(make.__name__) is None:
                if make is nginx or os.environ.get("MAINSPRING_PROXIES") == "all":
                    raise SystemExit(f"FAILED: {make.__name__} is not installed")
                print(f"{make.__name__} is not installed: not tested")
                continue
            with running(make, directory / make.__name__, backend) as port:
                checks(make.__name__, Through(port, token), server)
            with running(make, directory / f"impatient-{make.__name__}", backend, "3s") as port:
                checks_impatient(make.__name__, Through(port, token))
    finally:
        server.terminate()
        server.wait(PATIENCE)
