// All queues: those that fall behind first.
import { useRef } from "preact/hooks";

import { getQueues } from "../../api/client";
import type { ServerEvent } from "../../api/events";
import type { Queue } from "../../api/shapes";
import { Empty, Page, Show, useNow } from "../../components/basics";
import { QueueSparkline } from "../../components/history";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { count, dateTime, duration } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";
import { byLateness, Drain } from "./backlog";
import { PauseBadge, PauseButton } from "./pause";

// Sparklines are read for the first queues only: each is one request.
const MAX_SPARKLINES = 40;
const COUNTED = ["available", "running", "dead"] as const;
// Jobs that are not ready yet, in one column.
const LATER = ["scheduled", "retryable", "waiting"];

const concernsQueues = (event: ServerEvent): boolean => event.queue !== undefined;

export function QueuesPage() {
  const queues = useData("queues", getQueues, concernsQueues);
  return (
    <Page title={t.pages.queues} note={t.queues.note}>
      <Show of={queues}>
        {({ queues: rows }) =>
          rows.length === 0 ? (
            <Empty title={t.queues.empty}>{t.queues.emptyHint}</Empty>
          ) : (
            <QueueTable queues={rows} reload={queues.reload} />
          )
        }
      </Show>
    </Page>
  );
}

function Later({ queue }: { queue: Queue }) {
  const counts = LATER.map((state) => queue.counts[state] ?? 0);
  const sum = counts.reduce((a, b) => a + b, 0);
  if (sum === 0) return <span class="note">0</span>;
  const detail = LATER.map((state, i) => `${counts[i]} ${t.states[state]}`).join(", ");
  return (
    <a href={link(["jobs"], { queue: queue.name, state: LATER.join(",") })} title={detail}>
      {count(sum)}
    </a>
  );
}

// Those that fall behind first. Rows keep their places while the pointer is over the table.
function useSorted(queues: Queue[]): Queue[] {
  const places = useRef(new Map<string, number>());
  const known = queues.every((queue) => places.current.has(queue.name));
  if (!known || !document.querySelector(".table-frame:hover, .table-frame:focus-within")) {
    const order = [...queues].sort((a, b) => byLateness(a, b) || (a.name < b.name ? -1 : 1));
    places.current = new Map(order.map((queue, i) => [queue.name, i]));
  }
  return [...queues].sort((a, b) => places.current.get(a.name)! - places.current.get(b.name)!);
}

function QueueTable(props: { queues: Queue[]; reload: () => void }) {
  const rows = useSorted(props.queues);
  return <Table label={t.pages.queues} columns={columns(props.reload, rows)} rows={rows} id={(queue) => queue.name} />;
}

function columns(reload: () => void, rows: Queue[]): Column<Queue>[] {
  const drawn = new Set(rows.slice(0, MAX_SPARKLINES).map((queue) => queue.name));
  return [
    {
      key: "name",
      title: t.jobs.queue,
      cell: (queue) => (
        <>
          <a href={link(["queues", queue.name])}>{queue.name}</a> <PauseBadge queue={queue} />
        </>
      ),
    },
    ...COUNTED.map((state) => ({
      key: state,
      title: t.states[state]!,
      numeric: true,
      cell: (queue: Queue) => <StateCount queue={queue} state={state} />,
    })),
    { key: "later", title: t.queues.later, numeric: true, cell: (queue) => <Later queue={queue} /> },
    { key: "backlog", title: t.queues.backlog, cell: (queue) => <Drain queue={queue} /> },
    { key: "trend", title: t.queues.trend, cell: (queue) => drawn.has(queue.name) && <QueueSparkline queue={queue.name} /> },
    { key: "oldest", title: t.queues.oldest, numeric: true, cell: (queue) => <Waiting at={queue.oldest_available_at} /> },
    { key: "actions", title: t.actions, cell: (queue) => <PauseButton queue={queue} reload={reload} /> },
  ];
}

function StateCount(props: { queue: Queue; state: string }) {
  const n = props.queue.counts[props.state] ?? 0;
  if (n === 0) return <span class="note">0</span>;
  return <a href={link(["jobs"], { queue: props.queue.name, state: props.state })}>{count(n)}</a>;
}

function Waiting(props: { at?: string }) {
  const now = useNow();
  if (!props.at) return <span class="note">{t.none}</span>;
  return <span title={dateTime(props.at)}>{duration(Math.max(0, now - Date.parse(props.at)))}</span>;
}
