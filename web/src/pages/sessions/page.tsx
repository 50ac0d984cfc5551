// Sessions of a queue: their jobs run one at a time, in order.
import { get, post, segment, type Schemas } from "../../api/client";
import { Ago, Button, Empty, Page, Show, StateBadge } from "../../components/basics";
import { act } from "../../components/feedback";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { bytes, count, duration } from "../../format";
import { link, navigate, withQuery, type Route } from "../../router";
import { t } from "../../texts";

type Session = Schemas["Session"];

export function SessionsPage(props: { route: Route }) {
  const { route } = props;
  const queues = useData("queues", (signal) => get<Schemas["QueueList"]>("/v1/queues", {}, signal));
  const names = queues.data?.queues.map((one) => one.name) ?? [];
  const queue = route.query.get("queue") ?? names[0] ?? "";
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
    { key: "key", title: t.sessions.key, cell: (one) => one.key },
    {
      key: "state",
      title: t.jobs.state,
      cell: (one) => <StateBadge state={one.stop === "none" ? (one.worker ? "running" : t.workers.idle) : one.stop} />,
    },
    { key: "jobs", title: t.pages.jobs, numeric: true, cell: (one) => count(one.jobs) },
    {
      key: "turn",
      title: t.sessions.turn,
      numeric: true,
      cell: (one) => (one.turn ? <a href={link(["jobs", one.turn])}>{String(one.turn)}</a> : t.none),
    },
    { key: "worker", title: t.locks.holder, cell: (one) => (one.worker ? <code>{one.worker}</code> : t.none) },
    { key: "expires", title: t.locks.expires, cell: (one) => (one.expires_in_ms ? t.inTime(duration(one.expires_in_ms)) : t.none) },
    { key: "bytes", title: t.sessions.state, numeric: true, cell: (one) => bytes(one.state_bytes) },
    { key: "changed", title: t.sessions.changed, cell: (one) => <Ago at={one.changed_at} /> },
    {
      key: "actions",
      title: t.actions,
      cell: (one) => one.stop !== "none" && <Button onClick={() => resume(one)}>{t.queues.resume}</Button>,
    },
  ];
  return (
    <Page title={t.pages.sessions} note={t.sessions.note}>
      <div class="filters">
        <label>
          {t.jobs.queue}{" "}
          <select value={queue} onChange={(e) => navigate(withQuery(route, { queue: e.currentTarget.value, after: undefined }))}>
            {names.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Show of={sessions}>
        {(data) =>
          data.sessions.length === 0 ? (
            <Empty title={t.sessions.empty}>{t.sessions.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.sessions} columns={columns} rows={data.sessions} id={(one) => one.key} />
          )
        }
      </Show>
      {sessions.data?.next && <a href={withQuery(route, { after: sessions.data.next })}>{t.more}</a>}
    </Page>
  );
}
