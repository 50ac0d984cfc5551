// Job folders: what the host runs, and how the last runs ended.
import { get, type Schemas } from "../../api/client";
import { changes } from "../../api/events";
import { Ago, Empty, Page, Panel, Show, StateBadge } from "../../components/basics";
import { Table, type Column } from "../../components/table";
import { COSTLY_MS, useData } from "../../data";
import { link } from "../../router";
import { t } from "../../texts";

export type HostJob = Schemas["HostJob"];

export function statusOf(job: HostJob): string {
  if (job.error) return t.folders.cannotRun;
  if (job.disabled) return t.folders.disabled;
  return job.status ?? job.latest_run?.status ?? t.folders.neverRan;
}

const problemOf = (job: HostJob): string | undefined => job.error ?? job.warnings?.join("; ");

const COLUMNS: Column<HostJob>[] = [
  { key: "name", title: t.name, cell: (job) => <a href={link(["folders", job.type, job.name])}>{job.name}</a>, sort: (job) => job.name },
  { key: "type", title: t.folders.type, cell: (job) => job.type, sort: (job) => job.type },
  { key: "status", title: t.jobs.state, cell: (job) => <StateBadge state={statusOf(job)} />, sort: statusOf },
  { key: "file", title: t.folders.file, cell: (job) => <code>{job.run_file}</code>, sort: (job) => job.run_file },
  { key: "last", title: t.folders.lastRun, cell: (job) => <Ago at={job.latest_run?.started} />, sort: (job) => job.latest_run?.started },
  { key: "why", title: t.folders.problem, cell: problemOf, sort: problemOf, wide: true },
];

export function FoldersPage() {
  const host = useData("host", (signal) => get<Schemas["Host"]>("/v1/host", {}, signal));
  const jobs = useData(
    "host jobs",
    (signal) => get<Schemas["HostJobList"]>("/v1/host/jobs", {}, signal),
    (event) => event.queue !== undefined || changes(event, "folder"),
    COSTLY_MS,
  );
  if (host.error?.status === 404) {
    return (
      <Page title={t.pages.folders}>
        <Empty title={t.folders.none}>{t.folders.noneHint}</Empty>
      </Page>
    );
  }
  return (
    <Page title={t.pages.folders} note={host.data && t.folders.note(host.data.directory)}>
      {host.data?.problems && host.data.problems.length > 0 && (
        <Panel title={t.folders.problems}>
          <ul>
            {host.data.problems.map((problem) => (
              <li key={problem}>{problem}</li>
            ))}
          </ul>
        </Panel>
      )}
      <Show of={jobs}>
        {(data) =>
          data.jobs.length === 0 ? (
            <Empty title={t.folders.empty}>{t.folders.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.folders} columns={COLUMNS} rows={data.jobs} id={(job) => `${job.type}/${job.name}`} />
          )
        }
      </Show>
    </Page>
  );
}
