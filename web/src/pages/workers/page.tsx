// Workers that are connected, and what they run.
import { get, getJobs, type Schemas } from "../../api/client";
import { Ago, Empty, Page, Panel, Show, StateBadge } from "../../components/basics";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { count, duration } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";

type Worker = Schemas["WorkerList"]["workers"][number];

const COLUMNS: Column<Worker>[] = [
  { key: "id", title: t.workers.id, cell: (worker) => <code>{worker.id}</code> },
  { key: "state", title: t.jobs.state, cell: (worker) => <StateBadge state={(worker.running ?? 0) > 0 ? "running" : t.workers.idle} /> },
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
  { key: "running", title: t.workers.running, numeric: true, cell: (worker) => count(worker.running ?? 0) },
  { key: "seen", title: t.workers.seen, cell: (worker) => t.ago(duration(worker.last_seen_ms ?? 0)) },
];

export function WorkersPage() {
  const workers = useData(
    "workers",
    (signal) => get<Schemas["WorkerList"]>("/v1/workers", {}, signal),
    (event) => event.type === "started" || event.type === "completed" || event.type === "retrying" || event.type === "dead",
  );
  const running = useData(
    "running",
    (signal) => getJobs({ state: "running" }, 100, signal),
    (event) => event.job !== undefined && event.type !== "progress",
  );
  return (
    <Page title={t.pages.workers} note={t.workers.note}>
      <Show of={workers}>
        {(data) =>
          data.workers.length === 0 ? (
            <Empty title={t.workers.empty}>{t.workers.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.workers} columns={COLUMNS} rows={data.workers} id={(worker) => worker.id ?? ""} />
          )
        }
      </Show>
      <Panel title={t.workers.jobs}>
        <Show of={running}>
          {(page) =>
            page.jobs.length === 0 ? (
              <Empty title={t.workers.noJobs} />
            ) : (
              <ul class="plain-list">
                {page.jobs.map((job) => (
                  <li key={String(job.id)}>
                    <a href={link(["jobs", job.id])}>
                      {String(job.id)} {job.kind}
                    </a>
                    <span class="note">{job.queue}</span>
                    <code>{job.worker}</code>
                    <Ago at={job.started_at} />
                  </li>
                ))}
              </ul>
            )
          }
        </Show>
      </Panel>
    </Page>
  );
}
