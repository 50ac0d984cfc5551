// Schedules: all of them on one timeline and in a table.
import { useState } from "preact/hooks";

import { getNamed, type Schemas } from "../../api/client";
import { Ago, Button, Empty, Page, Show, StateBadge } from "../../components/basics";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";
import { ScheduleDialog } from "./edit";
import { SwitchDialog } from "./switch";
import { Timeline } from "./timeline";
import { describe } from "./words";

export type Schedule = Schemas["Schedule"];

export function SchedulesPage() {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [creating, setCreating] = useState(false);
  const [switching, setSwitching] = useState<{ verb: "pause" | "resume"; names?: string[] }>();
  const schedules = useData(
    "schedules",
    (signal) => getNamed<Schemas["ScheduleList"]>("/v1/schedules", "schedules", signal),
    (event) => event.type === "enqueued",
  );
  const onSelect = (ids: string[], on: boolean) => {
    const next = new Set(selected);
    for (const id of ids) on ? next.add(id) : next.delete(id);
    setSelected(next);
  };
  const done = () => {
    setSelected(new Set());
    schedules.reload();
  };
  return (
    <Page
      title={t.pages.schedules}
      note={t.schedules.note}
      actions={
        <>
          <Button onClick={() => setSwitching({ verb: "pause" })}>{t.schedules.pauseSeveral}</Button>
          <Button onClick={() => setSwitching({ verb: "resume" })}>{t.schedules.resumeSeveral}</Button>
          <Button kind="primary" onClick={() => setCreating(true)}>
            {t.schedules.create}
          </Button>
        </>
      }
    >
      {selected.size > 0 && (
        <div class="selection" role="toolbar" aria-label={t.jobs.selected(selected.size)}>
          <span>{t.jobs.selected(selected.size)}</span>
          <Button kind="danger" onClick={() => setSwitching({ verb: "pause", names: [...selected] })}>
            {t.queues.pause}
          </Button>
          <Button onClick={() => setSwitching({ verb: "resume", names: [...selected] })}>{t.queues.resume}</Button>
        </div>
      )}
      <Show of={schedules}>
        {(data) =>
          data.schedules.length === 0 ? (
            <Empty title={t.schedules.empty}>{t.schedules.emptyHint}</Empty>
          ) : (
            <>
              <Timeline schedules={data.schedules} />
              {data.next !== null && <p class="note">{t.schedules.cut(count(data.schedules.length))}</p>}
              <Table
                label={t.pages.schedules}
                columns={COLUMNS}
                rows={data.schedules}
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

const COLUMNS: Column<Schedule>[] = [
  {
    key: "name",
    title: t.name,
    cell: (one) => (
      <>
        <a href={link(["schedules", one.name ?? ""])}>{one.name}</a> {one.paused && <StateBadge state={t.queues.paused} detail={one.paused_reason} />}
      </>
    ),
  },
  { key: "when", title: t.schedules.when, cell: (one) => describe(one) },
  { key: "zone", title: t.schedules.zone, cell: (one) => one.time_zone },
  { key: "next", title: t.schedules.next, cell: (one) => (one.paused ? t.none : <Ago at={one.next_fire ?? one.next} />) },
  { key: "last", title: t.schedules.last, cell: (one) => <Ago at={one.last_fired} /> },
  {
    key: "job",
    title: t.schedules.lastJob,
    numeric: true,
    cell: (one) => (one.last_job ? <a href={link(["jobs", one.last_job])}>{String(one.last_job)}</a> : t.none),
  },
  { key: "fired", title: t.schedules.fired, numeric: true, cell: (one) => count(one.fired ?? 0) },
];

