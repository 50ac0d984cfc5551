// Overview: what runs, what waits, what failed, what comes next.
import { useEffect, useRef, useState } from "preact/hooks";

import { get, getNamed, getQueues, type Schemas } from "../../api/client";
import { changes, listen, viewerIsActive } from "../../api/events";
import type { Queue } from "../../api/shapes";
import { Ago, Button, Empty, Facts, Page, Panel, Show, StateBadge } from "../../components/basics";
import { HistoryPanel, useHistory } from "../../components/history";
import { Table, type Column } from "../../components/table";
import { tellingLine } from "../../components/telling_line";
import { COSTLY_MS, useData, type Loaded } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";
import { byLateness, Drain, drainSeconds, fallsBehind } from "../queues/backlog";
import { PauseBadge } from "../queues/pause";
import { checkStore, lastCheck } from "../system/check";

const HOUR_MS = 3_600_000;
const MAX_ROWS = 8;
const NEW_MS = 24 * HOUR_MS;
const TICKS_REFRESH_MS = 60_000;

type Queues = Loaded<{ queues: Queue[] }>;

export function OverviewPage() {
  const queues = useData("queues", getQueues, (event) => event.queue !== undefined);
  return (
    <Page title={t.pages.overview} note={t.overview.note}>
      <Numbers queues={queues} />
      <Behind queues={queues} />
      <HistoryPanel />
      <div class="columns">
        <Activity />
        <DeadGroups />
        <NextTicks />
        <OpenBreakers />
        <Conservation queues={queues} />
        <Health />
      </div>
    </Page>
  );
}

function Numbers({ queues }: { queues: Queues }) {
  const workers = useData(
    "workers",
    (signal) => get<Schemas["WorkerList"]>("/v1/workers", {}, signal),
    (event) => event.type === "started" || event.type === "completed" || event.type === "retrying" || changes(event, "worker"),
    1_000,
  );
  return (
    <Show of={queues}>
      {({ queues: all }) => {
        if (all.length === 0) return <Empty title={t.overview.noQueues}>{t.overview.noQueuesHint}</Empty>;
        const sum = (state: string) => all.reduce((total, queue) => total + (queue.counts[state] ?? 0), 0);
        const busy = workers.data?.workers.filter((worker) => (worker.running ?? 0) > 0).length ?? 0;
        return (
          <div class="numbers">
            {(["running", "available", "scheduled", "retryable", "dead"] as const).map((state) => (
              <a key={state} class={`number ${state === "dead" && sum(state) > 0 ? "bad" : ""}`} href={link(["jobs"], { state })}>
                <span class="number-value">{count(sum(state))}</span>
                <span>{t.overview[state]}</span>
              </a>
            ))}
            <CompletedLately />
            <a class="number" href={link(["workers"])}>
              <span class="number-value">{workers.data ? t.overview.ofWorkers(busy, workers.data.workers.length) : t.none}</span>
              <span>{t.overview.busyWorkers}</span>
            </a>
          </div>
        );
      }}
    </Show>
  );
}

// From the history: jobs so short that none is seen running are counted.
function CompletedLately() {
  const history = useHistory({}, "1h");
  const done = history.data?.history?.total.completed;
  return done === undefined ? null : (
    <a class="number" href={link(["jobs"], { state: "completed" })}>
      <span class="number-value">{count(done)}</span>
      <span>{t.overview.completedLastHour}</span>
    </a>
  );
}

interface Happening {
  at: number;
  type: string;
  queue: string;
  kind: string;
  job: string;
}

// From events, not from samples: jobs that take a millisecond count too.
function Activity() {
  const all = useRef<Happening[]>([]);
  const [shown, setShown] = useState<Happening[]>([]);
  useEffect(() => {
    const stop = listen((event) => {
      if (event.job === undefined || event.type === "progress" || event.type === "changed") return;
      all.current.push({
        at: Date.now(), type: event.type, queue: event.queue ?? "", kind: event.kind ?? "", job: String(event.job),
      });
      if (all.current.length > 20_000) all.current.splice(0, 10_000);
    });
    const timer = setInterval(() => {
      const minute = Date.now() - 60_000;
      all.current = all.current.filter((one) => one.at >= minute);
      setShown(all.current);
    }, 500);
    return () => {
      stop();
      clearInterval(timer);
    };
  }, []);
  const of = (type: string) => shown.filter((one) => one.type === type).length;
  const latest = shown.slice(-MAX_ROWS).reverse();
  return (
    <Panel title={t.overview.activity}>
      {latest.length === 0 ? (
        <Empty title={t.overview.activityEmpty}>{t.overview.activityHint}</Empty>
      ) : (
        <>
          <p class="note">{t.overview.perMinute(of("started"), of("completed"), of("retrying") + of("dead"))}</p>
          <ul class="plain-list activity">
            {latest.map((one, i) => (
              <li key={`${one.job} ${one.type} ${i}`}>
                <span>
                  <StateBadge state={one.type} /> <a href={link(["jobs", one.job])}>{one.kind || one.job}</a>
                </span>
                <span class="note">{one.queue}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  );
}

const BEHIND_COLUMNS: Column<Queue>[] = [
  {
    key: "name",
    title: t.jobs.queue,
    sort: (queue) => queue.name,
    cell: (queue) => (
      <>
        <a class="name" href={link(["queues", queue.name])}>{queue.name}</a> <PauseBadge queue={queue} />
      </>
    ),
  },
  { key: "available", title: t.overview.available, numeric: true, cell: (queue) => count(queue.counts.available ?? 0), sort: (queue) => queue.counts.available },
  { key: "oldest", title: t.overview.oldest, cell: (queue) => <Ago at={queue.oldest_available_at} />, sort: (queue) => queue.oldest_available_at },
  { key: "backlog", title: t.queues.backlog, cell: (queue) => <Drain queue={queue} />, sort: drainSeconds, wide: true },
];

// Queues whose oldest job waits, or whose backlog needs longer than BEHIND_MS to drain.
function Behind({ queues }: { queues: Queues }) {
  return (
    <Show of={queues}>
      {({ queues: all }) => {
        const late = all.filter(fallsBehind).sort(byLateness);
        if (late.length === 0) return null;
        return (
          <Panel title={t.overview.behind}>
            <Table label={t.overview.behind} columns={BEHIND_COLUMNS} rows={late.slice(0, MAX_ROWS)} id={(queue) => queue.name} />
            <More n={late.length - MAX_ROWS} href={link(["queues"])} />
          </Panel>
        );
      }}
    </Show>
  );
}

// A short list says that it is short.
function More(props: { n: number; href: string; inList?: boolean }) {
  if (props.n <= 0) return null;
  const more = <a href={props.href}>{t.overview.moreOf(count(props.n))}</a>;
  return props.inList ? <li>{more}</li> : <p class="note">{more}</p>;
}

type Group = Schemas["DeadGroups"]["groups"][number];
const isNew = (group: Group): boolean => Date.now() - Date.parse(group.first?.at ?? "") < NEW_MS;
// New errors, then the others, which come with the largest first.
const newFirst = (groups: Group[]): Group[] => [...groups.filter(isNew), ...groups.filter((group) => !isNew(group))];

function DeadGroups() {
  const groups = useData(
    "groups",
    (signal) => get<Schemas["DeadGroups"]>("/v1/dead/groups", {}, signal),
    (event) => event.type === "dead" || event.type === "retrying" || changes(event, "job"), // a retried job is not dead any more
    COSTLY_MS,
  );
  return (
    <Panel title={t.overview.errorGroups}>
      <Show of={groups}>
        {(data) =>
          data.groups.length === 0 ? (
            <Empty title={t.overview.errorsEmpty} />
          ) : (
            <ul class="plain-list">
              {newFirst(data.groups).slice(0, MAX_ROWS).map((group) => (
                <li key={group.fingerprint}>
                  <a href={link(["errors"], { group: group.fingerprint })}>
                    {group.kind}: {tellingLine(group.message ?? group.reason ?? "")}
                  </a>
                  {isNew(group) && <StateBadge state={t.overview.isNew} />}
                  <span>{count(group.count ?? 0)}</span>
                </li>
              ))}
              <More inList n={data.groups.length - MAX_ROWS} href={link(["errors"])} />
            </ul>
          )
        }
      </Show>
    </Panel>
  );
}

function NextTicks() {
  // A schedule that fired has a next tick.
  const schedules = useData(
    "schedules",
    (signal) => getNamed<Schemas["ScheduleList"]>("/v1/schedules", "schedules", signal),
    (event) => event.type === "enqueued" || changes(event, "schedule"),
    TICKS_REFRESH_MS,
  );
  return (
    <Panel title={t.overview.nextTicks}>
      <Show of={schedules}>
        {(data) => {
          const limit = Date.now() + HOUR_MS;
          const soon = data.schedules
            .filter((one) => !one.paused && one.next_fire && Date.parse(one.next_fire) < limit)
            .sort((a, b) => Date.parse(a.next_fire!) - Date.parse(b.next_fire!));
          if (soon.length === 0) return <Empty title={t.overview.ticksEmpty} />;
          return (
            <ul class="plain-list">
              {soon.slice(0, MAX_ROWS).map((one) => (
                <li key={one.name}>
                  <a href={link(["schedules", one.name ?? ""])}>{one.name}</a>
                  <Ago at={one.next_fire} />
                </li>
              ))}
              <More inList n={soon.length - MAX_ROWS} href={link(["schedules"])} />
            </ul>
          );
        }}
      </Show>
    </Panel>
  );
}

function OpenBreakers() {
  const breakers = useData(
    "breakers",
    (signal) => get<Schemas["BreakerList"]>("/v1/breakers", {}, signal),
    (event) => event.type.startsWith("breaker_") || changes(event, "breaker") || viewerIsActive(event),
  );
  return (
    <Panel title={t.overview.openBreakers}>
      <Show of={breakers}>
        {(data) => {
          const open = data.breakers.filter((one) => one.state !== "closed");
          if (open.length === 0) return <Empty title={t.overview.breakersEmpty} />;
          return (
            <ul class="plain-list">
              {open.slice(0, MAX_ROWS).map((one) => (
                <li key={one.name}>
                  <a href={link(["breakers"])}>{one.name}</a> <StateBadge state={one.state} />
                </li>
              ))}
              <More inList n={open.length - MAX_ROWS} href={link(["breakers"])} />
            </ul>
          );
        }}
      </Show>
    </Panel>
  );
}

// Every enqueued job is kept, expired, or was removed by retention.
function Conservation({ queues }: { queues: Queues }) {
  const [, redraw] = useState(0);
  const check = lastCheck();
  return (
    <Panel
      title={t.overview.conservation}
      actions={<Button needs={["admin", "*"]} onClick={() => void checkStore().finally(() => redraw((n) => n + 1))}>{t.system.verifyRun}</Button>}
    >
      <Show of={queues}>
        {({ queues: all }) => {
          const sum = (value: (queue: Queue) => number) => all.reduce((total, queue) => total + value(queue), 0);
          const enqueued = sum((queue) => queue.enqueued ?? 0);
          const kept = sum((queue) => Object.values(queue.counts).reduce((total, n) => total + n, 0));
          const expired = sum((queue) => queue.expired ?? 0);
          const pruned = sum((queue) => queue.pruned ?? 0);
          const good = enqueued === kept + expired + pruned;
          return (
            <>
              <p class={good ? "verdict good" : "verdict bad"}>{good ? t.overview.conserved : t.overview.notConserved}</p>
              <Facts
                rows={[
                  [t.queues.enqueued, count(enqueued)],
                  [t.overview.kept, count(kept)],
                  [t.overview.expired, expired > 0 && count(expired)],
                  [t.overview.pruned, count(pruned)],
                  [t.overview.lastCheck, check ? <>{check.text} <Ago at={check.at} /></> : t.overview.neverChecked],
                ]}
              />
            </>
          );
        }}
      </Show>
    </Panel>
  );
}

function Health() {
  const ready = useData("ready", (signal) => get<Schemas["Ready"]>("/readyz", {}, signal), (event) => event.type === "gap");
  return (
    <Panel title={t.system.health}>
      <Show of={ready}>
        {(data) => (
          <>
            <p class={data.warning ? "verdict bad" : "verdict good"}>{data.warning ?? t.overview.healthy}</p>
            <Facts
              rows={[
                [t.system.durability, data.durability],
                [t.system.store, data.store ? t.overview.shared(data.store.others ?? 0) : t.overview.local],
              ]}
            />
          </>
        )}
      </Show>
    </Panel>
  );
}
