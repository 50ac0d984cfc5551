// The stream of events: server-sent events, connected again after a break without losing any
// unnoticed.
import { type Core, Pauses, sleep } from "./core.js";
import { errorOfAnswer, isRecord, type MainspringError, makeError } from "./errors.js";
import { parseJson } from "./json.js";
import { fromWire } from "./names.js";

export type EventType =
  | (
      | "enqueued"
      | "started"
      | "progress"
      | "retrying"
      | "snoozed"
      | "deferred"
      | "completed"
      | "dead"
      | "cancelled"
    )
  | ("queue_paused" | "queue_resumed" | "quarantined" | "quarantine_left")
  | ("breaker_opened" | "breaker_half_open" | "breaker_closed" | "changed" | "gap");

export interface JobEvent {
  /** Pass it as `after` to continue. */
  id: string;
  /** `gap`: events may be missing; read again what you need. */
  type: EventType;
  at: string;
  job?: string;
  queue?: string | null;
  kind?: string | null;
  tags?: string[];
  attempt?: number;
  reason?: string;
  progress?: { value?: number; text?: string | null };
  breaker?: string;
  until?: string;
  /** Of `changed`: the object, as "schedule/nightly" or "lock/report". */
  object?: string;
}

export interface EventFilter {
  queue?: string | readonly string[] | undefined;
  kind?: string | readonly string[] | undefined;
  type?: EventType | readonly EventType[] | undefined;
  job?: string | readonly string[] | undefined;
  tag?: string | readonly string[] | undefined;
  /** The id of the last event that was seen. */
  after?: string | undefined;
  signal?: AbortSignal | undefined;
}

const SILENCE_MS = 40_000; // the server sends a comment every 15 s
const MAX_WAITING = 1000; // events for a slow reader; more stay at the server

export async function* events(
  core: Core,
  filter: EventFilter,
): AsyncGenerator<JobEvent, void, undefined> {
  const end = new AbortController();
  const onAbort = () => end.abort();
  if (filter.signal?.aborted === true) return;
  filter.signal?.addEventListener("abort", onAbort);
  const waiting: JobEvent[] = [];
  let wake: () => void = () => undefined;
  let hasRoom: () => void = () => undefined;
  let failure: MainspringError | undefined;
  end.signal.addEventListener("abort", () => {
    wake();
    hasRoom();
  });
  const emit = (event: JobEvent) => {
    waiting.push(event);
    wake();
  };
  const room = () =>
    waiting.length < MAX_WAITING
      ? undefined
      : new Promise<void>((resolve) => (hasRoom = resolve));
  const stream = new Stream(core, filter, emit, room);
  const reading = stream.read(end.signal).catch((error: MainspringError) => {
    failure = error;
    wake();
  });
  try {
    while (!end.signal.aborted) {
      const next = waiting.shift();
      if (waiting.length === MAX_WAITING / 2) hasRoom();
      if (next !== undefined) yield next;
      else if (failure !== undefined) throw failure;
      else await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    end.abort();
    filter.signal?.removeEventListener("abort", onAbort);
    await reading;
  }
}

class Stream {
  private lastId: string | undefined;
  private text = "";

  constructor(
    private readonly core: Core,
    private readonly filter: EventFilter,
    private readonly emit: (event: JobEvent) => void,
    private readonly room: () => Promise<void> | undefined,
  ) {
    this.lastId = filter.after;
  }

  // Until it is aborted. Throws if the server refuses the request permanently.
  async read(signal: AbortSignal): Promise<void> {
    const pauses = new Pauses(100, 5000);
    const { signal: _, after: __, ...rest } = this.filter;
    const pairs = Object.entries(rest).flatMap(([name, value]) =>
      (value === undefined ? [] : typeof value === "string" ? [value] : value).map(
        (one) => [name, one] as [string, string],
      ),
    );
    const path = `/v1/events?${new URLSearchParams(pairs).toString()}`;
    while (!signal.aborted) {
      try {
        this.text = "";
        const headers: Record<string, string> = { accept: "text/event-stream" };
        if (this.lastId !== undefined) headers["last-event-id"] = this.lastId;
        const request = { method: "GET", path, headers, timeoutMs: SILENCE_MS, signal };
        const answer = await this.core.transport.stream(request, (text) => {
          pauses.reset();
          this.take(text);
          return this.room();
        });
        if (answer.status !== 200)
          throw errorOfAnswer(answer.status, answer.body, answer.retryAfterMs);
        await sleep(pauses.next(), signal);
      } catch (thrown) {
        const error = thrown as MainspringError;
        if (signal.aborted) return;
        if (error.again === "no") throw error;
        await sleep(pauses.next(error), signal);
      }
    }
  }

  private take(text: string): void {
    this.text += text;
    for (;;) {
      const end = this.text.indexOf("\n\n");
      if (end < 0) return;
      const block = this.text.slice(0, end);
      this.text = this.text.slice(end + 2);
      this.block(block);
    }
  }

  private block(block: string): void {
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("data:")) data += line.slice(5);
      else if (line.startsWith("id:")) this.lastId = line.slice(3).trim();
    }
    if (data === "") return;
    const parsed = parseJson(data);
    if (!isRecord(parsed) || typeof parsed["type"] !== "string")
      throw makeError("bad_answer", "an event makes no sense");
    this.emit(fromWire<JobEvent>(parsed));
  }
}
