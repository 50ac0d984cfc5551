// Schedules: all of them, and when they fire in the next day.
import { useState } from "preact/hooks";

import { getNamed, post, segment, type Schemas } from "../../api/client";
import { Ago, Button, Empty, Page, Show, StateBadge } from "../../components/basics";
import { act, confirm } from "../../components/feedback";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";
import { ScheduleDialog } from "./edit";
import { describe } from "./words";

export type Schedule = Schemas["Schedule"];

export function SchedulesPage() {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [creating, setCreating] = useState(false);
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
  const each = async (verb: "pause" | "resume") => {
    const names = [...selected];
    const yes = await confirm({
      title: verb === "pause" ? t.schedules.confirmPause(names.length) : t.schedules.confirmResume(names.length),
      text: verb === "pause" ? t.schedules.confirmPauseText : t.schedules.confirmResumeText,
      action: verb === "pause" ? t.queues.pause : t.queues.resume,
      danger: verb === "pause",
    });
    if (!yes) return;
    for (const name of names) {
      if (!(await act(() => post(`/v1/schedules/${segment(name)}/${verb}`), t.schedules.done(name)))) break;
    }
    setSelected(new Set());
    schedules.reload();
  };
  return (
    <Page
      title={t.pages.schedules}
      note={t.schedules.note}
      actions={
        <Button kind="primary" onClick={() => setCreating(true)}>
          {t.schedules.create}
        </Button>
      }
    >
      {selected.size > 0 && (
        <div class="selection" role="toolbar" aria-label={t.jobs.selected(selected.size)}>
          <span>{t.jobs.selected(selected.size)}</span>
          <Button kind="danger" onClick={() => each("pause")}>
            {t.queues.pause}
          </Button>
          <Button onClick={() => each("resume")}>{t.queues.resume}</Button>
        </div>
      )}
      <Show of={schedules}>
        {(data) =>
          data.schedules.length === 0 ? (
            <Empty title={t.schedules.empty}>{t.schedules.emptyHint}</Empty>
          ) : (
            <>
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
        <a href={link(["schedules", one.name ?? ""])}>{one.name}</a> {one.paused && <StateBadge state={t.queues.paused} />}
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

