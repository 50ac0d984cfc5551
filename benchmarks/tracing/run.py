#!/usr/bin/env python3
"""Measures what the export of traces costs: throughput with and without, in paired rounds.

  run.py --binary build/release/mainspring [--rounds 7] [--jobs 200000] [--dir /tmp]

Each round fills and drains a fresh server with --jobs jobs: once without export, once with the sampler
`parentbased_traceidratio` at 0.01 and a collector that answers, once with a collector that never answers. The order
changes from round to round. The processor time of the server per job varies less than the throughput, so it is shown too.
"""

from __future__ import annotations

import argparse
import http.server
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import shutil
import socket
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "dashboard"))

from run import Server, fill  # noqa: E402


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self) -> None:  # noqa: N802
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def collect(pipe: "multiprocessing.connection.Connection") -> None:
    """A separate process: it must not wait for the program that measures."""
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    pipe.send(collector.server_address[1])
    collector.serve_forever()


def processor_us(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def rate(binary: str, base: str, jobs: int, endpoint: str | None) -> tuple[float, float]:
    """Jobs per second, and microseconds of the server's processor time per job."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="mainspring-tracing.", dir=base))
    saved = dict(os.environ)
    if endpoint:
        os.environ.update(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_TRACES_SAMPLER="parentbased_traceidratio",
                          OTEL_TRACES_SAMPLER_ARG="0.01")
    try:
        server = Server(binary, directory)
        began = time.monotonic()
        fill(server, jobs, quiet=True)
        took = time.monotonic() - began
        busy = processor_us(server.process.pid)
        server.stop()
        return jobs / took, busy / jobs
    finally:
        os.environ.clear()
        os.environ.update(saved)
        shutil.rmtree(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/mainspring")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--dir", default="/tmp")
    arguments = parser.parse_args()
    pipe, other = multiprocessing.Pipe()
    collector = multiprocessing.Process(target=collect, args=(other,), daemon=True)
    collector.start()
    dead = socket.socket()  # accepts connections into its backlog, and never answers
    dead.bind(("127.0.0.1", 0))
    dead.listen(16)
    cases: list[tuple[str, str | None]] = [
        ("without export", None),
        ("1 % sampled", f"http://127.0.0.1:{pipe.recv()}"),
        ("1 % sampled, collector does not answer", f"http://127.0.0.1:{dead.getsockname()[1]}"),
    ]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in cases}
    for turn in range(arguments.rounds):
        for name, endpoint in [*cases[turn % 3:], *cases[: turn % 3]]:
            found[name].append(rate(arguments.binary, arguments.dir, arguments.jobs, endpoint))
            print("  {}: {:,.0f} jobs/s, {:.2f} us".format(name, *found[name][-1]), file=sys.stderr, flush=True)
    base = found["without export"]
    print("| Case | jobs/s, median | ratio, median of pairs | server, us per job | ratio |\n|---|---:|---:|---:|---:|")
    for name, values in found.items():
        rates, times = ([statistics.median(value[i] for value in values),
                         statistics.median(value[i] / other[i] for value, other in zip(values, base))] for i in (0, 1))
        print(f"| {name} | {rates[0]:,.0f} | {rates[1]:.3f} | {times[0]:.2f} | {times[1]:.3f} |")
    collector.terminate()


if __name__ == "__main__":
    main()
