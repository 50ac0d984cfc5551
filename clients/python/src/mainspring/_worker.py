"""The worker: claims jobs, runs handlers, sends outcomes.

Threads: the claimer waits at the server for jobs, slots run handlers, the finisher sends outcomes
and claims with the same request, the watcher looks at the clock. Reports have a thread
(`_reports`), renewals a process (`_renewal_link`).
"""

from __future__ import annotations

import collections
import logging
import os
import secrets
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Literal, Mapping, Sequence

from . import _run
from ._attempt import Attempt
from ._finishing import COUNTERS, Done, Finisher
from ._http import Connection
from ._overdue import Overdue
from ._renewal_link import RenewalLink
from ._renewer import now
from ._reports import Reports
from ._values import Duration, check_list, duration, encode, is_count, seconds
from ._versions import versions
from ._wire import Call, Pauses, require
from .errors import InvalidArgument, MainspringError, ServerError
from .outcomes import Cancel, Ready, fields, ready

if TYPE_CHECKING:
    from ._client import Mainspring
    from ._jobs import Definition
    from ._pool import Pool

log = logging.getLogger("mainspring.worker")

CLAIM_AHEAD = 0.002  # handlers that are done sooner are fed from a store of claimed jobs
MAX_CLAIM = 1000
MAX_SLOTS = 1024
MAX_HOST = 255
MAX_FACT = 100
MAX_WHY = 200
LOOK = 1.0
START_RENEWER = 5.0
STANDSTILL = 0.25  # the watcher should have looked this long ago
CATCH_UP = 1.0
COMPLAIN_EVERY = 60.0  # about a server that does not do what it should
QUIET_LOOK = 5.0  # how often a quiet worker asks whether it may claim again
STUCK_REPORT = 10.0  # how often a worker whose slots are all stuck reports: it claims nothing


@dataclass
class WorkerOptions:
    """Options of a worker."""

    slots: int = 10  # handlers that run at once
    queues: Sequence[str] | None = None  # None: those of the handlers
    processes: bool = False  # run sync handlers in processes, one per slot
    modules: Sequence[str] = ()  # with processes: what they import, besides the handlers' modules
    lease: Duration = "30s"
    graceful_stop: Duration = "25s"
    claim_wait: Duration = "20s"
    claim_ahead: int | None = None  # jobs beyond idle slots; None: measured for short handlers
    renewals: Literal["process", "thread"] = "process"
    kinds: Sequence[str] | None = None  # kinds or aliases; None: those with a handler
    # `work` exits with 75 if a handler has not ended this long after it was asked to. None: never.
    exit_when_stuck: Duration | None = None
    log_jobs: bool = True  # one line for each attempt, of level info
    version: str = ""  # of your program, up to 100 bytes; `mainspring workers` shows it
    lease_seconds: float = field(default=0.0, init=False)
    graceful_seconds: float = field(default=0.0, init=False)
    wait_seconds: float = field(default=0.0, init=False)
    stuck_seconds: float = field(default=float("inf"), init=False)

    def __post_init__(self) -> None:
        for name in ("queues", "kinds", "modules"):
            check_list(getattr(self, name), name)
        self.lease_seconds = seconds(self.lease, "lease")
        self.graceful_seconds = seconds(self.graceful_stop, "graceful_stop")
        self.wait_seconds = seconds(self.claim_wait, "claim_wait")
        if self.exit_when_stuck is not None:
            self.stuck_seconds = seconds(self.exit_when_stuck, "exit_when_stuck")
        for name, good, rule in (
            ("slots", is_count(self.slots) and 1 <= self.slots <= MAX_SLOTS,
             f"must be a whole number from 1 to {MAX_SLOTS}"),
            ("claim_ahead", self.claim_ahead is None or is_count(self.claim_ahead),
             "must be a whole number from 0 on"),
            ("lease", 1 <= self.lease_seconds <= 43200, "must be 1s to 12h"),
            ("claim_wait", self.wait_seconds <= 60, "must be 0s to 60s"),
            ("version", fits(self.version, MAX_FACT), f"must have at most {MAX_FACT} bytes, "
             "without control characters"),
            ("renewals", self.renewals in ("process", "thread"), 'must be "process" or "thread"'),
        ):
            if not good:
                raise InvalidArgument(f"{name} {getattr(self, name)}: {rule}", field=name)


def fits(text: str, size: int) -> bool:
    """Whether the server takes the text for a worker's version, language or host."""
    return len(text.encode(errors="replace")) <= size and not any(
        c < " " or c == "\x7f" for c in text
    )


def facts_of(options: WorkerOptions) -> dict[str, Any]:
    """The fields of a claim that describe this process."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    facts: dict[str, Any] = {
        "pid": os.getpid(),
        "language": f"Python {version}",
        "slots": options.slots,
    }
    if fits(host := socket.gethostname(), MAX_HOST):
        facts["host"] = host
    if options.version:
        facts["version"] = options.version
    return facts


def handled(
    definitions: Mapping[str, Definition[Any, Any]], wanted: Sequence[str] | None
) -> dict[str, Definition[Any, Any]]:
    """The names of jobs to claim. Any name of a job selects all of its names."""
    known = {kind: made for kind, made in definitions.items() if made.handler_function is not None}
    if not known:
        raise InvalidArgument("worker: no handler is defined", field="kinds")
    if wanted is None:
        return known
    if not wanted:
        raise InvalidArgument("kinds: must not be empty", field="kinds")
    for kind in wanted:
        if kind not in known:
            names = ", ".join(sorted(known))
            text = f'kinds "{kind}": must have a handler here; known: {names}'
            raise InvalidArgument(text, field="kinds")
    chosen = [known[kind] for kind in wanted]
    return {kind: made for kind, made in known.items() if made in chosen}


class Worker:
    """Runs the handlers of one client. `start` and `stop` it, or use it in a `with` block."""

    def __init__(self, ms: Mainspring, options: WorkerOptions) -> None:
        self.ms = ms
        self.server = ms.server
        self.options = options
        self.incarnation = "py-" + secrets.token_hex(8)
        self.kinds = handled(ms.definitions, options.kinds)
        queues = options.queues or [d.how.queue or "default" for d in self.kinds.values()]
        self.queues = list(dict.fromkeys(queues))
        self._facts = facts_of(options)
        self.mutex = threading.Lock()
        self.slots_changed = threading.Condition(self.mutex)
        self.claimer_changed = threading.Condition(self.mutex)
        self.ended_changed = threading.Condition(self.mutex)
        self.ready: collections.deque[Attempt] = collections.deque()
        self.active: dict[int, Attempt] = {}
        self.running = 0  # handlers
        self.slots_taken = 0
        # With processes: the slots whose process runs.
        own = options.processes and any(not d.is_async for d in self.kinds.values())
        self.slots_usable = 0 if own else options.slots
        self.slots_ready = 0
        self.kind_taken: dict[str, int] = collections.defaultdict(int)
        self.idle_threads = 0
        self.stopping = False
        self.slots_end = False
        self.quiet = False
        self.parked = False  # a claim waits at the server
        self._parked_kinds: set[str] = set()
        self._claim_number = 0
        self._ending_claim = 0
        self.handler_seconds = -1.0
        self.overdue = Overdue(options.stuck_seconds)
        self.stuck = False  # the worker exits for it
        self._report_stuck_at = float("inf")
        self.stats: dict[str, int] = collections.defaultdict(int)
        self.reports = Reports(self)
        self.finisher = Finisher(self)
        self.link = RenewalLink(
            self.server,
            self.incarnation,
            options.lease_seconds,
            self._renewal_event,
            options.renewals == "process",
        )
        self.loop: _run.Loop | None = None
        self.pool: Pool | None = None
        self.started_text = "worker started"
        # Format and level of the logs in the processes of handlers. None: the program sets them.
        self.child_logs: tuple[str, str] | None = None
        self.refused: MainspringError | None = None  # the token is no good: see `run_until_signal`
        self.terminate = threading.Event()
        self._threads: list[threading.Thread] = []
        self._claims = Connection(self.server)
        self._watcher_wake = threading.Event()
        self._watch_at = 0.0
        self._watcher_end = False
        self._away = False
        self._renewing_fails = False
        self._complain_at: dict[str, float] = {}
        self._tell_at = float("inf")
        self.give_up_at = float("inf")
        self._started = False
        self._stopped = False

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Start and stop

    def start(self) -> None:
        if self._started:
            raise InvalidArgument("worker: has already been started; create another one")
        _run.check_start()
        if self.server.tls:  # a file that cannot be read is an error here, not of each claim
            self.server.tls_files.context()
        self._started = True
        self.link.start()
        self.reports.start()
        self.finisher.start()
        if any(d.is_async for d in self.kinds.values()):
            self.loop = _run.Loop(self.options.slots)
        if self.options.processes:
            from ._pool import Pool

            self.pool = Pool(self)
        if any(not d.is_async for d in self.kinds.values()):
            for i in range(self.options.slots):
                self._thread(lambda: _run.slot(self), f"mainspring-slot-{i}")
        self._thread(self._watch, "mainspring-watcher")
        self._thread(self._claim, "mainspring-claimer")
        extra = {"queues": self.queues, "server": self.server.url, "slots": self.options.slots}
        log.info(self.started_text, extra={"worker": self.incarnation, **extra})

    def _thread(self, target: Any, name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def request_stop(self) -> None:
        """Claims nothing more. Handlers may run for four fifths of the graceful time."""
        with self.mutex:
            if self.stopping:
                return
            self.stopping = True
            at = now()
            self._tell_at = at + self.options.graceful_seconds * 4 / 5
            self.give_up_at = at + self.options.graceful_seconds
            self._give_back_ready()
            self.claimer_changed.notify_all()
            self.finisher.wake()
        self._watcher_wake.set()
        threading.Thread(target=self._end_claims, daemon=True).start()

    def _end_claims(self) -> None:
        """Ends the waiting claim. A proxy may hide that the worker closed the connection."""
        connection = Connection(self.server)
        for _ in range(20):
            with self.mutex:
                if not self.parked:
                    break
            try:
                body = encode({"worker": self.incarnation})
                connection.run(Call("POST", "/v1/claim/end", body, answer_within=1.0))
            except MainspringError:
                self._claims.abort()
            time.sleep(0.025)
        else:
            self._claims.abort()
        connection.close()

    def stop(self) -> bool:
        """Stops the worker. False if handlers still run at the end of the graceful time."""
        if not self._started or self._stopped:
            return True
        self.request_stop()
        self._stopped = True
        with self.mutex:
            while self.running > 0 and now() < self.give_up_at:
                self.ended_changed.wait(max(0.0, min(1.0, self.give_up_at - now())))
            left = [a for a in self.active.values() if a.started and not a.lost]
            self.slots_end = True
            self.slots_changed.notify_all()
        if self.pool is not None:
            self.pool.kill()  # gives back what still runs: its process has ended
            with self.mutex:
                until = now() + 2.0
                while self.running > 0 and now() < until:
                    self.ended_changed.wait(0.1)
                left = [a for a in self.active.values() if a.started and not a.lost]
        for thread in self._threads:
            if thread.name == "mainspring-claimer":
                thread.join(2.0)
        if left:
            # What these handlers return is still sent if they end before the process does.
            self.finisher.drain()
            log.error("handlers do not end; their jobs are given back when this process has ended")
            self.link.back_at_end([{"id": a.id, "token": a.token, **fields(a.given_back())}
                                   for a in left])
            return False
        self.finisher.end()
        self._watcher_end = True
        self._watcher_wake.set()
        self.reports.end()
        self.link.end()
        if self.loop is not None:
            self.loop.end()
        log.info("worker stopped", extra={"worker": self.incarnation, **self.stats})
        return True

    # Claims

    def room(self) -> tuple[int, list[str]]:
        """How many jobs to ask for now, and of which kinds. Needs the mutex."""
        if self.stopping or self.quiet:
            return 0, []
        taken = self.slots_taken + self.slots_ready
        most = min(self.slots_usable + self._ahead() - taken, MAX_CLAIM)
        if self.slots_usable == 0:
            most = 0
        kinds = []
        for name, definition in self.kinds.items():
            limit = definition.concurrency
            if limit > 0:
                left = limit - self.kind_taken[definition.kind]
                if left <= 0:
                    continue
                most = min(most, left)
            kinds.append(name)
        return (most if kinds else 0), kinds

    def _ahead(self) -> int:
        if self.overdue.slots() >= self.options.slots:
            return 0
        if self.options.claim_ahead is not None:
            return self.options.claim_ahead
        if not 0 <= self.handler_seconds < CLAIM_AHEAD:
            return 0
        per_slot = CLAIM_AHEAD / max(self.handler_seconds, 2e-6)
        return int(min(self.options.slots * per_slot, MAX_CLAIM))

    def claim_fields(self, most: int, kinds: list[str]) -> dict[str, Any]:
        return {
            "queues": self.queues,
            "kinds": kinds,
            "max": most,
            "lease": duration(self.options.lease, "lease"),
            **self._facts,
        }

    def _claim(self) -> None:
        pauses = Pauses()
        self.link.wait_ready(START_RENEWER)
        text, fits = versions(self.server)
        if not fits:
            log.error("%s", text)
        while True:
            with self.mutex:
                most, kinds = self._await_room()
                if self.quiet:
                    self._sleep(QUIET_LOOK, lambda: not self.quiet)
                if self.stopping:
                    break
                if most > 0:
                    self.parked = True
                    self._parked_kinds = set(kinds)
                    self._claim_number += 1
            if most <= 0:
                self._ask_for_command()
                continue
            pause = self._claim_once(most, kinds, pauses)
            with self.mutex:
                self.parked = False
                if pause > 0 and not self.stopping:
                    self._sleep(pause)
        self._claims.close()

    def _await_room(self) -> tuple[int, list[str]]:
        """What to claim; nothing: to ask for a command, without a claim. Needs the mutex."""
        while True:
            most, kinds = self.room()
            if self.stopping or self.quiet or (most > 0 and not self.finisher.busy):
                return most, kinds
            left = self._report_stuck_at - now()
            if left <= 0:
                return 0, []
            self.claimer_changed.wait(left if self.overdue.stuck else None)

    def _sleep(self, pause: float, early: Callable[[], bool] = lambda: False) -> None:
        until = time.monotonic() + pause
        while not self.stopping and not early() and (left := until - time.monotonic()) > 0:
            self.claimer_changed.wait(left)

    def _ask_for_command(self) -> None:
        """A renewal without leases: its answer says whether this worker may claim."""
        with self.mutex:
            stuck = len(self.overdue.stuck)
            self._report_stuck_at = now() + STUCK_REPORT if stuck > 0 else float("inf")
        body = encode({"worker": self.incarnation, "leases": [], "stuck": stuck})
        try:
            document = self._claims.run(Call("POST", "/v1/renew", body, answer_within=QUIET_LOOK))
        except MainspringError:
            return
        with self.mutex:
            self._obey(document.get("quiet") is True, document.get("terminate") is True)

    def _claim_once(self, most: int, kinds: list[str], pauses: Pauses) -> float:
        """One claim that waits. Returns how long to pause before the next."""
        body = {"worker": self.incarnation, **self.claim_fields(most, kinds)}
        wait = self.options.wait_seconds
        body["wait"] = duration(wait)
        before = now()
        try:
            document = self._claims.run(Call("POST", "/v1/claim", encode(body), wait=wait))
            jobs = require(document, "jobs", list)
        except MainspringError as error:
            with self.mutex:
                stopping = self.stopping
            if stopping:
                return 0.0
            self._tell_refused(error)
            self.complain("claim; retrying with back-off", error.message, error.status > 0)
            if not self._away:
                self._away = True
                self.link.soon()
            return pauses.next(error)
        after = now()
        if self._away:
            self._away = False
            self.complain("claim; retrying with back-off")
            log.info("claiming again")
        # The leases began somewhere between the two: renewed as if before, believed until after.
        self.accept(document, after, before)
        asked_again = self._ending_claim == self._claim_number
        early = after - before < wait / 10 and not asked_again
        if not jobs and not document.get("cancel") and not document.get("quiet") and early:
            return pauses.next()  # a server that does not let claims wait
        pauses.reset()
        return 0.0

    def complain(self, what: str, why: str = "", answered: bool = False) -> None:
        """Logs that the worker cannot do something, again each minute, with both versions if the
        server has answered. Without a reason: it can again."""
        if not why:
            self._complain_at.pop(what, None)
        elif now() >= self._complain_at.get(what, 0.0):
            self._complain_at[what] = now() + COMPLAIN_EVERY
            both = versions(self.server)[0] if answered else ""
            log.warning("cannot %s: %s%s", what, why, f" ({both})" if both else "")

    def _tell_refused(self, error: MainspringError) -> None:
        if error.code in ("unauthenticated", "forbidden") and self.refused is None:
            self.refused = error
            log.error("the server refuses this worker: %s", error)

    def accept(self, document: Any, at: float, sent_at: float) -> None:
        """Jobs that came with a claim or a finish."""
        jobs = document.get("jobs")
        admitted: list[Attempt] = []
        with self.mutex:
            for job in jobs if isinstance(jobs, list) else ():
                attempt = self._attempt(job)
                if attempt is not None and self._admit(attempt, at):
                    admitted.append(attempt)
        # Before the handler begins: it may hold the interpreter's lock from its first line on.
        self.link.add(((a.id, a.token, _granted(a, self.options)) for a in admitted), sent_at)
        with self.mutex:
            for attempt in admitted:
                self.ready.append(attempt)
            self._cancel_wanted(document.get("cancel"))
            if document.get("quiet") is True:  # only a renewal ends it
                self._obey(True, document.get("terminate") is True)
            self.dispatch()

    def _attempt(self, job: Any) -> Attempt | None:
        """A job of an answer. None: the answer is invalid; no outcome is reported for it."""
        try:
            for name in ("id", "token"):
                require(job, name, int)
            kind = require(job, "kind", str)
        except ServerError as error:
            log.error("a claimed job cannot be read, its lease will run out: %s", error)
            return None
        definition = self.kinds.get(kind)
        if definition is None:
            log.error("a job of kind %s was not asked for, its lease will run out", kind)
            return None
        cost = job.get("cost", 1)
        slots = min(cost, self.options.slots) if isinstance(cost, int) and cost > 0 else 1
        return Attempt(job, definition, slots)

    def _admit(self, attempt: Attempt, at: float) -> bool:
        self.stats["claimed"] += 1
        old = self.active.get(attempt.id)
        if old is not None:
            if old.token == attempt.token:
                return False
            self._lose(old, "it was claimed again")
        attempt.set_lease(at, _granted(attempt, self.options))
        if self.stopping:
            self._give_back(attempt)
            return False
        self.active[attempt.id] = attempt
        self.kind_taken[attempt.definition.kind] += 1
        self.slots_ready += attempt.slots
        return True

    # Slots

    def dispatch(self) -> None:
        """Starts what is ready and has room. Needs the mutex."""
        for attempt in list(self.ready) if self.loop is not None else ():
            if self.slots_taken + attempt.slots > self.options.slots:
                break
            if attempt.definition.is_async:
                self.ready.remove(attempt)
                self.slots_ready -= attempt.slots
                if attempt.lost:
                    self._leave(attempt)
                    continue
                self._begin(attempt)
                assert self.loop is not None
                self.loop.run(self, attempt)
        if self.ready and self.idle_threads > 0:
            self.slots_changed.notify()

    def take(self) -> Attempt | None:
        """The next job for a thread, None if there is none. Needs the mutex."""
        while self.ready:
            attempt = self.ready[0]
            if attempt.definition.is_async:
                return None
            if not attempt.lost and self.slots_taken + attempt.slots > self.options.slots:
                return None
            self.ready.popleft()
            self.slots_ready -= attempt.slots
            if attempt.lost:
                self._leave(attempt)
                continue
            self._begin(attempt)
            if self.ready and self.idle_threads > 0:
                self.slots_changed.notify()
            return attempt
        return None

    def _begin(self, attempt: Attempt) -> None:
        self.running += 1
        self.slots_taken += attempt.slots
        attempt.started = True
        attempt.began = now()
        limit = attempt.job.get("timeout_ms")
        if isinstance(limit, int) and limit > 0:
            attempt.time_limit = attempt.began + limit / 1000
            if attempt.time_limit < self._watch_at:
                self._watcher_wake.set()

    def _leave(self, attempt: Attempt) -> None:
        if self.active.get(attempt.id) is attempt:
            del self.active[attempt.id]
        self.kind_taken[attempt.definition.kind] -= 1

    def _give_back_ready(self) -> None:
        for attempt in self.ready:
            self._leave(attempt)
            if not attempt.lost:
                self._give_back(attempt)
        self.ready.clear()
        self.slots_ready = 0

    def _give_back(self, attempt: Attempt) -> None:
        self.finisher.put(Done(attempt, ready(attempt.given_back())))

    def conclude(self, attempt: Attempt, result: Ready) -> None:
        """A handler has ended."""
        took = now() - attempt.began
        done = Done(attempt, result)
        if self.options.log_jobs and log.isEnabledFor(logging.INFO):
            log_attempt(attempt, result, took)
        with self.mutex:
            old = self.handler_seconds
            self.handler_seconds = took if old < 0 else old + (took - old) / 16
            self.running -= 1
            if self.overdue.remove(attempt):
                self._watcher_wake.set()
            self.slots_taken -= attempt.slots
            self._leave(attempt)
            if attempt.lost:
                self.stats["stale"] += 1  # the worker lost the job: there is nothing to report
            else:
                self.finisher.put(done)
            if self.running == 0:
                self.ended_changed.notify_all()
            if not self.parked and not self.finisher.busy:
                self.claimer_changed.notify()
            self._widen_claim(attempt.definition)
            if self.ready and self.loop is not None:
                self.dispatch()

    def _widen_claim(self, definition: Any) -> None:
        """A claim that waits without a kind that was full is asked again. Needs the mutex."""
        if definition.concurrency and definition.kind not in self._parked_kinds:
            self._claim_again()

    def _claim_again(self) -> None:
        """Ends the claim that waits: the next one says something else. Needs the mutex."""
        if not self.parked or self.stopping or self._ending_claim == self._claim_number:
            return
        self._ending_claim = number = self._claim_number

        def end() -> None:
            connection = Connection(self.server)
            body = encode({"worker": self.incarnation})
            for _ in range(40):  # the claim may be on its way
                with self.mutex:
                    if not self.parked or self._claim_number != number:
                        break
                try:
                    connection.run(Call("POST", "/v1/claim/end", body, answer_within=1.0))
                except MainspringError:
                    break  # the claim ends by itself
                time.sleep(0.025)
            connection.close()

        threading.Thread(target=end, daemon=True).start()

    # Leases

    def _renewal_event(self, event: dict[str, Any]) -> None:
        if "failed" in event:
            self._renewing_fails = True
            self.complain("renew leases; retrying until they expire", event["message"])
            return
        if self._renewing_fails:
            self._renewing_fails = False
            self.complain("renew leases; retrying until they expire")
            log.info("renewing leases again")
        self.renewed(event)

    def renewed(self, answer: dict[str, Any]) -> None:
        """An answer to a renewal, of the renewing process or of the reports."""
        self.stats["renews"] += 1
        with self.mutex:
            for id, token, granted in answer["renewed"]:
                attempt = self.active.get(id)
                if attempt is not None and attempt.token == token:
                    attempt.set_lease(answer["at"], granted)
            for id, token in answer["lost"]:
                attempt = self.active.get(id)
                if attempt is not None and attempt.token == token:
                    self._lose(attempt, "the server gave the job to another worker")
            self._cancel_wanted(answer["cancel"])
            self._obey(answer["quiet"], answer["terminate"])

    def _obey(self, quiet: bool, terminate: bool) -> None:
        """Applies the operator's command in an answer of the server. Needs the mutex."""
        if self.stopping:
            return
        if quiet != self.quiet:
            self.quiet = quiet
            log.info("quiet: claiming no more jobs until resumed" if quiet else "claiming again")
            self.claimer_changed.notify_all()
            if quiet and self.parked:  # a claim at another node of the server could still get jobs
                threading.Thread(target=self._end_claims, daemon=True).start()
        if terminate and not self.terminate.is_set():
            log.info("stopping at the request of an operator")
            self.terminate.set()
            threading.Thread(target=self.request_stop, daemon=True).start()

    def _lose(self, attempt: Attempt, why: str) -> None:
        if attempt.lost:
            return
        attempt.lost = True
        self.stats["lease_lost"] += 1
        extra = {"job": attempt.id, "kind": attempt.definition.kind}
        log.warning("lease lost: %s", why, extra=extra)
        self.link.remove([(attempt.id, attempt.token)])
        if self.active.get(attempt.id) is attempt:
            del self.active[attempt.id]
        self._tell(attempt, "lease_lost")

    def _tell(self, attempt: Attempt, reason: str) -> None:
        if not attempt.started or not attempt.tell(reason):
            return
        if reason != "shutdown":
            self.overdue.add(attempt, now())
        _run.interrupt(self, attempt)
        self.reports.notify()

    def _cancel_wanted(self, ids: Any) -> None:
        for id in ids if isinstance(ids, list) else ():
            attempt = self.active.get(id) if isinstance(id, int) else None
            if attempt is None or attempt.lost:
                continue
            if attempt.started:
                self._tell(attempt, "cancelled")
                continue
            attempt.lost = True  # it does not begin
            self.finisher.put(Done(attempt, ready(Cancel())))

    def _watch(self) -> None:
        most = min(LOOK, self.options.lease_seconds / 12)
        looked_at = now()
        believe_at = 0.0
        while not self._watcher_end:
            self._watcher_wake.clear()
            if self.server.tls:
                self.server.tls_files.check_end()
            at = now()
            if at - looked_at > most + STANDSTILL:
                # This process did not run: a handler held the interpreter's lock. Renewals were
                # made meanwhile; their answers must be read before a lease counts as lost.
                believe_at = at + CATCH_UP
            looked_at = at
            with self.mutex:
                told = at >= self._tell_at
                self._watch_at = at + most if told else min(at + most, self._tell_at)
                for attempt in list(self.active.values()):
                    if attempt.lease_end <= at and believe_at <= at:
                        self._lose(attempt, "no renewal in time")
                        continue
                    if attempt.started and attempt.time_limit <= at:
                        self._tell(attempt, "timeout")
                    if attempt.started and told:
                        self._tell(attempt, "shutdown")
                    self._watch_at = min(self._watch_at, max(attempt.lease_end, believe_at))
                    if not attempt.reason:
                        self._watch_at = min(self._watch_at, attempt.time_limit)
                next_look, exits = self._look_at_overdue(at)
                self._watch_at = min(self._watch_at, next_look)
                if exits and not self.stuck:
                    log.critical("a handler does not end; the worker exits")
                    self.stuck = True
                    threading.Thread(target=self.request_stop, daemon=True).start()
            self._watcher_wake.wait(max(0.001, self._watch_at - now()))

    def _look_at_overdue(self, at: float) -> tuple[float, bool]:
        before = len(self.overdue.stuck)
        look = self.overdue.look(at)
        if (count := len(self.overdue.stuck)) != before:
            self._facts["stuck"] = count
            self._report_stuck_at = 0.0 if count > 0 else float("inf")
            if self.overdue.slots() >= self.options.slots:
                self._give_back_ready()  # nothing here would run it
            self._claim_again()
            self.claimer_changed.notify_all()
        return look


def _granted(attempt: Attempt, options: WorkerOptions) -> float:
    ms = attempt.job.get("lease_expires_in_ms")
    good = isinstance(ms, int) and ms > 0
    return ms / 1000 if good and isinstance(ms, int) else options.lease_seconds


def log_attempt(attempt: Attempt, result: Ready, took: float) -> None:
    ended = "lost" if attempt.lost else COUNTERS[type(result.outcome)]
    job = attempt.job
    extra = {name: job.get(name) for name in ("queue", "kind", "attempt")}
    extra["took_ms"] = round(took * 1000, 1)
    if why := getattr(result.outcome, "error", "") or getattr(result.outcome, "reason", ""):
        extra["why"] = str(why).partition("\n")[0][:MAX_WHY]
    log.info("job %s", ended, extra={"job": attempt.id, **extra})


def run_until_signal(worker: Worker) -> None:
    """Starts the worker and waits for SIGTERM or SIGINT, or for the server to end it."""
    _run.until_signal(worker)
