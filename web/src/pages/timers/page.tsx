// Continuous timers: schedules whose runs follow each other almost without a pause.
import { getNamed, post, segment, type Schemas } from "../../api/client";
import { Ago, Button, Empty, Page, Show, StateBadge } from "../../components/basics";
import { act } from "../../components/feedback";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";
import type { Schedule } from "../schedules/page";

export function TimersPage() {
  const timers = useData(
    "timers",
    (signal) => getNamed<Schemas["ScheduleList"]>("/v1/schedules", "schedules", signal),
    (event) => event.type === "started" || event.type === "completed" || event.type === "enqueued",
  );
  const run = async (timer: Schedule, verb: "wake" | "pause" | "resume") => {
    if (await act(() => post(`/v1/schedules/${segment(timer.name ?? "")}/${verb}`), t.schedules.done(timer.name ?? ""))) timers.reload();
  };
  const columns: Column<Schedule>[] = [
    {
      key: "name",
      title: t.name,
      cell: (one) => (
        <>
          <a href={link(["schedules", one.name ?? ""])}>{one.name}</a> {one.paused && <StateBadge state={t.queues.paused} />}
        </>
      ),
    },
    {
      key: "state",
      title: t.jobs.state,
      cell: (one) => ((one.live_count ?? 0) > 0 ? <StateBadge state="running" /> : <StateBadge state={t.workers.idle} />),
    },
    { key: "timeout", title: t.timers.timeout, cell: (one) => one.timeout_override ?? one.continuous?.timeout },
    { key: "handoff", title: t.timers.handoff, cell: (one) => one.continuous?.handoff },
    {
      key: "live",
      title: t.timers.runs,
      cell: (one) =>
        one.live?.map((id) => (
          <a key={String(id)} class="tag" href={link(["jobs", id])}>
            {String(id)}
          </a>
        )),
    },
    { key: "fired", title: t.timers.total, numeric: true, cell: (one) => count(one.fired ?? 0) },
    { key: "last", title: t.schedules.last, cell: (one) => <Ago at={one.last_fired} /> },
    {
      key: "actions",
      title: t.actions,
      cell: (one) => (
        <span class="actions">
          <Button onClick={() => run(one, "wake")}>{t.timers.wake}</Button>
          <Button onClick={() => run(one, one.paused ? "resume" : "pause")}>{one.paused ? t.queues.resume : t.queues.pause}</Button>
        </span>
      ),
    },
  ];
  return (
    <Page title={t.pages.timers} note={t.timers.note}>
      <Show of={timers}>
        {(data) => {
          const rows = data.schedules.filter((one) => one.continuous);
          if (rows.length === 0) return <Empty title={t.timers.empty}>{t.timers.emptyHint}</Empty>;
          return <Table label={t.pages.timers} columns={columns} rows={rows} id={(one) => one.name ?? ""} />;
        }}
      </Show>
    </Page>
  );
}
