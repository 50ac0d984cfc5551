// One event stream per tab. It is open while the tab is visible and a page listens.
import { apiUrl } from "./client";
import { parseJson } from "./json";

export interface ServerEvent {
  type: string;
  queue?: string;
  kind?: string;
  job?: number | bigint;
  [field: string]: unknown;
}
export type StreamState = "off" | "connecting" | "open" | "lost";

const TYPES = [
  "enqueued", "started", "completed", "retrying", "snoozed", "deferred", "dead", "cancelled", "progress",
  "queue_paused", "queue_resumed", "quarantined", "quarantine_left",
  "breaker_opened", "breaker_half_open", "breaker_closed", "gap",
];
const CLOSE_MS = 1_000;
const RETRY_MS = [500, 1_000, 2_000, 5_000, 10_000];

const listeners = new Set<(event: ServerEvent) => void>();
const stateListeners = new Set<(state: StreamState) => void>();
let source: EventSource | undefined;
let retryTimer: ReturnType<typeof setTimeout> | undefined;
let closeTimer: ReturnType<typeof setTimeout> | undefined;
let failures = 0;
let streamState: StreamState = "off";

function setState(next: StreamState): void {
  if (next === streamState) return;
  streamState = next;
  for (const listener of stateListeners) listener(next);
}

function emit(event: ServerEvent): void {
  for (const listener of [...listeners]) listener(event);
}

function open(): void {
  if (source || document.hidden || listeners.size === 0) return;
  clearTimeout(retryTimer);
  setState(failures === 0 ? "connecting" : "lost");
  source = new EventSource(apiUrl("v1/events"));
  source.onopen = () => {
    // What happened while there was no stream is unknown, also between the first read of a page and now.
    failures = 0;
    setState("open");
    emit({ type: "gap" });
  };
  source.onerror = () => {
    close();
    setState("lost");
    const wait = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)];
    retryTimer = setTimeout(open, wait);
  };
  for (const type of TYPES) {
    source.addEventListener(type, (message) => {
      emit({ ...(parseJson((message as MessageEvent<string>).data) as object), type });
    });
  }
}

function close(): void {
  source?.close();
  source = undefined;
  clearTimeout(retryTimer);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
    setState("off");
  } else if (listeners.size > 0) {
    emit({ type: "gap" });
    open();
  }
});

// Calls `listener` for each event until the returned function is called.
export function listen(listener: (event: ServerEvent) => void): () => void {
  clearTimeout(closeTimer);
  listeners.add(listener);
  open();
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    // The next page keeps the stream, so that it misses nothing.
    clearTimeout(closeTimer);
    closeTimer = setTimeout(() => {
      close();
      setState("off");
    }, CLOSE_MS);
  };
}

export function onStreamState(listener: (state: StreamState) => void): () => void {
  stateListeners.add(listener);
  listener(streamState);
  return () => stateListeners.delete(listener);
}
