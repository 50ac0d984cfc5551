#!/usr/bin/python3
"""Two nodes and a fleet of clients keep working while their PostgreSQL cluster changes its primary.

  failover_test.py PROGRAM                  a switchover and a killed postmaster
  failover_test.py PROGRAM FAULT…           others, in this order: switch, kill, power, cut
  MAINSPRING_HA_FAULTS="power cut" …        the same, for ./test

The cluster is that of patroni_cluster.sh: three servers, synchronous_mode. After each fault every acknowledged
enqueue is there exactly once, every acknowledged completion is completed, no job was given twice under one
token or before its lease had ended, and verify finds nothing. The longest time without an acknowledgement is at most ALLOWANCE_S more than
that of plain commits by libpq at whichever server takes them, at the same time. At the end all jobs are done.
Also: /readyz says what a commit waits for, and --require-rpo0 does not start without a standby to wait for.
"""
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request

import fleet

CLUSTER = str(pathlib.Path(__file__).resolve().parent / "patroni_cluster.sh")
ALLOWANCE_S = 6.0  # a busy machine delays a client for some seconds
LIMIT_S = 90  # of each wait
passed = failed = 0


def check(good, text):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAILED: {text}", flush=True)
    return good


def cluster(*words):
    done = subprocess.run([CLUSTER, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S * 2)
    return done.returncode == 0, done.stdout.strip()


def await_true(text, condition):
    """Until it holds, for at most LIMIT_S."""
    until, pause = time.monotonic() + LIMIT_S, threading.Event()
    while time.monotonic() < until:
        if condition():
            return True
        pause.wait(0.1)
    return check(False, f"waited in vain for {text}")


class Node:
    """mainspring serve, on any free port."""

    def __init__(self, program, directory, name, url_file, *flags, namespace=None):
        self.program, self.name = program, name
        self.log = open(f"{directory}/{name}.log", "ab")
        inside = ["ip", "netns", "exec", namespace] if namespace else []
        self.process = subprocess.Popen(
            [*inside, program, "serve", "--store-file", url_file, "--data", f"{directory}/{name}", "--listen",
             "127.0.0.1:0", "--json", "--log-level", "info", *flags],
            stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.port = int(json.loads(line)["url"].rsplit(":", 1)[1]) if line else None

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, {}

    def stop(self):
        self.process.terminate()
        return self.process.wait(LIMIT_S)


class Probe(threading.Thread):
    """Commits a row at one server, again and again; times of those that were answered."""

    def __init__(self, psycopg2, address):
        super().__init__(daemon=True)
        self.psycopg2, self.address, self.times, self.ended = psycopg2, address, [], threading.Event()

    def run(self):
        connection = None
        while not self.ended.wait(0.02):
            try:
                if connection is None:
                    connection = self.psycopg2.connect(
                        host=self.address, user="postgres", dbname="postgres", connect_timeout=2,
                        tcp_user_timeout=2000, keepalives_idle=1, keepalives_interval=1, keepalives_count=2,
                        target_session_attrs="read-write")
                    connection.autocommit = True
                with connection.cursor() as cursor:
                    cursor.execute("INSERT INTO probe DEFAULT VALUES")
                self.times.append(time.monotonic())
            except self.psycopg2.Error:
                connection = None


class Test:
    def __init__(self, program, psycopg2):
        self.program, self.psycopg2 = program, psycopg2
        self.directory = os.environ["HA_DIR"]
        self.addresses = cluster("addresses")[1].split()
        self.url = f"postgres://postgres@{','.join(self.addresses)}/postgres?target_session_attrs=read-write"
        self.url_file = f"{self.directory}/store"
        pathlib.Path(self.url_file).write_text(self.url + "\n", "utf-8")
        with self.primary() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE probe (id bigserial)")
        self.nodes = [Node(program, self.directory, name, self.url_file) for name in ("a", "b")]
        if any(node.port is None for node in self.nodes):
            raise RuntimeError("a node does not start")
        self.fleet = fleet.Fleet([node.port for node in self.nodes])
        self.probes = [Probe(psycopg2, address) for address in self.addresses]

    def primary(self):
        return self.psycopg2.connect(self.url, connect_timeout=2)

    def identity(self):
        """Of the primary, since when it runs: one that was killed may also be started again where it was."""
        try:
            with self.primary() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT inet_server_addr(), pg_postmaster_start_time()")
                return cursor.fetchone()
        except self.psycopg2.Error:
            return None

    def start(self):
        self.fleet.start()
        for probe in self.probes:
            probe.start()
        await_true("the first acknowledgements", lambda: self.resumed_after(0))

    def probe_times(self):
        return sorted(at for probe in self.probes for at in list(probe.times))

    def resumed_after(self, moment):
        return all(times and max(times) > moment
                   for times in (self.probe_times(), list(self.fleet.enqueue_times), list(self.fleet.finish_times)))

    # -- faults: each returns a condition that is true once the fault has happened, and a repair function

    def fault(self, name):
        await_true(f"three members before {name}", lambda: cluster("settled")[0])
        leader, before = int(cluster("leader")[1]), self.identity()
        began, mend = time.monotonic(), None
        if name == "switch":
            # Patroni writes down a little later than the primary who is synchronous.
            await_true("a synchronous standby", lambda: self.synchronous())
            target = self.synchronous()[0]
            began = time.monotonic()
            _, text = cluster("switch", leader, target)
            check("Successfully" in text, f"the switchover was refused: {text}")
        elif name == "kill":
            cluster("kill-postgres", leader)
        elif name == "power":
            cluster("power-off", leader)
            mend = "power-on"
        else:
            insider = self.add_insider(f"node{leader}")
            began, mend = time.monotonic(), "heal"
            cluster("cut", leader)
            cut = time.monotonic()
        await_true(f"another primary after {name}", lambda: self.identity() not in (None, before))
        changed = time.monotonic()
        await_true(f"acknowledgements after {name}", lambda: self.resumed_after(changed))
        self.measure(name, began)
        if mend:
            cluster(mend, leader)
        if name == "cut":
            await_true("a client that was cut off to continue", lambda: max(insider) > changed)
            inside = [at for at in insider if cut + 3 < at < changed]
            check(not inside, f"{len(inside)} enqueues were acknowledged by a primary without a standby")
        self.compare(name)

    @staticmethod
    def synchronous():
        return [line.split()[0] for line in cluster("members")[1].splitlines() if "sync_standby" in line]

    def add_insider(self, namespace):
        """A node and a client on the machine of the primary that will be cut off: they reach it, and nothing else."""
        node = Node(self.program, self.directory, f"inside-{len(self.nodes)}", self.url_file, namespace=namespace)
        self.nodes.append(node)
        times = self.fleet.add_insider(node.port, namespace)
        await_true("acknowledgements inside", lambda: len(times) > 10)
        return times

    def measure(self, name, began):
        threading.Event().wait(1)
        end = time.monotonic()
        gaps = [fleet.longest_gap(times, began, end)
                for times in (self.probe_times(), list(self.fleet.enqueue_times), list(self.fleet.finish_times))]
        print(f"{name}: longest time without an acknowledgement: PostgreSQL {gaps[0]:.2f} s, enqueue "
              f"{gaps[1]:.2f} s, finish {gaps[2]:.2f} s", flush=True)
        check(max(gaps[1:]) <= gaps[0] + ALLOWANCE_S, f"{name}: more than {ALLOWANCE_S} s longer than PostgreSQL")

    def compare(self, name):
        """The history so far with the store."""
        acknowledged, completed, _ = self.fleet.seen()
        with self.primary() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id, state, args::jsonb->>'nonce', result FROM mainspring.job")
            rows = cursor.fetchall()
        _, _, asked = self.fleet.seen()
        stored = {int(nonce): job for job, _, nonce, _ in rows}
        states = {job: (state, result) for job, state, _, result in rows}
        check(len(stored) == len(rows), f"{name}: {len(rows) - len(stored)} jobs are stored twice")
        check(asked.issuperset(stored), f"{name}: jobs are stored that no client enqueued")
        lost = [nonce for nonce, job in acknowledged.items() if stored.get(nonce) != job]
        check(not lost, f"{name}: {len(lost)} of {len(acknowledged)} acknowledged enqueues are lost: {lost[:5]}")
        undone = [job for job, token in completed.items() if states.get(job) != ("completed", str(token))]
        check(not undone, f"{name}: {len(undone)} of {len(completed)} acknowledged completions are undone: "
                          f"{[(job, completed[job], states.get(job)) for job in undone[:5]]}")
        check(not self.fleet.faults, f"{name}: {self.fleet.faults[:3]}")
        self.verify(name)
        print(f"{name}: {len(acknowledged)} enqueues and {len(completed)} completions were acknowledged, "
              f"{len(lost)} and {len(undone)} lost; {self.fleet.taken_over} jobs were given again; answers by "
              f"status: {self.fleet.answers}", flush=True)

    def verify(self, name):
        done = subprocess.run([self.program, "verify", "--store-file", self.url_file], capture_output=True,
                              text=True, timeout=LIMIT_S)
        check(done.returncode == 0, f"{name}: verify: {done.stdout}{done.stderr}")

    # -- what nodes say of themselves

    def durability(self):
        status, body = self.nodes[0].ready()
        check(status == 200 and body["store"]["kind"] == "postgres", f"/readyz: {status} {body}")
        return body.get("store", {}).get("durability")

    def rpo0(self):
        check(self.durability() == {"synchronous_commit": "on", "standbys": 1}, f"durability: {self.durability()}")
        strict = Node(self.program, self.directory, "strict", self.url_file, "--require-rpo0")
        check(strict.port is not None, "--require-rpo0 refused although a standby is synchronous")
        cluster("mode", "synchronous_mode", "false")
        await_true("a node that reports no standbys", lambda: self.durability()["standbys"] == 0)
        if strict.port is not None:
            await_true("an unready node", lambda: strict.ready()[0] == 503)
            check("require_rpo0" in json.dumps(strict.ready()[1]), f"the reason: {strict.ready()}")
        refused = Node(self.program, self.directory, "refused", self.url_file, "--require-rpo0")
        check(refused.port is None and refused.process.wait(LIMIT_S) != 0, "--require-rpo0 starts without a standby")
        log = pathlib.Path(f"{self.directory}/refused.log").read_text("utf-8")
        check("no standby is synchronous" in log, f"the refusal: {log}")
        cluster("mode", "synchronous_mode", "true")
        if strict.port is not None:
            await_true("a node that is ready again", lambda: strict.ready()[0] == 200)
            check(strict.stop() == 0, "a node with --require-rpo0 stops cleanly")

    def drain(self):
        self.fleet.stop_enqueues()

        def none_left():
            with self.primary() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM mainspring.job WHERE state <> 'completed'")
                return cursor.fetchone()[0] == 0
        await_true("all jobs to be completed", none_left)
        self.fleet.stop()
        acknowledged, _, asked = self.fleet.seen()
        check(len(acknowledged) == len(asked), f"{len(asked) - len(acknowledged)} enqueues were never answered")
        self.compare("the end")

    def stop(self):
        for probe in self.probes:
            probe.ended.set()
        for node in self.nodes:
            check(node.stop() == 0, f"node {node.name} stops cleanly")


def run(program, faults):
    import psycopg2  # of patroni's package; imported here, where it is known to be installed
    up, text = cluster("up")
    if not up:
        sys.exit(f"the cluster did not come up: {text}")
    print(f"the cluster is up after {time.monotonic() - STARTED:.1f} s", flush=True)
    try:
        test = Test(program, psycopg2)
        test.rpo0()
        test.start()
        for name in faults:
            test.fault(name)
        test.drain()
        test.stop()
    except Exception:  # the logs tell more
        traceback.print_exc()
        check(False, "the test did not come to its end")
    if failed:
        for log in sorted(pathlib.Path(os.environ["HA_DIR"]).glob("*.log")):
            print(f"--- {log.name}\n{log.read_text('utf-8')[-4000:]}")
    print(f"{passed} checks passed, {failed} failed, {time.monotonic() - STARTED:.0f} s")
    return 1 if failed else 0


STARTED = time.monotonic()
if __name__ == "__main__":
    if "HA_DIR" not in os.environ:
        os.execv(CLUSTER, [CLUSTER, "within", sys.executable, os.path.abspath(__file__),
                           os.path.abspath(sys.argv[1]), *sys.argv[2:]])
    wanted = sys.argv[2:] or os.environ.get("MAINSPRING_HA_FAULTS", "switch kill").split()
    unknown = set(wanted) - {"switch", "kill", "power", "cut"}
    if unknown:
        sys.exit(f"failover_test: no such fault: {', '.join(sorted(unknown))}")
    sys.exit(run(sys.argv[1], wanted))
