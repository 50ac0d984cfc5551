// Dead jobs, grouped by what they died of; one group can be redriven at a rate, with a canary first.
import { useEffect, useState } from "preact/hooks";

import { get, type Schemas } from "../../api/client";
import { changes } from "../../api/events";
import { Ago, Button, Empty, Facts, Page, Panel, Show } from "../../components/basics";
import { Sparkline } from "../../components/chart";
import { HistoryPanel, RANGES } from "../../components/history";
import { bounds, isBounded, periodOf, PeriodFields, type Period } from "../../components/period";
import { Table, type Column } from "../../components/table";
import { tellingLine } from "../../components/telling_line";
import { Pre } from "../../components/values";
import { Views } from "../../components/views";
import { COSTLY_MS, useData } from "../../data";
import { count, duration } from "../../format";
import { link, navigate, withQuery, type Route } from "../../router";
import { may, onlyQueue } from "../../session";
import { t } from "../../texts";
import { BulkPanel } from "../jobs/bulk";
import { deadJobs, diedAt, diedIn, type Group } from "./dead";
import { RedriveDialog } from "./redrive";

export function ErrorsPage(props: { route: Route }) {
  const { route } = props;
  const queue = route.query.get("queue") ?? "";
  // The range of the chart filters the groups too.
  const period = periodOf(route, route.query.has("range") ? "range" : "since");
  const [redriving, setRedriving] = useState<Group>();
  const [bulks, setBulks] = useState(0);
  const groups = useData(
    `groups ${queue}`,
    (signal) => get<Schemas["DeadGroups"]>("/v1/dead/groups", { queue }, signal),
    (event) => (event.type === "dead" || event.type === "retrying" || changes(event, "job")) && (!queue || event.queue === queue),
    COSTLY_MS,
  );
  return (
    <Page title={t.pages.errors} note={t.errors.note} actions={<Views page="errors" route={route} />}>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          const text = new FormData(event.currentTarget as HTMLFormElement).get("queue");
          navigate(withQuery(route, { queue: String(text ?? "").trim(), group: undefined }));
        }}
      >
        <label>
          {t.jobs.queue} <input key={queue} name="queue" defaultValue={queue} />
        </label>
        <button type="submit" class="button primary">
          {t.jobs.filter}
        </button>
        <PeriodFields label={t.errors.diedIn} period={period} onChange={(next) => navigate(withQuery(route, { ...periodQuery(next), group: undefined }))} />
      </form>
      <HistoryPanel queue={queue || undefined} only="failures" />
      <BulkPanel version={bulks} ended={groups.reload} />
      <Show of={groups}>
        {(data) =>
          data.groups.length === 0 ? (
            <Empty title={t.overview.errorsEmpty}>{t.errors.emptyHint}</Empty>
          ) : (
            <Groups data={data} route={route} queue={queue} period={period} redrive={setRedriving} />
          )
        }
      </Show>
      {redriving && (
        <RedriveDialog
          group={redriving}
          queue={redriveQueue(queue)}
          period={period}
          started={() => setBulks((n) => n + 1)}
          onClose={() => setRedriving(undefined)}
        />
      )}
    </Page>
  );
}

const periodQuery = ({ within, from, to }: Period) => ({
  since: within || undefined,
  range: within in RANGES && within !== "1h" ? within : undefined,
  from: from || undefined,
  to: to || undefined,
});

function Groups(props: { data: Schemas["DeadGroups"]; route: Route; queue: string; period: Period; redrive: (group: Group) => void }) {
  const { data, route, queue, period } = props;
  const chosen = route.query.get("group");
  const shown = data.groups.filter((group) => diedIn(group, period));
  return (
    <>
      {data.cut && <p class="note">{t.errors.cut(count(data.jobs))}</p>}
      {isBounded(period) && <p class="note">{t.errors.since(shown.length, data.groups.length)}</p>}
      {shown.length > 0 && (
        <Table label={t.pages.errors} columns={columns(route, queue, period, shown, props.redrive)} rows={shown} id={(group) => group.fingerprint ?? ""} />
      )}
      {data.groups
        .filter((group) => group.fingerprint === chosen)
        .map((group) => (
          <GroupPanel key={group.fingerprint} group={group} queue={queue} period={period} />
        ))}
    </>
  );
}

// The server redrives groups of one queue for a token that may not change all queues.
const redriveQueue = (queue: string): string => queue || (may(["admin", "*"]) ? "" : (onlyQueue("admin") ?? ""));

function columns(route: Route, queue: string, period: Period, rows: Group[], redrive: (group: Group) => void): Column<Group>[] {
  const drawn = new Set(rows.slice(0, MAX_TRENDS).map((group) => group.fingerprint));
  return [
    { key: "count", title: t.errors.count, numeric: true, cell: (group) => count(group.count ?? 0), sort: (group) => group.count ?? 0 },
    {
      key: "message",
      title: t.errors.message,
      wide: true,
      sort: (group) => group.message ?? group.reason,
      cell: (group) => (
        <a class="long" href={withQuery(route, { group: group.fingerprint })}>{group.masked ? t.errors.masked : tellingLine(group.message ?? group.reason ?? "")}</a>
      ),
    },
    { key: "kind", title: t.jobs.kind, cell: (group) => group.kind, sort: (group) => group.kind },
    { key: "reason", title: t.reason, cell: (group) => group.reason, sort: (group) => group.reason },
    { key: "trend", title: t.errors.trend, cell: (group) => drawn.has(group.fingerprint) && <Trend group={group} queue={queue} period={period} /> },
    { key: "first", title: t.errors.first, cell: (group) => <Ago at={group.first?.at} />, sort: (group) => group.first?.at },
    { key: "last", title: t.errors.last, cell: (group) => <Ago at={group.last?.at} />, sort: (group) => group.last?.at },
    { key: "actions", title: t.actions, cell: (group) => <RedriveButton queue={queue} onClick={() => redrive(group)} /> },
  ];
}

function RedriveButton(props: { queue: string; onClick: () => void }) {
  const queue = redriveQueue(props.queue);
  const unnamed = queue === "" && may(["admin"]) && !may(["admin", "*"]);
  return (
    <Button needs={["admin", queue || undefined]} disabled={unnamed} title={unnamed ? t.errors.chooseQueue : undefined} onClick={props.onClick}>
      {t.errors.redrive}
    </Button>
  );
}

const TREND_SAMPLE = 200;
const MAX_TRENDS = 20; // each is one request
const MAX_LISTED = 50; // jobs of a group
const TREND_BINS = 24;

// When the newest jobs of the group died: in the period, else from the first of them until now.
function Trend(props: { group: Group; queue: string; period: Period }) {
  const { group, queue, period } = props;
  const jobs = useData(`trend ${group.fingerprint} ${queue} ${group.last?.id} ${group.count}`, (signal) =>
    get<Schemas["JobPage"]>("/v1/dead", { fingerprint: group.fingerprint, queue, kind: group.kind, limit: TREND_SAMPLE }, signal),
  );
  const chosen = bounds(period);
  const times = jobs.data?.jobs.map(diedAt).filter((time) => time >= chosen.from && time < chosen.to) ?? [];
  if (times.length === 0) return <span class="note">{t.none}</span>;
  const from = Number.isFinite(chosen.from) ? chosen.from : Math.min(...times);
  const to = Math.min(chosen.to, Date.now());
  const bins = new Array<number>(TREND_BINS).fill(0);
  for (const time of times) ++bins[Math.max(0, Math.min(TREND_BINS - 1, Math.floor(((time - from) / Math.max(1, to - from)) * TREND_BINS)))]!;
  // More of the group may have died in the period than were read.
  const n = count(times.length) + (jobs.data?.next_cursor ? "+" : "");
  return (
    <span class="spark">
      <Sparkline values={bins} tone="bad" label={t.errors.trendLabel(n, duration(to - from))} />
      {isBounded(period) && <span class="note">{n}</span>}
    </span>
  );
}

function GroupPanel(props: { group: Group; queue: string; period: Period }) {
  const { group, queue, period } = props;
  // It is below the table, which may be long.
  useEffect(() => document.getElementById("group")?.scrollIntoView({ block: "nearest" }), []);
  const jobs = useData(JSON.stringify(["dead", group.fingerprint, group.count, queue, period]), (signal) => deadJobs(group, queue, period, MAX_LISTED, signal));
  return (
    <Panel id="group" title={t.errors.group(group.kind ?? "", count(group.count ?? 0))}>
      <Facts
        rows={[
          [t.errors.first, group.first && <a href={link(["jobs", group.first.id])}><Ago at={group.first.at} /></a>],
          [t.errors.last, group.last && <a href={link(["jobs", group.last.id])}><Ago at={group.last.at} /></a>],
        ]}
      />
      {group.message && <Pre text={group.message} wrap label={t.errors.message} />}
      <h3>{isBounded(period) ? t.errors.newestIn : t.errors.newest}</h3>
      <Show of={jobs}>
        {(dead) => (
          <ul class="plain-list">
            {dead.jobs.map((job) => (
              <li key={String(job.id)}>
                <a href={link(["jobs", job.id])}>{String(job.id)}</a>
                <span class="note">{job.queue}</span>
                <Ago at={job.finished_at} />
              </li>
            ))}
          </ul>
        )}
      </Show>
    </Panel>
  );
}
