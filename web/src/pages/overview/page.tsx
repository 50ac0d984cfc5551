// Overview: what runs, what waits, what failed, what comes next.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { get, getQueues, type Schemas } from "../../api/client";
import { changes, listen, viewerIsActive, type ServerEvent } from "../../api/events";
import type { Queue, Upcoming } from "../../api/shapes";
import { Ago, Button, Empty, Facts, Page, Panel, Show, StateBadge, useNow } from "../../components/basics";
import { HistoryPanel, useHistory } from "../../components/history";
import { Table, type Column } from "../../components/table";
import { tellingLine } from "../../components/telling_line";
import { COSTLY_MS, queuesCoalesceMs, useData, type Loaded } from "../../data";
import { count } from "../../format";
import { useScale } from "../queues/scale";
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
  const queues = useData("queues", getQueues, (event) => event.queue !== undefined || viewerIsActive(event), queuesCoalesceMs);
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
            <NeededWorkers slots={meanSlots(workers.data?.workers ?? [])} />
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

const meanSlots = (workers: Schemas["Worker"][]): number =>
  Math.max(1, Math.round(workers.reduce((sum, worker) => sum + (worker.slots ?? 1), 0) / Math.max(1, workers.length)));

// Workers of the usual size that all queues need, with the reason.
function NeededWorkers(props: { slots: number }) {
  const scale = useScale({ slots: String(props.slots) });
  return scale.data === undefined ? null : (
    <a class="number" href={link(["workers"])} title={scale.data.reason}>
      <span class="number-value">{count(scale.data.value)}</span>
      <span>{t.overview.neededWorkers}</span>
    </a>
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
  key: number;
  type: string;
  queue: string;
  kind: string;
  job: string;
}

const COUNTED = { started: "started", completed: "completed", retrying: "failed", dead: "failed" } as const;
interface Second {
  at: number; // in seconds
  started: number;
  completed: number;
  failed: number;
}
const MINUTE_S = 60;
const nowInSeconds = (): number => Math.floor(Date.now() / 1000);

// What happens: the last events, and counts per second of the last minute. Their size does not depend on the traffic.
class Happenings {
  private key = 0;
  private seconds: Second[] = [];
  latest: Happening[] = []; // newest first

  add(event: ServerEvent): void {
    const at = nowInSeconds();
    if (this.seconds.at(-1)?.at !== at) this.seconds = [...this.last(at), { at, started: 0, completed: 0, failed: 0 }];
    if (Object.hasOwn(COUNTED, event.type)) ++this.seconds.at(-1)![COUNTED[event.type as keyof typeof COUNTED]];
    const one = { key: ++this.key, type: event.type, queue: event.queue ?? "", kind: event.kind ?? "", job: String(event.job) };
    this.latest = [one, ...this.latest].slice(0, MAX_ROWS);
  }

  private last = (now: number): Second[] => this.seconds.filter((one) => one.at > now - MINUTE_S);

  lastMinute(): Omit<Second, "at"> {
    const seconds = this.last(nowInSeconds());
    const sum = (name: "started" | "completed" | "failed") => seconds.reduce((total, one) => total + one[name], 0);
    return { started: sum("started"), completed: sum("completed"), failed: sum("failed") };
  }
}

// From events, not from samples: jobs that take a millisecond count too.
function Activity() {
  const [all] = useState(() => new Happenings());
  const rows = useRef<HTMLUListElement>(null);
  const [shown, setShown] = useState({ latest: all.latest, sum: all.lastMinute() });
  useEffect(() => {
    const stop = listen((event) => {
      if (event.job !== undefined && event.type !== "progress" && event.type !== "changed") all.add(event);
    });
    const update = () => {
      // A row that is pointed at or has the focus does not move away.
      const held = rows.current?.matches(":hover, :focus-within");
      setShown((old) => ({ latest: held ? old.latest : all.latest, sum: all.lastMinute() }));
    };
    const timer = setInterval(update, 500);
    return () => {
      stop();
      clearInterval(timer);
    };
  }, []);
  const { latest, sum } = shown;
  return (
    <Panel title={t.overview.activity}>
      {latest.length === 0 ? (
        <Empty title={t.overview.activityEmpty}>{t.overview.activityHint}</Empty>
      ) : (
        <>
          <p class="note">{t.overview.perMinute(count(sum.started), count(sum.completed), count(sum.failed))}</p>
          <ul class="plain-list activity" ref={rows}>
            {latest.map((one) => (
              <li key={one.key}>
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

// Queues whose oldest job waits, or whose backlog needs longer than BEHIND_MS to drain. If nothing happens, no event
// causes a read, and the jobs that were waiting still are: the time since the read is added here.
function Behind({ queues }: { queues: Queues }) {
  const now = useNow();
  const read = useMemo(() => Date.now(), [queues.data]);
  const since = Math.max(0, now - read);
  return (
    <Show of={queues}>
      {({ queues: all }) => {
        const late = all.filter((queue) => fallsBehind(queue, since)).sort((a, b) => byLateness(a, b, since));
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
function More(props: { n: number; href: string; inList?: boolean; orMore?: boolean }) {
  if (props.n <= 0) return null;
  const more = <a href={props.href}>{t.overview.moreOf(count(props.n) + (props.orMore ? "+" : ""))}</a>;
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
  const ticks = useData(
    "ticks",
    (signal) => get<Upcoming>("/v1/upcoming", { within: "1h" }, signal),
    (event) => event.type === "enqueued" || changes(event, "schedule"),
    TICKS_REFRESH_MS,
  );
  return (
    <Panel title={t.overview.nextTicks}>
      <Show of={ticks}>
        {(data) => {
          // The next one of each schedule. The ticks come by time.
          const seen = new Set<string>();
          const soon = data.ticks.filter((tick) => !seen.has(tick.schedule) && seen.add(tick.schedule));
          if (soon.length === 0) return <Empty title={t.overview.ticksEmpty} />;
          return (
            <ul class="plain-list">
              {soon.slice(0, MAX_ROWS).map((one) => (
                <li key={one.schedule}>
                  <a href={link(["schedules", one.schedule])}>{one.schedule}</a>
                  <Ago at={one.nominal} />
                </li>
              ))}
              <More inList n={soon.length - MAX_ROWS} orMore={data.truncated} href={link(["schedules"])} />
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
  const ready = useData("ready", (signal) => get<Schemas["Ready"]>("/readyz", {}, signal), viewerIsActive);
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
