#!/usr/bin/env python3
"""Compares the TypeScript and Python clients with their peers, on this machine, in paired rounds.

  run.py --binary build/release/mainspring [--lag build/release/benchmarks/client_lag] [--rounds 5]

It starts Mainspring, Redis (once with appendfsync everysec, once with always) and PostgreSQL on loopback in a temporary
directory below --dir, installs npm packages into it, and removes all of it at the end. Debian packages: redis-server, postgresql-15, nodejs,
python3-celery, python3-rq. Markdown goes to standard output; --write FILE puts it between the markers of FILE.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "postgres"))

from pgserver import Server as Postgres  # noqa: E402
from report import number, ratio, spread, table, times  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, which has Celery and RQ
# NAME_always: with the Redis that has each write on disk before it answers.
TYPESCRIPT = ("mainspring", "bullmq", "bullmq_always", "graphile")
PYTHONS = ("mainspring", "celery", "celery_always", "rq", "rq_always")
NAMES = {"mainspring": "Mainspring", "bullmq": "BullMQ", "graphile": "graphile-worker",
         "celery": "Celery", "rq": "RQ", "cpp": "Mainspring, C++", "mainspring_await": "Mainspring, `aenqueue`",
         "mainspring_gather": "Mainspring, 256 `aenqueue` at once"}  # fmt: skip
OWN = {"mainspring_await": "aenqueue", "mainspring_gather": "burst"}  # measures of the Python client
SLOWER = {"rq": 0.1, "celery": 0.25}  # of the jobs: their rates need fewer
BEGIN, END = "<!-- measured -->", "<!-- end -->"


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Bed:
    """The servers and the measured programs."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="mainspring-clients.", dir=arguments.dir))
        self.directory.chmod(0o755)
        self.processes: list[subprocess.Popen[str]] = []
        self.redis: dict[str, str] = {}  # ports
        self.postgres = Postgres(base=str(self.directory))
        self.postgres.settings["shared_buffers"] = "512MB"
        self.environment = {**os.environ, "PYTHONPATH": f"{ROOT}/clients/python/src:{HERE}"}

    def __enter__(self) -> Bed:
        for fsync in ("everysec", "always"):
            self.start_redis(fsync)
        self.start_mainspring()
        self.postgres.__enter__()
        self.install()
        return self

    def __exit__(self, *_: Any) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        if self.postgres.pid is not None:
            self.postgres.__exit__()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, *command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.processes.append(process)
        return process

    def start_redis(self, fsync: str) -> None:
        port = free_port()
        data = self.directory / f"redis-{fsync}"
        data.mkdir()
        self.start("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(data),
                   "--appendonly", "yes", "--appendfsync", fsync, "--save", "")  # fmt: skip
        self.redis[fsync] = str(port)
        until = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def start_mainspring(self) -> None:
        server = self.start(self.arguments.binary, "serve", "--data", str(self.directory / "store"),
                            "--listen", "127.0.0.1:0", "--json")  # fmt: skip
        assert server.stdout is not None
        self.environment["MAINSPRING_SERVER"] = json.loads(server.stdout.readline())["url"]

    def install(self) -> None:
        node = self.directory / "node"
        node.mkdir()
        for file in [*HERE.glob("*.mjs"), HERE / "package.json", HERE / "package-lock.json"]:
            shutil.copy(file, node)
        npm = ["npm", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        self.install_packages(node, npm, self.arguments.packages)
        client = self.directory / "client"
        shutil.copytree(ROOT / "clients/typescript", client)
        self.install_packages(client, npm, self.arguments.client_packages)
        subprocess.run(["node", "build.mjs"], cwd=client, check=True, stdout=subprocess.DEVNULL)
        scope = node / "node_modules/@mainspring-jobs"
        scope.mkdir()
        (scope / "client").symlink_to(client)

    def install_packages(self, folder: pathlib.Path, npm: list[str], given: str) -> None:
        if given:
            modules = folder / "node_modules"
            modules.mkdir()
            for one in pathlib.Path(given).resolve().iterdir():
                (modules / one.name).symlink_to(one)
            return
        subprocess.run([*npm, "ci"], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    def value(self, language: str, name: str, measure: str, count: int) -> Any:
        measure = OWN.get(name, measure)
        name, _, redis = name.partition("_")
        self.environment["BENCH_REDIS"] = self.redis.get(redis, self.redis["everysec"])
        if name == "graphile":
            self.postgres.new_database("bench")
            self.environment["BENCH_POSTGRES"] = self.postgres.node_url("bench")
        if name == "cpp":
            command = [self.arguments.lag, str(count)]
        elif language == "ts":
            command = ["node", str(self.directory / f"node/ts_{name}.mjs"), measure, str(count)]
        else:
            command = [PYTHON, str(HERE / f"py_{name}.py"), measure, str(count)]
        done = subprocess.run(command, env=self.environment, cwd=self.directory, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def rounds(self, language: str, names: tuple[str, ...], measure: str, count: int) -> dict[str, list[Any]]:
        """Each round measures all of them, and starts with another one."""
        found: dict[str, list[Any]] = {name: [] for name in names}
        for turn in range(self.arguments.rounds):
            start = turn % len(names)
            for name in [*names[start:], *names[:start]]:
                share = 1.0 if measure == "lag" else SLOWER.get(name.partition("_")[0], 1.0)
                value = self.value(language, name, measure, max(int(count * share), 100))
                found[name].append(value)
                note(f"{language} {measure} {name}: {json.dumps(value)}")
        return found


def rows_of(found: dict[str, list[float]], unit: str) -> list[list[str]]:
    ours = found["mainspring"]
    rows = []
    for name, values in found.items():
        compared = ratio(ours, values) if unit == "jobs/s" else ratio(values, ours)
        title = NAMES.get(name) or f"{NAMES[name.partition('_')[0]]}, `always`"
        rows.append([title, spread(values), "" if name == "mainspring" else times(compared)])
    return rows


def import_time() -> float:
    # Processor time, so that other processes on the machine do not count.
    code = "import time; t = time.process_time(); import mainspring; print(time.process_time() - t)"
    source = {"PYTHONPATH": str(ROOT / "clients/python/src")}
    out = [float(subprocess.check_output([PYTHON, "-c", code], env=source)) for _ in range(11)]
    return statistics.median(out) * 1000


def versions(bed: Bed) -> str:
    node = subprocess.check_output(["node", "--version"], text=True).strip()
    redis = subprocess.check_output(["redis-server", "--version"], text=True).split("v=")[1].split()[0]
    packages = json.loads((HERE / "package.json").read_text())["dependencies"]
    parts = [f"Node.js {node[1:]}", f"BullMQ {packages['bullmq']}", f"graphile-worker {packages['graphile-worker']}"]
    for name, code in (("Python", "import platform; print(platform.python_version())"),
                       ("Celery", "import celery; print(celery.__version__)"),
                       ("RQ", "import rq; print(rq.VERSION)")):  # fmt: skip
        if name.lower() not in bed.arguments.without.split(","):
            parts.append(f"{name} {subprocess.check_output([PYTHON, '-c', code], text=True).strip()}")
    return ", ".join([*parts, f"Redis {redis}, PostgreSQL 15."])


def report(bed: Bed) -> str:
    arguments = bed.arguments
    before = os.getloadavg()[0]
    many, one, lag = arguments.jobs, arguments.jobs // 5, 200
    head = ["", "Median (lowest to highest)", "Mainspring is better by"]
    parts = []
    left_out = arguments.without.split(",")
    for language, title, known in (("ts", "TypeScript", TYPESCRIPT), ("py", "Python", PYTHONS)):
        names = tuple(name for name in known if name.partition("_")[0] not in left_out)
        for measure, count, unit, text in (
            ("many", many, "jobs/s", "batches of 100, jobs/s"),
            ("one", one, "jobs/s", "one job at a time, jobs/s"),
            ("enqueue", one, "jobs/s", "enqueue one after the other, jobs/s"),
            ("burst", many, "jobs/s", "enqueue 256 at once, jobs/s"),
        ):
            if measure not in arguments.measures.split(","):
                continue
            if language == "py" and measure == "burst":  # its peers have no coroutines
                continue
            own = tuple(OWN) if language == "py" and measure == "enqueue" else ()
            found = bed.rounds(language, (*names, *own), measure, count)
            parts.append(f"**{title}, {text}**\n\n{table(head, rows_of(found, unit))}")
        if "lag" not in arguments.measures.split(","):
            continue
        all_names = (*names, "cpp") if arguments.lag else names
        found = bed.rounds(language, all_names, "lag", lag)
        for i, percentile in enumerate(("p50", "p99")):
            rows = rows_of({name: [one[i] for one in values] for name, values in found.items()}, "ms")
            parts.append(f"**{title}, enqueue to handler, {percentile} in ms**\n\n{table(head, rows)}")
    load = max(before, os.getloadavg()[0])
    when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    cores = os.cpu_count()
    first = (f"{when}, {cores} cores, load average up to {load:.1f}, {arguments.rounds} rounds. {versions(bed)} "
             f"`import mainspring` in Python takes {import_time():.0f} ms of processor time.")  # fmt: skip
    if load > cores:
        first += " The machine was busy with other work: compare within a table, not with other pages."
    return "\n\n".join([first, *parts])


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--binary", required=True, help="the mainspring program")
    parser.add_argument("--lag", default="", help="the program client_lag, for the C++ client's row")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=20_000, help="of `many`; fewer for slower peers")
    parser.add_argument("--measures", default="many,one,enqueue,burst,lag", help="only these [all]")
    parser.add_argument("--without", default="", help="peers that are not installed, such as rq,celery")
    parser.add_argument("--packages", default="", help="node_modules of package.json, instead of npm ci")
    parser.add_argument("--client-packages", default="", help="the same of clients/typescript")
    parser.add_argument("--dir", default="/tmp", help="where the data goes: a real disk [/tmp]")
    parser.add_argument("--write", default="", help="a Markdown file with the markers")
    arguments = parser.parse_args()
    for name in ("binary", "lag"):
        if getattr(arguments, name):
            setattr(arguments, name, str(pathlib.Path(getattr(arguments, name)).resolve()))
    with Bed(arguments) as bed:
        text = report(bed)
    if not arguments.write:
        print(text)
        return
    path = pathlib.Path(arguments.write)
    whole = path.read_text()
    begin, end = whole.index(BEGIN) + len(BEGIN), whole.index(END)
    path.write_text(f"{whole[:begin]}\n{text}\n{whole[end:]}")


if __name__ == "__main__":
    main()
