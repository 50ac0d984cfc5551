// The backlog of a queue: the time it needs to work off its waiting jobs.
import type { Queue } from "../../api/shapes";
import { count, duration } from "../../format";
import { t } from "../../texts";

// A queue that needs longer, or whose oldest job waits longer, is listed as falling behind.
const BEHIND_MS = 10_000;

// `sinceMs` is the age of the answer: the oldest job has waited on meanwhile. The browser's clock may differ from the
// server's, so the time at which the job became available is not used.
function oldestMs(queue: Queue, sinceMs: number): number {
  const ms = queue.backlog?.oldest_ms ?? queue.oldest_available_ms;
  return ms == null ? 0 : ms + sinceMs;
}

// Without completions the server estimates from earlier run times. Here that is unknown: nothing works on the queue.
const measuredDrain = ({ backlog }: Queue): number | null | undefined =>
  backlog && backlog.jobs > 0 && backlog.completions_per_second === 0 ? null : backlog?.drain_seconds;

export function fallsBehind(queue: Queue, sinceMs = 0): boolean {
  const seconds = measuredDrain(queue) ?? 0;
  return oldestMs(queue, sinceMs) >= BEHIND_MS || seconds * 1000 >= BEHIND_MS;
}

// Unknown drain times first: nothing of these queues completed lately. Then the longest.
export function byLateness(a: Queue, b: Queue, sinceMs = 0): number {
  const rank = (queue: Queue) => {
    if (!fallsBehind(queue, sinceMs)) return -1;
    return measuredDrain(queue) ?? (queue.backlog ? Infinity : oldestMs(queue, sinceMs) / 1000);
  };
  const [x, y] = [rank(a), rank(b)];
  return x === y ? oldestMs(b, sinceMs) - oldestMs(a, sinceMs) : y - x;
}

// To sort by: Infinity if nothing completes.
export const drainSeconds = (queue: Queue): number | undefined =>
  queue.backlog === undefined ? undefined : queue.backlog.jobs === 0 ? 0 : (measuredDrain(queue) ?? Infinity);

export function Drain(props: { queue: Queue }) {
  const { backlog } = props.queue;
  if (!backlog) return <span class="note">{t.none}</span>;
  if (backlog.jobs === 0) return <span class="note">{t.queues.empties}</span>;
  const slower = backlog.arrivals_per_second > backlog.completions_per_second;
  const seconds = measuredDrain(props.queue) ?? null;
  const text = seconds === null ? t.queues.drainUnknown : duration(seconds * 1000);
  return (
    <span class={slower || seconds === null ? "lagging" : undefined} title={t.queues.rates(perSecond(backlog.arrivals_per_second), perSecond(backlog.completions_per_second))}>
      {text}
      {slower && seconds !== null && `, ${t.queues.grows}`}
    </span>
  );
}

export const perSecond = (n: number): string => (n >= 10 ? String(Math.round(n)) : n.toFixed(n >= 1 ? 1 : 2).replace(/\.?0+$/, ""));

const slotsTaken = (queue: Queue): number => queue.slots_taken ?? queue.counts.running ?? 0;
// The taken share of the queue's concurrency; undefined: it has no limit.
export const utilisation = (queue: Queue): number | undefined =>
  queue.limits?.concurrency ? slotsTaken(queue) / queue.limits.concurrency : undefined;

export function Utilisation(props: { queue: Queue }) {
  const share = utilisation(props.queue);
  return share === undefined ? <span class="note">{t.none}</span> : <>{`${Math.round(share * 100)} %`}</>;
}

export function Slots(props: { queue: Queue }) {
  const most = props.queue.limits?.concurrency;
  if (!most) return <span class="note">{t.none}</span>;
  const taken = slotsTaken(props.queue);
  return (
    <span class="spark">
      <meter min={0} max={most} value={taken} aria-label={t.queues.slots} /> {t.queues.slotsOf(count(taken), count(most))}
    </span>
  );
}
