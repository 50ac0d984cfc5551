"""A follower under load while its leader is killed, stopped (SIGSTOP) and started again.

Nothing that was acknowledged is lost, every request ends in time, and the follower says in its
readiness that it cannot reach the leader.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

HOLD = 5.0  # the longest wait for a leader
SILENCE = 5.0  # until a leader that does not answer counts as lost
SLACK = 10.0  # of a slow machine
CLIENTS = 8


class Node:
    """One server process; `follow` is the leader's address, None = it leads."""

    def __init__(self, program, directory, name, follow=None, port=0):
        self.command = [program, "serve", "--data", os.path.join(directory, name),
                        "--listen", f"127.0.0.1:{port}", "--json"]
        self.environment = dict(os.environ)
        self.environment["MAINSPRING_CLUSTER_KEY_FILE"] = os.path.join(directory, "key")
        if follow:
            self.environment["MAINSPRING_FOLLOW"] = follow
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.environment, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        url = json.loads(self.process.stdout.readline())["url"]
        self.address = url.removeprefix("http://")

    def signal(self, which):
        self.process.send_signal(which)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def call(self, method, path, body=None, timeout=HOLD + SILENCE + SLACK):
        connection = http.client.HTTPConnection(self.address, timeout=timeout)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


class Client(threading.Thread):
    """Enqueues one job after another over one connection, and notes each outcome."""

    def __init__(self, node, number, stop):
        super().__init__()
        self.node, self.number, self.stop = node, number, stop
        self.acknowledged, self.refused, self.lost, self.longest = [], 0, 0, 0.0

    def run(self):
        connection = http.client.HTTPConnection(self.node.address,
                                                timeout=HOLD + SILENCE + SLACK)
        count = 0
        while not self.stop.is_set():
            count += 1
            body = json.dumps({"queue": "q", "kind": "k", "tags": [f"c{self.number}-{count}"]})
            began = time.monotonic()
            try:
                connection.request("POST", "/v1/jobs", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
                if answer.status == 201:
                    self.acknowledged.append(json.loads(text)["id"])
                else:
                    assert answer.status == 503 and answer.headers["Retry-After"], text
                    self.refused += 1
            except (http.client.HTTPException, ConnectionError):
                self.lost += 1  # the outcome is unknown
                connection.close()
            self.longest = max(self.longest, time.monotonic() - began)


def until(condition, what, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in {seconds} s"
        time.sleep(0.02)


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "key"), "w", encoding="ascii") as key:
            key.write("5a" * 32 + "\n")
        leader = Node(program, directory, "leader")
        port = leader.address.rsplit(":", 1)[1]
        follower = Node(program, directory, "follower", leader.address)
        leader.command[leader.command.index("--listen") + 1] = f"127.0.0.1:{port}"
        stop = threading.Event()
        clients = [Client(follower, i, stop) for i in range(CLIENTS)]

        def acknowledged():
            return sum(len(client.acknowledged) for client in clients)

        def ready():
            return follower.call("GET", "/readyz")[0] == 200

        def progress():
            before = acknowledged()
            until(lambda: acknowledged() > before + 200, "progress")

        for client in clients:
            client.start()
        try:
            progress()
            for round_ in range(3):
                leader.kill()
                until(lambda: not ready(), "unreadiness after a kill")
                assert b"does not answer" in follower.call("GET", "/readyz")[1]
                leader.start()
                until(ready, "readiness after a start")
                progress()
                print(f"kill {round_ + 1}: {acknowledged()} acknowledged", flush=True)
            leader.signal(signal.SIGSTOP)
            until(lambda: not ready(), "unreadiness after SIGSTOP")
            assert follower.call("GET", "/livez")[0] == 200
            leader.signal(signal.SIGCONT)
            until(ready, "readiness after SIGCONT")
            progress()
        finally:
            stop.set()
            for client in clients:
                client.join()
        kept = 0
        for client in clients:
            for job in client.acknowledged:
                kept += leader.call("GET", f"/v1/jobs/{job}")[0] == 200
        longest = max(client.longest for client in clients)
        print(f"{acknowledged()} acknowledged, {kept} kept, "
              f"{sum(client.refused for client in clients)} refused, "
              f"{sum(client.lost for client in clients)} with an unknown outcome, "
              f"longest {longest:.2f} s")
        assert kept == acknowledged()
        assert longest < HOLD + SILENCE + SLACK
        assert sum(client.lost for client in clients) <= 4 * CLIENTS
        for node in (follower, leader):
            node.signal(signal.SIGTERM)
            assert node.process.wait(30) == 0


if __name__ == "__main__":
    main()
