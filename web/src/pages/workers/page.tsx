// Workers that are connected: where they run, what version they are, and what they run now.

import { get, getJobs, type Schemas } from "../../api/client";
import { changes, type ServerEvent } from "../../api/events";
import type { Worker } from "../../api/shapes";
import { Empty, Page, Panel, Show, StateBadge, useNow } from "../../components/basics";
import { ColumnMenu, useColumns } from "../../components/columns";
import { FindRows, findIn, useFind } from "../../components/find";
import { SelectionBar, useSelection } from "../../components/selection";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { count, duration } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";
import { CommandButtons, verbsOf } from "./commands";

type Job = Schemas["Job"];
const MAX_JOBS = 500;
const JOBS_PER_WORKER = 3;
const MAX_SHOWN = 50;

export function WorkersPage() {
  const concerns = (event: ServerEvent) => ["started", "completed", "retrying", "dead"].includes(event.type) || changes(event, "worker");
  const workers = useData("workers", (signal) => get<{ workers: Worker[] }>("/v1/workers", {}, signal), concerns, 1_000);
  const running = useData("running", (signal) => getJobs({ state: "running" }, MAX_JOBS, signal), concerns, 1_000);
  const jobs = running.data?.jobs ?? [];
  const found = findIn(workers.data?.workers ?? [], searchText, useFind());
  const { selected, onSelect, clear } = useSelection(new Map(found.map((worker) => [worker.id, ""])));
  const chosen = (workers.data?.workers ?? []).filter((worker) => selected.has(worker.id));
  const done = () => {
    clear();
    workers.reload();
  };
  const all: Column<Worker>[] = [
    ...columns(jobs),
    {
      key: "actions",
      title: t.actions,
      cell: (worker) => (
        <span class="actions">
          <CommandButtons workers={[worker]} verbs={verbsOf(worker)} done={done} />
        </span>
      ),
    },
  ];
  const shownColumns = useColumns("workers", all, USUAL);
  return (
    <Page title={t.pages.workers} note={t.workers.note} actions={<ColumnMenu page="workers" all={all} usual={USUAL} />}>
      <SelectionBar rows={chosen.length}>
        <CommandButtons workers={chosen} verbs={["quiet", "stop", "resume"]} done={done} />
      </SelectionBar>
      <Show of={workers}>
        {(data) =>
          data.workers.length === 0 ? (
            <Empty title={t.workers.empty}>{t.workers.emptyHint}</Empty>
          ) : (
            <>
              <Drift workers={data.workers} />
              {data.workers.length > FIND_FROM && <FindRows label={t.workers.find} shown={found.length} all={data.workers.length} />}
              <Table
                label={t.pages.workers}
                columns={shownColumns}
                rows={byName(found)}
                id={(worker) => worker.id}
                selected={selected}
                onSelect={onSelect}
                selectAllLabel={t.workers.selectAll}
                selectLabel={(worker) => t.workers.select(worker.id)}
              />
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
              <>
                <Shown page={page} workers={workers.data?.workers ?? []} />
                <Table label={t.workers.jobs} columns={JOB_COLUMNS} rows={longestFirst(page.jobs).slice(0, MAX_SHOWN)} id={(job) => String(job.id)} parameter="jobs" />
              </>
            )
          }
        </Show>
      </Panel>
    </Page>
  );
}

// Only the newest MAX_JOBS running jobs are read, and MAX_SHOWN of them are listed. The workers know how many run.
function Shown(props: { page: Schemas["JobPage"]; workers: Worker[] }) {
  const read = props.page.jobs.length;
  if (read <= MAX_SHOWN) return null;
  const all = Math.max(read, props.workers.reduce((sum, worker) => sum + worker.running, 0));
  return (
    <p class="note">
      {t.workers.shown(count(MAX_SHOWN), count(all), props.page.next_cursor === null ? "" : count(read))}{" "}
      <a href={link(["jobs"], { state: "running" })}>{t.workers.allJobs}</a>
    </p>
  );
}

const USUAL = ["id", "state", "version", "queues", "slots", "jobs"];
const SILENT_MS = 30_000; // longer than a claim waits

const FIND_FROM = 10;
const searchText = (worker: Worker): string => [worker.id, worker.host, worker.version, worker.language, ...(worker.queues ?? [])].join(" ");
const byName = (workers: Worker[]): Worker[] => [...workers].sort((a, b) => (a.id < b.id ? -1 : 1));
const longestFirst = (jobs: Job[]): Job[] => [...jobs].sort((a, b) => ((a.started_at ?? "") < (b.started_at ?? "") ? -1 : 1));

function Elapsed(props: { since?: string }) {
  const now = useNow();
  return <span class="numeric">{props.since ? duration(Math.max(0, now - Date.parse(props.since))) : t.none}</span>;
}

const JOB_COLUMNS: Column<Job>[] = [
  { key: "id", title: t.jobs.id, numeric: true, cell: (job) => <a href={link(["jobs", job.id])}>{String(job.id)}</a>, sort: (job) => job.id },
  { key: "kind", title: t.jobs.kind, cell: (job) => <span class="name">{job.kind}</span>, sort: (job) => job.kind },
  { key: "queue", title: t.jobs.queue, cell: (job) => <a class="name" href={link(["queues", job.queue])}>{job.queue}</a>, sort: (job) => job.queue },
  { key: "worker", title: t.job.worker, cell: (job) => <code class="name">{job.worker}</code>, sort: (job) => job.worker },
  { key: "elapsed", title: t.workers.elapsed, numeric: true, cell: (job) => <Elapsed since={job.started_at} />, sort: (job) => (job.started_at ? -Date.parse(job.started_at) : undefined) },
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
    { key: "id", title: t.workers.idAndHost, sort: (worker) => worker.id, cell: (worker) => <NameOf worker={worker} /> },
    {
      key: "state",
      title: t.jobs.state,
      sort: (worker) => `${worker.command ?? ""} ${worker.running > 0}`,
      cell: (worker) => (
        <>
          <StateBadge state={worker.running > 0 ? "running" : t.workers.idle} />{" "}
          {worker.command && <StateBadge state={t.workers.commands[worker.command]} />}
          {(worker.last_seen_ms ?? 0) > SILENT_MS && <div class="note">{t.workers.lastSeen(duration(worker.last_seen_ms ?? 0))}</div>}
        </>
      ),
    },
    { key: "version", title: t.workers.version, sort: (worker) => [worker.language, worker.version].join(" "), cell: (worker) => [worker.language, worker.version].filter(Boolean).join(" ") || t.none },
    {
      key: "queues",
      title: t.pages.queues,
      sort: (worker) => worker.queues?.join(" "),
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
      sort: (worker) => worker.running / (worker.slots ?? 1),
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
    { key: "jobs", title: t.workers.jobs, sort: (worker) => worker.running, cell: (worker) => <JobsOf jobs={jobs.filter((job) => job.worker === worker.id)} worker={worker} /> },
    { key: "seen", title: t.workers.seen, sort: (worker) => worker.last_seen_ms, cell: (worker) => t.ago(duration(worker.last_seen_ms ?? 0)) },
  ];
}

function NameOf({ worker }: { worker: Worker }) {
  return (
    <>
      <a class="name" href={link(["jobs"], { q: `worker:${JSON.stringify(worker.id)}` })}>
        <code>{worker.id}</code>
      </a>
      {worker.host && (
        <div>
          <span class="name note">{worker.pid ? t.workers.hostAndPid(worker.host, worker.pid) : worker.host}</span>
        </div>
      )}
    </>
  );
}

function JobsOf(props: { jobs: Job[]; worker: Worker }) {
  const { jobs, worker } = props;
  const shown = longestFirst(jobs).slice(0, JOBS_PER_WORKER);
  const hidden = Math.max(jobs.length, worker.running) - shown.length;
  if (shown.length + hidden === 0) return <span class="note">{t.none}</span>;
  return (
    <>
      {shown.map((job) => (
        <div key={String(job.id)}>
          <a class="name short" href={link(["jobs", job.id])}>{job.kind}</a> <Elapsed since={job.started_at} />
        </div>
      ))}
      {hidden > 0 && (
        <a href={link(["jobs"], { state: "running", q: `worker:${JSON.stringify(worker.id)}` })}>
          {shown.length === 0 ? t.workers.jobCount(hidden) : t.workers.moreJobs(hidden)}
        </a>
      )}
    </>
  );
}
