"""Two ways to prune jobs after their retention: bounded deletes, and dropped partitions.

Both by the real store: the partitioned one gets its table `jobs` exchanged for one that is parted by
id before the first job, which no statement of the store notices.
"""

import time

from backlog import SCHEMA, verify
from pgserver import Load, finish, note
from report import median, number, table, times

LIMIT_S = 300

# One partition per hour of a day, for a store that keeps one day.
PARTITIONS = 24


def part(bed, size):
    """Makes `jobs` a table of PARTITIONS partitions of `size` ids, each like the old table."""
    make = [f"ALTER TABLE {SCHEMA}.jobs RENAME TO plain_jobs",
            f"ALTER INDEX {SCHEMA}.jobs_pkey RENAME TO plain_jobs_pkey",
            f"CREATE TABLE {SCHEMA}.jobs (LIKE {SCHEMA}.plain_jobs INCLUDING DEFAULTS INCLUDING "
            "STORAGE, PRIMARY KEY (id)) PARTITION BY RANGE (id)"]
    for i in range(PARTITIONS):
        make.append(
            f"CREATE TABLE {SCHEMA}.jobs_{i} PARTITION OF {SCHEMA}.jobs FOR VALUES FROM "
            f"({i * size}) TO ({(i + 1) * size}) WITH (fillfactor = 50, "
            "autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0)")
    make.append(f"ALTER TABLE {SCHEMA}.jobs OWNER TO mainspring")
    make += [f"ALTER TABLE {SCHEMA}.jobs_{i} OWNER TO mainspring" for i in range(PARTITIONS)]
    for one in make:
        bed.server.sql(one, "mainspring")


def live(bed, jobs, parted):
    """Run a lifecycle of `jobs` jobs and return its cost."""
    with Load(bed, 1, 10):
        pass  # the schema
    if parted:
        part(bed, -(-jobs * 11 // 10 // 4))  # the ids of a run span about five partitions
    with Load(bed, 16, 100, new=False) as load:
        bed.server.calm()
        return load.do(f"jobs {jobs}")


def quiet(bed):
    """Turns autovacuum off, so that the cost of vacuum is measured separately."""
    names = bed.server.sql(
        "SELECT string_agg(relname, ' ') FROM pg_class WHERE relkind = 'r' AND relnamespace = "
        f"'{SCHEMA}'::regnamespace", "mainspring").split()
    for name in names:
        bed.server.sql(f"ALTER TABLE {SCHEMA}.{name} SET (autovacuum_enabled = off)", "mainspring")
        bed.server.sql(f"VACUUM {SCHEMA}.{name}", "mainspring")
    bed.server.calm()


def measured(bed, jobs, work):
    before = bed.server.sample()
    begin = time.monotonic()
    work()
    return finish(bed.server, before, {"jobs": jobs, "seconds": time.monotonic() - begin})


def pruned(bed):
    return int(bed.server.sql(f"SELECT coalesce(sum(pruned), 0) FROM {SCHEMA}.job_counts",
                              "mainspring"))


def prune_all(bed, jobs):
    """Runs a node until it has pruned all jobs."""
    with Load(bed, 1, 1, new=False):
        end = time.monotonic() + LIMIT_S
        while pruned(bed) < jobs:
            if time.monotonic() > end:
                raise RuntimeError(f"{pruned(bed)} of {jobs} jobs were pruned in {LIMIT_S} s")
            time.sleep(0.1)


def by_deletes(bed, jobs):
    out = {"life": live(bed, jobs, parted=False)}
    quiet(bed)
    ended = int(bed.server.sql(
        f"SELECT count(*) FROM {SCHEMA}.jobs WHERE state = 4", "mainspring"))
    bed.server.sql(f"UPDATE {SCHEMA}.finished SET prune_at = {SCHEMA}.now_us()", "mainspring")
    bed.server.sql(f"VACUUM {SCHEMA}.finished", "mainspring")
    bed.server.calm()
    out["delete"] = measured(bed, ended, lambda: prune_all(bed, ended))
    out["vacuum"] = measured(bed, ended, lambda: [
        bed.server.sql(f"VACUUM {SCHEMA}.{name}", "mainspring") for name in ("jobs", "finished")])
    note(f"   verify: {verify(bed)}")
    return out


def by_dropping(bed, jobs):
    out = {"life": live(bed, jobs, parted=True)}
    quiet(bed)
    ended = int(bed.server.sql(
        f"SELECT count(*) FROM {SCHEMA}.jobs WHERE state = 4", "mainspring"))

    def drop():
        # The check before a drop: whether a job in it is still live or kept longer.
        for i in range(PARTITIONS):
            name = f"{SCHEMA}.jobs_{i}"
            bed.server.sql(f"SELECT count(*) FROM {name} WHERE state NOT IN (4, 6)", "mainspring")
            bed.server.sql(f"DROP TABLE {name}", "mainspring")
        bed.server.sql(f"DELETE FROM {SCHEMA}.finished", "mainspring")

    out["drop"] = measured(bed, ended, drop)
    return out


def retention(bed):
    jobs = bed.pick(60_000, 1_000_000)
    deletes, drops = [], []
    for _ in range(bed.pick(1, 3)):
        deletes.append(by_deletes(bed, jobs))
        drops.append(by_dropping(bed, jobs))
        for one in (deletes[-1], drops[-1]):
            note("   " + "; ".join(f"{name} {run['cpu_us']:.2f} us, {run['wal']:,.0f} B, "
                                   f"{run['rate']:,.0f} jobs/s" for name, run in one.items()))

    def row(name, runs, part_of):
        of = [run[part_of] for run in runs]
        return [name, number(median([one["cpu_us"] for one in of]), 2),
                number(median([one["wal"] for one in of])),
                number(median([one["rate"] for one in of]))]

    def total(runs):
        return median([sum(part["cpu_us"] for part in run.values()) for run in runs])

    rows = [row("one table: lifecycle", deletes, "life"),
            row("one table: bounded deletes, as the store does them", deletes, "delete"),
            row("one table: the vacuum after them", deletes, "vacuum"),
            row(f"{PARTITIONS} partitions by id: lifecycle", drops, "life"),
            row("partitions: look, DROP, and the rows of `finished`", drops, "drop")]
    text = (f"{jobs:,} jobs of 200 B, 16 clients, batch 100. All together: one table "
            f"{total(deletes):.1f} us of the server's CPU per job, partitions {total(drops):.1f} us "
            f"({times(total(drops) / total(deletes))}).\n\n")
    head = ["", "server's CPU, us per job", "log, B per job", "jobs/s"]
    return text + table(head, rows), {"deletes": deletes, "drops": drops}
