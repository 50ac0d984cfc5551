// One schedule: what it does, what it did, what comes.
import { useState } from "preact/hooks";

import { get, post, remove, segment, type Schemas } from "../../api/client";
import { changes, viewerIsActive } from "../../api/events";
import { Ago, At, Button, Facts, Field, Page, Panel, Show, ShowPage, StateBadge } from "../../components/basics";
import { EditButton, seesArgs } from "../../components/edit_button";
import { act, confirm, FormDialog, notify } from "../../components/feedback";
import { Pager } from "../../components/pager";
import { PauseDialog } from "../../components/pause_dialog";
import { usePageCommands } from "../../components/palette";
import { Table, type Column } from "../../components/table";
import { JsonPanel } from "../../components/values";
import { useData } from "../../data";
import { count, instantOf, zoneName } from "../../format";
import { link, navigate, useRoute } from "../../router";
import type { Need } from "../../session";
import { useSettings } from "../../settings";
import { t } from "../../texts";
import { ScheduleDialog } from "./edit";
import { StatusBadge, type Schedule } from "./page";
import { describe } from "./words";

type Row = Schemas["LedgerRow"];

export function SchedulePage(props: { name: string }) {
  const { name } = props;
  const path = `/v1/schedules/${segment(name)}`;
  const schedule = useData(name, (signal) => get<Schedule>(path, {}, signal), (event) => event.type === "enqueued" || changes(event, `schedule/${name}`) || viewerIsActive(event));
  return (
    <ShowPage title={name} of={schedule}>
      {(data) => <ScheduleView schedule={data} path={path} reload={schedule.reload} />}
    </ShowPage>
  );
}

function ScheduleView(props: { schedule: Schedule; path: string; reload: () => void }) {
  const { schedule, path, reload } = props;
  const name = schedule.name ?? "";
  useSettings(); // times in words
  const [editing, setEditing] = useState(false);
  const [backfilling, setBackfilling] = useState(false);
  const [pausing, setPausing] = useState(false);
  const run = async (verb: "resume" | "trigger") => {
    if (await act(() => post(`${path}/${verb}`), t.schedules.done(name))) reload();
  };
  const drop = async () => {
    const yes = await confirm({ title: t.schedules.confirmRemove(name), text: t.schedules.confirmRemoveText, action: t.remove, danger: true });
    if (yes && (await act(() => remove(path), t.schedules.removed(name)))) navigate(link(["schedules"]));
  };
  const toggle = () => (schedule.paused ? run("resume") : setPausing(true));
  const needs: Need = ["schedule", schedule.job?.queue];
  usePageCommands([
    { text: t.schedules.trigger, run: () => run("trigger"), needs },
    { text: schedule.paused ? t.queues.resume : t.queues.pause, run: toggle, needs },
    ...(seesArgs(schedule.job?.queue) ? [{ text: t.schedules.edit, run: () => setEditing(true), needs }] : []),
    { text: t.schedules.backfill, run: () => setBackfilling(true), needs },
  ]);
  return (
    <Page
      title={name}
      note={
        <>
          <StatusBadge schedule={schedule} /> {describe(schedule)} {schedule.cron && schedule.time_zone}
        </>
      }
      actions={
        <>
          <Button kind="primary" needs={needs} onClick={() => run("trigger")}>
            {t.schedules.trigger}
          </Button>
          <Button needs={needs} onClick={toggle}>{schedule.paused ? t.queues.resume : t.queues.pause}</Button>
          <EditButton queue={schedule.job?.queue} onClick={() => setEditing(true)}>{t.schedules.edit}</EditButton>
          <Button needs={needs} onClick={() => setBackfilling(true)}>{t.schedules.backfill}</Button>
          <Button kind="danger" needs={needs} onClick={drop}>
            {t.remove}
          </Button>
        </>
      }
    >
      <div class="columns">
        <Panel title={t.job.facts}>
          <Facts
            rows={[
              [t.schedules.when, schedule.cron ?? schedule.every ?? <At at={schedule.at} />],
              [t.schedules.zone, schedule.time_zone],
              [t.schedules.next, schedule.paused ? undefined : <At at={schedule.next_fire ?? schedule.next} zone={schedule.time_zone} />],
              [t.schedules.last, schedule.last_fired && <Ago at={schedule.last_fired} />],
              [t.schedules.fired, count(schedule.fired ?? 0)],
              [t.jobs.queue, schedule.job && <a href={link(["queues", schedule.job.queue])}>{schedule.job.queue}</a>],
              [t.jobs.kind, schedule.job?.kind],
              [t.schedules.overlap, typeof schedule.overlap === "string" ? t.schedules.overlaps[schedule.overlap] : undefined],
              [t.schedules.misfire, t.schedules.misfires[schedule.misfire as keyof typeof t.schedules.misfires]],
              [t.schedules.jitter, schedule.jitter],
              [
                t.schedules.live,
                schedule.live?.map((id) => (
                  <a key={String(id)} class="tag" href={link(["jobs", id])}>
                    {String(id)}
                  </a>
                )),
              ],
            ]}
          />
        </Panel>
        <Upcoming schedule={schedule} path={path} />
      </div>
      <Ledger name={name} path={path} zone={schedule.time_zone} />
      <JsonPanel title={t.job.args} value={schedule.job?.args} kind={schedule.job?.kind} masked />
      {backfilling && <BackfillDialog path={path} onClose={() => setBackfilling(false)} done={reload} />}
      {pausing && <PauseDialog name={name} path={path} text={t.schedules.confirmPauseOneText} onClose={() => setPausing(false)} done={reload} />}
      {editing && <ScheduleDialog of={schedule} onClose={() => setEditing(false)} done={reload} />}
    </Page>
  );
}

function BackfillDialog(props: { path: string; onClose: () => void; done: () => void }) {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const submit = async () => {
    let next: string | null | undefined = instantOf(from);
    let [fired, skipped] = [0, 0];
    while (next) {
      const answer: Schemas["BackfillResponse"] = await post(`${props.path}/backfill`, { from: next, to: instantOf(to) });
      fired += answer.fired ?? 0;
      skipped += answer.skipped ?? 0;
      next = answer.next;
    }
    notify(t.schedules.backfilled(count(fired), count(skipped)));
    props.done();
  };
  return (
    <FormDialog title={t.schedules.backfill} action={t.schedules.backfill} onClose={props.onClose} onSubmit={submit}>
      <p class="note">{t.schedules.backfillText}</p>
      <div class="form-row">
        <Field label={`${t.jobs.from} ${zoneName()}`}>
          <input type="datetime-local" required value={from} onInput={(e) => setFrom(e.currentTarget.value)} />
        </Field>
        <Field label={`${t.jobs.to} ${zoneName()}`}>
          <input type="datetime-local" required value={to} onInput={(e) => setTo(e.currentTarget.value)} />
        </Field>
      </div>
    </FormDialog>
  );
}

function Upcoming(props: { schedule: Schedule; path: string }) {
  const { schedule, path } = props;
  const ticks = useData(`${schedule.name} ${schedule.version} ${schedule.next}`, (signal) =>
    get<Schemas["Preview"]>(`${path}/preview`, { count: 10 }, signal),
  );
  return (
    <Panel title={t.schedules.upcoming}>
      <Show of={ticks}>
        {(data) => (
          <>
            {!data.ticks?.length && <p class="note">{t.schedules.noUpcoming}</p>}
            {schedule.paused && !!data.ticks?.length && <p class="note">{t.schedules.upcomingPaused}</p>}
            <ul class="plain-list">
              {data.ticks?.map((tick) => (
                <li key={tick.nominal}>
                  <At at={tick.fires_at ?? tick.nominal} zone={schedule.time_zone} />
                  <span class="note">{tick.note ?? <Ago at={tick.fires_at ?? tick.nominal} />}</span>
                </li>
              ))}
            </ul>
          </>
        )}
      </Show>
    </Panel>
  );
}

function Ledger(props: { name: string; path: string; zone: string }) {
  const { name, path, zone } = props;
  const route = useRoute();
  const cursor = route.query.get("cursor") ?? "";
  const ledger = useData(
    `ledger ${name} ${cursor}`,
    (signal) => get<Schemas["Ledger"]>(`${path}/ledger`, { limit: 50, cursor }, signal),
    (event) => cursor === "" && (event.type === "enqueued" || changes(event, `schedule/${name}`)),
  );
  const columns: Column<Row>[] = [
    {
      key: "nominal",
      title: t.schedules.tick,
      sort: (row) => row.nominal,
      cell: (row) => (
        <>
          <At at={row.nominal} zone={zone} />
          {row.until && (
            <>
              {" "}
              … <At at={row.until} zone={zone} />
            </>
          )}
        </>
      ),
    },
    { key: "state", title: t.jobs.state, cell: (row) => <StateBadge state={row.state ?? ""} detail={row.past_due ? t.schedules.late : undefined} />, sort: (row) => row.state },
    {
      key: "job",
      title: t.jobs.id,
      sort: (row) => row.job,
      cell: (row) =>
        row.job ? (
          <>
            <a href={link(["jobs", row.job])}>{String(row.job)}</a> {row.job_state && <StateBadge state={row.job_state} />}
          </>
        ) : (
          (row.reason ?? t.none)
        ),
    },
    { key: "source", title: t.schedules.source, cell: (row) => row.source, sort: (row) => row.source },
    { key: "count", title: t.schedules.ticks, numeric: true, cell: (row) => (row.count === null ? t.schedules.many : count(row.count ?? 1)), sort: (row) => row.count ?? (row.count === null ? Infinity : 1) },
    { key: "decided", title: t.schedules.decided, cell: (row) => <Ago at={row.decided_at} />, sort: (row) => row.decided_at },
  ];
  return (
    <Panel title={t.schedules.ledger}>
      <Show of={ledger}>
        {(data) =>
          data.ticks.length === 0 ? (
            <p class="note">{t.schedules.ledgerEmpty}</p>
          ) : (
            <>
              <Table label={t.schedules.ledger} columns={columns} rows={data.ticks} id={(row) => String(row.seq)} />
              <Pager label={t.schedules.ledger} parameter="cursor" next={data.next_cursor} />
            </>
          )
        }
      </Show>
    </Panel>
  );
}
