// Jobs in quarantine: their last attempts were all lost, so only one of them runs at a time.
import { getJobs, post, segment, type Schemas } from "../../api/client";
import { Ago, Button, Empty, Page, Show, StateBadge } from "../../components/basics";
import { act, confirm } from "../../components/feedback";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";

type Job = Schemas["Job"];

export function QuarantinePage() {
  const jobs = useData(
    "quarantine",
    (signal) => getJobs({ quarantined: "true" }, 200, signal),
    (event) => event.type.startsWith("quarantine"),
  );
  const run = async (job: Job, verb: "retry" | "cancel") => {
    if (verb === "cancel") {
      const id = String(job.id);
      const yes = await confirm({ title: t.job.confirmCancel(id), text: t.jobs.confirmCancelText, action: t.job.cancel, danger: true });
      if (!yes) return;
    }
    if (await act(() => post(`/v1/jobs/${segment(job.id)}/${verb}`), t.quarantine.done(String(job.id)))) jobs.reload();
  };
  const columns: Column<Job>[] = [
    { key: "id", title: t.jobs.id, numeric: true, cell: (job) => <a href={link(["jobs", job.id])}>{String(job.id)}</a>, sort: (job) => job.id },
    { key: "kind", title: t.jobs.kind, cell: (job) => job.kind, sort: (job) => job.kind },
    { key: "queue", title: t.jobs.queue, cell: (job) => <a href={link(["queues", job.queue])}>{job.queue}</a>, sort: (job) => job.queue },
    {
      key: "state",
      title: t.jobs.state,
      sort: (job) => job.state,
      cell: (job) => <StateBadge state={job.state} detail={job.quarantined?.released ? t.quarantine.released : undefined} />,
    },
    { key: "lost", title: t.quarantine.lost, numeric: true, cell: (job) => count(job.quarantined?.lost ?? 0), sort: (job) => job.quarantined?.lost ?? 0 },
    { key: "since", title: t.quarantine.since, cell: (job) => <Ago at={job.quarantined?.since} />, sort: (job) => job.quarantined?.since },
    {
      key: "actions",
      title: t.actions,
      cell: (job) => (
        <span class="actions">
          <Button needs={["admin", job.queue]} onClick={() => run(job, "retry")}>{t.quarantine.release}</Button>
          <Button kind="danger" needs={["admin", job.queue]} onClick={() => run(job, "cancel")}>
            {t.job.cancel}
          </Button>
        </span>
      ),
    },
  ];
  return (
    <Page title={t.pages.quarantine} note={t.quarantine.note}>
      <Show of={jobs}>
        {(page) =>
          page.jobs.length === 0 ? (
            <Empty title={t.quarantine.empty}>{t.quarantine.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.quarantine} columns={columns} rows={page.jobs} id={(job) => String(job.id)} />
          )
        }
      </Show>
    </Page>
  );
}
