#!/usr/bin/env python3
"""Alert rules, and a Prometheus that scrapes a real server. Usage: monitoring_test.py PROGRAM

Every query of the Grafana dashboard and of the rules is asked. Each must succeed, and give series unless it is about
something that this server has not got.
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
PROGRAM = os.path.abspath(sys.argv[1])
PATIENCE = 60
# Metrics that only other servers have: over PostgreSQL, with TLS, with job folders; or that need hours.
ELSEWHERE = {"mainspring_store_oldest_snapshot_seconds", "mainspring_tls_certificate_expiry_seconds", "mainspring_host_runs_total"}
# What this server does not do while it is looked at.
NOT_HERE = {"mainspring_callbacks_total", "mainspring_queue_drain_seconds", "mainspring_workers"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
failures = []


def check(good, what):
    print(("ok: " if good else "FAILED: ") + what)
    if not good:
        failures.append(what)


def eventually(holds, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.05)
    raise SystemExit("FAILED: not in time: " + what)


RESERVED = []  # sockets that keep ports for servers that bind them later


def reserve_port():
    """A port that the kernel gives to no other program. A server with SO_REUSEADDR can bind it,
    because this socket does not listen."""
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    RESERVED.append(one)
    return one.getsockname()[1]


def promtool(*words):
    done = subprocess.run(["promtool", *words], cwd=PACKAGING / "prometheus", capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def names_in(expression):
    return set(re.findall(r"\bmainspring_\w+", re.sub(r'"[^"]*"', "", re.sub(r"\w+:mainspring_\w+:\w+", "", expression))))


def family(name):
    return re.sub(r"_(bucket|sum|count)$", "", name)


def static_checks():
    good, text = promtool("check", "rules", "mainspring.rules.yml")
    check(good, "promtool accepts the rules" + ("" if good else text))
    good, text = promtool("test", "rules", "mainspring.rules_test.yml")
    check(good, "the rules fire when they should, and only then" + ("" if good else text))
    rules = (PACKAGING / "prometheus/mainspring.rules.yml").read_text()
    tests = (PACKAGING / "prometheus/mainspring.rules_test.yml").read_text()
    runbook = (ROOT / "docs/guides/alerts.md").read_text()
    alerts = re.findall(r"- alert: (\w+)", rules)
    headings = re.findall(r"^### (\w+)$", runbook, re.M)
    check(alerts == headings, f"each alert has a section in docs/guides/alerts.md, in order: {alerts} / {headings}")
    for alert in alerts:
        check(f"runbook_url: file:///usr/share/doc/mainspring/alerts.md#{alert.lower()}" in rules, f"{alert} names its section")
        cases = re.findall(rf"alertname: {alert}\n\s+eval_time: \w+\n\s+exp_alerts:( \[\])?", tests)
        check("" in cases and " []" in cases, f"{alert} has a test that fires and one that does not")
    documented = set(re.findall(r"`(mainspring_\w+)`", (ROOT / "docs/reference/metrics.md").read_text()))
    used = names_in(rules) | names_in((PACKAGING / "grafana/mainspring.json").read_text().replace('\\"', '"'))
    check({family(name) for name in used} <= documented, f"every metric that is used is documented: {sorted({family(n) for n in used} - documented)}")
    printed = subprocess.run([sys.executable, PACKAGING / "grafana/dashboard.py", "--print"], capture_output=True, text=True).stdout
    check(printed == (PACKAGING / "grafana/mainspring.json").read_text(), "mainspring.json is what dashboard.py writes")


def queries():
    """(where, query) of the dashboard and the rules."""
    board = json.loads((PACKAGING / "grafana/mainspring.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in board["templating"]["list"]:
        if isinstance(variable["query"], dict):
            selector = re.fullmatch(r"label_values\((.*), \w+\)", variable["query"]["query"])[1]
            yield "variable " + variable["name"], selector
    rules = (PACKAGING / "prometheus/mainspring.rules.yml").read_text()
    for record in re.findall(r"- record: (\S+)", rules):
        yield "rule", record


def work(url):
    """A little of everything: jobs that end well, fail and die, a schedule that fires, a breaker."""
    run = lambda *words: subprocess.run([PROGRAM, *words, "--server", url], check=True, capture_output=True, text=True)
    run("enqueue", "good", "k", "--header", f"traceparent=00-{TRACE}-00f067aa0ba902b7-01")
    for queue in ("good", "bad"):
        for _ in range(3):
            run("enqueue", queue, "k", "--max-attempts", "1")
    run("queues", "limit", "good", "--concurrency", "5")
    run("breaker", "set", "mail", "--failures", "3")
    run("schedules", "set", "tick", "--every", "1s", "--queue", "good", "--kind", "tick")
    run("work", "--queue", "good", "--exec", "true", "--once")
    subprocess.run([PROGRAM, "work", "--queue", "bad", "--exec", "false", "--once", "--server", url], capture_output=True)


def live_checks(directory):
    server = subprocess.Popen([PROGRAM, "serve", "--json", "--data", str(directory / "store"), "--listen", "127.0.0.1:0", "--restart-allowance", "0s", "--log-level", "warn"], stdout=subprocess.PIPE, text=True)
    url = json.loads(server.stdout.readline())["url"]
    prometheus = None
    try:
        port = reserve_port()
        (directory / "prometheus.yml").write_text(
            "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\n"
            f"rule_files: ['{PACKAGING}/prometheus/mainspring.rules.yml']\n"
            f"scrape_configs:\n  - job_name: mainspring\n    static_configs: [{{targets: ['{url.removeprefix('http://')}']}}]\n")
        prometheus = subprocess.Popen(["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/tsdb", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error", "--enable-feature=exemplar-storage"])

        def ask(query):
            parameters = urllib.parse.urlencode({"query": query})
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{parameters}", timeout=PATIENCE) as answer:
                    return json.load(answer)["data"]["result"]
            except urllib.error.HTTPError as problem:
                return problem.read().decode()
            except OSError:
                return "unreachable"

        work(url)
        # Two scrapes after the work, so that rates have values.
        eventually(lambda: isinstance(ask("up"), list), "Prometheus answers")
        eventually(lambda: isinstance(found := ask("min(count_over_time(mainspring_attempts_total[1m]))"), list) and found and float(found[0]["value"][1]) >= 3, "three scrapes of the work")
        work(url)
        eventually(lambda: (found := ask("sum(rate(mainspring_attempts_total[1m]))")) and isinstance(found, list) and float(found[0]["value"][1]) > 0, "a rate")
        traced = urllib.parse.urlencode({"query": "mainspring_job_wait_seconds_bucket", "start": time.time() - 3600, "end": time.time() + 60})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query_exemplars?{traced}", timeout=PATIENCE) as answer:
            found = json.load(answer)["data"]
        check(any(one["labels"] == {"trace_id": TRACE} for series in found for one in series["exemplars"]), f"Prometheus keeps the exemplar of a traced job: {found}")
        for where, query in queries():
            asked = query.replace("$__rate_interval", "1m").replace('"$job"', '"mainspring"').replace('"$instance"', '".*"').replace('"$queue"', '".*"')
            found = ask(asked)
            check(isinstance(found, list), f"{where}: Prometheus accepts {asked}" + ("" if isinstance(found, list) else str(found)))
            names = {family(name) for name in names_in(asked)}
            if names & (ELSEWHERE | NOT_HERE) or "> 0" in asked:
                continue
            if found == [] and where.startswith("rule"):
                eventually(lambda: ask(asked) != [], where)
                continue
            check(found != [], f"{where}: has series: {asked}")
        alerts = ask('ALERTS{alertstate="firing"}')
        firing = {alert["metric"]["alertname"] for alert in alerts}
        # work() makes dead jobs, and this machine may stand still.
        firing -= {"MainspringDeadJobs"}
        check(not firing, f"no alert fires for a healthy server {firing or ''}")
    finally:
        for process in (prometheus, server):
            if process is not None:
                process.terminate()
                process.wait(PATIENCE)


static_checks()
with tempfile.TemporaryDirectory(prefix="mainspring-monitoring.") as name:
    live_checks(pathlib.Path(name))
print(f"{len(failures)} failed")
sys.exit(1 if failures else 0)
