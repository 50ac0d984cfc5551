#!/usr/bin/env python3
"""The files of packaging/nginx, packaging/caddy and packaging/haproxy in front of real servers. Usage: proxy_test.py PROGRAM [PROXY…]

Under a prefix, at the root of a name, and in front of two servers of which one ends; compose.yaml parses. Only
addresses and certificates are replaced, and the time-out for one check. What is not installed is skipped: exit code 77.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
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

    def __init__(self, port, token, tls=None):
        self.port, self.headers, self.tls = port, {"Host": "jobs.example.org", "Authorization": "Bearer " + token}, tls

    def open(self, method, path, body=None, headers=None):
        if self.tls is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self.tls)
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


def checks(name, proxy, prefix):
    status, _, headers = proxy.ask("GET", prefix or "/")
    expect(status in (301, 302, 308) and urllib.parse.urljoin(f"{prefix}/", headers["Location"]).endswith(f"{prefix}/ui/"), f"{name}: the first page leads to the dashboard ({status} {headers})")
    status, page, _ = proxy.ask("GET", f"{prefix}/ui/")
    files = re.findall(r'(?:src|href)="([^":]+)"', page.decode())
    expect(status == 200 and files, f"{name}: the dashboard is served under the prefix")
    for file in files:
        expect(not file.startswith("/"), f"{name}: {file} is relative")
        expect(proxy.ask("GET", urllib.parse.urljoin(f"{prefix}/ui/", file))[0] == 200, f"{name}: {file} is served under the prefix")
    expect(proxy.ask("GET", f"{prefix}/v1/queues", headers={"Authorization": "Bearer mst_wrong"})[0] == 401, f"{name}: a request that is passed on needs a token")
    status, text, headers = proxy.ask("POST", f"{prefix}/v1/session", {}, {"X-Forwarded-Proto": "https"})
    expect(status == 200 and "Set-Cookie" in headers, f"{name}: a browser can sign in ({status} {text} {headers})")

    for queue in ("a%2Fb", "a%2F..%2Fb%3Ac", "%61%2Fb"):
        expect(proxy.ask("PUT", f"{prefix}/v1/queues/{queue}?create=true", {"retention": {}})[0] == 200, f"{name}: {queue} is a queue")
        status, text, _ = proxy.ask("GET", f"{prefix}/v1/queues/{queue}?")
        expect(status == 200 and json.loads(text)["name"] == urllib.parse.unquote(queue), f"{name}: {queue} keeps its name ({status} {text[:200]})")
    status, text, _ = proxy.ask("GET", f"{prefix}/v1/jobs?queue=a%2Fb&q=x%26y")
    expect(status == 200, f"{name}: a query is passed on as it is ({status} {text[:200]})")

    # A claim that waits is answered when the job comes.
    answers = []
    claim = {"worker": "w", "queues": ["q"], "wait": "50s"}
    waiting = threading.Thread(target=lambda: answers.append(proxy.ask("POST", f"{prefix}/v1/claim", claim)))
    waiting.start()
    connection, events = proxy.open("GET", f"{prefix}/v1/events")
    expect(events.status == 200, f"{name}: events are streamed")
    expect(proxy.ask("POST", f"{prefix}/v1/jobs", {"queue": "q", "kind": "k"})[0] == 201, f"{name}: a job is enqueued")
    line = events.readline()
    while line and b"data" not in line:
        line = events.readline()
    expect(line, f"{name}: an event arrives while its stream is open")
    connection.close()
    waiting.join(PATIENCE)
    expect(answers and answers[0][0] == 200 and len(json.loads(answers[0][1])["jobs"]) == 1, f"{name}: a waiting claim gets the job")

    jobs = [{"queue": "big", "kind": "k", "args": {"text": "x" * 60_000}} for _ in range(200)]
    status, text, _ = proxy.ask("POST", f"{prefix}/v1/jobs", {"jobs": jobs})
    expect(status in (200, 201), f"{name}: a batch of 12 MB is passed on ({status} {text[:200]})")
    expect(proxy.ask("POST", f"{prefix}/v1/claim", dict(claim, wait="1s"))[0] == 200, f"{name}: a claim that waits less than the proxy is answered empty")


def checks_impatient(name, proxy, prefix):
    claim = {"worker": "w", "queues": ["none"], "wait": "50s"}
    expect(proxy.ask("POST", f"{prefix}/v1/claim", claim)[0] == 504, f"{name}: a proxy that waits less than the claim cuts it off")


def checks_balancer(name, proxy, servers):
    """One client's calls go to one server, and to the other one when that has ended."""
    job = {"queue": "q", "kind": "k"}
    for _ in range(4):
        expect(proxy.ask("POST", "/v1/jobs", job)[0] == 201, f"{name}: a job is enqueued")
    counts = [server.jobs() for server in servers]
    expect(sorted(counts) == [0, 4], f"{name}: all of them at one server: {counts}")
    used, other = sorted(servers, key=lambda server: -server.jobs())
    answers = []
    claim = {"worker": "w", "queues": ["none"], "wait": "50s"}
    waiting = threading.Thread(target=lambda: answers.append(proxy.ask("POST", "/v1/claim", claim)[0]))
    waiting.start()
    used.end()
    waiting.join(PATIENCE)
    expect(answers and answers[0] in (200, 502, 503), f"{name}: a claim that waits at a server that ends is answered: {answers}")
    for _ in range(4):
        end = time.monotonic() + PATIENCE
        status = proxy.ask("POST", "/v1/jobs", job)[0]
        # Caddy 2.6 answers 502 until its check leaves the server out: it has lost the body when it tries again.
        while name.startswith("caddy") and status == 502 and time.monotonic() < end:
            time.sleep(0.1)
            status = proxy.ask("POST", "/v1/jobs", job)[0]
        expect(status == 201, f"{name}: a job is enqueued when one server has ended ({status})")
    expect(other.jobs() == 4, f"{name}: at the other server")


# `timeout` is the proxy's: that of the file, or a short one.
def nginx(directory, form, servers, port, timeout="90s"):
    text = (PACKAGING / "nginx" / {"prefix": "mainspring.conf", "root": "root.conf", "balancer": "balancer.conf"}[form]).read_text()
    text = replaced(text, *addresses(form, servers), ("proxy_read_timeout 90s", f"proxy_read_timeout {timeout}"))
    if form == "balancer":
        text = replaced(text, ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"), ("/etc/ssl/mainspring-ca.pem", f"{TLS}/ca.pem"), ("/etc/ssl/jobs.example.org.pem", f"{TLS}/server.pem"), ("/etc/ssl/private/jobs.example.org.key", f"{TLS}/server.key"))
    else:
        text = re.sub(r"^ *ssl_certificate.*\n", "", replaced(text, ("listen 443 ssl", f"listen 127.0.0.1:{port}")), flags=re.M)
    (directory / "mainspring.conf").write_text(text)
    paths = "".join(f"{kind}_temp_path {directory}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;\n" if os.geteuid() == 0 else ""
    (directory / "nginx.conf").write_text(f"{user}daemon off;\nmaster_process off;\npid {directory}/pid;\nerror_log {directory}/error.log;\nevents {{}}\nhttp {{\n{paths}access_log off;\ninclude {directory}/mainspring.conf;\n}}\n")
    return ["nginx", "-p", str(directory), "-e", f"{directory}/error.log", "-c", str(directory / "nginx.conf")]


def caddy(directory, form, servers, port, timeout="90s"):
    text = (PACKAGING / "caddy" / {"prefix": "Caddyfile", "root": "Caddyfile.root", "balancer": "Caddyfile.balancer"}[form]).read_text()
    text = replaced(text, *addresses(form, servers), ("response_header_timeout 90s", f"response_header_timeout {timeout}"))
    if form == "balancer":
        text = replaced(text, ("jobs.example.org {", f"https://jobs.example.org:{port} {{\n\tbind 127.0.0.1\n\ttls {TLS}/server.pem {TLS}/server.key"), ("/etc/ssl/mainspring-ca.pem", f"{TLS}/ca.pem"))
    else:
        text = replaced(text, ("jobs.example.org {", f"http://jobs.example.org:{port} {{\n\tbind 127.0.0.1"))
    (directory / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https off\n}\n" + text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(directory / "Caddyfile")]


def haproxy(directory, form, servers, port):
    (directory / "front.pem").write_text((TLS / "server.pem").read_text() + (TLS / "server.key").read_text())
    text = replaced((PACKAGING / "haproxy/haproxy.cfg").read_text(), *addresses(form, servers), ("bind :443", f"bind 127.0.0.1:{port}"), ("/etc/haproxy/jobs.example.org.pem", f"{directory}/front.pem"), ("/etc/haproxy/mainspring-ca.pem", f"{TLS}/ca.pem"))
    (directory / "haproxy.cfg").write_text(text)
    return ["haproxy", "-db", "-f", str(directory / "haproxy.cfg")]


def addresses(form, servers):
    if form != "balancer":
        return [("127.0.0.1:8080", f"127.0.0.1:{servers[0].port}")]
    return [(f"10.0.0.1{number}:8443", f"127.0.0.1:{server.port}") for number, server in enumerate(servers, 1)]


@contextlib.contextmanager
def running(make, place, form, servers, *timeout):
    """The port of a proxy that listens."""
    place.mkdir()
    port = reserve_port()
    proxy = subprocess.Popen(make(place, form, servers, port, *timeout), env=dict(os.environ, HOME=str(place)), stderr=subprocess.DEVNULL)
    try:
        wait_for(port, proxy)
        yield port
    finally:
        proxy.terminate()
        proxy.wait(PATIENCE)


class Server:
    def __init__(self, store, token, *flags, tls=None):
        self.token, self.tls = token, tls
        command = [PROGRAM, "serve", "--json", "--data", str(store), "--listen", "127.0.0.1:0", "--require-token", "--allowed-hosts", "jobs.example.org", "--restart-allowance", "0s", "--stop-timeout", "2s", "--log-level", "warn"]
        self.process = subprocess.Popen(command + list(flags), stdout=subprocess.PIPE, text=True)
        self.port = int(json.loads(self.process.stdout.readline())["url"].rsplit(":", 1)[1])

    def jobs(self):
        status, text, _ = Through(self.port, self.token, self.tls).ask("GET", "/v1/jobs?queue=q&limit=100")
        expect(status == 200, "the jobs of a server")
        return len(json.loads(text)["jobs"])

    def end(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


def make_token(store):
    made = subprocess.run([PROGRAM, "token", "create", "admin", "--json", "--data", str(store), *sum((["--scope", scope] for scope in ("admin", "read", "work", "enqueue", "read:payload")), [])], capture_output=True, text=True)
    expect(made.returncode == 0, "a token is made " + made.stderr)
    return re.search(r"mst_[\w-]+", made.stdout)[0]


def test_one_server(make, directory, token):
    server = Server(directory / "store", token)
    try:
        for form, prefix in (("prefix", "/jobs"), ("root", "")):
            what = f"{make.__name__} {form}"
            with running(make, directory / form, form, [server]) as port:
                checks(what, Through(port, token), prefix)
            with running(make, directory / f"impatient-{form}", form, [server], "3s") as port:
                checks_impatient(what, Through(port, token), prefix)
    finally:
        server.end()


def test_balancer(make, directory, token):
    """Both servers have the same token. Each has a store of its own, which shows where a job went."""
    trusted = ssl.create_default_context(cafile=TLS / "ca.pem")
    flags = ("--tls-cert", f"{TLS}/server.pem", "--tls-key", f"{TLS}/server.key")
    shutil.copytree(directory / "store", directory / "second")
    servers = [Server(directory / store, token, *flags, tls=trusted) for store in ("store", "second")]
    try:
        with running(make, directory / "balancer", "balancer", servers) as port:
            checks_balancer(f"{make.__name__} balancer", Through(port, token, trusted), servers)
    finally:
        for server in servers:
            server.end()


def check_compose():
    """False if there is nothing to read it with. `./package check` runs it."""
    file = PACKAGING / "container/compose.yaml"
    words = ["docker", "compose", "--file", str(file), "config"]
    if shutil.which("docker") and subprocess.run(words[:2] + ["version"], capture_output=True).returncode == 0:
        read = subprocess.run(words + ["--quiet"], capture_output=True, text=True)
        expect(read.returncode == 0, "docker compose reads compose.yaml " + read.stderr)
        return True
    try:
        import yaml
    except ImportError:
        print("skipped: neither docker compose nor python3-yaml is installed")
        return False
    services = yaml.safe_load(file.read_text())["services"]
    expect(all("image" in one for one in services.values()), f"compose.yaml: {', '.join(services)} have an image")
    return True


wanted = [make for make in (nginx, caddy, haproxy) if not sys.argv[2:] or make.__name__ in sys.argv[2:]]
skipped = 0
with tempfile.TemporaryDirectory(prefix="mainspring-proxy.") as name:
    TLS = pathlib.Path(name) / "tls"
    made = subprocess.run([PROGRAM, "tls", "init", "--dir", str(TLS), "--host", "127.0.0.1", "--host", "jobs.example.org"], capture_output=True, text=True)
    expect(made.returncode == 0, "certificates are made " + made.stderr)
    for make in wanted:
        if shutil.which(make.__name__) is None:
            if os.environ.get("MAINSPRING_PROXIES") == "all":
                raise SystemExit(f"FAILED: {make.__name__} is not installed")
            print(f"skipped: {make.__name__} is not installed")
            skipped += 1
            continue
        for test in (test_one_server, test_balancer):
            if make is haproxy and test is test_one_server:
                continue
            directory = pathlib.Path(name) / f"{make.__name__}-{test.__name__}"
            directory.mkdir()
            test(make, directory, make_token(directory / "store"))
if not sys.argv[2:]:
    skipped += not check_compose()
print(f"{skipped} skipped")
sys.exit(77 if skipped else 0)
