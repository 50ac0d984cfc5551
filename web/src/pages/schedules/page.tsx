// Schedules: all of them on one timeline and in a table.
import { useState } from "preact/hooks";

import { getNamed, type Schemas } from "../../api/client";
import { changes, viewerIsActive } from "../../api/events";
import { Ago, Button, Empty, Page, Show, StateBadge } from "../../components/basics";
import { ColumnMenu, useColumns } from "../../components/columns";
import { FindRows, findIn, useFind } from "../../components/find";
import { SelectionBar, useSelection } from "../../components/selection";
import { Table, type Column } from "../../components/table";
import { COSTLY_MS, useData } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { useSettings } from "../../settings";
import { t } from "../../texts";
import { ScheduleDialog } from "./edit";
import { SwitchDialog } from "./switch";
import { Timeline } from "./timeline";
import { describe } from "./words";

export type Schedule = Schemas["Schedule"];

export function SchedulesPage() {
  const [creating, setCreating] = useState(false);
  const [switching, setSwitching] = useState<{ verb: "pause" | "resume"; names?: string[] }>();
  const schedules = useData(
    "schedules",
    (signal) => getNamed<Schemas["ScheduleList"]>("/v1/schedules", "schedules", signal),
    (event) => event.type === "enqueued" || changes(event, "schedule") || viewerIsActive(event),
    COSTLY_MS,
  );
  const found = findIn(schedules.data?.schedules ?? [], searchText, useFind());
  const { selected, onSelect, clear } = useSelection(new Map(found.map((one) => [one.name ?? "", ""])));
  useSettings(); // times in words
  const shown = useColumns("schedules", COLUMNS, USUAL);
  const done = () => {
    clear();
    schedules.reload();
  };
  return (
    <Page
      title={t.pages.schedules}
      note={t.schedules.note}
      actions={
        <>
          <ColumnMenu page="schedules" all={COLUMNS} usual={USUAL} />
          <Button needs={["schedule"]} onClick={() => setSwitching({ verb: "pause" })}>{t.schedules.pauseSeveral}</Button>
          <Button needs={["schedule"]} onClick={() => setSwitching({ verb: "resume" })}>{t.schedules.resumeSeveral}</Button>
          <Button kind="primary" needs={["schedule"]} onClick={() => setCreating(true)}>
            {t.schedules.create}
          </Button>
        </>
      }
    >
      <SelectionBar rows={selected.size}>
        <Button kind="danger" needs={["schedule"]} onClick={() => setSwitching({ verb: "pause", names: [...selected] })}>
          {t.queues.pause}
        </Button>
        <Button needs={["schedule"]} onClick={() => setSwitching({ verb: "resume", names: [...selected] })}>{t.queues.resume}</Button>
      </SelectionBar>
      <Show of={schedules}>
        {(data) =>
          data.schedules.length === 0 ? (
            <>
              <Timeline schedules={[]} />
              <Empty title={t.schedules.empty}>{t.schedules.emptyHint}</Empty>
            </>
          ) : (
            <>
              <Timeline schedules={found} />
              {data.next !== null && <p class="note">{t.schedules.cut(count(data.schedules.length))}</p>}
              {data.schedules.length > FIND_FROM && <FindRows label={t.schedules.find} shown={found.length} all={data.schedules.length} />}
              <Table
                label={t.pages.schedules}
                columns={shown}
                rows={found}
                rowClass={(one) => (statusOf(one) === "active" ? undefined : "off")}
                id={(one) => one.name ?? ""}
                selected={selected}
                onSelect={onSelect}
                selectAllLabel={t.schedules.selectAll}
                selectLabel={(one) => t.schedules.select(one.name ?? "")}
              />
            </>
          )
        }
      </Show>
      {switching && <SwitchDialog {...switching} onClose={() => setSwitching(undefined)} done={done} />}
      {creating && <ScheduleDialog onClose={() => setCreating(false)} done={schedules.reload} />}
    </Page>
  );
}

const FIND_FROM = 10;
const searchText = (one: Schedule): string => `${one.name} ${one.job?.queue ?? ""} ${one.job?.kind ?? ""}`;

// A schedule with no tick left is not one that will fire.
export const statusOf = (one: Schedule): "active" | "paused" | "ended" =>
  one.paused ? "paused" : one.next === null && !one.continuous ? "ended" : "active";

// Says which schedules do not fire, and why.
export function StatusBadge(props: { schedule: Schedule }) {
  const { schedule } = props;
  const status = statusOf(schedule);
  return (
    <span title={t.schedules.statusMeaning[status]}>
      <StateBadge state={t.schedules.statuses[status]} />
      {schedule.paused && schedule.paused_reason && <span class="note"> {schedule.paused_reason}</span>}
      {schedule.problem && <span class="verdict bad"> {schedule.problem}</span>}
    </span>
  );
}

const USUAL = ["name", "state", "when", "zone", "next", "last", "job", "fired"];
const COLUMNS: Column<Schedule>[] = [
  {
    key: "name",
    title: t.name,
    sort: (one) => one.name,
    cell: (one) => <a class="name" href={link(["schedules", one.name])}>{one.name}</a>,
  },
  { key: "state", title: t.jobs.state, cell: (one) => <StatusBadge schedule={one} />, sort: statusOf },
  { key: "when", title: t.schedules.when, cell: (one) => describe(one), sort: (one) => describe(one) },
  { key: "zone", title: t.schedules.zone, cell: (one) => one.time_zone, sort: (one) => one.time_zone },
  { key: "next", title: t.schedules.next, cell: (one) => (one.paused ? t.none : <Ago at={one.next_fire ?? one.next} />), sort: (one) => (one.paused ? undefined : (one.next_fire ?? one.next)) },
  { key: "last", title: t.schedules.last, cell: (one) => <Ago at={one.last_fired} />, sort: (one) => one.last_fired },
  {
    key: "job",
    title: t.schedules.lastJob,
    numeric: true,
    sort: (one) => one.last_job,
    cell: (one) => (one.last_job ? <a href={link(["jobs", one.last_job])}>{String(one.last_job)}</a> : t.none),
  },
  { key: "fired", title: t.schedules.fired, numeric: true, cell: (one) => count(one.fired ?? 0), sort: (one) => one.fired ?? 0 },
  { key: "queue", title: t.jobs.queue, cell: (one) => one.job && <a href={link(["queues", one.job.queue])}>{one.job.queue}</a>, sort: (one) => one.job?.queue },
  { key: "kind", title: t.jobs.kind, cell: (one) => one.job?.kind, sort: (one) => one.job?.kind },
  { key: "overlap", title: t.schedules.overlap, cell: (one) => (typeof one.overlap === "string" ? t.schedules.overlaps[one.overlap] : t.none), sort: (one) => String(one.overlap) },
  { key: "misfire", title: t.schedules.misfire, cell: (one) => t.schedules.misfires[one.misfire as keyof typeof t.schedules.misfires] ?? t.none, sort: (one) => one.misfire },
  { key: "changed", title: t.schedules.changedAt, cell: (one) => <Ago at={one.updated_at} />, sort: (one) => one.updated_at },
];

