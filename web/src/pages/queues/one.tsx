// One queue: counts, backlog, charts, pause, limits and its limit keys.
import { useState } from "preact/hooks";

import { get, getJobPage, getJobs, remove, segment, type Schemas } from "../../api/client";
import { changes, viewerIsActive, type ServerEvent } from "../../api/events";
import type { Queue } from "../../api/shapes";
import { Ago, Button, Empty, Facts, Page, Panel, Show, ShowPage, StateBadge } from "../../components/basics";
import { act, confirm } from "../../components/feedback";
import { HistoryPanel } from "../../components/history";
import { usePageCommands } from "../../components/palette";
import { Table, type Column } from "../../components/table";
import { COSTLY_MS, useData } from "../../data";
import { capital, count, duration } from "../../format";
import { link, navigate } from "../../router";
import type { Need } from "../../session";
import { t } from "../../texts";
import { WhyPanel } from "../job/why";
import { Drain, perSecond, Slots } from "./backlog";
import { useScale } from "./scale";
import { LimitsDialog, RetentionDialog } from "./limits";
import { longestWaiting } from "./longest";
import { PauseBadge, PauseDialog, resumeQueue } from "./pause";

// Keys are counted among this many running jobs and this many of those that wait longest.
const KEY_SAMPLE = 1000;

export function QueuePage(props: { name: string }) {
  const { name } = props;
  const queue = useData(
    name,
    (signal) => get<Queue>(`/v1/queues/${segment(name)}`, {}, signal),
    (event) => event.queue === name || changes(event, `queue/${name}`) || viewerIsActive(event),
  );
  return (
    <ShowPage title={name} of={queue}>
      {(data) => <QueueView queue={data} reload={queue.reload} />}
    </ShowPage>
  );
}

function QueueView(props: { queue: Queue; reload: () => void }) {
  const { queue, reload } = props;
  const [dialog, setDialog] = useState<"limits" | "retention" | "pause">();
  const toggle = async () => {
    if (!queue.paused) return setDialog("pause");
    if (await resumeQueue(queue.name)) reload();
  };
  const drop = async () => {
    const yes = await confirm({ title: t.queues.confirmRemove(queue.name), text: t.queues.confirmRemoveText, action: t.remove, danger: true });
    if (yes && (await act(() => remove(`/v1/queues/${segment(queue.name)}`), t.queues.removed(queue.name)))) navigate(link(["queues"]));
  };
  const needs: Need = ["admin", queue.name];
  const empty = Object.values(queue.counts).every((n) => n === 0);
  usePageCommands([
    { text: queue.paused ? t.queues.resume : t.queues.pause, run: toggle, needs },
    { text: t.queues.edit, run: () => setDialog("limits"), needs },
    { text: t.queues.editRetention, run: () => setDialog("retention"), needs },
    { text: t.queues.showJobs, run: () => navigate(link(["jobs"], { queue: queue.name })) },
  ]);
  const close = () => setDialog(undefined);
  return (
    <Page
      title={queue.name}
      note={queue.paused ? <PauseBadge queue={queue} /> : undefined}
      actions={
        <>
          <Button needs={needs} onClick={toggle}>{queue.paused ? t.queues.resume : t.queues.pause}</Button>
          <a class="button plain" href={link(["jobs"], { queue: queue.name })}>
            {t.queues.showJobs}
          </a>
          {empty && (
            <Button kind="danger" needs={needs} onClick={drop}>
              {t.remove}
            </Button>
          )}
        </>
      }
    >
      <Counts queue={queue} edit={() => setDialog("retention")} />
      <HistoryPanel queue={queue.name} />
      <LimitsPanel queue={queue} edit={() => setDialog("limits")} />
      <Keys queue={queue} />
      {dialog === "limits" && <LimitsDialog queue={queue} onClose={close} done={reload} />}
      {dialog === "retention" && <RetentionDialog queue={queue} onClose={close} done={reload} />}
      {dialog === "pause" && <PauseDialog name={queue.name} onClose={close} done={reload} />}
    </Page>
  );
}

function Counts(props: { queue: Queue; edit: () => void }) {
  const { queue } = props;
  const { backlog } = queue;
  const scale = useScale({ queues: queue.name }).data;
  return (
    <Panel title={t.queues.states} actions={<Button needs={["admin", props.queue.name]} onClick={props.edit}>{t.queues.editRetention}</Button>}>
      <div class="numbers">
        {Object.keys(queue.counts).map((state) => (
          <a key={state} class="number" href={link(["jobs"], { queue: queue.name, state })}>
            <span class="number-value">{count(queue.counts[state] ?? 0)}</span>
            <span>{capital(t.states[state] ?? state)}</span>
          </a>
        ))}
      </div>
      <Facts
        rows={[
          [t.queues.backlog, backlog && <Drain queue={queue} />],
          [t.queues.arrivals, backlog && perSecond(backlog.arrivals_per_second)],
          [t.queues.completions, backlog && perSecond(backlog.completions_per_second)],
          [t.queues.service, backlog?.service_ms != null && duration(backlog.service_ms)],
          [t.queues.needed, scale && t.queues.neededSlots(count(scale.value), count(scale.workers.seen), count(scale.workers.idle), scale.reason)],
          [t.queues.oldest, queue.oldest_available_at && <Ago at={queue.oldest_available_at} />],
          [t.queues.slots, queue.limits?.concurrency && <Slots queue={queue} />],
          [t.queues.opens, queue.opens_at && <Ago at={queue.opens_at} />],
          [t.pages.quarantine, queue.quarantined && <a href={link(["quarantine"])}>{count(queue.quarantined)}</a>],
          [t.queues.enqueued, count(queue.enqueued ?? 0)],
          [t.queues.keepCompleted, queue.retention?.completed ?? t.queues.serverDefault],
          [t.queues.keepDead, queue.retention?.dead ?? t.queues.serverDefault],
        ]}
      />
    </Panel>
  );
}

const rateText = (rate: Schemas["RateLimit"] | undefined | null): string | undefined =>
  rate
    ? [`${rate.count} ${t.queues.ratePer} ${rate.per}`, t.queues.rateKinds[rate.kind ?? "bucket"], rate.burst && `${t.queues.burst} ${rate.burst}`].filter(Boolean).join(", ")
    : undefined;
const mapText = (map: Record<string, number> | undefined | null): string | undefined =>
  map ? Object.entries(map).map(([key, n]) => `${key} = ${n}`).join(", ") : undefined;

function LimitsPanel(props: { queue: Queue; edit: () => void }) {
  const limits = props.queue.limits;
  return (
    <Panel title={t.queues.limits} actions={<Button needs={["admin", props.queue.name]} onClick={props.edit}>{t.queues.edit}</Button>}>
      {limits ? (
        <Facts
          rows={[
            [t.queues.concurrency, limits.concurrency],
            [t.queues.rate, rateText(limits.rate)],
            [t.queues.keyConcurrency, limits.per_key?.concurrency],
            [t.queues.keyRate, rateText(limits.per_key?.rate)],
            [t.queues.fair, limits.per_key?.fair && t.yes],
            [t.queues.weights, mapText(limits.per_key?.weights)],
            [t.queues.breaker, limits.breaker && <a href={link(["breakers"])}>{limits.breaker}</a>],
            [t.queues.ageing, limits.ageing],
            [t.queues.quarantineAfter, limits.quarantine_after],
            [t.queues.costs, mapText(limits.costs)],
            [t.queues.searchable, limits.searchable?.join(", ")],
          ]}
        />
      ) : (
        <p class="note">{t.queues.noLimits}</p>
      )}
    </Panel>
  );
}

interface KeyRow {
  key: string;
  running: number;
  available: number;
}

function countKeys(jobs: Schemas["Job"][]): KeyRow[] {
  const rows = new Map<string, KeyRow>();
  for (const job of jobs) {
    if (!job.limit_key) continue;
    const row = rows.get(job.limit_key) ?? { key: job.limit_key, running: 0, available: 0 };
    if (job.state === "running") ++row.running;
    else ++row.available;
    rows.set(job.limit_key, row);
  }
  return [...rows.values()].sort((a, b) => b.running + b.available - a.running - a.available);
}

// Reads jobs, so it is read when asked for.
function Keys({ queue }: { queue: Queue }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="panel" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <strong>{t.queues.keys}</strong>
      </summary>
      {open && <KeyTable queue={queue} />}
    </details>
  );
}

function KeyTable({ queue }: { queue: Queue }) {
  const jobs = useData(`keys ${queue.name}`, async (signal) => {
    const [running, available] = await Promise.all([
      getJobs({ queue: queue.name, state: "running" }, KEY_SAMPLE, signal),
      longestWaiting({ queue: queue.name, state: "available" }, queue.oldest_available_at, KEY_SAMPLE, signal),
    ]);
    return { rows: countKeys([...running.jobs, ...available.jobs]), cut: available.cut || running.next_cursor !== null };
  });
  const weights = queue.limits?.per_key?.weights ?? {};
  const columns: Column<KeyRow>[] = [
    { key: "key", title: t.job.limitKey, cell: (row) => <a href={link(["queues", queue.name, "keys", row.key])}>{row.key}</a>, sort: (row) => row.key },
    { key: "running", title: capital(t.states.running!), numeric: true, cell: (row) => count(row.running), sort: (row) => row.running },
    { key: "available", title: capital(t.states.available!), numeric: true, cell: (row) => count(row.available), sort: (row) => row.available },
    { key: "weight", title: t.queues.weight, numeric: true, cell: (row) => weights[row.key] ?? 1, sort: (row) => weights[row.key] ?? 1 },
  ];
  return (
    <Show of={jobs}>
      {({ rows, cut }) =>
        rows.length === 0 ? (
          <Empty title={t.queues.noKeys}>{t.queues.noKeysHint}</Empty>
        ) : (
          <>
            {cut && <p class="note">{t.queues.keysCut(count(KEY_SAMPLE))}</p>}
            <Table label={t.queues.keys} columns={columns} rows={rows.slice(0, 50)} id={(row) => row.key} />
          </>
        )
      }
    </Show>
  );
}

const KEY_STATES = ["running", "scheduled", "retryable", "dead"] as const;
const KEY_JOBS = 100;
const KEY_SHOWN = 10;

// One limit key of a queue: for example one customer.
export function KeyPage(props: { queue: string; limitKey: string }) {
  const { queue: name, limitKey } = props;
  const concerns = (event: { queue?: string }) => event.queue === name;
  const queue = useData(name, (signal) => get<Queue>(`/v1/queues/${segment(name)}`, {}, signal), concerns);
  const q = `limit_key:${JSON.stringify(limitKey)}`;
  return (
    <Page
      title={limitKey}
      note={
        <>
          {t.job.limitKey} · <a href={link(["queues", name])}>{name}</a> {queue.data && <PauseBadge queue={queue.data} />}
        </>
      }
      actions={
        <a class="button plain" href={link(["jobs"], { queue: name, q })}>
          {t.queues.showKeyJobs}
        </a>
      }
    >
      <Show of={queue}>
        {(data) => (
          <Panel title={t.queues.limits}>
            <Facts
              rows={[
                [t.queues.keyConcurrency, data.limits?.per_key?.concurrency ?? t.none],
                [t.queues.keyRate, rateText(data.limits?.per_key?.rate) ?? t.none],
                [t.queues.weight, data.limits?.per_key?.weights?.[limitKey] ?? 1],
                [t.queues.concurrency, data.limits?.concurrency ?? t.none],
              ]}
            />
          </Panel>
        )}
      </Show>
      {queue.data && <LongestWaiting queue={queue.data} q={q} />}
      {KEY_STATES.map((state) => (
        <KeyJobs key={state} queue={name} q={q} state={state} />
      ))}
    </Page>
  );
}

const concernsJobs = (queue: string) => (event: ServerEvent) => event.queue === queue && event.type !== "progress";

// The available jobs of the key, and why the first of them waits.
function LongestWaiting({ queue, q }: { queue: Queue; q: string }) {
  const waiting = useData(
    `longest ${queue.name} ${q}`,
    (signal) => longestWaiting({ queue: queue.name, q, state: "available" }, queue.oldest_available_at, KEY_JOBS, signal),
    concernsJobs(queue.name),
    COSTLY_MS,
  );
  return (
    <Show of={waiting}>
      {({ jobs, cut }) =>
        jobs.length === 0 ? (
          cut && <JobsOfKey queue={queue.name} q={q} state="available" jobs={jobs} cut unseen />
        ) : (
          <>
            <WhyPanel job={jobs[0]!} title={t.queues.whyOldest(String(jobs[0]!.id))} />
            <JobsOfKey queue={queue.name} q={q} state="available" jobs={jobs} cut={cut} note={t.queues.longestFirst} />
          </>
        )
      }
    </Show>
  );
}

function KeyJobs(props: { queue: string; q: string; state: string }) {
  const { queue, q, state } = props;
  const jobs = useData(
    `key ${queue} ${q} ${state}`,
    (signal) => getJobPage({ queue, q, state }, KEY_JOBS, signal),
    concernsJobs(queue),
    COSTLY_MS,
  );
  return (
    <Show of={jobs}>
      {(page) => {
        const cut = page.next_cursor !== null;
        if (page.jobs.length === 0 && !cut) return null;
        return <JobsOfKey queue={queue} q={q} state={state} jobs={page.jobs} cut={cut} unseen={cut && page.jobs.length < KEY_JOBS} />;
      }}
    </Show>
  );
}

function JobsOfKey(props: {
  queue: string; q: string; state: string; jobs: Schemas["Job"][]; cut: boolean; unseen?: boolean; note?: string;
}) {
  const { queue, q, state, jobs } = props;
  return (
    <Panel title={`${capital(t.states[state]!)} (${props.cut ? "≥ " : ""}${count(jobs.length)})`}>
      {props.note && <p class="note">{props.note}</p>}
      {props.unseen && <p class="note">{t.queues.notAllSeen}</p>}
      <ul class="plain-list">
        {jobs.slice(0, KEY_SHOWN).map((job) => (
          <li key={String(job.id)}>
            <a href={link(["jobs", job.id])}>
              {String(job.id)} {job.kind}
            </a>
            <StateBadge state={job.state} />
            <Ago at={job.started_at ?? job.created_at} />
          </li>
        ))}
      </ul>
      {(jobs.length > KEY_SHOWN || props.unseen) && (
        <p class="note">
          <a href={link(["jobs"], { queue, q, state })}>{t.queues.allKeyJobs}</a>
        </p>
      )}
    </Panel>
  );
}
