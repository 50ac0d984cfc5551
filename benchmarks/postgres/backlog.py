"""The cost of a long queue: waiting jobs, jobs due later, dead rows that vacuum cannot remove."""

import json
import subprocess

from pgserver import Load, note
from report import median, number, spread, table, times

SCHEMA = "mainspring_bench"
STEP = 100_000  # jobs in one step of a lifecycle


def dead_rows(bed):
    return bed.server.sql(
        "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = "
        f"'{SCHEMA}'", "mainspring")


def steps(load, jobs, count):
    """The rate of each step, and the server's CPU per job over all of them."""
    load.tell(f"steps {jobs} {count}")
    load.hear()
    cpu = load.server.cpu_seconds()
    rates = []
    for i in range(count):
        answer = load.hear()
        rates.append(answer["jobs"] / answer["seconds"])
        note(f"   step {i + 1}: {rates[-1]:,.0f} jobs/s")
    return rates, (load.server.cpu_seconds() - cpu) / jobs / count * 1e6


def verify(bed):
    """Checks the invariants and counters of the schema."""
    done = subprocess.run(
        [bed.program("mainspring"), "verify", "--store", bed.server.url(), "--store-schema",
         SCHEMA], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"verify: {done.stdout}")
    return done.stdout.strip().splitlines()[-1]


def one_backlog(bed, batch, waiting, held):
    """First steps with an empty queue, then the same number of jobs with `waiting` jobs queued."""
    step = bed.pick(20_000, STEP)
    with Load(bed, 16, batch) as load:
        bed.server.calm()
        holder = None
        if held:
            holder = bed.server.session()
            holder("BEGIN ISOLATION LEVEL REPEATABLE READ")
            holder("SELECT count(*) FROM pg_class")
        (first,), first_cpu = steps(load, step, 1)
        filled = load.do(f"fill {waiting}") if waiting else {"rate": None}
        rest, rest_cpu = steps(load, step, bed.pick(8, 20))
        dead = int(dead_rows(bed))
        if holder:
            holder("COMMIT")
            holder.close()
    # The last tenth and the slowest step, of the first 100,000.
    tail = rest[-max(2, len(rest) // 10):]
    return {"first": first, "first_cpu_us": first_cpu, "cpu_us": rest_cpu, "fill": filled["rate"], "steps": rest, "median": median(rest),
            "tail": median(tail), "least": min(rest), "dead_rows": dead}


def backlog(bed):
    many = bed.pick(200_000, 2_000_000)
    setups = {"nothing waits": (0, False), f"{many:,} wait": (many, False),
              f"{many:,} wait, a transaction is held open": (many, True)}
    rows, saved = [], {}
    for batch in bed.pick((100,), (100, 1000)):
        for name, (waiting, held) in setups.items():
            note(f"   batch {batch}, {name}")
            runs = [one_backlog(bed, batch, waiting, held) for _ in range(bed.pick(1, 2))]
            saved[f"{name}, batch {batch}"] = runs
            share = {of: [run[of] / run["first"] for run in runs]
                     for of in ("median", "tail", "least")}
            rows.append([f"{name}; batch {batch}", spread([run["first"] for run in runs]),
                         spread([run["median"] for run in runs]), times(median(share["median"])),
                         times(median(share["tail"])), times(median(share["least"])),
                         number(median([run["first_cpu_us"] for run in runs])),
                         number(median([run["cpu_us"] for run in runs])),
                         number(median([run["dead_rows"] for run in runs]))])
    step = bed.pick(20_000, STEP)
    text = (f"Lifecycle, 16 clients, 200 B, in steps of {step:,} jobs: the first of a new store, "
            f"then {bed.pick(8, 20)} with the backlog kept.\n\n")
    return text + table(["", f"first {step:,}, jobs/s", "then, jobs/s", "of the first",
                         "its last tenth", "its slowest step", "server's CPU, us per job: first",
                         "then", "dead rows at the end"], rows), saved


# The rows that the store would write, in an existing queue: the job, its schedule link and the
# counters. The payload is 200 bytes; the jobs are due in a year or later.
FUTURE = """
WITH q AS (SELECT id FROM {s}.queues WHERE name = 'bench'),
     k AS (SELECT id FROM {s}.kinds WHERE name = 'bench'),
     t AS (SELECT {s}.now_us() AS now, '{{"data":"' || repeat('x', 189) || '"}}' AS args),
     j AS (INSERT INTO {s}.jobs (id, state, flags, priority, attempt, max_attempts, version, token,
             lease_until, lease, claimed_at, run_at, started_at, finished_at, expires_at, created_at,
             timeout, schedule, queue, kind, budget, args)
           SELECT nextval('{s}.job_ids'), 1, 0, 5, 0, 20, 1, 0, 0, 0, 0,
             t.now + 31536000000000 + n * 1000::bigint, 0, 0, 0, t.now, 900000000, 0, q.id, k.id, 20, t.args
           FROM generate_series({first}, {last}) AS n, q, k, t RETURNING id, run_at),
     d AS (INSERT INTO {s}.due (run_at, id) SELECT run_at, id FROM j)
INSERT INTO {s}.job_counts (node, batch, at, queue, enqueued, scheduled)
  SELECT 0, 0, t.now, q.id, {last} - {first} + 1, {last} - {first} + 1 FROM q, t
"""


def make_future(bed, count):
    chunk = 500_000
    session = bed.server.session()
    session("SET synchronous_commit = off")
    for first in range(1, count + 1, chunk):
        session(FUTURE.format(s=SCHEMA, first=first, last=min(first + chunk - 1, count)))
        note(f"   {min(first + chunk - 1, count):,} future jobs")
    session.close()
    bed.server.sql(f"ANALYZE {SCHEMA}.jobs", "mainspring")
    bed.server.sql(f"ANALYZE {SCHEMA}.due", "mainspring")


def check_future(bed):
    """Checks with `verify` that a small number of such rows is correct."""
    with Load(bed, 1, 10) as load:
        load.do("jobs 100")
    make_future(bed, 20_000)
    note(f"   verify: {verify(bed)}")


def future(bed):
    count = bed.pick(300_000, 10_000_000)
    check_future(bed)
    seconds = bed.pick(2, 8)
    runs = {0: [], count: []}
    with Load(bed, 16, 100) as load:
        load.do("run 1 1")
        bed.server.calm()
        runs[0] = [load.do(f"run 1 {seconds}") for _ in range(bed.rounds)]
    make_future(bed, count)
    bed.server.calm()
    with Load(bed, 16, 100, new=False) as load:
        load.do("run 1 1")
        bed.server.calm()
        runs[count] = [load.do(f"run 1 {seconds}") for _ in range(bed.rounds)]
    rates = {n: [run["rate"] for run in of] for n, of in runs.items()}
    rows = [[f"{n:,} future jobs", spread(rates[n]), number(median([r["cpu_us"] for r in of])),
             times(median(rates[n]) / median(rates[0]))] for n, of in runs.items()]
    return table(["lifecycle in process, 16 clients, batch 100, 200 B", "jobs/s",
                  "server's CPU, us per job", "of none"], rows), json.loads(json.dumps(runs))
