// All queues: those that fall behind first.
import { getQueues } from "../../api/client";
import { changes, viewerIsActive, type ServerEvent } from "../../api/events";
import type { Queue } from "../../api/shapes";
import { Empty, Page, Show, useTimeText } from "../../components/basics";
import { ColumnMenu, useColumns } from "../../components/columns";
import { FindRows, findIn, useFind } from "../../components/find";
import { QueueSparkline } from "../../components/history";
import { Table, type Column } from "../../components/table";
import { Views } from "../../components/views";
import { useData } from "../../data";
import { capital, count, dateTime, duration } from "../../format";
import { link, useRoute } from "../../router";
import { t } from "../../texts";
import { byLateness, Drain, drainSeconds, perSecond, Slots, Utilisation, utilisation } from "./backlog";
import { PauseBadge, PauseButton } from "./pause";

// Sparklines are read for the first queues only: each is one request.
const MAX_SPARKLINES = 40;
// Jobs that are not ready yet, in one column.
const LATER = ["scheduled", "retryable", "waiting"];

const concernsQueues = (event: ServerEvent): boolean => event.queue !== undefined || changes(event, "queue") || viewerIsActive(event);

export function QueuesPage() {
  const queues = useData("queues", getQueues, concernsQueues);
  const route = useRoute();
  const all = queues.data?.queues ?? [];
  const found = findIn(all, (queue) => queue.name, useFind());
  const rows = [...found].sort((a, b) => byLateness(a, b) || (a.name < b.name ? -1 : 1));
  const columns = columnsOf(queues.reload, rows);
  const shown = useColumns("queues", columns, USUAL);
  return (
    <Page
      title={t.pages.queues}
      note={t.queues.note}
      actions={
        <>
          <Views page="queues" route={route} />
          <ColumnMenu page="queues" all={columns} usual={USUAL} />
        </>
      }
    >
      <Show of={queues}>
        {() =>
          all.length === 0 ? (
            <Empty title={t.queues.empty}>{t.queues.emptyHint}</Empty>
          ) : (
            <>
              {all.length > FIND_FROM && <FindRows label={t.queues.find} shown={found.length} all={all.length} />}
              <Table label={t.pages.queues} columns={shown} rows={rows} id={(queue) => queue.name} />
            </>
          )
        }
      </Show>
    </Page>
  );
}

const FIND_FROM = 10;
const USUAL = ["name", "available", "running", "dead", "later", "backlog", "trend", "oldest"];

const laterCount = (queue: Queue): number => LATER.reduce((sum, state) => sum + (queue.counts[state] ?? 0), 0);

function Later({ queue }: { queue: Queue }) {
  const counts = LATER.map((state) => queue.counts[state] ?? 0);
  const sum = laterCount(queue);
  if (sum === 0) return <span class="note">0</span>;
  const detail = LATER.map((state, i) => `${counts[i]} ${t.states[state]}`).join(", ");
  return (
    <a href={link(["jobs"], { queue: queue.name, state: LATER.join(",") })} title={detail}>
      {count(sum)}
    </a>
  );
}

const stateColumn = (state: string): Column<Queue> => ({
  key: state,
  title: capital(t.states[state]!),
  numeric: true,
  sort: (queue) => queue.counts[state] ?? 0,
  cell: (queue) => <StateCount queue={queue} state={state} />,
});

const rateColumn = (key: string, title: string, value: (queue: Queue) => number | null | undefined, show: (n: number) => string): Column<Queue> => ({
  key, title, numeric: true, sort: value,
  cell: (queue) => (value(queue) == null ? <span class="note">{t.none}</span> : show(value(queue)!)),
});

function columnsOf(reload: () => void, rows: Queue[]): Column<Queue>[] {
  const drawn = new Set(rows.slice(0, MAX_SPARKLINES).map((queue) => queue.name));
  return [
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
    stateColumn("available"),
    {
      ...stateColumn("running"),
      cell: (queue) => (
        <>
          <StateCount queue={queue} state="running" />
          {queue.limits?.concurrency && <div><Slots queue={queue} /></div>}
        </>
      ),
    },
    { key: "slots", title: t.queues.utilisation, numeric: true, cell: (queue) => <Utilisation queue={queue} />, sort: utilisation },
    stateColumn("dead"),
    stateColumn("completed"),
    stateColumn("cancelled"),
    { key: "later", title: t.queues.later, numeric: true, cell: (queue) => <Later queue={queue} />, sort: laterCount },
    { key: "backlog", title: t.queues.backlog, cell: (queue) => <Drain queue={queue} />, sort: drainSeconds, wide: true },
    rateColumn("arrivals", t.queues.arrivals, (queue) => queue.backlog?.arrivals_per_second, perSecond),
    rateColumn("completions", t.queues.completions, (queue) => queue.backlog?.completions_per_second, perSecond),
    rateColumn("service", t.queues.service, (queue) => queue.backlog?.service_ms, duration),
    { key: "trend", title: t.queues.trend, cell: (queue) => drawn.has(queue.name) && <QueueSparkline queue={queue.name} /> },
    { key: "oldest", title: t.queues.oldest, numeric: true, cell: (queue) => <Waiting at={queue.oldest_available_at} />, sort: (queue) => queue.oldest_available_ms },
    { key: "actions", title: t.actions, cell: (queue) => <PauseButton queue={queue} reload={reload} /> },
  ];
}

function StateCount(props: { queue: Queue; state: string }) {
  const n = props.queue.counts[props.state] ?? 0;
  if (n === 0) return <span class="note">0</span>;
  return <a href={link(["jobs"], { queue: props.queue.name, state: props.state })}>{count(n)}</a>;
}

const Waiting = (props: { at?: string }) => (props.at ? <WaitingSince at={props.at} /> : <span class="note">{t.none}</span>);

function WaitingSince(props: { at: string }) {
  const text = useTimeText((now) => duration(Math.max(0, now - Date.parse(props.at))));
  return <span title={dateTime(props.at)}>{text}</span>;
}
