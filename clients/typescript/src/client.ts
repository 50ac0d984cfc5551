// Mainspring: the client of one server.
import { events, type EventFilter, type JobEvent } from "./events.js";
import { asyncDispose } from "./dispose.js";
import { type Call, Core, need, needInteger, randomName } from "./core.js";
import {
  type ArgsAnd,
  definitionOf,
  ENQUEUE_OPTIONS,
  type EnqueueOptions,
  type JobDefinition,
  jobJson,
  type NewJob,
} from "./define.js";
import { isCodec } from "./codec.js";
import { type Duration, durationMs, type Id, idText } from "./durations.js";
import { Enqueues } from "./enqueues.js";
import { isRecord, makeError } from "./errors.js";
import { formatJson } from "./json.js";
import type { TlsOptions } from "./certificates.js";
import { JobHandle, type JobInfo, type JobState, readJob, readState, type Why } from "./job.js";
import { jsonLogger, type Logger } from "./log.js";
import { type HeldLock, type LockOptions, Locks } from "./locks.js";
import { checkMiddleware, type Middleware, sending } from "./middleware.js";
import { fromWire } from "./names.js";
import { checkOptions, type Names } from "./options.js";
import { pages } from "./pages.js";
import { Queues } from "./queues.js";
import { Schedules } from "./schedules.js";
import { accepted, type StandardSchema } from "./schema.js";
import { Sessions } from "./sessions.js";
import { traceHeaders } from "./trace.js";
import { Worker } from "./worker.js";
import type { WorkerOptions } from "./worker_options.js";
import { Workflows } from "./workflows.js";

export interface MainspringOptions {
  /**
   * http://HOST:PORT, https://HOST:PORT or unix:PATH. Default: MAINSPRING_SERVER, else
   * http://127.0.0.1:8080.
   */
  url?: string | undefined;
  /** Access token. Default: MAINSPRING_ACCESS_TOKEN. */
  token?: string | undefined;
  tls?: TlsOptions | undefined;
  /** Default: 5s. */
  connectTimeout?: Duration | undefined;
  /** How long the server may be silent; waits add their own time. Default: 30s. */
  requestTimeout?: Duration | undefined;
  /** How long a call is repeated while the server is unreachable or full; 0: never. [15s] */
  retryFor?: Duration | undefined;
  /** Default: JSON lines on standard error, from `info` on. */
  log?: Logger | undefined;
}

export interface CallOptions {
  signal?: AbortSignal | undefined;
}

/** Options of the request, beside those of the job. */
export interface EnqueueCall extends EnqueueOptions, CallOptions {
  /** The same key and jobs within 24 hours return the same jobs. Default: a random one. */
  idempotencyKey?: string | undefined;
  /** The enqueue is refused with LockLost unless this lock is held with this token. */
  fence?: { name: string; token: bigint } | undefined;
}

export interface JobFilter {
  queue?: string | undefined;
  state?: JobState | undefined;
  kind?: string | undefined;
  tag?: string | undefined;
  quarantined?: boolean | undefined;
  /** Jobs of one request. The iterator asks for more. */
  limit?: number | undefined;
}

const OPTIONS: Names<MainspringOptions> = {
  ...{ url: 1, token: 1, tls: 1, connectTimeout: 1, requestTimeout: 1, retryFor: 1, log: 1 },
};
// A job as it is sent.
interface Prepared {
  definition: JobDefinition;
  own: EnqueueOptions;
  json: string;
}

const MAX_JOBS = 10_000;
const VISIBLE = /^[\x20-\x7e]+$/; // what a header can carry; the server says the exact rule

export class Mainspring {
  readonly schedules: Schedules;
  readonly queues: Queues;
  readonly workflows: Workflows;
  readonly sessions: Sessions;
  readonly #core: Core;
  readonly #enqueues: Enqueues;
  readonly #locks: Locks;

  constructor(url?: string | MainspringOptions, options: MainspringOptions = {}) {
    const all = typeof url === "object" ? url : { ...options, url: url ?? options.url };
    checkOptions(all, OPTIONS);
    const env = process.env;
    this.#core = new Core({
      url: all.url ?? (env["MAINSPRING_SERVER"] || "http://127.0.0.1:8080"),
      token: all.token ?? (env["MAINSPRING_ACCESS_TOKEN"] || undefined),
      tls: all.tls,
      connectTimeoutMs: durationMs(all.connectTimeout ?? "5s", "connectTimeout"),
      readTimeoutMs: durationMs(all.requestTimeout ?? "30s", "requestTimeout"),
      retryForMs: durationMs(all.retryFor ?? "15s", "retryFor"),
      log: all.log ?? jsonLogger(),
    });
    this.#enqueues = new Enqueues(this.#core);
    this.#locks = new Locks(this.#core);
    this.schedules = new Schedules(this.#core);
    this.queues = new Queues(this.#core);
    this.workflows = new Workflows(this.#core);
    this.sessions = new Sessions(this.#core);
  }

  /** Enqueues a job. Resolves when it is on disk. */
  async enqueue<In, R>(
    job: JobDefinition<In, unknown, R, unknown>,
    ...rest: ArgsAnd<In, EnqueueCall>
  ): Promise<JobHandle<R>>;
  async enqueue(kind: string, args?: unknown, options?: EnqueueCall): Promise<JobHandle<unknown>>;
  async enqueue(
    job: JobDefinition | string,
    args?: unknown,
    options: EnqueueCall = {},
  ): Promise<JobHandle<unknown>> {
    const prepare = (one: NewJob) => this.prepare(one);
    const send = async ([one]: Prepared[]) => {
      const { definition, json, own } = one as Prepared;
      const call = postJobs(options);
      if (mayGoWithOthers({ ...options, ...own }, definition.options))
        return [this.handleOf(await this.#enqueues.add(json), definition)];
      const body = `${json.slice(0, -1)}${fenceOf(options)}}`;
      return [this.handleOf(await this.#core.callText(call, body), definition)];
    };
    const [made] = await sending(this.#core.middleware, [{ job, args, options }], prepare, send);
    return made as JobHandle<never>;
  }

  /** Adds code around each enqueue of this client, and each attempt of its workers. */
  use(middleware: Middleware): this {
    checkMiddleware(middleware);
    this.#core.middleware.push(middleware);
    return this;
  }

  /** Enqueues up to 10,000 jobs in one transaction: all or nothing. */
  async enqueueMany<In, R>(
    job: JobDefinition<In, unknown, R, unknown>,
    args: Iterable<NoInfer<In>>,
    options?: EnqueueCall,
  ): Promise<JobHandle<R>[]>;
  async enqueueMany(jobs: Iterable<NewJob>, options?: EnqueueCall): Promise<JobHandle<unknown>[]>;
  async enqueueMany(
    first: JobDefinition | Iterable<NewJob>,
    second?: Iterable<unknown> | EnqueueCall,
    third?: EnqueueCall,
  ): Promise<JobHandle<unknown>[]> {
    const many = typeof first === "object" && first !== null && Symbol.iterator in first;
    const job = many ? "" : definitionOf(first);
    const options = (many ? (second as EnqueueCall) : third) ?? {};
    const jobs = many
      ? Array.from(first)
      : Array.from(second as Iterable<unknown>, (args) => ({ job, args, options }));
    if (jobs.length === 0) return [];
    if (jobs.length > MAX_JOBS) {
      throw makeError("too_large", `jobs: ${jobs.length}: must be at most ${MAX_JOBS}`, {
        field: "jobs",
      });
    }
    const prepare = (one: NewJob, i: number) => this.prepare(one, `jobs[${i}].args`);
    const send = async (all: Prepared[]) => {
      const body = `{"jobs":[${all.map(({ json }) => json).join(",")}]${fenceOf(options)}}`;
      const made = (await this.#core.callText(postJobs(options), body))["jobs"];
      const count = Array.isArray(made) ? made.length : 0;
      const what = `list of jobs: ${count} answers to ${all.length} jobs`;
      const answers = need(made as unknown[], count === all.length, what);
      return all.map(({ definition }, i) => this.handleOf(answers[i], definition));
    };
    return await sending(this.#core.middleware, jobs, prepare, send);
  }

  /** A handle of a job; with its definition, with the type of its result. Sends no request. */
  find<In, R>(job: JobDefinition<In, unknown, R, unknown>, id: Id): JobHandle<R>;
  find<R = unknown>(id: Id): JobHandle<R>;
  find(job: JobDefinition | Id, id?: Id): JobHandle<unknown> {
    if (typeof job !== "object") return new JobHandle(this.#core, idText(job));
    return new JobHandle(this.#core, idText(id ?? ""), undefined, false, job.result);
  }

  /** The record of a job. */
  async get(id: Id): Promise<JobInfo> {
    return await this.find(id).get();
  }

  /** Jobs, newest first. */
  async *jobs(filter: JobFilter = {}): AsyncGenerator<JobInfo, void, undefined> {
    const cursor = ["cursor", "next_cursor"] as const;
    for await (const job of pages(this.#core, "/v1/jobs", "jobs", cursor, { ...filter }))
      yield readJob(job);
  }

  /** A worker; it starts when it has a handler. */
  worker(options: WorkerOptions = {}): Worker {
    return new Worker(this.#core, options);
  }

  /** Streams job and queue events until the loop is left or `signal` is aborted. */
  events(filter: EventFilter = {}): AsyncGenerator<JobEvent, void, undefined> {
    return events(this.#core, filter);
  }

  /**
   * Acquires a lock: one holder in the whole system. Throws code `lease_held` if another holder
   * keeps it.
   */
  async lock(name: string, options: LockOptions = {}): Promise<HeldLock> {
    return await this.#locks.acquire(name, options);
  }

  /** Runs `fn` under a lock. */
  async withLock<T>(
    name: string,
    fn: (lock: HeldLock) => T | Promise<T>,
    options: LockOptions = {},
  ): Promise<T> {
    const lock = await this.lock(name, options);
    try {
      return await fn(lock);
    } finally {
      await lock[asyncDispose]();
    }
  }

  /** Why a job waits. */
  async why(id: Id): Promise<Why> {
    return fromWire<Why>(
      await this.#core.call({ method: "GET", path: `/v1/jobs/${idText(id)}/why` }),
    );
  }

  /** Any request of the HTTP API, with its own field names. Not repeated. */
  async request(
    method: Call["method"],
    path: string,
    body?: unknown,
    options: { timeout?: Duration } = {},
  ): Promise<Record<string, unknown>> {
    const waitMs = options.timeout === undefined ? 0 : durationMs(options.timeout, "timeout");
    return await this.#core.call({ method, path, body, repeat: "no", waitMs });
  }

  /** Closes the connections: calls fail, workers end. Stop workers and release locks before. */
  close(): void {
    this.#core.close();
  }

  async [asyncDispose](): Promise<void> {
    this.close();
  }

  private async prepare(
    { job, args = {}, options = {} }: NewJob,
    where = "args",
  ): Promise<Prepared> {
    const definition = definitionOf(job);
    const what = `${where} of ${definition.kind}`;
    if (!isCodec(definition.args)) args = await accepted(definition.args, args, what);
    const headers = { ...traceHeaders(), ...definition.options.headers, ...options.headers };
    const own = Object.keys(headers).length === 0 ? options : { ...options, headers };
    return { definition, own, json: jobJson(definition, args, own, where) };
  }

  private handleOf(answer: unknown, { result }: JobDefinition): JobHandle<never> {
    const made = need(isRecord(answer) ? answer : undefined, true, "job");
    const id = String(needInteger(made["id"], "job id"));
    const state = readState(made["state"]);
    const duplicate = made["duplicate"] === true;
    return new JobHandle(this.#core, id, state, duplicate, result as StandardSchema<unknown, never>);
  }
}

function postJobs(options: EnqueueCall): Call {
  checkOptions(options, ENQUEUE_OPTIONS);
  const idempotencyKey = options.idempotencyKey ?? `auto-${randomName()}`;
  if (!VISIBLE.test(idempotencyKey)) {
    const text = `idempotencyKey ${JSON.stringify(idempotencyKey)}: must be visible ASCII`;
    throw makeError("invalid_argument", text, { field: "idempotencyKey" });
  }
  return { method: "POST", path: "/v1/jobs", idempotencyKey, signal: options.signal };
}

// A job with a key or a session may have to wait for another caller's transaction.
function mayGoWithOthers(options: EnqueueCall, defaults: EnqueueOptions): boolean {
  const names = ["idempotencyKey", "fence", "signal"] as const;
  const shared = ["key", "session"] as const;
  return (
    names.every((name) => options[name] === undefined) &&
    shared.every((name) => (options[name] ?? defaults[name]) === undefined)
  );
}

function fenceOf({ fence }: EnqueueCall): string {
  return fence === undefined
    ? ""
    : `,"fence":${formatJson({ lease: fence.name, token: fence.token })}`;
}
