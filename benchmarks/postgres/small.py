"""Single operations: an enqueue, a wake; and the write-ahead log."""

import json
import os
import pathlib
import re
import subprocess
import tempfile

from pgserver import Load, note
from report import median, number, spread, table, times


def alone(bed):
    runs = []
    for _ in range(bed.rounds):
        with Load(bed, 1, 1) as load:
            bed.server.calm()
            runs.append(load.do(f"alone {bed.pick(500, 3000)}"))
        note(f"   enqueue {runs[-1]['enqueue_p50_us']:.0f} us, insert "
             f"{runs[-1]['insert_p50_us']:.0f} us")

    def column(name):
        return [run[name] for run in runs]

    ratios = [run["enqueue_p50_us"] / run["insert_p50_us"] for run in runs]
    rows = [["enqueue of one job, one client", spread(column("enqueue_p50_us")),
             spread(column("enqueue_p99_us")), times(median(ratios))],
            ["INSERT of the same row by libpq, autocommit", spread(column("insert_p50_us")),
             spread(column("insert_p99_us")), "1.00x"]]
    return table(["sequential, alternating, 200 B", "us p50", "us p99", "of the INSERT"],
                 rows), runs


class Node:
    """A `mainspring serve` on a free port."""

    def __init__(self, bed, *flags):
        self.directory = tempfile.TemporaryDirectory()
        self.err = open(pathlib.Path(self.directory.name) / "err", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [bed.program("mainspring"), "serve", "--listen", "127.0.0.1:0", "--log-level", "warn",
             *flags], stdout=subprocess.PIPE, stderr=self.err, text=True, cwd=self.directory.name,
            env=dict(os.environ, MAINSPRING_STORE=bed.server.url(),
                     XDG_CONFIG_HOME=self.directory.name))
        self.port = None
        for line in self.process.stdout:
            found = re.search(r"listens on http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                return
        self.err.seek(0)
        raise RuntimeError(f"a server did not start: {self.err.read()}")

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.err.close()
        self.directory.cleanup()


def wake(bed):
    count = bed.pick(200, 1000)
    setups = {"by the notifier": ([], 1), "by NOTIFY only": (["--wake", "notify"], 1),
              "on the same node": ([], 0)}
    runs = {name: [] for name in setups}
    for _ in range(bed.pick(1, min(bed.rounds, 3))):
        for name, (flags, at) in setups.items():
            bed.server.sql("DROP SCHEMA IF EXISTS mainspring CASCADE", "mainspring")
            nodes = [Node(bed, *flags) for _ in range(2)]
            done = subprocess.run(
                [bed.program("postgres_wake"), str(nodes[0].port), str(nodes[at].port),
                 str(count)], stdout=subprocess.PIPE, text=True, check=True)
            for node in nodes:
                node.stop()
            runs[name].append(json.loads(done.stdout))
            note(f"   {name}: {done.stdout.strip()}")
    rows = []
    for name, of in runs.items():
        row = [f"{name}, {sum(run['wakes'] for run in of):,} wakes"]
        for what in ("whole_ms", "after_ack_ms", "floor_ms"):
            row += [number(median([run[what][i] for run in of]), 2) for i in (0, 1)]
        rows.append(row)
    return table(["from an enqueue over HTTP to the claim's answer elsewhere, ms", "p50", "p99",
                  "from its acknowledgement, p50", "p99", "a request without the store, p50",
                  "p99"], rows), runs


def wal(bed):
    runs = {}
    for batch in (100, 1000):
        for clients in (1, 16):
            for _ in range(bed.pick(1, 3)):
                with Load(bed, clients, batch) as load:
                    bed.server.calm()
                    load.do("run 1 1")
                    bed.server.sql("SELECT pg_stat_reset_shared('wal')")
                    answer = load.do(f"run 0.5 {bed.pick(2, 8)}")
                    answer["full_page_images"] = int(bed.server.sql(
                        "SELECT wal_fpi FROM pg_stat_wal")) / max(answer["jobs"], 1)
                runs.setdefault((clients, batch), []).append(answer)
                note(f"   {clients} clients, batch {batch}: {answer['wal']:,.0f} B per job")
    rows = [[f"{clients} client{'s' * (clients > 1)}, batch {batch}",
             spread([run["wal"] for run in of]),
             number(median([run["full_page_images"] for run in of]), 3)]
            for (clients, batch), of in runs.items()]
    return table(["lifecycle in process, 200 B", "log, B per job", "full page images per job"],
                 rows), {f"{clients} {batch}": of for (clients, batch), of in runs.items()}
