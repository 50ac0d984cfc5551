// A handle of a job.
import type { components } from "./api/schema.js";
import { type Core, need, needInteger } from "./core.js";
import { now } from "./clock.js";
import { type Duration, durationMs, durationText } from "./durations.js";
import { isRecord, JobFailed, ResultTimeout } from "./errors.js";
import { checkOptions, type Names } from "./options.js";
import { type Camel, fromWire } from "./names.js";
import { check, type StandardSchema, type } from "./schema.js";

type Schemas = components["schemas"];

export type JobState = Schemas["JobState"];
export type Why = Camel<Schemas["Why"]>;
/** All fields of a job. */
export type JobInfo = Omit<Camel<Schemas["Job"]>, "headers"> & { headers?: Record<string, string> };

export interface WaitOptions {
  /** Default: waits forever. */
  timeout?: Duration | undefined;
  signal?: AbortSignal | undefined;
}

const inspect = Symbol.for("nodejs.util.inspect.custom");
/** @internal */
export const WAIT_OPTIONS: Names<WaitOptions> = { timeout: 1, signal: 1 };
const STATES = new Set([
  "waiting",
  "scheduled",
  "available",
  "running",
  "completed",
  "retryable",
  "cancelled",
  "dead",
]);
const ENDED = new Set(["completed", "cancelled", "dead"]);

/** Reads a job; one without a known state is a broken answer, not a job that has ended. */
export function readJob(wire: unknown): JobInfo {
  const raw = need(isRecord(wire) ? wire : undefined, true, "job");
  needInteger(raw["id"], "job id");
  readState(raw["state"]);
  return fromWire<JobInfo>(raw);
}

export function readState(wire: unknown): JobState {
  return need(wire as JobState, STATES.has(String(wire)), "state of a job");
}

export class JobHandle<R = unknown> {
  readonly #core: Core;
  readonly #result: StandardSchema<unknown, R>;

  /** @internal */
  constructor(
    core: Core,
    readonly id: string,
    /** State at the enqueue; undefined for a job by its id. */
    readonly state: JobState | undefined = undefined,
    /** A unique key or an idempotency key found an existing job. */
    readonly duplicate = false,
    result: StandardSchema<unknown, R> = type<R>() as StandardSchema<unknown, R>,
  ) {
    this.#core = core;
    this.#result = result;
  }

  /** `Job 22 (available)`, for console.log. @internal */
  [inspect](): string {
    return `Job ${this.id}${this.state === undefined ? "" : ` (${this.state})`}`;
  }

  async get(): Promise<JobInfo> {
    return readJob(await this.#core.call({ method: "GET", path: `/v1/jobs/${this.id}` }));
  }

  /** Waits at a test server until the job has had this state. Not repeated. @internal */
  async reached(state: JobState, waitMs: number): Promise<JobInfo> {
    const path = `/v1/test/await?job=${this.id}&state=${state}&timeout=${waitMs}ms`;
    return readJob(await this.#core.call({ method: "GET", path, repeat: "no", waitMs }));
  }

  /** Waits until the job ends, or until `timeout`. Returns its record then. */
  async wait(options: WaitOptions = {}): Promise<JobInfo> {
    checkOptions(options, WAIT_OPTIONS);
    const end =
      options.timeout === undefined ? Infinity : now() + durationMs(options.timeout, "timeout");
    const { signal } = options;
    const get = async (waitMs: number) => {
      const path = `/v1/jobs/${this.id}?wait=${waitMs}ms`;
      return readJob(await this.#core.call({ method: "GET", path, waitMs, signal }));
    };
    return await this.#core.ask(end, signal, get, ({ state }) => ENDED.has(state));
  }

  private async late(state: JobState, timeout: Duration | undefined): Promise<string> {
    const within = durationText(durationMs(timeout ?? 0, "timeout"));
    const text = `job ${this.id} has not ended within ${within}: it is ${state}`;
    const path = `/v1/jobs/${this.id}/why`;
    const call = { method: "GET", path, repeat: "no", timeoutMs: 2000 } as const;
    const why = (await this.#core.call(call).catch(() => undefined))?.["why"];
    return typeof why === "string" ? `${text}: ${why}` : text;
  }

  /**
   * Waits for the result, and passes it through the schema of the definition. Throws JobFailed if
   * the job dies or is cancelled, ResultTimeout after `timeout`, ValidationError if it does not fit.
   */
  async result(options: WaitOptions = {}): Promise<R> {
    const job = await this.wait(options);
    if (!ENDED.has(job.state))
      throw new ResultTimeout(await this.late(job.state, options.timeout));
    if (job.state === "completed")
      return await check(this.#result, job.result, `result of job ${this.id}`);
    throw new JobFailed(
      this.id,
      job.state === "dead" ? "dead" : "cancelled",
      job.reason,
      job.description,
    );
  }

  /** Cancels the job. Returns its state. "running": the worker is asked to stop. */
  async cancel(reason?: string): Promise<JobState> {
    const answer = await this.#core.call({
      method: "POST",
      path: `/v1/jobs/${this.id}/cancel`,
      body: { reason },
    });
    return readState(answer["state"]);
  }

  /** Makes a dead, cancelled or waiting job available now. Returns its state. */
  async retry(): Promise<JobState> {
    const path = `/v1/jobs/${this.id}/retry`;
    return readState((await this.#core.call({ method: "POST", path }))["state"]);
  }

  async why(): Promise<Why> {
    return fromWire<Why>(await this.#core.call({ method: "GET", path: `/v1/jobs/${this.id}/why` }));
  }
}
