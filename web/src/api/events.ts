// Events of the server. The visible windows of a browser share one stream: a browser opens six connections to a server
// at most, over HTTP/1.1. The window that holds a lock has the stream and passes its events on. Without locks,
// as over plain HTTP from another host, each window has a stream of its own.
import { sessionName } from "../session";
import { apiRoot, apiUrl, get } from "./client";
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
  "breaker_opened", "breaker_half_open", "breaker_closed", "changed", "gap",
];
const CLOSE_MS = 1_000;
const RETRY_MS = [500, 1_000, 2_000, 5_000, 10_000];
// The wait before the next try, after `failures` that followed each other.
export const retryMs = (failures: number): number => RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]!;

// What the window with the stream sends to the others. "hello" requests the state.
type Message = { state: StreamState } | { event: ServerEvent } | "hello";

const listeners = new Set<(event: ServerEvent) => void>();
const stateListeners = new Set<(state: StreamState) => void>();
let source: EventSource | undefined;
let channel: BroadcastChannel | undefined;
let wish: AbortController | undefined; // of the lock; set while this window needs events
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

const send = (message: Message): void => channel?.postMessage(message);

// -- the stream, in the window that has it

function report(next: StreamState): void {
  setState(next);
  send({ state: next });
}

function pass(event: ServerEvent): void {
  emit(event);
  send({ event });
}

function connect(): void {
  clearTimeout(retryTimer);
  report(failures === 0 ? "connecting" : "lost");
  source = new EventSource(apiUrl("v1/events"));
  source.onopen = () => {
    // What happened while there was no stream is unknown, also between the first read of a page and now.
    failures = 0;
    report("open");
    pass({ type: "gap" });
  };
  source.onerror = () => {
    // Closed: the server answered, but not with a stream. If the session has ended, this request leads to the sign-in.
    if (source?.readyState === EventSource.CLOSED) void get("/v1/session").catch(() => {});
    disconnect();
    report("lost");
    retryTimer = setTimeout(connect, retryMs(failures++));
  };
  for (const type of TYPES) {
    source.addEventListener(type, (message) => {
      pass({ ...(parseJson((message as MessageEvent<string>).data) as object), type });
    });
  }
}

function disconnect(): void {
  source?.close();
  source = undefined;
  clearTimeout(retryTimer);
}

// -- which window has it

function open(): void {
  if (wish || document.hidden || listeners.size === 0) return;
  const { signal } = (wish = new AbortController());
  setState("connecting");
  if (!navigator.locks || typeof BroadcastChannel === "undefined") return connect();
  // Windows of another viewer or of another server do not share it.
  const name = `mainspring-events ${apiRoot.href} ${sessionName()}`;
  channel = new BroadcastChannel(name);
  channel.onmessage = (message: MessageEvent<Message>) => receive(message.data);
  send("hello");
  const leave = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  const lead = () => {
    if (signal.aborted) return;
    connect();
    return leave;
  };
  navigator.locks.request(name, { signal }, lead).catch((problem) => {
    if (!signal.aborted) throw problem;
  });
}

function receive(message: Message): void {
  if (message === "hello") {
    if (source) send({ state: streamState });
  } else if ("event" in message) {
    emit(message.event);
  } else {
    const joined = message.state === "open" && streamState === "connecting";
    setState(message.state);
    if (joined) emit({ type: "gap" });
  }
}

function close(): void {
  wish?.abort();
  wish = undefined;
  channel?.close();
  channel = undefined;
  disconnect();
  failures = 0;
  setState("off");
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
  } else if (listeners.size > 0) {
    emit({ type: "gap" });
    open();
  }
});

// True for a change of an object of these kinds, as "schedule", or of one object, as "queue/photos".
export const changes = (event: ServerEvent, ...objects: string[]): boolean =>
  event.type === "changed" &&
  objects.some((object) => event.object === object || String(event.object).startsWith(`${object}/`));

// A viewer who may not read everything gets no events of most objects. Lists of these are read again when the viewer
// uses the page as well, so that a page that is only open asks for nothing.
const ACTIVE = "active";
const ACTIVE_MS = 10_000;
export const viewerIsActive = (event: ServerEvent): boolean => event.type === ACTIVE;

let lastActive = performance.now();
function noticeActivity(): void {
  const now = performance.now();
  if (document.hidden || now - lastActive < ACTIVE_MS) return;
  lastActive = now;
  emit({ type: ACTIVE });
}
for (const type of ["pointermove", "pointerdown", "keydown", "wheel", "focus"]) {
  addEventListener(type, noticeActivity, { passive: true, capture: true });
}

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
    closeTimer = setTimeout(close, CLOSE_MS);
  };
}

export function onStreamState(listener: (state: StreamState) => void): () => void {
  stateListeners.add(listener);
  listener(streamState);
  return () => stateListeners.delete(listener);
}
