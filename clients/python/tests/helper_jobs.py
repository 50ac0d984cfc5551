"""Jobs that workers in other processes import."""

from __future__ import annotations

import builtins
import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Iterator

from mainspring import AsyncContext, Context, Mainspring, Middleware, Snooze

ms = Mainspring()
QUEUE = os.environ.get("HELPER_QUEUE", "helper")


@ms.job(queue=QUEUE, max_attempts=2)
def crash(ctx: Context, how: str) -> Any:
    if ctx.attempt > 1:
        return f"after {how}"
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(3)
    raise SystemExit(how)


@ms.job(queue=QUEUE)
def steps(ctx: Context, n: int) -> Any:
    ctx.progress(0.5, "half")
    ctx.checkpoint({"n": n})
    pid = ctx.step("pid", os.getpid)
    return [pid, ctx.step("twice", lambda: n * 2)]


@ms.job(queue=QUEUE, timeout="1s", max_attempts=1)
def never(ctx: Context) -> None:
    while True:
        time.sleep(0.05)


@ms.job(queue=QUEUE)
def block(ctx: Context, length: int) -> float:
    """Runs one regular expression. No other thread of this process runs meanwhile."""
    began = time.monotonic()
    re.match("(a+)+$", "a" * length + "b")
    return time.monotonic() - began


@ms.job(queue=QUEUE)
def slow(ctx: Context, how: str) -> Any:
    if how == "snooze":
        return Snooze("1h")
    path = os.environ["HELPER_FILE"]
    with open(path, "a") as file:
        file.write("started\n")
    if how == "deaf":
        time.sleep(30)
    ctx.sleep(30)
    return None


@ms.job(queue=QUEUE, max_attempts=1)
def count(ctx: Context, text: str) -> Any:
    counts: dict[str, int] = collections.defaultdict(lambda: 0)  # JSON, but it cannot be pickled
    for letter in text:
        counts[letter] += 1
    return counts


_next_began = threading.Event()
_late: list[str] = []
_left: list[threading.Thread] = []


def use_late(ctx: Any) -> list[str]:
    """The errors of a context's calls."""
    calls: dict[str, Any] = {
        "step": lambda: ctx.step("charge", lambda: "first"),
        "checkpoint": lambda: ctx.checkpoint({"of": "first"}),
        "progress": lambda: ctx.progress(0.9, "first"),
        "message": lambda: ctx.message("first"),
        "set_session_state": lambda: ctx.set_session_state("first"),
        "flush": ctx.flush,
        "check": ctx.check,
        "sleep": lambda: ctx.sleep(60),
    }
    found = []
    for name, call in calls.items():
        try:
            call()
            found.append(f"{name}: done")
        except Exception as error:
            found.append(f"{name}: {type(error).__name__}")
    return found


LATE = ["step", "checkpoint", "progress", "message", "set_session_state", "flush", "check", "sleep"]


@ms.job(queue=QUEUE, session="s")
def leaves_a_thread(ctx: Context) -> str:
    def late() -> None:
        _next_began.wait(60)
        _late.extend(use_late(ctx))

    _left.append(threading.Thread(target=late))
    _left[0].start()
    return "first"


@ms.job(queue=QUEUE, session="s")
def after_the_thread(ctx: Context) -> Any:
    _next_began.set()
    _left[0].join()
    return [ctx.step("charge", lambda: "second"), _late]


@ms.job(queue=QUEUE, session="s")
def leaves_a_fork(ctx: Context) -> Any:
    receiver, sender = multiprocessing.Pipe(False)
    multiprocessing.get_context("fork").Process(
        target=lambda: sender.send(use_late(ctx))
    ).start()
    found = receiver.recv()
    return [found, ctx.step("charge", lambda: "second")]


@ms.job(queue=QUEUE)
def leaves_zombies(ctx: Context, count: int) -> int:
    """Returns how many zombies the process has, and leaves some more."""
    for _ in range(count):
        subprocess.run(["sh", "-c", "true & exec true"])
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        return len(file.read().split())


@ms.job(queue=QUEUE)
def uses_processes(ctx: Context) -> Any:
    with multiprocessing.get_context("fork").Pool(2) as forked:
        first = forked.map(abs, [-1, -2])
    with concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn")
    ) as executor:
        return [*first, executor.submit(abs, -3).result()]


SHOW_SIGNALS = """
import signal
print(signal.getsignal(15) == signal.SIG_DFL, signal.getsignal(2) != signal.SIG_IGN)
"""


@ms.job(queue=QUEUE)
def shows_signals(ctx: Context) -> str:
    """Whether a program and a fork that a handler starts end at SIGTERM and SIGINT."""
    shown = subprocess.run([sys.executable, "-c", SHOW_SIGNALS], capture_output=True, text=True)
    forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    forked.start()
    forked.terminate()
    forked.join()
    return f"{shown.stdout.strip()} {forked.exitcode}"


def daemon() -> str:
    """Starts a program whose parent ends, in a session of its own. Returns its id."""
    command = ["setsid", "sh", "-c", "sleep 600 & echo $!"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        return shell.stdout.readline().strip()


@ms.job(queue=QUEUE, max_attempts=1)
def starts_programs(ctx: Context, how: str, length: int = 0) -> None:
    """One program in the handler's session, one in a session of its own, and a daemon."""
    programs = [subprocess.Popen(["sleep", "600"], start_new_session=own) for own in (False, True)]
    with open(os.environ["HELPER_FILE"] + ".part", "w") as file:
        file.write(" ".join([daemon(), *(str(one.pid) for one in programs)]))
    os.rename(os.environ["HELPER_FILE"] + ".part", os.environ["HELPER_FILE"])
    if how == "holds":
        re.match("(a+)+$", "a" * length + "b")
    while True:
        time.sleep(0.05)


# A program that ignores SIGTERM, and one that it has started.
STUBBORN = """trap '' TERM; sleep 600 & echo $$ $! >"$HELPER_FILE.part"
mv "$HELPER_FILE.part" "$HELPER_FILE"; while :; do sleep 0.05; done"""


@ms.job(queue=QUEUE, max_attempts=1)
def runs_a_program(ctx: Context) -> None:
    ctx.run(["sh", "-c", STUBBORN], grace="100ms")


@ms.job(queue=QUEUE, max_attempts=1)
async def awaits_a_program(ctx: AsyncContext) -> None:
    await ctx.run(["sh", "-c", STUBBORN], grace="100ms")


@ms.job(queue=QUEUE, max_attempts=1)
def summed(ctx: Context, parts: list[int]) -> int:
    return sum(ctx.results(parts))


@ms.job(queue=QUEUE, max_attempts=1)
def part(ctx: Context, n: int) -> int:
    return n


@ms.job(queue=QUEUE, max_attempts=1)
def forks_and_dies(ctx: Context) -> None:
    forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    forked.start()
    with open(os.environ["HELPER_FILE"] + ".part", "w") as file:
        file.write(str(forked.pid))
    os.rename(os.environ["HELPER_FILE"] + ".part", os.environ["HELPER_FILE"])
    os.kill(os.getpid(), signal.SIGKILL)


def fail_in_a_chain() -> None:
    try:
        try:
            raise KeyError("no row")
        except KeyError:
            raise LookupError("no order")  # noqa: B904
    except LookupError as error:
        raise ValueError("cannot charge") from error


CHAIN_LINE = fail_in_a_chain.__code__.co_firstlineno + 7


@ms.job(queue=QUEUE, max_attempts=1)
def chains(ctx: Context) -> None:
    fail_in_a_chain()


@ms.job(queue=QUEUE, max_attempts=1)
async def achains(ctx: AsyncContext) -> None:
    fail_in_a_chain()


@ms.job(queue=QUEUE, backoff="1h", retry_on=[LookupError], give_up_on=[KeyError])
def with_policy(ctx: Context, name: str) -> None:
    raise getattr(builtins, name)("no")


_set: list[str] = []


class Sets(Middleware):
    @contextlib.contextmanager
    def attempt(self, ctx: Any) -> Iterator[None]:
        _set.append("set by the middleware")
        yield
        _set.clear()


ms.use(Sets())


@ms.job(queue=QUEUE)
def shows_middleware(ctx: Context) -> str:
    return _set[0]
