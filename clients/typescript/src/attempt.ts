// One claim of one job, from the claim to its outcome, and what its handler sees of it.
import { createHash } from "node:crypto";

import type { Core } from "./core.js";
import { need, needInteger, Pauses, sleep } from "./core.js";
import { AttemptEnded, isRecord, LeaseLost, MainspringError, makeError } from "./errors.js";
import { formatJson, parseJson } from "./json.js";
import { type Logger, withFields } from "./log.js";
import type { Outcome } from "./outcomes.js";
import { people } from "./outcome_json.js";
import { STEP_NAME } from "./step_name.js";
import { resultsOf, type StepResults } from "./workflows.js";

/** What a handler gets. Its functions may be taken out of it: `({ args, step, signal }) => …`. */
export interface JobContext<Args = unknown> {
  readonly args: Args;
  readonly job: ClaimedJob;
  /** The fencing token of this attempt: grows with every claim of the job. */
  readonly token: bigint;
  /**
   * Aborted when the handler should stop. Its reason: Cancelled, LeaseLost, TimedOut or ShuttingDown.
   */
  readonly signal: AbortSignal;
  /** Checkpoint of an earlier attempt; undefined: none. */
  readonly lastCheckpoint: unknown;
  /** The state of the job's session; undefined: none. */
  readonly sessionState: unknown;
  /** The same in every attempt of this job. Pass it to other services. */
  readonly idempotencyKey: string;
  /** A log whose lines have the id, queue, kind and attempt of the job. */
  readonly log: Logger;
  /**
   * Runs `run` once: a later attempt gets the result that is kept. The result is JSON up to 64 KiB,
   * and every attempt gets it as it is after JSON.
   */
  step<T>(name: string, run: () => T | Promise<T>): Promise<T>;
  /** Reports progress, 0 to 1. Throws the reason of `signal` after an abort. */
  progress(value: number, text?: string): Promise<void>;
  /** Saves a JSON value for later attempts; resolves when the server has it. */
  checkpoint(value: unknown): Promise<void>;
  /** Sends a JSON value to the job's replyTo and follow-ups; resolves when the server has it. */
  message(value: unknown): Promise<void>;
  /** Sets the state of the job's session at the end of this attempt; null removes it. */
  setSessionState(value: unknown): void;
  /**
   * The results of a step that the args refer to with `by_reference`, in pages. A list gives its
   * elements. The worker's token needs `read` and `read:payload`.
   */
  results<R = unknown>(of: StepResults | readonly R[]): AsyncGenerator<R, void, undefined>;
}

/** A job as it was claimed. */
export interface ClaimedJob {
  readonly id: string;
  readonly queue: string;
  readonly kind: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly priority: number;
  readonly runAt: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly tags: readonly string[];
  readonly correlationId: string | undefined;
  readonly replyTo: string | undefined;
  readonly session: string | undefined;
}

/** A claimed job, after its checks. */
export interface Claimed {
  job: ClaimedJob;
  wireId: bigint;
  token: bigint;
  args: unknown;
  checkpoint: unknown;
  sessionState: unknown;
  timeoutMs: number | undefined;
  leaseMs: number;
  hasMemos: boolean;
  deferred: boolean;
  cost: number;
}

/** Reads a claimed job; throws bad_answer: it cannot be worked on, and its lease ends by itself. */
export function readClaimed(wire: unknown): Claimed {
  const raw = need(isRecord(wire) ? wire : undefined, true, "claimed job");
  const id = needInteger(raw["id"], "job id");
  const kind = raw["kind"];
  const lease = raw["lease_expires_in_ms"];
  const limit = raw["timeout_ms"];
  const headers = isRecord(raw["headers"]) ? (raw["headers"] as Record<string, string>) : {};
  return {
    job: {
      id: String(id),
      queue: textOr(raw["queue"], ""),
      kind: need(kind as string, typeof kind === "string", "kind of a job"),
      attempt: numberOr(raw["attempt"], 1),
      maxAttempts: numberOr(raw["max_attempts"], 1),
      priority: numberOr(raw["priority"], 5),
      runAt: optionalText(raw["run_at"]),
      headers,
      tags: Array.isArray(raw["tags"]) ? (raw["tags"] as string[]) : [],
      correlationId: optionalText(raw["correlation_id"]),
      replyTo: optionalText(raw["reply_to"]),
      session: optionalText(raw["session"]),
    },
    wireId: BigInt(id),
    token: BigInt(needInteger(raw["token"], "token of a job")),
    args: raw["args"],
    checkpoint: raw["checkpoint"],
    sessionState: raw["session_state"],
    timeoutMs: typeof limit === "number" ? limit : undefined,
    leaseMs: need(lease as number, typeof lease === "number" && lease >= 0, "lease of a job"),
    hasMemos: raw["has_memos"] === true,
    deferred: raw["deferred"] === true,
    cost: numberOr(raw["cost"], 1),
  };
}

function textOr(value: unknown, other: string): string {
  return typeof value === "string" ? value : other;
}
function optionalText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
function numberOr(value: unknown, other: number): number {
  return typeof value === "number" ? value : other;
}

const MAX_CHECKPOINT_BYTES = 256 << 10;
const MAX_PIECE_BYTES = 64 << 10;
const MAX_UNSENT = 1000;

/** A report of a handler that the server has not acknowledged. */
export interface Report {
  type: "checkpoint" | "message" | "memo";
  name: string;
  json: string;
  answer(error?: Error): void;
}

/** The part of a worker that an attempt uses. */
export interface AttemptHost {
  readonly core: Core;
  reportSoon(attempt: Attempt, atOnce: boolean): void;
}

export class Attempt {
  readonly reports: Report[] = [];
  newProgress: { value: number; text?: string } | undefined;
  nextSeq = 1;
  newSessionState: { json: string } | undefined;
  row: { index: number; generation: number } | undefined;
  slots = 1;
  started = false;
  /** Its handler has returned: its context is dead. */
  closed = false;
  /** Its outcome is decided. */
  ended = false;
  /** Fails the attempt, whatever its handler returns: an error that nothing caught. */
  stray: Outcome | undefined;
  /** Why the handler was asked to stop; the first reason stays. */
  stopReason: Error | undefined;
  /** What a step threw because its result cannot be stored: another attempt would fail too. */
  unusableStep: unknown;
  /** The lease is lost: the attempt no longer counts. */
  lost = false;
  private controller: AbortController | undefined;
  private readonly steps = new Set<string>();

  constructor(
    readonly claimed: Claimed,
    private readonly host: AttemptHost,
  ) {}

  get id(): string {
    return this.claimed.job.id;
  }

  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.stopReason !== undefined && !this.controller.signal.aborted)
      this.controller.abort(this.stopReason);
    return this.controller.signal;
  }

  tell(reason: Error): void {
    if (this.stopReason !== undefined) return;
    this.stopReason = reason;
    this.controller?.abort(reason);
  }

  lose(reason: LeaseLost): void {
    this.lost = true;
    for (const report of this.reports.splice(0)) report.answer(reason);
    this.tell(reason);
  }

  async step<T>(name: string, run: () => T | Promise<T>): Promise<T> {
    this.mustRun();
    checkStep(name, this.steps);
    const kept = this.claimed.hasMemos ? await this.recall(name) : undefined;
    if (kept !== undefined) return kept.result as T;
    if (this.stopReason !== undefined) throw this.stopReason;
    const result = await run();
    let json: string;
    try {
      json = encode("memo", name, result === undefined ? null : result, MAX_PIECE_BYTES);
    } catch (error) {
      this.unusableStep = error;
      throw error;
    }
    await this.report("memo", name, json);
    return parseJson(json) as T; // as a later attempt gets it
  }

  private async recall(name: string): Promise<{ result: unknown } | undefined> {
    const path = `/v1/jobs/${this.id}/memos?from=${name}&limit=1`;
    const pauses = new Pauses();
    for (;;) {
      this.mustHold();
      try {
        const page = await this.host.core.call({ method: "GET", path, repeat: "no" });
        const memos = need(
          page["memos"] as unknown[],
          Array.isArray(page["memos"]),
          "list of step results",
        );
        if (memos.length === 0) return undefined;
        const first = need(isRecord(memos[0]) ? memos[0] : undefined, true, "step result");
        return first["name"] === name ? { result: first["result"] } : undefined;
      } catch (thrown) {
        const error = thrown as MainspringError;
        if (error.again === "no" || this.stopReason !== undefined) throw error;
        await sleep(pauses.next(error));
      }
    }
  }

  async progress(value: number, text?: string): Promise<void> {
    this.mustRun();
    if (this.stopReason !== undefined) throw this.stopReason;
    const bounded = value >= 0 ? Math.min(value, 1) : 0; // also what is not a number
    this.newProgress =
      text === undefined ? { value: bounded } : { value: bounded, text: people(text) };
    this.host.reportSoon(this, false);
  }

  async checkpoint(value: unknown): Promise<void> {
    const name = "checkpoint";
    return this.report(name, name, encode(name, name, value, MAX_CHECKPOINT_BYTES));
  }

  async message(value: unknown): Promise<void> {
    if (this.reports.length >= MAX_UNSENT) {
      throw makeError("overloaded", `${MAX_UNSENT} messages are unsent: await message()`, {
        field: "message",
      });
    }
    const name = "message";
    return await this.report(name, name, encode(name, name, value, MAX_PIECE_BYTES));
  }

  private async report(type: Report["type"], name: string, json: string): Promise<void> {
    this.mustRun();
    this.mustHold();
    await new Promise<void>((resolve, reject) => {
      this.reports.push({
        type,
        name,
        json,
        answer: (error) => (error ? reject(error) : resolve()),
      });
      this.host.reportSoon(this, true);
    });
  }

  setSessionState(value: unknown): void {
    this.mustRun();
    if (this.claimed.job.session === undefined) {
      throw makeError("conflict", `job ${this.id} has no session`, { field: "session_state" });
    }
    this.newSessionState = { json: formatJson(value, "session state") };
  }

  async *results<R>(of: StepResults | readonly R[]): AsyncGenerator<R, void, undefined> {
    this.mustRun();
    for await (const one of resultsOf<R>(this.host.core, of)) {
      this.mustRun();
      yield one;
    }
  }

  private mustRun(): void {
    if (!this.closed) return;
    const { id, attempt } = this.claimed.job;
    const hint = "await everything that the handler starts";
    throw new AttemptEnded(`job ${id}: attempt ${attempt} has ended; nothing was sent: ${hint}`);
  }

  private mustHold(): void {
    if (this.lost) throw this.stopReason ?? new LeaseLost(`job ${this.id}: its lease is lost`);
  }
}

function encode(type: Report["type"], name: string, value: unknown, limit: number): string {
  const json = formatJson(value, type === "memo" ? `result of step ${name}` : name);
  const bytes = Buffer.byteLength(json);
  if (bytes > limit) {
    const field = type === "memo" ? "step" : type;
    throw makeError("too_large", `${type} ${name} has ${bytes} bytes: must be at most ${limit}`, {
      field,
    });
  }
  return json;
}

// Throws if the name breaks a rule, or is in `run` already; adds it.
function checkStep(name: string, run: Set<string>): void {
  if (!STEP_NAME.test(name)) {
    throw makeError("invalid_argument", `step "${name}": must be 1 to 64 of A-Z a-z 0-9 _ -`, {
      field: "step",
    });
  }
  if (run.has(name)) throw makeError("conflict", `step ${name}: this attempt has run it before`);
  run.add(name);
}

// A promise without a handler must not end the process when it fails: the signal notifies
// the handler.
function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

export class Context<Args> implements JobContext<Args> {
  readonly step = <T>(name: string, run: () => T | Promise<T>) =>
    quiet(this.attempt.step(name, run));
  readonly progress = (value: number, text?: string) => quiet(this.attempt.progress(value, text));
  readonly checkpoint = (value: unknown) => quiet(this.attempt.checkpoint(value));
  readonly message = (value: unknown) => quiet(this.attempt.message(value));
  readonly setSessionState = (value: unknown) => this.attempt.setSessionState(value);
  readonly results = <R>(of: StepResults | readonly R[]) => this.attempt.results<R>(of);

  constructor(
    private readonly attempt: Attempt,
    readonly args: Args,
    private readonly baseLog: Logger,
  ) {}

  get job(): ClaimedJob {
    return this.attempt.claimed.job;
  }
  get token(): bigint {
    return this.attempt.claimed.token;
  }
  get signal(): AbortSignal {
    return this.attempt.signal;
  }
  get lastCheckpoint(): unknown {
    return this.attempt.claimed.checkpoint;
  }
  get sessionState(): unknown {
    return this.attempt.claimed.sessionState;
  }
  get log(): Logger {
    const { id, queue, kind, attempt } = this.job;
    return withFields(this.baseLog, { job: id, queue, kind, attempt });
  }
  get idempotencyKey(): string {
    const given = this.job.headers["mainspring-idempotency-key"];
    if (given !== undefined) return given;
    // The id alone would be the same in two stores, so what the job is goes in too.
    const { id, queue, kind } = this.job;
    const text = JSON.stringify([queue, kind, formatJson(this.attempt.claimed.args ?? null)]);
    return `ms-${id}-${createHash("sha256").update(text).digest("hex").slice(0, 16)}`;
  }
}
