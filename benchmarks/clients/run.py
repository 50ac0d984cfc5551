#!/usr/bin/env python3
"""Compares the TypeScript and Python clients with their peers, on this machine, in paired rounds.

  run.py --binary build/release/mainspring [--lag build/release/benchmarks/client_lag] [--rounds 5]

It starts Mainspring, Redis (appendfsync everysec) and PostgreSQL on loopback in a temporary directory below --dir,
installs npm packages into it, and removes all of it at the end. Debian packages: redis-server, postgresql-15, nodejs,
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
TYPESCRIPT = ("mainspring", "bullmq", "graphile")
PYTHONS = ("mainspring", "celery", "rq")
NAMES = {"mainspring": "Mainspring", "bullmq": "BullMQ", "graphile": "graphile-worker",
         "celery": "Celery", "rq": "RQ", "cpp": "Mainspring, C++"}  # fmt: skip
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
        self.postgres = Postgres(base=str(self.directory))
        self.postgres.settings["shared_buffers"] = "512MB"
        self.environment = {**os.environ, "PYTHONPATH": f"{ROOT}/clients/python/src:{HERE}"}

    def __enter__(self) -> Bed:
        self.start_redis()
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

    def start_redis(self) -> None:
        port = free_port()
        data = self.directory / "redis"
        data.mkdir()
        self.start("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(data),
                   "--appendonly", "yes", "--appendfsync", "everysec", "--save", "")  # fmt: skip
        self.environment["BENCH_REDIS"] = str(port)
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
        subprocess.run([*npm, "ci"], cwd=node, check=True, stdout=subprocess.DEVNULL)
        client = self.directory / "client"
        shutil.copytree(ROOT / "clients/typescript", client)
        subprocess.run([*npm, "ci"], cwd=client, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["node", "build.mjs"], cwd=client, check=True, stdout=subprocess.DEVNULL)
        (node / "node_modules/mainspring").symlink_to(client)

    def value(self, language: str, name: str, measure: str, count: int) -> float:
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
        return float(json.loads(done.stdout.strip().splitlines()[-1]))

    def rounds(self, language: str, names: tuple[str, ...], measure: str, count: int) -> dict[str, list[float]]:
        """Each round measures all of them, and starts with another one."""
        found: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(self.arguments.rounds):
            start = turn % len(names)
            for name in [*names[start:], *names[:start]]:
                share = 1.0 if measure == "lag" else SLOWER.get(name, 1.0)
                value = self.value(language, name, measure, max(int(count * share), 100))
                found[name].append(value)
                note(f"{language} {measure} {name}: {number(value)}")
        return found


def rows_of(found: dict[str, list[float]], unit: str) -> list[list[str]]:
    ours = found["mainspring"]
    rows = []
    for name, values in found.items():
        compared = ratio(ours, values) if unit == "jobs/s" else ratio(values, ours)
        rows.append([NAMES[name], spread(values), "" if name == "mainspring" else times(compared)])
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
    code = "import sys, celery, rq; print(sys.version.split()[0], celery.__version__, rq.VERSION)"
    python, celery, rq = subprocess.check_output([PYTHON, "-c", code], text=True).split()
    return (f"Node.js {node[1:]}, BullMQ {packages['bullmq']}, graphile-worker {packages['graphile-worker']}, "
            f"Python {python}, Celery {celery}, RQ {rq}, Redis {redis}, PostgreSQL 15.")  # fmt: skip


def report(bed: Bed) -> str:
    arguments = bed.arguments
    before = os.getloadavg()[0]
    many, one, lag = arguments.jobs, arguments.jobs // 5, 200
    head = ["", "Median (lowest to highest)", "Mainspring is better by"]
    parts = []
    for language, title, names in (("ts", "TypeScript", TYPESCRIPT), ("py", "Python", PYTHONS)):
        for measure, count, unit, text in (
            ("many", many, "jobs/s", "batches of 100, jobs/s"),
            ("one", one, "jobs/s", "one job at a time, jobs/s"),
        ):
            found = bed.rounds(language, names, measure, count)
            parts.append(f"**{title}, {text}**\n\n{table(head, rows_of(found, unit))}")
        all_names = (*names, "cpp") if arguments.lag else names
        found = bed.rounds(language, all_names, "lag", lag)
        parts.append(f"**{title}, enqueue to handler, p50 in ms**\n\n{table(head, rows_of(found, 'ms'))}")
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
