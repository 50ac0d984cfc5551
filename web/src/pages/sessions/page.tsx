// Sessions of a queue: their jobs run one at a time, in order.
import { get, getQueues, post, segment, type Schemas } from "../../api/client";
import type { Queue } from "../../api/shapes";
import { Ago, Button, Empty, Facts, Page, Panel, Show, StateBadge } from "../../components/basics";
import { act } from "../../components/feedback";
import { Table, type Column } from "../../components/table";
import { JsonPanel } from "../../components/values";
import { useData } from "../../data";
import { bytes, count, duration } from "../../format";
import { link, navigate, withQuery, type Route } from "../../router";
import { t } from "../../texts";

type Session = Schemas["Session"];

// Queues that are asked at most, and at a time.
const MAX_ASKED = 60;
const BATCH = 6;

// The first queue that has sessions, of those with jobs first.
async function firstWithSessions(queues: Queue[], signal: AbortSignal): Promise<string | undefined> {
  const live = (one: Queue) => ["running", "available", "waiting", "scheduled", "retryable"].some((state) => one.counts[state]);
  const names = [...queues.filter(live), ...queues.filter((one) => !live(one))].map((one) => one.name).slice(0, MAX_ASKED);
  for (let i = 0; i < names.length; i += BATCH) {
    const some = names.slice(i, i + BATCH);
    const read = (name: string) => get<Schemas["SessionList"]>(`/v1/queues/${segment(name)}/sessions`, { limit: 1 }, signal);
    const answers = await Promise.all(some.map(read));
    const at = answers.findIndex((answer) => answer.sessions.length > 0);
    if (at >= 0) return some[at];
  }
  return undefined;
}

export function SessionsPage(props: { route: Route }) {
  const { route } = props;
  const queues = useData("queues", getQueues);
  const names = queues.data?.queues.map((one) => one.name) ?? [];
  const chosen = route.query.get("queue");
  const search = chosen === null ? queues.data?.queues : undefined;
  const first = useData(`first ${search !== undefined}`, async (signal) => ({
    name: search && ((await firstWithSessions(search, signal)) ?? names[0]),
  }));
  const queue = chosen ?? first.data?.name ?? ""; // empty: not known yet, or there is none
  const shown = route.query.get("key") ?? "";
  const after = route.query.get("after") ?? "";
  const sessions = useData(
    `sessions ${queue} ${after}`,
    async (signal) =>
      queue === ""
        ? { sessions: [], next: null }
        : get<Schemas["SessionList"]>(`/v1/queues/${segment(queue)}/sessions`, { after, limit: 100 }, signal),
    (event) => event.queue === queue,
  );
  const resume = async (one: Session) => {
    const path = `/v1/queues/${segment(queue)}/sessions/${segment(one.key)}/resume`;
    if (await act(() => post(path), t.sessions.resumed(one.key))) sessions.reload();
  };
  const columns: Column<Session>[] = [
    { key: "key", title: t.sessions.key, cell: (one) => <a href={withQuery(route, { key: one.key })}>{one.key}</a>, sort: (one) => one.key },
    {
      key: "state",
      title: t.jobs.state,
      sort: (one) => `${one.stop} ${one.worker ?? ""}`,
      cell: (one) => <StateBadge state={one.stop === "none" ? (one.worker ? "running" : t.workers.idle) : one.stop} />,
    },
    { key: "jobs", title: t.pages.jobs, numeric: true, cell: (one) => count(one.jobs), sort: (one) => one.jobs },
    {
      key: "head",
      title: t.sessions.head,
      numeric: true,
      sort: (one) => one.head,
      cell: (one) => (one.head ? <a href={link(["jobs", one.head])}>{String(one.head)}</a> : t.none),
    },
    { key: "worker", title: t.locks.holder, cell: (one) => (one.worker ? <code>{one.worker}</code> : t.none), sort: (one) => one.worker },
    { key: "expires", title: t.locks.expires, cell: (one) => (one.expires_in_ms ? t.inTime(duration(one.expires_in_ms)) : t.none), sort: (one) => one.expires_in_ms },
    { key: "bytes", title: t.sessions.stateSize, numeric: true, cell: (one) => bytes(one.state_bytes), sort: (one) => one.state_bytes },
    { key: "changed", title: t.sessions.changed, cell: (one) => <Ago at={one.changed_at} />, sort: (one) => one.changed_at },
    {
      key: "actions",
      title: t.actions,
      cell: (one) => one.stop !== "none" && <Button needs={["admin", queue]} onClick={() => resume(one)}>{t.queues.resume}</Button>,
    },
  ];
  return (
    <Page title={t.pages.sessions} note={t.sessions.note}>
      <div class="filters">
        <label>
          {t.jobs.queue}{" "}
          <select value={queue} onChange={(e) => navigate(withQuery(route, { queue: e.currentTarget.value, after: undefined, key: undefined }))}>
            {names.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Show of={queues}>
        {() => queue === "" && <Show of={first}>{() => <Empty title={t.sessions.empty}>{t.sessions.emptyHint}</Empty>}</Show>}
      </Show>
      {queue !== "" && (
        <Show of={sessions}>
          {(data) =>
            data.sessions.length === 0 ? (
              <Empty title={t.sessions.empty}>{t.sessions.emptyHint}</Empty>
            ) : (
              <Table label={t.pages.sessions} columns={columns} rows={data.sessions} id={(one) => one.key} />
            )
          }
        </Show>
      )}
      {shown && queue !== "" && <SessionPanel queue={queue} name={shown} />}
      {sessions.data?.next && <a href={withQuery(route, { after: sessions.data.next })}>{t.more}</a>}
    </Page>
  );
}

// One session with its state, which a viewer without read:payload does not get.
function SessionPanel(props: { queue: string; name: string }) {
  const { queue, name } = props;
  const session = useData(
    `session ${queue} ${name}`,
    (signal) => get<Session>(`/v1/queues/${segment(queue)}/sessions/${segment(name)}`, {}, signal),
    (event) => event.queue === queue,
  );
  return (
    <Show of={session}>
      {(one) => (
        <>
          <Panel title={name} actions={<a href={link(["jobs"], { queue, q: `session:${JSON.stringify(name)}` })}>{t.sessions.jobs}</a>}>
            <Facts
              rows={[
                [t.pages.jobs, count(one.jobs)],
                [t.locks.holder, one.worker],
                [t.locks.token, one.token !== undefined && String(one.token)],
                [t.sessions.stoppedBy, one.stopped_by && <a href={link(["jobs", one.stopped_by])}>{String(one.stopped_by)}</a>],
              ]}
            />
          </Panel>
          <JsonPanel title={t.sessions.state} value={one.state} masked />
        </>
      )}
    </Show>
  );
}
