// Dead jobs, grouped by what they died of; one group can be redriven at a rate, with a canary first.
import { useEffect, useState } from "preact/hooks";

import { get, getGroup, post, type Schemas } from "../../api/client";
import { changes } from "../../api/events";
import { Ago, Button, Empty, Facts, Field, Page, Panel, Show } from "../../components/basics";
import { Sparkline } from "../../components/chart";
import { FormDialog, messageOf, notify } from "../../components/feedback";
import { HistoryPanel, RANGES } from "../../components/history";
import { Table, type Column } from "../../components/table";
import { tellingLine } from "../../components/telling_line";
import { Pre } from "../../components/values";
import { Views } from "../../components/views";
import { COSTLY_MS, useData } from "../../data";
import { count, duration } from "../../format";
import { link, navigate, withQuery, type Route } from "../../router";
import { may, onlyQueue } from "../../session";
import { t } from "../../texts";
import { WINDOWS } from "../jobs/filter";

type Group = Schemas["DeadGroups"]["groups"][number];

export function ErrorsPage(props: { route: Route }) {
  const { route } = props;
  const queue = route.query.get("queue") ?? "";
  const chosen = route.query.get("group");
  // The range of the chart filters the groups too.
  const since = route.query.get("range") ?? route.query.get("since") ?? "";
  const [redriving, setRedriving] = useState<Group>();
  const groups = useData(
    `groups ${queue}`,
    (signal) => get<Schemas["DeadGroups"]>("/v1/dead/groups", { queue }, signal),
    (event) => (event.type === "dead" || changes(event, "job")) && (!queue || event.queue === queue),
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
          {t.jobs.queue} <input key={queue} name="queue" value={queue} />
        </label>
        <button type="submit" class="button primary">
          {t.jobs.filter}
        </button>
        <label>
          {t.errors.diedIn}{" "}
          <select value={since} onChange={(e) => navigate(withQuery(route, { ...windowQuery(e.currentTarget.value), group: undefined }))}>
            <option value="">{t.jobs.anyTime}</option>
            {Object.keys(WINDOWS).map((one) => (
              <option key={one} value={one}>
                {t.jobs.last(one)}
              </option>
            ))}
          </select>
        </label>
      </form>
      <HistoryPanel queue={queue || undefined} only="failures" />
      <Show of={groups}>
        {(data) =>
          data.groups.length === 0 ? (
            <Empty title={t.overview.errorsEmpty}>{t.errors.emptyHint}</Empty>
          ) : (
            <>
              {data.cut && <p class="note">{t.errors.cut(count(data.jobs))}</p>}
              {since !== "" && <p class="note">{t.errors.since(shownOf(data.groups, since).length, data.groups.length)}</p>}
              {shownOf(data.groups, since).length > 0 && (
                <Table label={t.pages.errors} columns={columns(route, queue, shownOf(data.groups, since), setRedriving)} rows={shownOf(data.groups, since)} id={(group) => group.fingerprint ?? ""} />
              )}
              {data.groups
                .filter((group) => group.fingerprint === chosen)
                .map((group) => (
                  <GroupPanel key={group.fingerprint} group={group} queue={queue} />
                ))}
            </>
          )
        }
      </Show>
      {redriving && <RedriveDialog group={redriving} queue={redriveQueue(queue)} since={since} onClose={() => setRedriving(undefined)} />}
    </Page>
  );
}

const windowQuery = (one: string) => ({ since: one || undefined, range: one in RANGES && one !== "1h" ? one : undefined });

// The server redrives groups of one queue for a token that may not change all queues.
const redriveQueue = (queue: string): string => queue || (may(["admin", "*"]) ? "" : (onlyQueue("admin") ?? ""));

// Groups with a job that died in the window. Their counts are of all their jobs.
function shownOf(groups: Group[], since: string): Group[] {
  const window = WINDOWS[since];
  return window === undefined ? groups : groups.filter((group) => Date.now() - Date.parse(group.last?.at ?? "") < window);
}

function columns(route: Route, queue: string, rows: Group[], redrive: (group: Group) => void): Column<Group>[] {
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
    { key: "trend", title: t.errors.trend, cell: (group) => drawn.has(group.fingerprint) && <Trend group={group} queue={queue} /> },
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

// When the newest jobs of the group died, from the first of them until now.
function Trend(props: { group: Group; queue: string }) {
  const { group, queue } = props;
  const jobs = useData(`trend ${group.fingerprint} ${queue} ${group.last?.id}`, (signal) =>
    get<Schemas["JobPage"]>("/v1/dead", { fingerprint: group.fingerprint, queue, kind: group.kind, limit: TREND_SAMPLE }, signal),
  );
  const times = jobs.data?.jobs.map((job) => Date.parse(job.finished_at ?? "")).filter((time) => !Number.isNaN(time)) ?? [];
  if (times.length === 0) return <span class="note">{t.none}</span>;
  const from = Math.min(...times);
  const to = Date.now();
  const bins = new Array<number>(TREND_BINS).fill(0);
  for (const time of times) ++bins[Math.min(TREND_BINS - 1, Math.floor(((time - from) / Math.max(1, to - from)) * TREND_BINS))]!;
  return <Sparkline values={bins} tone="bad" label={t.errors.trendLabel(count(times.length), duration(to - from))} />;
}

function GroupPanel(props: { group: Group; queue: string }) {
  const { group, queue } = props;
  // It is below the table, which may be long.
  useEffect(() => document.getElementById("group")?.scrollIntoView({ block: "nearest" }), []);
  const jobs = useData(`dead ${group.fingerprint} ${queue}`, (signal) =>
    getGroup({ fingerprint: group.fingerprint, queue, kind: group.kind }, MAX_LISTED, signal),
  );
  return (
    <Panel id="group" title={t.errors.group(group.kind ?? "", count(group.count ?? 0))}>
      <Facts
        rows={[
          [t.errors.first, group.first && <a href={link(["jobs", group.first.id])}><Ago at={group.first.at} /></a>],
          [t.errors.last, group.last && <a href={link(["jobs", group.last.id])}><Ago at={group.last.at} /></a>],
        ]}
      />
      {group.message && <Pre text={group.message} wrap label={t.errors.message} />}
      <h3>{t.errors.newest}</h3>
      <Show of={jobs}>
        {(list) => (
          <ul class="plain-list">
            {list.map((job) => (
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

function RedriveDialog(props: { group: Group; queue: string; since: string; onClose: () => void }) {
  const { group, queue, since } = props;
  const [rate, setRate] = useState("20/s");
  const [limit, setLimit] = useState<string>();
  const [canary, setCanary] = useState(true);
  // What would be redriven now: the list may be older, or of all queues.
  const now = useData(`redrive ${group.fingerprint} ${queue}`, async (signal) => {
    const { groups } = await get<Schemas["DeadGroups"]>("/v1/dead/groups", { queue, kind: group.kind }, signal);
    return { jobs: groups.find((one) => one.fingerprint === group.fingerprint)?.count ?? 0 };
  });
  const jobs = now.data?.jobs;
  const most = limit ?? String(Math.max(1, jobs ?? 1));
  const submit = async () => {
    const body: Record<string, unknown> = { kind: group.kind, fingerprint: group.fingerprint, rate, canary, limit: Number(most) };
    if (queue) body.queue = queue;
    const made = await post<Schemas["EnqueuedJob"]>("/v1/redrives", body);
    notify(t.errors.started(String(made.id)));
    navigate(link(["jobs", made.id]));
  };
  return (
    <FormDialog
      title={jobs === undefined ? t.errors.redrive : t.errors.redriveTitle(count(jobs))}
      action={t.errors.redrive}
      disabled={!jobs}
      onClose={props.onClose}
      onSubmit={submit}
    >
      <p>{t.errors.redriveText}</p>
      <p class="note">
        {now.error && messageOf(now.error)}
        {jobs !== undefined && t.errors.redriveCount(count(jobs), queue)} {since !== "" && t.errors.redriveAll}
      </p>
      <Field label={t.errors.rate} hint={t.errors.rateHint}>
        <input required value={rate} onInput={(e) => setRate(e.currentTarget.value)} />
      </Field>
      <Field label={t.errors.limit}>
        <input type="number" min={1} max={1_000_000} required value={most} onInput={(e) => setLimit(e.currentTarget.value)} />
      </Field>
      <label class="inline">
        <input type="checkbox" checked={canary} onChange={() => setCanary(!canary)} /> {t.errors.canary}
      </label>
    </FormDialog>
  );
}
