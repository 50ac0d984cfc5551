// Calls of the API: repeated while that is safe, and every answer is checked.
import { randomBytes } from "node:crypto";

import { callAfter, now } from "./clock.js";
import { readAnswer } from "./core_answer.js";
import { type MainspringError, makeError } from "./errors.js";
import { type Lane, type ServerAddress, Transport } from "./http.js";
import { formatJson } from "./json.js";
import type { LogFields, Logger } from "./log.js";
import type { Middleware } from "./middleware.js";
import { Renewals } from "./renewals.js";

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 2000;
const QUIET_MS = 250;
const SLICE_MS = 30_000;
const CERTIFICATE_LOOK_MS = 3_600_000;
const LEAST_POLL_MS = 250;

export interface Call {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  /** Formatted as JSON. */
  body?: unknown;
  idempotencyKey?: string | undefined;
  /** How long the server may wait before it answers, on top of the read timeout. */
  waitMs?: number | undefined;
  timeoutMs?: number | undefined;
  /** `yes` (default) = safe to repeat; `no` = the caller decides; `once` = never repeat. */
  repeat?: "yes" | "no" | "once" | undefined;
  signal?: AbortSignal | undefined;
  /** Default: `waits` if the server may wait, else `calls`. */
  lane?: Lane | undefined;
}

export interface CoreOptions extends ServerAddress {
  readTimeoutMs: number;
  retryForMs: number;
  log: Logger;
}

/** Growing random pauses: full jitter, at least what the server asks for. */
// A server or proxy that asks for a longer wait is asked again.
const LONGEST_RETRY_AFTER_MS = 60_000;

export class Pauses {
  private limit: number;
  constructor(
    private readonly first = FIRST_PAUSE_MS,
    private readonly longest = LONGEST_PAUSE_MS,
  ) {
    this.limit = first;
  }
  next(error?: MainspringError): number {
    const pause = Math.random() * this.limit + this.limit / 8;
    this.limit = Math.min(this.limit * 2, this.longest);
    return Math.max(pause, Math.min(error?.retryAfterMs ?? 0, LONGEST_RETRY_AFTER_MS));
  }
  reset(): void {
    this.limit = this.first;
  }
}

/** Resolves after `ms`, or as soon as the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve();
    const done = () => {
      stop();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const stop = callAfter(ms, done);
    signal?.addEventListener("abort", done);
  });
}

export function randomName(): string {
  return randomBytes(16).toString("hex");
}

export class Core {
  readonly log: Logger;
  readonly middleware: Middleware[] = [];
  readonly readTimeoutMs: number;
  /** Calls fail from now on, and workers end. */
  closed = false;
  // Private for the engine too: logs of public objects must not show the access token.
  readonly #options: CoreOptions;
  readonly #transport: Transport;
  #renewing: Renewals | undefined;
  #polling = 0;
  #look: NodeJS.Timeout | undefined;

  constructor(options: CoreOptions) {
    this.#options = options;
    this.log = options.log;
    this.readTimeoutMs = options.readTimeoutMs;
    this.#transport = new Transport(options, options.log);
    const { certificates } = this.#transport;
    if (certificates === undefined) return;
    certificates.forConnection(); // a mistake is found at once
    // Also while no new connection is made.
    const look = () => {
      try {
        certificates.warnOfEnd();
      } catch {
        // Half of a renewal.
      }
    };
    this.#look = setInterval(look, CERTIFICATE_LOOK_MS).unref();
  }

  get url(): string {
    return this.#options.url;
  }

  get transport(): Transport {
    return this.#transport;
  }

  /** Keeps leases alive on a thread of its own; started with the first lease. */
  get renewals(): Renewals {
    const { url, token, tls, connectTimeoutMs } = this.#options;
    this.#renewing ??= new Renewals({ url, token, tls, connectTimeoutMs }, this.log);
    return this.#renewing;
  }

  close(): void {
    this.closed = true;
    this.#renewing?.close();
    this.#renewing = undefined;
    this.#transport.close();
    clearInterval(this.#look);
  }

  /** A call whose answer is a JSON object. */
  async call(call: Call): Promise<Record<string, unknown>> {
    const body = call.body === undefined ? undefined : formatJson(call.body, "request");
    return await this.callText(call, body);
  }

  /** `failed`: what the first try of the call has ended with. */
  async callText(
    call: Call,
    body: string | undefined,
    failed?: MainspringError,
  ): Promise<Record<string, unknown>> {
    let began = now(); // what a call has only waited at the server is no repeat
    let sent = began;
    const steps = new Pauses();
    let told = false;
    for (let error = failed; ; ) {
      if (error !== undefined) {
        if (call.repeat === "no" || call.repeat === "once" || !mayRepeat(error)) throw error;
        const pause = steps.next(error);
        began += Math.min(now() - sent, call.waitMs ?? 0);
        const giveUp = began + this.#options.retryForMs;
        if (call.signal?.aborted === true || now() + pause >= giveUp) throw error;
        // A pause of a moment is not worth a line.
        if (!told && now() + pause > began + QUIET_MS) {
          told = true;
          this.log.warn("a call failed; trying again", toldOf(call, error, giveUp));
        }
        await sleep(pause, call.signal);
      }
      sent = now();
      try {
        return await this.once(call, body);
      } catch (thrown) {
        error = thrown as MainspringError;
      }
    }
  }

  /**
   * Asks until `done` or until the instant `end`: waits at the server, or polls while too many
   * others wait there.
   */
  async ask<T>(
    end: number,
    signal: AbortSignal | undefined,
    get: (waitMs: number) => Promise<T>,
    done: (answer: T) => boolean,
  ): Promise<T> {
    for (;;) {
      const left = Math.max(0, end - now());
      const polls = this.#transport.crowded("waits");
      const answer = await get(polls ? 0 : Math.round(Math.min(SLICE_MS, left)));
      if (done(answer) || now() >= end) return answer;
      if (!polls) continue;
      this.#polling += 1;
      // All callers that poll ask up to 1000 times a second together.
      await sleep(Math.min(left, Math.max(LEAST_POLL_MS, this.#polling)), signal);
      this.#polling -= 1;
    }
  }

  private async once(call: Call, body: string | undefined): Promise<Record<string, unknown>> {
    if (this.closed)
      throw makeError("aborted", `${call.method} ${call.path}: the client is closed`);
    const headers =
      call.idempotencyKey === undefined ? undefined : { "idempotency-key": call.idempotencyKey };
    const answer = await this.#transport.request({
      method: call.method,
      path: call.path,
      body,
      headers,
      timeoutMs: (call.timeoutMs ?? this.readTimeoutMs) + (call.waitMs ?? 0),
      signal: call.signal,
      fresh: call.repeat === "once",
      repeatable: (call.repeat ?? "yes") === "yes",
      lane: call.lane ?? ((call.waitMs ?? 0) > 0 ? "waits" : "calls"),
    });
    return readAnswer(answer, `${call.method} ${call.path}`);
  }
}

function toldOf(call: Call, error: MainspringError, giveUp: number): LogFields {
  const seconds = Math.ceil((giveUp - now()) / 1000);
  return { call: `${call.method} ${call.path}`, error: error.message, for_up_to: `${seconds}s` };
}

function mayRepeat(error: MainspringError): boolean {
  switch (error.code) {
    case "unavailable":
    case "overloaded":
    case "storage_full":
    case "timeout":
    case "request_timeout":
    case "bad_answer":
      return true;
    default:
      return error.again === "yes" && error.code !== "lease_held";
  }
}

/** A required part of an answer; an answer without it is invalid. */
export function need<T>(value: T | undefined | null, good: boolean, what: string): T {
  if (!good || value === undefined || value === null) {
    throw makeError("bad_answer", `the server's answer has no good ${what}`);
  }
  return value;
}

/** An id or token of an answer. */
export function needInteger(value: unknown, what: string): number | bigint {
  const good =
    (typeof value === "number" && Number.isSafeInteger(value)) || typeof value === "bigint";
  return need(value as number | bigint, good && value >= 0, what);
}

export function query(values: Record<string, string | number | boolean | undefined>): string {
  const pairs = Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}
