// Workers that are connected: where they run, what version they are, and what they run now.
import { get, getJobs, type Schemas } from "../../api/client";
import type { Worker } from "../../api/shapes";
import { Empty, Page, Panel, Show, StateBadge, useNow } from "../../components/basics";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { count, duration } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";

type Job = Schemas["Job"];
const MAX_JOBS = 500;
const JOBS_PER_WORKER = 3;
const MAX_SHOWN = 50;

export function WorkersPage() {
  const changes = (event: { type: string }) => event.type === "started" || event.type === "completed" || event.type === "retrying" || event.type === "dead";
  const workers = useData("workers", (signal) => get<{ workers: Worker[] }>("/v1/workers", {}, signal), changes, 1_000);
  const running = useData("running", (signal) => getJobs({ state: "running" }, MAX_JOBS, signal), changes, 1_000);
  const jobs = running.data?.jobs ?? [];
  return (
    <Page title={t.pages.workers} note={t.workers.note}>
      <Show of={workers}>
        {(data) =>
          data.workers.length === 0 ? (
            <Empty title={t.workers.empty}>{t.workers.emptyHint}</Empty>
          ) : (
            <>
              <Drift workers={data.workers} />
              <Table label={t.pages.workers} columns={columns(jobs)} rows={byName(data.workers)} id={(worker) => worker.id ?? ""} />
            </>
          )
        }
      </Show>
      <Panel title={t.workers.jobs}>
        <Show of={running}>
          {(page) =>
            page.jobs.length === 0 ? (
              <Empty title={t.workers.noJobs} />
            ) : (
              <Table label={t.workers.jobs} columns={JOB_COLUMNS} rows={longestFirst(page.jobs).slice(0, MAX_SHOWN)} id={(job) => String(job.id)} />
            )
          }
        </Show>
      </Panel>
    </Page>
  );
}

const byName = (workers: Worker[]): Worker[] => [...workers].sort((a, b) => ((a.id ?? "") < (b.id ?? "") ? -1 : 1));
const longestFirst = (jobs: Job[]): Job[] => [...jobs].sort((a, b) => ((a.started_at ?? "") < (b.started_at ?? "") ? -1 : 1));

function Elapsed(props: { since?: string }) {
  const now = useNow();
  return <span class="numeric">{props.since ? duration(Math.max(0, now - Date.parse(props.since))) : t.none}</span>;
}

const JOB_COLUMNS: Column<Job>[] = [
  { key: "id", title: t.jobs.id, numeric: true, cell: (job) => <a href={link(["jobs", job.id])}>{String(job.id)}</a> },
  { key: "kind", title: t.jobs.kind, cell: (job) => job.kind },
  { key: "queue", title: t.jobs.queue, cell: (job) => <a href={link(["queues", job.queue])}>{job.queue}</a> },
  { key: "worker", title: t.job.worker, cell: (job) => <code>{job.worker}</code> },
  { key: "elapsed", title: t.workers.elapsed, numeric: true, cell: (job) => <Elapsed since={job.started_at} /> },
  { key: "progress", title: t.job.progress, cell: (job) => job.progress?.text ?? t.none },
];

// Workers of one queue and language that run different versions: a deployment that did not reach all of them.
export function driftOf(workers: Worker[]): { queue: string; versions: string[] }[] {
  const versions = new Map<string, Set<string>>();
  for (const worker of workers) {
    if (!worker.version) continue;
    for (const queue of worker.queues ?? []) {
      const key = JSON.stringify([queue, worker.language ?? ""]);
      versions.set(key, (versions.get(key) ?? new Set()).add(worker.version));
    }
  }
  return [...versions]
    .filter(([, all]) => all.size > 1)
    .map(([key, all]) => ({ queue: (JSON.parse(key) as string[])[0]!, versions: [...all].sort() }));
}

function Drift({ workers }: { workers: Worker[] }) {
  const drift = driftOf(workers);
  if (drift.length === 0) return null;
  return (
    <div class="message warning" role="status">
      <p>
        <strong>{t.workers.drift}</strong> {drift.map((one) => t.workers.driftOf(one.queue, one.versions.join(", "))).join("; ")}
      </p>
    </div>
  );
}

function columns(jobs: Job[]): Column<Worker>[] {
  return [
    { key: "id", title: t.workers.id, cell: (worker) => <a href={link(["jobs"], { q: `worker:${JSON.stringify(worker.id)}` })}><code>{worker.id}</code></a> },
    {
      key: "state",
      title: t.jobs.state,
      cell: (worker) => <StateBadge state={(worker.running ?? 0) > 0 ? "running" : t.workers.idle} />,
    },
    { key: "host", title: t.workers.host, cell: (worker) => (worker.host ? `${worker.host}${worker.pid ? ` (${worker.pid})` : ""}` : t.none) },
    { key: "version", title: t.workers.version, cell: (worker) => [worker.language, worker.version].filter(Boolean).join(" ") || t.none },
    {
      key: "queues",
      title: t.pages.queues,
      cell: (worker) =>
        worker.queues?.map((name) => (
          <a key={name} class="tag" href={link(["queues", name])}>
            {name}
          </a>
        )),
    },
    {
      key: "slots",
      title: t.workers.slots,
      cell: (worker) =>
        worker.slots ? (
          <span class="spark">
            <meter min={0} max={worker.slots} value={worker.running ?? 0} aria-label={t.workers.slots} />
            {t.workers.slotsOf(count(worker.running ?? 0), count(worker.slots))}
          </span>
        ) : (
          count(worker.running ?? 0)
        ),
    },
    { key: "jobs", title: t.workers.jobs, cell: (worker) => <JobsOf jobs={jobs.filter((job) => job.worker === worker.id)} worker={worker} /> },
    { key: "seen", title: t.workers.seen, cell: (worker) => t.ago(duration(worker.last_seen_ms ?? 0)) },
  ];
}

function JobsOf(props: { jobs: Job[]; worker: Worker }) {
  const { jobs, worker } = props;
  if (jobs.length === 0) return <span class="note">{t.none}</span>;
  return (
    <>
      {longestFirst(jobs).slice(0, JOBS_PER_WORKER).map((job) => (
        <div key={String(job.id)}>
          <a href={link(["jobs", job.id])}>{job.kind}</a> <Elapsed since={job.started_at} />
        </div>
      ))}
      {jobs.length > JOBS_PER_WORKER && (
        <a href={link(["jobs"], { state: "running", q: `worker:${JSON.stringify(worker.id)}` })}>{t.workers.moreJobs(jobs.length - JOBS_PER_WORKER)}</a>
      )}
    </>
  );
}
