// One schedule: what it does, what it did, what comes.
import { useState } from "preact/hooks";

import { get, post, remove, segment, type Schemas } from "../../api/client";
import { Ago, At, Button, Facts, Field, Page, Panel, Show, StateBadge } from "../../components/basics";
import { act, confirm, FormDialog, notify } from "../../components/feedback";
import { usePageCommands } from "../../components/palette";
import { Table, type Column } from "../../components/table";
import { JsonPanel } from "../../components/values";
import { useData } from "../../data";
import { count } from "../../format";
import { link, navigate } from "../../router";
import { t } from "../../texts";
import { ScheduleDialog } from "./edit";
import type { Schedule } from "./page";
import { describe } from "./words";

type Row = Schemas["LedgerRow"];

export function SchedulePage(props: { name: string }) {
  const { name } = props;
  const path = `/v1/schedules/${segment(name)}`;
  const schedule = useData(name, (signal) => get<Schedule>(path, {}, signal), (event) => event.type === "enqueued");
  return <Show of={schedule}>{(data) => <ScheduleView schedule={data} path={path} reload={schedule.reload} />}</Show>;
}

function ScheduleView(props: { schedule: Schedule; path: string; reload: () => void }) {
  const { schedule, path, reload } = props;
  const name = schedule.name ?? "";
  const [editing, setEditing] = useState(false);
  const [backfilling, setBackfilling] = useState(false);
  const run = async (verb: "pause" | "resume" | "trigger") => {
    if (await act(() => post(`${path}/${verb}`), t.schedules.done(name))) reload();
  };
  const drop = async () => {
    const yes = await confirm({ title: t.schedules.confirmRemove(name), text: t.schedules.confirmRemoveText, action: t.remove, danger: true });
    if (yes && (await act(() => remove(path), t.schedules.removed(name)))) navigate(link(["schedules"]));
  };
  usePageCommands([
    { text: t.schedules.trigger, run: () => run("trigger") },
    { text: schedule.paused ? t.queues.resume : t.queues.pause, run: () => run(schedule.paused ? "resume" : "pause") },
    { text: t.schedules.edit, run: () => setEditing(true) },
    { text: t.schedules.backfill, run: () => setBackfilling(true) },
  ]);
  return (
    <Page
      title={name}
      note={
        <>
          {describe(schedule)} {schedule.time_zone} {schedule.paused && <StateBadge state={t.queues.paused} detail={schedule.paused_reason} />}
        </>
      }
      actions={
        <>
          <Button kind="primary" onClick={() => run("trigger")}>
            {t.schedules.trigger}
          </Button>
          <Button onClick={() => run(schedule.paused ? "resume" : "pause")}>{schedule.paused ? t.queues.resume : t.queues.pause}</Button>
          <Button onClick={() => setEditing(true)}>{t.schedules.edit}</Button>
          <Button onClick={() => setBackfilling(true)}>{t.schedules.backfill}</Button>
          <Button kind="danger" onClick={drop}>
            {t.remove}
          </Button>
        </>
      }
    >
      <div class="columns">
        <Panel title={t.job.facts}>
          <Facts
            rows={[
              [t.schedules.when, schedule.cron ?? schedule.every ?? schedule.at],
              [t.schedules.zone, schedule.time_zone],
              [t.schedules.next, schedule.paused ? undefined : <At at={schedule.next_fire ?? schedule.next} zone={schedule.time_zone} />],
              [t.schedules.last, schedule.last_fired && <Ago at={schedule.last_fired} />],
              [t.schedules.fired, count(schedule.fired ?? 0)],
              [t.jobs.queue, schedule.job && <a href={link(["queues", schedule.job.queue])}>{schedule.job.queue}</a>],
              [t.jobs.kind, schedule.job?.kind],
              [t.schedules.overlap, typeof schedule.overlap === "string" ? schedule.overlap : undefined],
              [t.schedules.misfire, schedule.misfire],
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
      <JsonPanel title={t.job.args} value={schedule.job?.args} masked />
      {backfilling && <BackfillDialog path={path} onClose={() => setBackfilling(false)} done={reload} />}
      {editing && <ScheduleDialog of={schedule} onClose={() => setEditing(false)} done={reload} />}
    </Page>
  );
}

function BackfillDialog(props: { path: string; onClose: () => void; done: () => void }) {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const submit = async () => {
    let next: string | null | undefined = new Date(from).toISOString();
    let [fired, skipped] = [0, 0];
    while (next) {
      const answer: Schemas["BackfillResponse"] = await post(`${props.path}/backfill`, { from: next, to: new Date(to).toISOString() });
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
        <Field label={t.jobs.from}>
          <input type="datetime-local" required value={from} onInput={(e) => setFrom(e.currentTarget.value)} />
        </Field>
        <Field label={t.jobs.to}>
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
          <ul class="plain-list">
            {data.ticks?.map((tick) => (
              <li key={tick.nominal}>
                <At at={tick.fires_at ?? tick.nominal} zone={schedule.time_zone} />
                <span class="note">{tick.note ?? <Ago at={tick.fires_at ?? tick.nominal} />}</span>
              </li>
            ))}
          </ul>
        )}
      </Show>
    </Panel>
  );
}

function Ledger(props: { name: string; path: string; zone: string }) {
  const { name, path, zone } = props;
  const ledger = useData(
    `ledger ${name}`,
    (signal) => get<Schemas["Ledger"]>(`${path}/ledger`, { limit: 50 }, signal),
    (event) => event.type === "enqueued",
  );
  const columns: Column<Row>[] = [
    {
      key: "nominal",
      title: t.schedules.tick,
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
    { key: "state", title: t.jobs.state, cell: (row) => <StateBadge state={row.state ?? ""} detail={row.past_due ? t.schedules.late : undefined} /> },
    {
      key: "job",
      title: t.jobs.id,
      cell: (row) =>
        row.job ? (
          <>
            <a href={link(["jobs", row.job])}>{String(row.job)}</a> {row.job_state && <StateBadge state={row.job_state} />}
          </>
        ) : (
          (row.reason ?? t.none)
        ),
    },
    { key: "source", title: t.schedules.source, cell: (row) => row.source },
    { key: "count", title: t.schedules.ticks, numeric: true, cell: (row) => (row.count === null ? t.schedules.many : count(row.count ?? 1)) },
    { key: "decided", title: t.schedules.decided, cell: (row) => <Ago at={row.decided_at} /> },
  ];
  return (
    <Panel title={t.schedules.ledger}>
      <Show of={ledger}>
        {(data) =>
          data.ticks.length === 0 ? (
            <p class="note">{t.schedules.ledgerEmpty}</p>
          ) : (
            <Table label={t.schedules.ledger} columns={columns} rows={data.ticks} id={(row) => String(row.seq)} />
          )
        }
      </Show>
    </Panel>
  );
}
