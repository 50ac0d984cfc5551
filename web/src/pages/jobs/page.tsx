// Jobs: filter by state, queue, kind and tag; act on the selected ones.
import { useEffect, useMemo, useState } from "preact/hooks";

import { get, post, segment, type Schemas } from "../../api/client";
import { listen } from "../../api/events";
import { Ago, Button, Empty, Page, Show, StateBadge, Tabs } from "../../components/basics";
import { confirm, notify } from "../../components/feedback";
import { Table, type Column } from "../../components/table";
import { shortJson } from "../../components/values";
import { useData } from "../../data";
import { bytes, count } from "../../format";
import { link, navigate, withQuery, type Route } from "../../router";
import { t } from "../../texts";
import { NewJobDialog } from "./new_job";

type Job = Schemas["Job"];
const STATES = ["available", "running", "scheduled", "retryable", "waiting", "completed", "cancelled", "dead"] as const;
const PAGE_SIZE = 50;
// Rows that are read again one by one after events. Beyond it the page is read as a whole.
const MAX_REFRESH = 10;

export function JobsPage(props: { route: Route }) {
  const { route } = props;
  const filter = Object.fromEntries(["state", "queue", "kind", "tag"].map((key) => [key, route.query.get(key) ?? ""])) as Record<
    "state" | "queue" | "kind" | "tag",
    string
  >;
  const cursor = route.query.get("cursor") ?? "";
  const key = JSON.stringify([filter, cursor]);
  const jobs = useData(key, (signal) =>
    get<Schemas["JobPage"]>("/v1/jobs", { ...filter, cursor, limit: PAGE_SIZE }, signal),
  );
  const queues = useData("queues", (signal) => get<Schemas["QueueList"]>("/v1/queues", {}, signal), (event) => event.job !== undefined);
  const totals = useMemo(() => sumStates(queues.data, filter.queue), [queues.data, filter.queue]);
  const [creating, setCreating] = useState(false);
  const current = filter.state || "any";
  const exact = !filter.kind && !filter.tag;
  return (
    <Page
      title={t.pages.jobs}
      note={t.jobs.note}
      actions={
        <Button kind="primary" onClick={() => setCreating(true)}>
          {t.jobs.create}
        </Button>
      }
    >
      <Tabs
        label={t.jobs.state}
        current={current}
        tabs={["any", ...STATES].map((state) => ({
          key: state,
          text: (
            <>
              {state === "any" ? t.jobs.any : t.states[state]}
              {exact && totals && <span class="tab-count">{count(totals[state] ?? 0)}</span>}
            </>
          ),
          href: withQuery(route, { state: state === "any" ? undefined : state, cursor: undefined }),
        }))}
      />
      <Filters key={key} filter={filter} route={route} queues={queues.data?.queues.map((q) => q.name) ?? []} />
      <Show of={jobs}>{(page) => <JobRows page={page} filter={filter} first={cursor === ""} reload={jobs.reload} />}</Show>
      <nav class="pager" aria-label={t.jobs.note}>
        {cursor !== "" && <a href={withQuery(route, { cursor: undefined })}>{t.newer}</a>}
        {jobs.data?.next_cursor && <a href={withQuery(route, { cursor: jobs.data.next_cursor })}>{t.older}</a>}
      </nav>
      {creating && <NewJobDialog queue={filter.queue} onClose={() => setCreating(false)} />}
    </Page>
  );
}

function sumStates(list: Schemas["QueueList"] | undefined, queue: string): Record<string, number> | undefined {
  if (!list) return undefined;
  const out: Record<string, number> = { any: 0 };
  for (const one of list.queues) {
    if (queue && one.name !== queue) continue;
    for (const [state, n] of Object.entries(one.counts)) {
      out[state] = (out[state] ?? 0) + n;
      out.any! += n;
    }
  }
  return out;
}

function Filters(props: { filter: Record<string, string>; route: Route; queues: string[] }) {
  const { filter, route } = props;
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    navigate(withQuery(route, { ...Object.fromEntries([...form].map(([k, v]) => [k, String(v).trim()])), cursor: undefined }));
  };
  return (
    <form class="filters" onSubmit={submit}>
      <label>
        {t.jobs.queue} <input name="queue" list="queue-names" value={filter.queue} />
      </label>
      <datalist id="queue-names">
        {props.queues.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <label>
        {t.jobs.kind} <input name="kind" value={filter.kind} />
      </label>
      <label>
        {t.jobs.tag} <input name="tag" value={filter.tag} />
      </label>
      <button type="submit" class="button primary">
        {t.jobs.filter}
      </button>
      {(filter.queue || filter.kind || filter.tag) && (
        <a href={withQuery(route, { queue: undefined, kind: undefined, tag: undefined, cursor: undefined })}>{t.jobs.clear}</a>
      )}
    </form>
  );
}

// Rows stay where they are: a change updates its row, and new jobs are announced.
function JobRows(props: { page: Schemas["JobPage"]; filter: Record<string, string>; first: boolean; reload: () => void }) {
  const { filter, first, reload } = props;
  const [rows, setRows] = useState(props.page.jobs);
  const [fresh, setFresh] = useState(0);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    setRows(props.page.jobs);
    setFresh(0);
    setSelected(new Set());
  }, [props.page]);

  useEffect(() => {
    const shown = new Set(props.page.jobs.map((job) => String(job.id)));
    const changed = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const refresh = async () => {
      timer = undefined;
      const ids = [...changed].slice(0, MAX_REFRESH);
      for (const id of ids) changed.delete(id);
      const read = await Promise.all(ids.map((id) => get<Job>(`/v1/jobs/${id}`).catch(() => undefined)));
      const byId = new Map(read.filter((job) => job !== undefined).map((job) => [String(job.id), job]));
      setRows((old) => old.map((row) => byId.get(String(row.id)) ?? row));
      if (changed.size > 0) timer ??= setTimeout(refresh, 250);
    };
    const stop = listen((event) => {
      if (event.type === "gap") return reload();
      const id = event.job === undefined ? "" : String(event.job);
      if (shown.has(id)) {
        changed.add(id);
        timer ??= setTimeout(refresh, 100);
      } else if (first && event.type === "enqueued" && matches(event, filter)) {
        setFresh((n) => n + 1);
      }
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [props.page, first, JSON.stringify(filter)]);

  const onSelect = (ids: string[], on: boolean) => {
    setSelected((old) => {
      const next = new Set(old);
      for (const id of ids) on ? next.add(id) : next.delete(id);
      return next;
    });
  };
  return (
    <>
      <div aria-live="polite">
        {fresh > 0 && (
          <Button class="announce" onClick={reload}>
            {t.jobs.newJobs(fresh)}
          </Button>
        )}
      </div>
      {selected.size > 0 && <Selection ids={[...selected]} done={reload} />}
      {rows.length === 0 ? (
        <Empty title={t.jobs.empty}>{t.jobs.emptyHint}</Empty>
      ) : (
        <Table
          label={t.pages.jobs}
          columns={COLUMNS}
          rows={rows}
          id={(job) => String(job.id)}
          selected={selected}
          onSelect={onSelect}
          selectAllLabel={t.jobs.selectAll}
          selectLabel={(job) => t.jobs.select(String(job.id))}
        />
      )}
    </>
  );
}

function matches(event: { queue?: string; kind?: string; tags?: unknown }, filter: Record<string, string>): boolean {
  return (
    (!filter.queue || event.queue === filter.queue) &&
    (!filter.kind || event.kind === filter.kind) &&
    !filter.tag &&
    (!filter.state || filter.state === "available")
  );
}

const COLUMNS: Column<Job>[] = [
  { key: "id", title: t.jobs.id, cell: (job) => <a href={link(["jobs", job.id])}>{String(job.id)}</a>, numeric: true },
  { key: "kind", title: t.jobs.kind, cell: (job) => <a href={link(["jobs", job.id])}>{job.kind}</a> },
  { key: "queue", title: t.jobs.queue, cell: (job) => <a href={link(["queues", job.queue])}>{job.queue}</a> },
  { key: "state", title: t.jobs.state, cell: (job) => <StateBadge state={job.state} /> },
  { key: "attempt", title: t.jobs.attempt, cell: (job) => t.jobs.attempts(job.attempt ?? 0, job.max_attempts ?? 0), numeric: true },
  { key: "when", title: t.jobs.when, cell: (job) => <Ago at={timeOf(job)} /> },
  { key: "args", title: t.jobs.args, cell: (job) => <Args job={job} /> },
];

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

function Selection(props: { ids: string[]; done: () => void }) {
  const { ids, done } = props;
  const each = async (verb: "retry" | "cancel") => {
    const yes = await confirm({
      title: verb === "retry" ? t.jobs.confirmRetry(ids.length) : t.jobs.confirmCancel(ids.length),
      text: verb === "retry" ? t.jobs.confirmRetryText : t.jobs.confirmCancelText,
      action: verb === "retry" ? t.jobs.retry : t.jobs.cancel,
      danger: verb === "cancel",
    });
    if (!yes) return;
    let good = 0;
    for (const id of ids) {
      await post(`/v1/jobs/${segment(id)}/${verb}`).then(
        () => ++good,
        () => {},
      );
    }
    notify(t.jobs.done(good, ids.length - good), good < ids.length);
    done();
  };
  return (
    <div class="selection" role="toolbar" aria-label={t.jobs.selected(ids.length)}>
      <span>{t.jobs.selected(ids.length)}</span>
      <Button onClick={() => each("retry")}>{t.jobs.retry}</Button>
      <Button kind="danger" onClick={() => each("cancel")}>
        {t.jobs.cancel}
      </Button>
    </div>
  );
}
