"""`python -m mainspring work MODULE`: runs the handlers of a module."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

from . import __version__
from ._client import Mainspring
from ._logs import set_up_logs
from ._wire import Call, Unanswered, document_of, path_part
from ._worker import run_until_signal
from .errors import MainspringError
MAX_PAGES = 20  # of up to 1,000 schedules; with more the worker does not warn


def clients_of(modules: list[str]) -> list[Mainspring]:
    """The clients that the modules made, each once."""
    sys.path.insert(0, os.getcwd())
    found: list[Mainspring] = []
    for name in modules:
        module = importlib.import_module(name)
        for value in vars(module).values():
            candidates = [value, getattr(value, "ms", None)]
            for one in candidates:
                if isinstance(one, Mainspring) and one not in found:
                    found.append(one)
    return [ms for ms in found if any(d.handler_function for d in ms.definitions.values())]


def check_modules(names: list[str]) -> str:
    """What is wrong with the names, before they are imported."""
    for name in names:
        if "/" in name or name.startswith("."):
            return not_a_module(name)
    return ""


def not_a_module(name: str) -> str:
    path = os.path.normpath(name.removesuffix(".py"))
    if path.startswith(("/", "..")):  # modules are found from this directory
        path = os.path.basename(path)
    module = path.replace("/", ".").strip(".")
    return f"{name}: name the module, not the file" + (f": {module}" if module else "")


def missing_module(error: ModuleNotFoundError, names: list[str]) -> str:
    """The argument without a module. Empty: a module of theirs imports what is missing."""
    for name in names:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            if name.endswith(".py"):
                return not_a_module(name)
            return f"there is no module {name} in {os.getcwd()}"
    return ""


def warn_of_unused(ms: Mainspring, queues: list[str]) -> None:
    """Warns of a mistyped --queue, which would wait forever."""
    for queue in queues:
        call = Call("GET", f"/v1/queues/{path_part(queue)}", answer_within=2.0)
        try:
            status = ms.requests.once(call).status
        except (Unanswered, MainspringError):
            return  # the worker waits for the server, or says what is wrong
        if status == 404 and not is_named(ms, queue):
            text = f'queue "{queue}" has never been used: check its name'
            print(f"mainspring: warning: {text}", file=sys.stderr)


def is_named(ms: Mainspring, queue: str) -> bool:
    """Whether a schedule, timer or trigger makes jobs for the queue. True if that is not known."""
    for what in ("schedules", "triggers"):  # a timer is a schedule
        after = ""
        for _ in range(MAX_PAGES):
            path = f"/v1/{what}?limit=1000" + (f"&after={path_part(after)}" if after else "")
            try:
                page = document_of(ms.requests.once(Call("GET", path, answer_within=2.0)))
                if any(one["job"].get("queue", "default") == queue for one in page[what]):
                    return True
                after = page.get("next") or ""
            except (Unanswered, MainspringError, LookupError, TypeError, AttributeError):
                return True
            if not after:
                break
        else:
            return True
    return False


def work(arguments: argparse.Namespace) -> int:
    set_up_logs(arguments.log, arguments.log_level)
    problem = check_modules(arguments.module)
    try:
        clients = [] if problem else clients_of(arguments.module)
    except ModuleNotFoundError as error:
        problem = missing_module(error, arguments.module)
        if not problem:
            raise  # the traceback says where
    if problem:
        print(f"mainspring: {problem}", file=sys.stderr)
        return 64
    if len(clients) != 1:
        names = ", ".join(arguments.module)
        print(
            f"mainspring: {names}: must define handlers of one Mainspring, found {len(clients)}",
            file=sys.stderr,
        )
        return 64
    options: dict[str, Any] = {
        "slots": arguments.slots,
        "processes": arguments.processes,
        "modules": arguments.module,
        "lease": arguments.lease,
        "graceful_stop": arguments.graceful_stop,
        "exit_when_stuck": arguments.exit_when_stuck,
        "log_jobs": arguments.log_jobs,
    }
    if arguments.queue:
        options["queues"] = arguments.queue
    warn_of_unused(clients[0], arguments.queue or [])
    try:
        worker = clients[0].worker(**options)
        worker.child_logs = (arguments.log, arguments.log_level)
        run_until_signal(worker)
    except MainspringError as error:
        print(f"mainspring: {error}", file=sys.stderr)
        return 77 if error.code in ("unauthenticated", "forbidden") else 64
    return 0


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="python -m mainspring", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "work", help="run the handlers of modules until SIGTERM", allow_abbrev=False
    )
    run.add_argument("module", nargs="+", help="module that defines handlers, such as shop.jobs")
    run.add_argument("--slots", type=int, default=10, help="handlers that run at once [10]")
    run.add_argument("--queue", action="append", help="take jobs of this queue only; repeatable")
    run.add_argument("--processes", action="store_true", help="run handlers in processes")
    run.add_argument("--lease", default="30s", help="lease of a job [30s]")
    run.add_argument("--graceful-stop", default="25s", help="time for handlers to end [25s]")
    run.add_argument(
        "--exit-when-stuck",
        metavar="TIME",
        help="exit with 75 if a handler has not ended this long after it was asked to [never]",
    )
    run.add_argument("--watch", action="store_true", help="start again when a .py file changes")
    run.add_argument("--log", choices=("text", "json"), default="text", help="log format [text]")
    run.add_argument(
        "--log-jobs", action=argparse.BooleanOptionalAction, default=True,
        help="log one line for each attempt [yes]",
    )
    levels = ("debug", "info", "warning", "error", "critical")
    run.add_argument("--log-level", default="info", choices=levels, help="log level [info]")
    arguments = parser.parse_args(argv)
    if arguments.watch:
        from ._watch import watch

        return watch(argv)
    return work(arguments)


if __name__ == "__main__":
    sys.exit(main())
