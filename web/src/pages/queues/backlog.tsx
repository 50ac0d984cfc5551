// The backlog of a queue: the time it needs to work off its waiting jobs.
import type { Queue } from "../../api/shapes";
import { duration } from "../../format";
import { t } from "../../texts";

// A queue that needs longer, or whose oldest job waits longer, is listed as falling behind.
const BEHIND_MS = 10_000;

const oldestMs = (queue: Queue): number => queue.backlog?.oldest_ms ?? queue.oldest_available_ms ?? 0;

export function fallsBehind(queue: Queue): boolean {
  const seconds = queue.backlog?.drain_seconds ?? 0;
  return oldestMs(queue) >= BEHIND_MS || seconds * 1000 >= BEHIND_MS;
}

// Unknown drain times first: nothing of these queues completed lately. Then the longest.
export function byLateness(a: Queue, b: Queue): number {
  const rank = (queue: Queue) => {
    if (!fallsBehind(queue)) return -1;
    return queue.backlog?.drain_seconds ?? (queue.backlog ? Infinity : oldestMs(queue) / 1000);
  };
  const [x, y] = [rank(a), rank(b)];
  return x === y ? oldestMs(b) - oldestMs(a) : y - x;
}

export function Drain(props: { queue: Queue }) {
  const { backlog } = props.queue;
  if (!backlog) return <span class="note">{t.none}</span>;
  if (backlog.jobs === 0) return <span class="note">{t.queues.empties}</span>;
  const slower = backlog.arrivals_per_second > backlog.completions_per_second;
  const text = backlog.drain_seconds === null ? t.queues.drainUnknown : t.queues.drain(duration(backlog.drain_seconds * 1000));
  return (
    <span class={slower || backlog.drain_seconds === null ? "behind" : undefined} title={t.queues.rates(perSecond(backlog.arrivals_per_second), perSecond(backlog.completions_per_second))}>
      {text}
      {slower && ` ${t.queues.grows}`}
    </span>
  );
}

export const perSecond = (n: number): string => (n >= 10 ? String(Math.round(n)) : n.toFixed(n >= 1 ? 1 : 2).replace(/\.?0+$/, ""));
