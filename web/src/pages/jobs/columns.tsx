// The columns of the jobs table, and the menu that chooses them.
import type { Schemas } from "../../api/client";
import { Ago, StateBadge } from "../../components/basics";
import { usePageMenu } from "../../components/menu";
import type { Column } from "../../components/table";
import { shortJson } from "../../components/values";
import { bytes, duration } from "../../format";
import { link } from "../../router";
import { change, useSettings } from "../../settings";
import { t } from "../../texts";

type Job = Schemas["Job"];

const ms = (from?: string | null, to?: string | null): number | undefined => (from && to ? Math.max(0, Date.parse(to) - Date.parse(from)) : undefined);
const ranMs = (job: Job) => ms(job.started_at, job.finished_at);
// From when it could run to its last start.
const waitedMs = (job: Job) => ms(job.run_at && job.run_at > (job.created_at ?? "") ? job.run_at : job.created_at, job.started_at);
const span = (value: number | undefined) => (value === undefined ? t.none : duration(value));

// The time that matters most in the job's state.
function timeOf(job: Job): string | undefined {
  if (job.state === "scheduled" || job.state === "retryable") return job.run_at;
  return job.finished_at ?? (job.state === "running" ? job.started_at : undefined) ?? job.created_at;
}

function Args({ job }: { job: Job }) {
  if (job.args_omitted) return <span class="note">{t.jobs.argsOmitted(bytes(job.args_omitted))}</span>;
  if (job.args === null || job.args === undefined) return <span class="note">{t.none}</span>;
  return <code class="args">{shortJson(job.args)}</code>;
}

const filtered = (text: string | undefined, query: Record<string, string>) => (text ? <a href={link(["jobs"], query)}>{text}</a> : t.none);

export const ALL_COLUMNS: Column<Job>[] = [
  { key: "id", title: t.jobs.id, cell: (job) => <a href={link(["jobs", job.id])}>{String(job.id)}</a>, numeric: true, sort: (job) => Number(job.id) },
  { key: "kind", title: t.jobs.kind, cell: (job) => <a href={link(["jobs", job.id])}>{job.kind}</a>, sort: (job) => job.kind },
  { key: "queue", title: t.jobs.queue, cell: (job) => <a href={link(["queues", job.queue])}>{job.queue}</a>, sort: (job) => job.queue },
  { key: "state", title: t.jobs.state, cell: (job) => <StateBadge state={job.state} />, sort: (job) => job.state },
  { key: "attempt", title: t.jobs.attempt, cell: (job) => t.jobs.attempts(job.attempt ?? 0, job.max_attempts ?? 0), numeric: true, sort: (job) => job.attempt ?? 0 },
  { key: "when", title: t.jobs.when, cell: (job) => <Ago at={timeOf(job)} />, sort: (job) => timeOf(job) ?? "" },
  { key: "args", title: t.jobs.args, cell: (job) => <Args job={job} /> },
  { key: "priority", title: t.jobs.priority, cell: (job) => job.priority ?? 5, numeric: true, sort: (job) => job.priority ?? 5 },
  { key: "created", title: t.job.created, cell: (job) => <Ago at={job.created_at} />, sort: (job) => job.created_at ?? "" },
  { key: "waited", title: t.job.waited, cell: (job) => span(waitedMs(job)), numeric: true, sort: (job) => waitedMs(job) ?? -1 },
  { key: "ran", title: t.job.ran, cell: (job) => span(ranMs(job)), numeric: true, sort: (job) => ranMs(job) ?? -1 },
  { key: "worker", title: t.job.worker, cell: (job) => (job.worker ? <code>{job.worker}</code> : t.none), sort: (job) => job.worker ?? "" },
  { key: "limit_key", title: t.job.limitKey, cell: (job) => (job.limit_key ? <a href={link(["queues", job.queue, "keys", job.limit_key])}>{job.limit_key}</a> : t.none), sort: (job) => job.limit_key ?? "" },
  { key: "session", title: t.job.session, cell: (job) => filtered(job.session, { queue: job.queue, q: `session:${JSON.stringify(job.session)}` }), sort: (job) => job.session ?? "" },
  { key: "tags", title: t.job.tags, cell: (job) => job.tags?.map((tag) => <a key={tag} class="tag" href={link(["jobs"], { tag })}>{tag}</a>) },
  { key: "reason", title: t.reason, cell: (job) => job.reason ?? t.none, sort: (job) => job.reason ?? "" },
];
export const DEFAULT_COLUMNS = ["id", "kind", "queue", "state", "attempt", "when", "args"];

export function useColumns(): Column<Job>[] {
  const { jobColumns } = useSettings();
  const chosen = jobColumns ?? DEFAULT_COLUMNS;
  return ALL_COLUMNS.filter((column) => chosen.includes(column.key));
}

export function ColumnMenu() {
  const menu = usePageMenu();
  const chosen = new Set(useColumns().map((column) => column.key));
  const toggle = (key: string) => {
    const next = ALL_COLUMNS.map((column) => column.key).filter((one) => (one === key ? !chosen.has(one) : chosen.has(one)));
    if (next.length > 0) change({ jobColumns: next });
  };
  return (
    <details class="menu-box" ref={menu}>
      <summary class="button plain">{t.jobs.columns}</summary>
      <div class="menu-items">
        {ALL_COLUMNS.map((column) => (
          <label key={column.key} class="inline">
            <input type="checkbox" checked={chosen.has(column.key)} onChange={() => toggle(column.key)} /> {column.title}
          </label>
        ))}
      </div>
    </details>
  );
}
