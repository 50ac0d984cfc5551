// The columns of the jobs table.
import type { Schemas } from "../../api/client";
import { Ago, StateBadge } from "../../components/basics";
import type { Column } from "../../components/table";
import { tellingLine } from "../../components/telling_line";
import { shortJson } from "../../components/values";
import { bytes, duration } from "../../format";
import { link } from "../../router";
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
  return <code class="args" title={shortJson(job.args, 1000, job.kind)}>{shortJson(job.args, 200, job.kind)}</code>;
}

const filtered = (text: string | undefined, query: Record<string, string>) => (text ? <a href={link(["jobs"], query)}>{text}</a> : t.none);

export const ALL_COLUMNS: Column<Job>[] = [
  { key: "id", title: t.jobs.id, cell: (job) => <a href={link(["jobs", job.id])}>{String(job.id)}</a>, numeric: true, sort: (job) => job.id },
  { key: "kind", title: t.jobs.kind, cell: (job) => <a class="name" href={link(["jobs", job.id])}>{job.kind}</a>, sort: (job) => job.kind },
  { key: "queue", title: t.jobs.queue, cell: (job) => <a class="name" href={link(["queues", job.queue])}>{job.queue}</a>, sort: (job) => job.queue },
  { key: "state", title: t.jobs.state, cell: (job) => <StateBadge state={job.state} />, sort: (job) => job.state },
  { key: "attempt", title: t.jobs.attempt, cell: (job) => t.jobs.attempts(job.attempt ?? 0, job.max_attempts ?? 0), numeric: true, sort: (job) => job.attempt ?? 0 },
  { key: "when", title: t.jobs.when, cell: (job) => <Ago at={timeOf(job)} />, sort: timeOf },
  { key: "args", title: t.jobs.args, cell: (job) => <Args job={job} />, wide: true },
  { key: "priority", title: t.jobs.priority, cell: (job) => job.priority ?? 5, numeric: true, sort: (job) => job.priority ?? 5 },
  { key: "created", title: t.job.created, cell: (job) => <Ago at={job.created_at} />, sort: (job) => job.created_at },
  { key: "waited", title: t.job.waited, cell: (job) => span(waitedMs(job)), numeric: true, sort: waitedMs },
  { key: "ran", title: t.job.ran, cell: (job) => span(ranMs(job)), numeric: true, sort: ranMs },
  { key: "worker", title: t.job.worker, cell: (job) => (job.worker ? <code class="name">{job.worker}</code> : t.none), sort: (job) => job.worker },
  { key: "limit_key", title: t.job.limitKey, cell: (job) => (job.limit_key ? <a href={link(["queues", job.queue, "keys", job.limit_key])}>{job.limit_key}</a> : t.none), sort: (job) => job.limit_key },
  { key: "session", title: t.job.session, cell: (job) => filtered(job.session, { queue: job.queue, q: `session:${JSON.stringify(job.session)}` }), sort: (job) => job.session },
  { key: "tags", title: t.job.tags, cell: (job) => job.tags?.map((tag) => <a key={tag} class="tag" href={link(["jobs"], { tag })}>{tag}</a>), sort: (job) => job.tags?.join(" ") },
  { key: "error", title: t.jobs.error, cell: (job) => (job.description ? <span class="long" title={job.description}>{tellingLine(job.description)}</span> : t.none), sort: (job) => job.description && tellingLine(job.description), wide: true },
  { key: "reason", title: t.reason, cell: (job) => job.reason ?? t.none, sort: (job) => job.reason },
];
const USUAL = ["id", "kind", "queue", "state", "attempt", "when", "args"];
const FAILED = new Set(["dead", "cancelled", "retryable"]);

// Where only failed jobs are shown, the usual columns have their errors.
export const usualColumns = (states: string[]): string[] =>
  states.length > 0 && states.every((state) => FAILED.has(state)) ? [...USUAL, "error"] : USUAL;
