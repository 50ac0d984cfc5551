// Overview: what runs, what waits, what failed, what comes next.
import { useEffect, useRef, useState } from "preact/hooks";

import { get, getNamed, type Schemas } from "../../api/client";
import { listen } from "../../api/events";
import { Ago, Empty, Page, Panel, Show, StateBadge } from "../../components/basics";
import { useData } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";

const HOUR_MS = 3_600_000;
const BEHIND_MS = 10_000;
const MAX_ROWS = 8;

export function OverviewPage() {
  return (
    <Page title={t.pages.overview} note={t.overview.note}>
      <Numbers />
      <div class="columns">
        <Activity />
        <Behind />
        <DeadGroups />
        <NextTicks />
        <OpenBreakers />
      </div>
    </Page>
  );
}

const readQueues = (signal: AbortSignal) => get<Schemas["QueueList"]>("/v1/queues", {}, signal);

function Numbers() {
  const queues = useData("queues", readQueues, (event) => event.queue !== undefined);
  const workers = useData(
    "workers",
    (signal) => get<Schemas["WorkerList"]>("/v1/workers", {}, signal),
    (event) => event.type === "started" || event.type === "completed" || event.type === "retrying",
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
      if (event.job === undefined || event.type === "progress") return;
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
          <ul class="plain-list">
            {latest.map((one, i) => (
              <li key={`${one.job} ${one.type} ${i}`}>
                <StateBadge state={one.type} /> <a href={link(["jobs", one.job])}>{one.kind || one.job}</a>{" "}
                <span class="note">{one.queue}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  );
}

function Behind() {
  const queues = useData("queues", readQueues, (event) => event.queue !== undefined);
  return (
    <Panel title={t.overview.behind}>
      <Show of={queues}>
        {({ queues: all }) => {
          const late = all
            .filter((queue) => (queue.oldest_available_ms ?? 0) >= BEHIND_MS)
            .sort((a, b) => (b.oldest_available_ms ?? 0) - (a.oldest_available_ms ?? 0))
            .slice(0, MAX_ROWS);
          if (late.length === 0) return <Empty title={t.overview.behindEmpty}>{t.overview.behindHint}</Empty>;
          return (
            <ul class="plain-list">
              {late.map((queue) => (
                <li key={queue.name}>
                  <a href={link(["queues", queue.name])}>{queue.name}</a>
                  <span>
                    {t.overview.oldest} <Ago at={queue.oldest_available_at} />
                  </span>
                </li>
              ))}
            </ul>
          );
        }}
      </Show>
    </Panel>
  );
}

function DeadGroups() {
  const groups = useData(
    "groups",
    (signal) => get<Schemas["DeadGroups"]>("/v1/dead/groups", {}, signal),
    (event) => event.type === "dead",
  );
  return (
    <Panel title={t.overview.errorGroups}>
      <Show of={groups}>
        {(data) =>
          data.groups.length === 0 ? (
            <Empty title={t.overview.errorsEmpty} />
          ) : (
            <ul class="plain-list">
              {data.groups.slice(0, MAX_ROWS).map((group) => (
                <li key={group.fingerprint}>
                  <a href={link(["errors"], { group: group.fingerprint })}>
                    {group.kind}: {group.message ?? group.reason}
                  </a>
                  <span>{count(group.count ?? 0)}</span>
                </li>
              ))}
            </ul>
          )
        }
      </Show>
    </Panel>
  );
}

function NextTicks() {
  const schedules = useData("schedules", (signal) =>
    getNamed<Schemas["ScheduleList"]>("/v1/schedules", "schedules", signal),
  );
  return (
    <Panel title={t.overview.nextTicks}>
      <Show of={schedules}>
        {(data) => {
          const limit = Date.now() + HOUR_MS;
          const soon = data.schedules
            .filter((one) => !one.paused && one.next_fire && Date.parse(one.next_fire) < limit)
            .sort((a, b) => Date.parse(a.next_fire!) - Date.parse(b.next_fire!))
            .slice(0, MAX_ROWS);
          if (soon.length === 0) return <Empty title={t.overview.ticksEmpty} />;
          return (
            <ul class="plain-list">
              {soon.map((one) => (
                <li key={one.name}>
                  <a href={link(["schedules", one.name ?? ""])}>{one.name}</a>
                  <Ago at={one.next_fire} />
                </li>
              ))}
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
    (event) => event.type.startsWith("breaker_"),
  );
  return (
    <Panel title={t.overview.openBreakers}>
      <Show of={breakers}>
        {(data) => {
          const open = data.breakers.filter((one) => one.state !== "closed").slice(0, MAX_ROWS);
          if (open.length === 0) return <Empty title={t.overview.breakersEmpty} />;
          return (
            <ul class="plain-list">
              {open.map((one) => (
                <li key={one.name}>
                  <a href={link(["breakers"])}>{one.name}</a> <StateBadge state={one.state} />
                </li>
              ))}
            </ul>
          );
        }}
      </Show>
    </Panel>
  );
}
