#!/usr/bin/env python3
"""What a service manager hears from `mainspring serve` and `mainspring work`. Usage: notify_test.py PROGRAM"""
import base64
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

PROGRAM = os.path.abspath(sys.argv[1])
PATIENCE = 60  # seconds for each message, on a busy machine


class Manager:
    """The socket of a service manager, and a server that was started with it."""

    def __init__(self, directory, *flags, command="serve", watchdog_us=None, environment=None):
        self.path = str(directory / "notify")
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(PATIENCE)
        env = dict(os.environ, NOTIFY_SOCKET=self.path, **(environment or {}))
        if watchdog_us:
            env["WATCHDOG_USEC"] = str(watchdog_us)
        listen = () if command != "serve" or "--listen" in flags else ("--listen", "127.0.0.1:0")
        self.server = subprocess.Popen([PROGRAM, command, "--json", *listen, *flags], env=env, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def next(self):
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().split("\n"))

    def until(self, key):
        """Messages up to the first that assigns `key`."""
        seen = []
        while True:
            seen.append(self.next())
            if key in seen[-1]:
                return seen

    def is_silent(self, seconds):
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(4096)
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(PATIENCE)

    def drain(self):
        while not self.is_silent(0.05):
            pass

    def stop(self, how=signal.SIGTERM):
        self.server.send_signal(how)
        _, errors = self.server.communicate(timeout=PATIENCE)
        return self.server.returncode, errors


def expect(good, what):
    if not good:
        raise SystemExit("FAILED: " + what)
    print("ok: " + what)


def make_tls(directory):
    subprocess.run([PROGRAM, "tls", "init", "--dir", str(directory / "tls"), "--host", "localhost"], check=True, capture_output=True)


def starting_and_stopping(directory):
    manager = Manager(directory, "--data", "store", "--restart-allowance", "0s")
    messages = manager.until("READY")
    expect(messages[0].get("STATUS", "").startswith("opening the store in store"), "a start is reported before the server is ready")
    expect(int(messages[0]["EXTEND_TIMEOUT_USEC"]) > 0, "a start asks for time")
    expect("listening on http://127.0.0.1:" in messages[-1]["STATUS"], "READY says where the server listens")
    url = messages[-1]["STATUS"].split()[2].rstrip(",")
    with urllib.request.urlopen(url + "/readyz", timeout=PATIENCE) as answer:
        expect(answer.status == 200, "the server takes requests when it is ready")
    manager.server.send_signal(signal.SIGHUP)
    expect("MONOTONIC_USEC" in manager.until("RELOADING")[-1], "a hangup is reported as a reload")
    expect(manager.until("READY")[-1]["STATUS"].startswith("nothing to reload"), "a reload without a certificate ends, and the server runs")
    manager.server.send_signal(signal.SIGTERM)
    expect("STATUS" in manager.until("STOPPING")[-1], "a stop is reported")
    code, _ = manager.stop(signal.SIGCONT)
    expect(code == 0, "the server stops cleanly")


def stopping_with_a_delay(directory):
    manager = Manager(directory, "--data", "store", "--restart-allowance", "0s", "--shutdown-delay", "10m")
    url = manager.until("READY")[-1]["STATUS"].split()[2].rstrip(",")
    manager.server.send_signal(signal.SIGTERM)
    manager.until("STOPPING")
    status = 200
    while status == 200:  # the server reports its stop before it changes its readiness
        try:
            urllib.request.urlopen(url + "/readyz", timeout=PATIENCE).close()
        except urllib.error.HTTPError as refused:
            status = refused.code
    expect(status == 503, "a server that will stop is not ready")
    request = urllib.request.Request(url + "/v1/jobs", b'{"queue":"q","kind":"k"}', {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        expect(answer.status == 201, "it still takes requests during shutdown_delay")
    expect(manager.stop()[0] == 130, "a second signal ends the delay")


def after_a_crash(directory):
    manager = Manager(directory, "--data", "store")
    url = manager.until("READY")[-1]["STATUS"].split()[2].rstrip(",")
    request = urllib.request.Request(url + "/v1/jobs", b'{"queue":"q","kind":"k"}', {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=PATIENCE).close()
    manager.stop(signal.SIGKILL)
    manager = Manager(directory, "--data", "store", "--restart-allowance", "0s")
    messages = manager.until("READY")
    expect(messages[0]["STATUS"].startswith("replaying the log of the store in store ("), "a start after a crash reports that the log is replayed")
    manager.stop()


def watchdog(directory):
    manager = Manager(directory, "--data", "store", "--restart-allowance", "0s", watchdog_us=1_000_000)
    manager.until("READY")
    for _ in range(3):
        manager.until("WATCHDOG")
    expect(True, "the watchdog is fed again and again")
    os.kill(manager.server.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, manager.server.pid, os.WSTOPPED)  # all its threads
    manager.drain()
    expect(manager.is_silent(1.5), "a process that hangs does not feed the watchdog")
    os.kill(manager.server.pid, signal.SIGCONT)
    manager.until("WATCHDOG")
    manager.stop()


def credentials(directory):
    make_tls(directory)
    place = directory / "credentials"
    place.mkdir()
    shutil.copy(directory / "tls/server.pem", place / "tls_cert")
    shutil.copy(directory / "tls/server.key", place / "tls_key")
    os.chmod(place / "tls_key", 0o400)
    environment = {"CREDENTIALS_DIRECTORY": str(place)}
    manager = Manager(directory, "--data", "store", "--restart-allowance", "0s", environment=environment)
    expect("listening on https://" in manager.until("READY")[-1]["STATUS"], "certificate and key come from credentials")
    manager.server.send_signal(signal.SIGHUP)
    manager.until("RELOADING")
    expect(manager.until("READY")[-1]["STATUS"] == "certificate reloaded", "READY follows when the certificate is reloaded")
    good = (place / "tls_cert").read_bytes()
    (place / "tls_cert").write_text("nothing")
    manager.server.send_signal(signal.SIGHUP)
    manager.until("RELOADING")
    status = manager.until("READY")[-1]["STATUS"]
    expect(status.startswith("the reload failed, the old certificate stays in use: "), "a reload that fails is reported: " + status)
    (place / "tls_cert").write_bytes(good)
    code, _ = manager.stop()
    expect(code == 0, "the server with credentials stops cleanly")
    explained = subprocess.run([PROGRAM, "config", "--explain"], env=dict(os.environ, **environment), capture_output=True, text=True).stdout
    expect("credential tls_key" in explained, "config --explain says which settings are credentials")


def first_token(directory):
    make_tls(directory)
    text = "mst_" + base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
    file = directory / "first_token"
    serve = ("--data", "store", "--restart-allowance", "0s", "--listen", "0.0.0.0:0", "--tls-cert", "tls/server.pem", "--tls-key", "tls/server.key", "--first-token-file", str(file))

    def refused():
        done = subprocess.run([PROGRAM, "serve", *serve], cwd=directory, capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stderr

    expect(refused()[0] == 66, "a first token whose file is missing is refused")
    for bad in ("", "secret\n", text[:-1] + "\n", "x" * 5000):
        file.write_text(bad)
        file.chmod(0o600)
        code, errors = refused()
        expect(code in (64, 65) and text not in errors, f"a first token that is none is refused: {errors.strip()}")
    file.write_text(text + "\n")
    file.chmod(0o644)
    expect("mode 0644): must be 0600 or stricter" in refused()[1], "a first token that others can read is refused")
    file.chmod(0o600)
    for name, round in (("one", "the first start"), ("two", "a later start, whose file is another one")):
        manager = Manager(directory, *serve)
        url = "https://localhost:" + manager.until("READY")[-1]["STATUS"].split()[2].rstrip(",").rsplit(":", 1)[1]
        done = subprocess.run([PROGRAM, "token", "create", name, "--scope", "work=q", "--server", url, "--ca-file", "tls/ca.pem"], cwd=directory, env=dict(os.environ, MAINSPRING_ACCESS_TOKEN=text), capture_output=True, text=True)
        expect(done.returncode == 0, f"the first token administers the server after {round} {done.stderr}")
        manager.stop()
        file.write_text("not a token")


def hangup(directory):
    server = subprocess.Popen([PROGRAM, "serve", "--data", "store", "--listen", "127.0.0.1:0", "--restart-allowance", "0s"], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
    expect("listens on" in server.stdout.readline(), "a server without a service manager starts")
    server.send_signal(signal.SIGHUP)
    _, errors = server.communicate(timeout=PATIENCE)
    expect(server.returncode == 0 and "stopping why=\"SIGHUP" in errors and "stopped" in errors, f"a closed terminal stops the server in order: {server.returncode} {errors[-300:]}")


def bad_socket(directory):
    done = subprocess.run([PROGRAM, "serve", "--data", "store", "--listen", "127.0.0.1:0"], env=dict(os.environ, NOTIFY_SOCKET="relative"), cwd=directory, capture_output=True, text=True, timeout=PATIENCE)
    expect(done.returncode == 64 and "NOTIFY_SOCKET \"relative\": must be" in done.stderr, "a socket that cannot be is refused by name")


def workers(directory):
    server = Manager(directory, "--data", "store", "--restart-allowance", "0s")
    url = server.until("READY")[-1]["STATUS"].split()[2].rstrip(",")
    for flags in ((), ("--slots", "1..2"), ("--timer",), ("--once",), ("--slot", "1h", "--name", "one"), ("--slot", "1h", "--name", "two", "--poll")):
        worker = Manager(directory, "--queue", "q", "--exec", "true", "--server", url, *flags, command="work")
        status = worker.until("READY")[-1]["STATUS"]
        expect(status.startswith(("takes jobs of q", "runs slot ")), f"work {' '.join(flags)} says when it is ready: {status}")
        code, errors = worker.stop()
        expect(code == 0, f"work {' '.join(flags)} stops cleanly: {code}" + (errors if code else ""))
    server.stop()


def backups(directory):
    script = pathlib.Path(__file__).resolve().parents[2] / "packaging/backup.sh"
    manager = Manager(directory, "--data", "store", "--restart-allowance", "0s")
    url = manager.until("READY")[-1]["STATUS"].split()[2].rstrip(",")
    subprocess.run([PROGRAM, "enqueue", "kept", "k", "--server", url], check=True, capture_output=True)
    place = directory / "backups"
    for old in ("2001-01-01T000000Z", "2002-01-01T000000Z", "2003-01-01T000000Z.incomplete", "mine"):
        (place / old).mkdir(parents=True)
    run = lambda *words: subprocess.run([str(script), *words], env=dict(os.environ, MAINSPRING=PROGRAM, MAINSPRING_DATA=str(directory / "store")), capture_output=True, text=True)
    done = run(str(place), "2")
    expect(done.returncode == 0, "a backup of a running server succeeds" + done.stderr)
    names = sorted(entry.name for entry in place.iterdir())
    expect(len(names) == 3 and names[0] == "2002-01-01T000000Z" and names[2] == "mine", "the newest backups and what is not a backup stay: " + " ".join(names))
    expect((place / names[1] / "mainspring.db").exists(), "the backup is a data directory")
    subprocess.run([PROGRAM, "verify", "--server", url], check=True, capture_output=True)
    with urllib.request.urlopen(url + "/metrics", timeout=PATIENCE) as answer:
        metrics = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
    for what in ("backup", "verify"):
        expect(float(metrics[f"mainspring_store_last_{what}_timestamp_seconds"]) > 0, f"the metrics have the time of the last {what}")
    expect(len(metrics) <= 400, f"a quiet server exports few series: {len(metrics)}")
    # As docs/guides/operating.md restores it.
    shutil.copytree(place / names[1], directory / "restored")
    restored = Manager(directory, "--data", "restored", "--restart-allowance", "0s")
    url = restored.until("READY")[-1]["STATUS"].split()[2].rstrip(",")
    listed = subprocess.run([PROGRAM, "jobs", "list", "--json", "--server", url], capture_output=True, text=True).stdout
    expect('"kept"' in listed, "a server starts with the restored backup and has its jobs")
    restored.stop()
    for keep in ("0", "", "-1", "2x"):
        expect(run(str(place), keep).returncode == 64, f"KEEP \"{keep}\" is refused")
    expect(run(str(directory / "nowhere"), "2").returncode == 66, "a directory that is missing is an error")
    manager.stop()
    (directory / "store/mainspring.db").write_bytes(b"")
    expect(run(str(place), "1").returncode != 0, "a store that is damaged is no backup")
    expect(sorted(entry.name for entry in place.iterdir() if not entry.name.endswith(".incomplete")) == names, "a backup that fails removes none")


for scenario in (starting_and_stopping, stopping_with_a_delay, after_a_crash, watchdog, credentials, first_token, hangup, bad_socket, workers, backups):
    with tempfile.TemporaryDirectory(prefix="mainspring-notify.") as name:
        scenario(pathlib.Path(name))
