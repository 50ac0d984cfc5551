// Continuous timers: schedules whose runs follow each other almost without a pause.
import { useState } from "preact/hooks";

import { getNamed, post, put, segment, type Schemas } from "../../api/client";
import { changes, viewerIsActive } from "../../api/events";
import { Ago, Button, Empty, Field, Page, Show, StateBadge } from "../../components/basics";
import { act, FormDialog, notify } from "../../components/feedback";
import { PauseDialog } from "../../components/pause_dialog";
import { Table, type Column } from "../../components/table";
import { COSTLY_MS, useData } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";
import type { Schedule } from "../schedules/page";
import { CreateDialog } from "./create";

export function TimersPage() {
  const [changing, setChanging] = useState<Schedule>();
  const [pausing, setPausing] = useState<Schedule>();
  const [creating, setCreating] = useState(false);
  const timers = useData(
    "timers",
    (signal) => getNamed<Schemas["ScheduleList"]>("/v1/schedules", "schedules", signal),
    (event) => event.type === "started" || event.type === "completed" || event.type === "enqueued" || changes(event, "schedule") || viewerIsActive(event),
    COSTLY_MS,
  );
  const run = async (timer: Schedule, verb: "wake" | "resume") => {
    if (await act(() => post(`/v1/schedules/${segment(timer.name ?? "")}/${verb}`), t.schedules.done(timer.name ?? ""))) timers.reload();
  };
  const columns: Column<Schedule>[] = [
    {
      key: "name",
      title: t.name,
      sort: (one) => one.name,
      cell: (one) => (
        <>
          <a class="name" href={link(["schedules", one.name ?? ""])}>{one.name}</a> {one.paused && <StateBadge state={t.queues.paused} detail={one.paused_reason} />}
        </>
      ),
    },
    {
      key: "state",
      title: t.jobs.state,
      sort: (one) => one.live_count ?? 0,
      cell: (one) => ((one.live_count ?? 0) > 0 ? <StateBadge state="running" /> : <StateBadge state={t.workers.idle} />),
    },
    { key: "timeout", title: t.timers.timeout, cell: (one) => one.timeout_override ?? one.continuous?.timeout },
    { key: "handoff", title: t.timers.handoff, cell: (one) => one.continuous?.handoff, sort: (one) => one.continuous?.handoff },
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
    { key: "fired", title: t.timers.total, numeric: true, cell: (one) => count(one.fired ?? 0), sort: (one) => one.fired ?? 0 },
    { key: "last", title: t.schedules.last, cell: (one) => <Ago at={one.last_fired} />, sort: (one) => one.last_fired },
    {
      key: "actions",
      title: t.actions,
      cell: (one) => (
        <span class="actions">
          <Button needs={["schedule", one.job?.queue]} onClick={() => run(one, "wake")}>{t.timers.wake}</Button>
          <Button needs={["schedule", one.job?.queue]} onClick={() => setChanging(one)}>{t.timers.setTimeout}</Button>
          <Button needs={["schedule", one.job?.queue]} onClick={() => (one.paused ? run(one, "resume") : setPausing(one))}>{one.paused ? t.queues.resume : t.queues.pause}</Button>
        </span>
      ),
    },
  ];
  return (
    <Page
      title={t.pages.timers}
      note={t.timers.note}
      actions={
        <Button kind="primary" needs={["schedule"]} onClick={() => setCreating(true)}>
          {t.timers.create}
        </Button>
      }
    >
      <Show of={timers}>
        {(data) => {
          const rows = data.schedules.filter((one) => one.continuous);
          const cut = data.next !== null && <p class="note">{t.timers.cut(count(data.schedules.length))}</p>;
          if (rows.length === 0) return cut || <Empty title={t.timers.empty}>{t.timers.emptyHint}</Empty>;
          return (
            <>
              {cut}
              <Table
                label={t.pages.timers}
                columns={columns}
                rows={rows}
                id={(one) => one.name ?? ""}
                rowClass={(one) => (one.paused ? "off" : undefined)}
              />
            </>
          );
        }}
      </Show>
      {creating && <CreateDialog onClose={() => setCreating(false)} done={timers.reload} />}
      {pausing && (
        <PauseDialog
          name={pausing.name}
          path={`/v1/schedules/${segment(pausing.name)}`}
          text={t.timers.confirmPauseText}
          onClose={() => setPausing(undefined)}
          done={timers.reload}
        />
      )}
      {changing && <TimeoutDialog timer={changing} onClose={() => setChanging(undefined)} done={timers.reload} />}
    </Page>
  );
}

function TimeoutDialog(props: { timer: Schedule; onClose: () => void; done: () => void }) {
  const { timer } = props;
  const [timeout, setTimeout] = useState(timer.timeout_override ?? "");
  const submit = async () => {
    await put(`/v1/schedules/${segment(timer.name)}/timer`, { timeout: timeout.trim() || null });
    notify(t.schedules.done(timer.name));
    props.done();
  };
  return (
    <FormDialog title={t.timers.setTimeout} action={t.save} onClose={props.onClose} onSubmit={submit}>
      <Field label={t.timers.timeout} hint={t.timers.timeoutHint}>
        <input value={timeout} onInput={(e) => setTimeout(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  );
}
