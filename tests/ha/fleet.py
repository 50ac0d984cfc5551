"""Clients and workers that keep a history of their requests, the answers, and the times.

They do what docs/guides/protocol.md asks of every client: repeat a request without an answer (an enqueue with
its Idempotency-Key), and wait as long as a refusal says.
"""
import ctypes
import http.client
import json
import os
import random
import threading
import time

ENQUEUERS, WORKERS = 4, 4
QUEUES = ["ha-0", "ha-1", "ha-2"]
PACE_S = 0.03  # between two requests of one enqueuer
ANSWER_S = 30  # how long an answer is waited for
GIVE_UP_S = 90  # after the end nothing is repeated for longer
LEASE_S = 5
TOLERANCE_S = 0.1  # how much earlier than seen from here a lease may end: the clock is read once per batch


CLONE_NEWNET = 0x40000000


def move_thread_to(namespace):
    """Connections of this thread are made there from now on."""
    file = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(file, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"setns {namespace}")
    os.close(file)


class Server:
    """A connection that is kept, to one of the nodes; to another one when it breaks."""

    def __init__(self, ports):
        self.ports, self.at, self.client = ports, random.randrange(len(ports)), None

    def ask(self, method, path, body=None, headers=None):
        """Status and JSON; status 0: there was no answer."""
        if self.client is None:
            self.client = http.client.HTTPConnection("127.0.0.1", self.ports[self.at], timeout=ANSWER_S)
        try:
            self.client.request(method, path, None if body is None else json.dumps(body),
                                {"Content-Type": "application/json"} | (headers or {}))
            answer = self.client.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        except (OSError, http.client.HTTPException):
            self.client.close()
            self.client, self.at = None, (self.at + 1) % len(self.ports)
            return 0, {}


class Fleet:
    def __init__(self, ports):
        self.ports = ports
        self.lock = threading.Lock()
        self.acknowledged = {}  # nonce: id
        self.asked = set()  # nonces
        self.completed = {}  # id: token under which it was accepted
        self.granted = {}  # id: {token: when the claim that got it was sent}
        self.enqueue_times, self.finish_times = [], []  # of acknowledgements
        self.faults = []  # what must never be, in words
        self.answers = {}  # status: how often
        self.taken_over = 0  # jobs that were given again
        self.next_nonce = 0
        self.no_more_enqueues, self.no_more_work = threading.Event(), threading.Event()
        self.enqueuers = ENQUEUERS
        self.threads = [threading.Thread(target=self.enqueue_all, args=(ports, self.enqueue_times), daemon=True)
                        for _ in range(ENQUEUERS)]
        self.threads += [threading.Thread(target=self.work, args=(f"w-{i}",), daemon=True) for i in range(WORKERS)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop_enqueues(self):
        self.no_more_enqueues.set()
        self.join(self.threads[:self.enqueuers])

    def stop(self):
        self.no_more_work.set()
        self.join(self.threads)

    def join(self, threads):
        for thread in threads:
            thread.join(GIVE_UP_S + ANSWER_S)
            if thread.is_alive():
                self.faults.append("a client never got an answer")

    def repeat(self, server, ended, method, path, body, headers=None):
        """Asks until there is an answer that says that it was done or never will be: when that was asked, and it."""
        until = None
        while True:
            asked_at = time.monotonic()
            status, answer = server.ask(method, path, body, headers)
            with self.lock:
                self.answers[status] = self.answers.get(status, 0) + 1
            if status not in (0, 429, 500, 503, 504, 507):
                return asked_at, status, answer
            if ended.is_set():
                until = until or time.monotonic() + GIVE_UP_S
                if time.monotonic() > until:
                    return asked_at, 0, {}
            pause = answer.get("error", {}).get("retry_after_ms", 100 if status == 0 else 1000) / 1000
            ended.wait(pause) if until is None else time.sleep(pause)

    def add_insider(self, port, namespace):
        """One more enqueuer, in that namespace, for the node that is there: a list of when it was answered."""
        times = []
        self.threads.insert(0, threading.Thread(target=self.enqueue_all, args=([port], times, namespace), daemon=True))
        self.enqueuers += 1
        self.threads[0].start()
        return times

    def enqueue_all(self, ports, times, namespace=None):
        if namespace:
            move_thread_to(namespace)
        server = Server(ports)
        while not self.no_more_enqueues.wait(PACE_S):
            with self.lock:
                nonces = list(range(self.next_nonce, self.next_nonce + random.choice([1, 1, 1, 3])))
                self.next_nonce += len(nonces)
                self.asked.update(nonces)
            jobs = [{"queue": random.choice(QUEUES), "kind": "work", "args": {"nonce": n}} for n in nonces]
            _, status, answer = self.repeat(server, self.no_more_enqueues, "POST", "/v1/jobs", {"jobs": jobs},
                                            {"Idempotency-Key": f"ha-{nonces[0]}"})
            with self.lock:
                if status not in (200, 201):
                    self.faults.append(f"an enqueue was answered with {status}: {answer}")
                    continue
                times.append(time.monotonic())
                for nonce, job in zip(nonces, answer["jobs"]):
                    self.acknowledged[nonce] = job["id"]

    def work(self, name):
        server = Server(self.ports)
        while not self.no_more_work.is_set():
            asked_at, status, answer = self.repeat(server, self.no_more_work, "POST", "/v1/claim", {
                "worker": name, "queues": QUEUES, "max": 5, "wait": "2s", "lease": f"{LEASE_S}s"})
            jobs = answer.get("jobs", []) if status == 200 else []
            with self.lock:
                if status not in (0, 200):
                    self.faults.append(f"a claim was answered with {status}: {answer}")
                for job in jobs:
                    self.note_grant(job["id"], job["token"], asked_at)
            if jobs:
                self.finish(server, name, jobs)

    def note_grant(self, job, token, asked_at):
        """No token twice; and who gets the job of another gets it after that one's lease, under a newer token."""
        before = self.granted.setdefault(job, {})
        if token in before:
            self.faults.append(f"job {job} was given twice under token {token}")
        now = time.monotonic()
        for older, since in before.items():
            self.taken_over += 1
            if now < since + LEASE_S - TOLERANCE_S:
                self.faults.append(f"job {job} was given again {now - since:.2f} s after it was asked for")
        before[token] = asked_at

    def finish(self, server, name, jobs):
        results = [{"id": job["id"], "token": job["token"], "outcome": "complete", "result": job["token"]}
                   for job in jobs]
        _, status, answer = self.repeat(server, self.no_more_work, "POST", "/v1/finish",
                                        {"worker": name, "results": results})
        with self.lock:
            if status != 200:
                self.faults.append(f"a finish was answered with {status}: {answer}")
                return
            for job, told in zip(jobs, answer["results"]):
                if told["status"] == "ok":
                    self.finish_times.append(time.monotonic())
                    before = self.completed.setdefault(job["id"], job["token"])
                    if before != job["token"]:
                        self.faults.append(f"job {job['id']} was completed under {before} and {job['token']}")
                elif told["status"] != "stale":
                    self.faults.append(f"job {job['id']} was forgotten: {told}")

    def seen(self):
        """What was acknowledged by now: copies, to be compared with the store."""
        with self.lock:
            return dict(self.acknowledged), dict(self.completed), set(self.asked)


def longest_gap(times, begin, end):
    """The longest time without one of `times` between `begin` and `end`."""
    marks = [begin] + [at for at in times if begin < at < end] + [end]
    return max(after - before for before, after in zip(marks, marks[1:]))
