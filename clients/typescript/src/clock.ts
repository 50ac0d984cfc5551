/**
 * Milliseconds of the monotonic clock. Node.js has one for all threads; Bun and Deno have one for
 * each.
 */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export interface ClockReading {
  monotonic: number;
  wall: number;
}

export function readClocks(): ClockReading {
  return { monotonic: now(), wall: Date.now() };
}

const SAME_MS = 20;

/** What to add to times of another thread, which read its clocks a moment ago. */
export function offsetFrom(other: ClockReading): number {
  const mine = readClocks();
  const byWall = mine.monotonic - other.monotonic - (mine.wall - other.wall);
  // The other reading was before this one, so the offset is no more than that.
  const offset = Math.min(byWall, mine.monotonic - other.monotonic);
  return Math.abs(offset) < SAME_MS ? 0 : offset;
}

/** The longest wait of one timer of Node.js: a longer one would end at once. */
export const MAX_TIMER_MS = 0x7fffffff;

/** Calls `act` after any time, unlike setTimeout. Returns what stops it. */
export function callAfter(ms: number, act: () => void): () => void {
  const end = now() + ms;
  let timer: NodeJS.Timeout;
  const wait = () => {
    const left = end - now();
    timer = setTimeout(left > MAX_TIMER_MS ? wait : act, Math.min(Math.max(left, 0), MAX_TIMER_MS));
  };
  wait();
  return () => clearTimeout(timer);
}
