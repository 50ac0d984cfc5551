/// <reference lib="esnext.disposable" preserve="true" />
// Helpers for tests: a server of one's own (`mainspring serve --test`), and questions about its jobs.
import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { isDeepStrictEqual } from "node:util";

import {
  complete,
  type Duration,
  durationMs,
  formatJson,
  type Handler,
  type HandlerResult,
  type JobContext,
  type JobDefinition,
  type JobHandle,
  type JobHandler,
  type JobInfo,
  type JobOptions,
  type JobState,
  type Logger,
  Mainspring,
  MainspringError,
  type MainspringOptions,
  Outcome,
  parseJson,
  toJson,
  type StandardSchema,
  ResultTimeout,
} from "./index.js";
import { STEP_NAME } from "./step_name.js";

const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose");

export interface TestServerOptions {
  /** The server's program. Default: MAINSPRING_BINARY, else `mainspring` on the PATH. */
  binary?: string;
  /** The seed of faults. Default: random. */
  seed?: number;
  /** A server as in production, with a synced store and without test routes: for benchmarks. */
  durable?: boolean;
  /** More arguments of `mainspring serve`. */
  args?: readonly string[];
}

/** A server that ends, and whose data are removed, with `stop()`, `await using` or this process. */
export class TestServer {
  private readonly clients: Mainspring[] = [];
  private stopping: Promise<void> | undefined;

  /** @internal */
  constructor(
    readonly url: string,
    readonly token: string | undefined,
    /** Of faults that give none. */
    readonly seed: number | undefined,
    readonly pid: number,
    private readonly process: ChildProcess,
    private readonly directory: string | undefined,
  ) {}

  /** A client without log lines; closed with the server. */
  client(options: MainspringOptions = {}): Mainspring {
    const client = new Mainspring({ log: silent, url: this.url, token: this.token, ...options });
    this.clients.push(client);
    return client;
  }

  /** Ends the server: at once with SIGKILL, cleanly with SIGTERM. */
  stop(signal: "SIGTERM" | "SIGKILL" = "SIGKILL"): Promise<void> {
    this.stopping ??= this.stopNow(signal);
    return this.stopping;
  }

  async [asyncDispose](): Promise<void> {
    await this.stop();
  }

  private async stopNow(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    for (const client of this.clients) client.close();
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.ref(); // or Node.js would end before it
      const ended = new Promise((resolve) => this.process.once("exit", resolve));
      // A test server whose input is closed removes its data.
      if (signal === "SIGKILL" && this.directory === undefined) this.process.stdin?.end();
      else this.process.kill(signal);
      await ended;
    }
    if (this.directory !== undefined) await rm(this.directory, { recursive: true, force: true });
  }
}

/** Takes no log lines. */
export const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

// The one place that knows how a server for tests is started.
function commandLine(options: TestServerOptions, directory: string | undefined): string[] {
  const more = options.args ?? [];
  if (directory !== undefined)
    return ["serve", "--data", directory, "--listen", "127.0.0.1:0", "--json", ...more];
  const seed = options.seed === undefined ? [] : ["--seed", String(options.seed)];
  return ["serve", "--test", ...seed, ...more];
}

// npm puts node_modules/.bin first, where `mainspring` is this package's own command.
function environment(): NodeJS.ProcessEnv {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const isNpm = (folder: string) => /node_modules[\\/]\.bin[\\/]?$/.test(folder);
  return { ...process.env, PATH: folders.filter((folder) => !isNpm(folder)).join(delimiter) };
}

/** Starts a server. Resolves when it takes requests. */
export async function startServer(options: TestServerOptions = {}): Promise<TestServer> {
  const binary = options.binary ?? process.env["MAINSPRING_BINARY"] ?? "mainspring";
  const directory =
    options.durable === true ? await mkdtemp(join(tmpdir(), "mainspring-bench-")) : undefined;
  // Its input ends with this process, and a test server with its input.
  const child = spawn(binary, commandLine(options, directory), {
    stdio: ["pipe", "pipe", "pipe"],
    env: environment(),
  });
  let output = "";
  let problems = "";
  child.stdin.on("error", () => undefined); // the server has ended
  child.stderr
    .setEncoding("utf8")
    .on("data", (text: string) => (problems = (problems + text).slice(-4000)));
  // A server must not outlive the tests that are interrupted.
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  child.once("exit", () => process.removeListener("exit", kill));
  try {
    const started = await new Promise<Started>((resolve, reject) => {
      child.once("error", (error) => reject(new Error(`starting ${binary}: ${error.message}`)));
      child.once("exit", (code) => reject(new Error(`${binary} ended with ${code}: ${problems}`)));
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        output += text;
        const end = output.indexOf("\n");
        if (end >= 0) resolve(JSON.parse(output.slice(0, end)) as Started);
      });
    });
    child.unref();
    for (const pipe of [child.stdin, child.stdout, child.stderr])
      (pipe as unknown as { unref?: () => void }).unref?.();
    const { url, token, seed } = started;
    return new TestServer(url, token, seed, child.pid ?? 0, child, directory);
  } catch (error) {
    child.kill("SIGKILL");
    if (directory !== undefined) await rm(directory, { recursive: true, force: true });
    throw error;
  }
}

interface Started {
  url: string;
  token?: string;
  seed?: number;
}

/**
 * A server for all tests of a file: `const server = useServer({ before, after })` of node:test or
 * vitest.
 */
export function useServer(
  hooks: { before?: Hook; beforeAll?: Hook; after?: Hook; afterAll?: Hook },
  options: TestServerOptions = {},
): {
  readonly url: string;
  client(options?: MainspringOptions): Mainspring;
  readonly server: TestServer;
} {
  let server: TestServer | undefined;
  const before = hooks.before ?? hooks.beforeAll;
  const after = hooks.after ?? hooks.afterAll;
  if (before === undefined || after === undefined)
    throw new TypeError("hooks: must have before and after");
  before(async () => void (server = await startServer(options)));
  after(async () => server?.stop());
  const running = () => {
    if (server === undefined)
      throw new Error("the test server has not been started: use it inside a test");
    return server;
  };
  return {
    get url() {
      return running().url;
    },
    get server() {
      return running();
    },
    client: (more) => running().client(more),
  };
}

type Hook = (run: () => Promise<void>) => void;

/**
 * Waits until the job has had this state. Throws ResultTimeout after 10 s, or `timeout`, and at once
 * when the job has ended in another state.
 */
export async function waitFor(
  job: JobHandle<unknown>,
  state: JobState,
  options: { timeout?: Duration } = {},
): Promise<JobInfo> {
  const end = performance.now() + durationMs(options.timeout ?? "10s", "timeout");
  for (;;) {
    try {
      return await job.reached(state, Math.round(Math.max(end - performance.now(), 0)));
    } catch (error) {
      if (!(error instanceof MainspringError)) throw error;
      if (error.code === "request_timeout" || error.code === "conflict")
        throw new ResultTimeout(error.message);
      if (error.again === "no" || performance.now() >= end) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 50)); // the server restarts
  }
}

/** A definition, or the name of a kind. */
export type AnyJob = string | { readonly kind: string; readonly options: JobOptions };

/** A job that `allEnqueued` looks for: its definition or kind, queue, and some of its args. */
export interface EnqueuedFilter {
  /** Default: that of the definition. */
  queue?: string | undefined;
  /** The job has at least these. */
  args?: Readonly<Record<string, unknown>> | undefined;
}

const ENDED: readonly JobState[] = ["completed", "cancelled", "dead"];

/** The jobs that have not ended, oldest first. */
export async function allEnqueued(
  ms: Mainspring,
  job?: AnyJob,
  filter: EnqueuedFilter = {},
): Promise<JobInfo[]> {
  const kind = typeof job === "object" ? job.kind : job;
  const own = typeof job === "object" ? (job.options.queue ?? "default") : undefined;
  const found: JobInfo[] = [];
  for await (const info of ms.jobs({ kind, queue: filter.queue ?? own })) {
    if (!ENDED.includes(info.state) && hasArgs(info.args, filter.args ?? {})) found.unshift(info);
  }
  return found;
}

function hasArgs(args: unknown, wanted: Readonly<Record<string, unknown>>): boolean {
  const names = Object.keys(wanted);
  if (names.length === 0) return true;
  if (typeof args !== "object" || args === null) return false;
  return names.every(
    (name) =>
      name in args && isDeepStrictEqual((args as Record<string, unknown>)[name], wanted[name]),
  );
}

/** Throws unless there is such a job; returns the first one. */
export async function assertEnqueued(
  ms: Mainspring,
  job: AnyJob,
  filter: EnqueuedFilter = {},
): Promise<JobInfo> {
  const [found] = await allEnqueued(ms, job, filter);
  if (found !== undefined) return found;
  const others = await allEnqueued(ms, undefined, { queue: filter.queue });
  const shown = others.slice(0, 20).map(({ kind, args }) => `${kind} ${JSON.stringify(args)}`);
  throw new AssertionError(
    `no job ${nameOf(job)} with ${JSON.stringify(filter)} is enqueued; ` +
      `there are ${shown.length === 0 ? "none" : shown.join(", ")}`,
  );
}

/** Throws if there is such a job. */
export async function refuteEnqueued(
  ms: Mainspring,
  job: AnyJob,
  filter: EnqueuedFilter = {},
): Promise<void> {
  const [found] = await allEnqueued(ms, job, filter);
  if (found === undefined) return;
  throw new AssertionError(
    `job ${found.id} ${nameOf(job)} is enqueued: ${JSON.stringify(found.args)}`,
  );
}

function nameOf(job: AnyJob): string {
  return typeof job === "object" ? job.kind : job;
}

/** What an assertion of these helpers throws. */
export class AssertionError extends Error {
  override name = "AssertionError";
}

/** Names of one test alone: `namespace.queue("mail")`. Other tests do not meet its jobs. */
export interface Namespace {
  readonly name: string;
  readonly prefix: string;
  /** A queue of the namespace. Schedules, locks and sessions are named the same way. */
  queue(name?: string): string;
  /** Ends its jobs and removes its schedules, triggers and locks, and the namespace itself. */
  reset(): Promise<void>;
}

export async function namespace(ms: Mainspring, name?: string): Promise<Namespace> {
  const body = name === undefined ? {} : { name };
  const made = await ms.request("POST", "/v1/test/namespace", body);
  const [space, prefix] = [String(made["namespace"]), String(made["prefix"])];
  return {
    name: space,
    prefix,
    queue: (queue = "default") => prefix + queue,
    reset: async () => void (await ms.request("POST", "/v1/test/reset", { namespace: space })),
  };
}

export interface DrainScope {
  /** Default: every job of the server. */
  namespace?: Namespace | undefined;
  queue?: string | undefined;
  /** Default: 10s. */
  timeout?: Duration | undefined;
}

/** Waits until nothing is available, running or due. Workers do the work. */
export async function drain(ms: Mainspring, scope: DrainScope = {}): Promise<void> {
  const timeout = `${Math.round(durationMs(scope.timeout ?? "10s"))}ms`;
  const body = { namespace: scope.namespace?.name, queue: scope.queue, timeout };
  const done = await ms.request("POST", "/v1/test/drain", body, { timeout });
  if (done["drained"] !== true)
    throw new ResultTimeout(`${String(done["left"])} jobs are left after ${timeout}`);
}

/** What became due while the clock moved. */
export interface Fired {
  at: string;
  what: "schedule" | "scheduled" | "retry" | "lease" | "expiry" | "workflow";
  job?: string;
  queue?: string;
  schedule?: string;
  lock?: string;
  session?: string;
  workflow?: string;
}

export interface AdvanceOptions {
  /** "live" (default) keeps the leases of workers that are alive; "keep" all; "lose" none. */
  leases?: "live" | "keep" | "lose" | undefined;
  /** Real time that workers get at each instant at which something is due. Default: 1s. */
  settle?: Duration | undefined;
}

/** Moves the clock of a test server by a time or to an instant; returns what fired, in order. */
export async function advance(
  ms: Mainspring,
  by: Duration | Date,
  options: AdvanceOptions = {},
): Promise<Fired[]> {
  const moved = await ms.request("POST", "/v1/test/clock", {
    ...(by instanceof Date
      ? { to: by.toISOString() }
      : { advance: `${Math.round(durationMs(by))}ms` }),
    leases: options.leases ?? "live",
    settle: `${Math.round(durationMs(options.settle ?? "1s"))}ms`,
  });
  if (moved["complete"] !== true)
    throw new AssertionError(
      `advance: more is due than one call does; the time is ${String(moved["now"])}`,
    );
  return (moved["fired"] as Record<string, unknown>[]).map((one) => {
    const fired: Record<string, unknown> = { ...one };
    for (const id of ["job", "workflow"]) if (id in fired) fired[id] = String(fired[id]);
    return fired as unknown as Fired;
  });
}

/** The time of a test server. */
export async function now(ms: Mainspring): Promise<Date> {
  return new Date(String((await ms.request("GET", "/v1/test/clock"))["now"]));
}

export interface ChaosOptions {
  /** Default: random, and printed. */
  seed?: number | undefined;
  /** Only its jobs. */
  namespace?: Namespace | undefined;
  /** Probabilities. Default: 0.1. */
  duplicateDelivery?: number | undefined;
  lostLease?: number | undefined;
  lostFinish?: number | undefined;
  /** Of late answers. Default: 0. */
  delay?: number | undefined;
  maxDelay?: Duration | undefined;
}

/**
 * Faults until they are stopped: `await using faults = await chaos(ms)`. The same seed gives the
 * same faults. No fault takes the last attempt of a job, so each job ends as its handler says.
 */
export async function chaos(
  ms: Mainspring,
  options: ChaosOptions = {},
): Promise<{ readonly seed: number; stop(): Promise<void> } & AsyncDisposable> {
  const seed = options.seed ?? randomInt(1_000_000_000);
  const maxDelay = `${Math.round(durationMs(options.maxDelay ?? "50ms"))}ms`;
  const space = options.namespace?.name;
  await ms.request("POST", "/v1/test/faults", {
    namespace: space,
    seed,
    duplicate_delivery: options.duplicateDelivery ?? 0.1,
    lost_lease: options.lostLease ?? 0.1,
    lost_finish: options.lostFinish ?? 0.1,
    delay: options.delay === undefined ? undefined : { p: options.delay, max: maxDelay },
  });
  console.log(`chaos: seed ${seed}`);
  const where = space === undefined ? "" : `?namespace=${space}`;
  const stop = async () => void (await ms.request("DELETE", `/v1/test/faults${where}`));
  return { seed, stop, [asyncDispose]: stop } as { seed: number; stop(): Promise<void> } & AsyncDisposable;
}

/** What one run of a handler came to. */
export interface Performed<R> {
  /** What the handler returned: a result or an outcome. */
  result: HandlerResult<R>;
  progress: { value: number; text: string }[];
  checkpoint: unknown;
  messages: unknown[];
  /** Results of steps, those of `options.memos` too. */
  memos: Record<string, unknown>;
  sessionState: unknown;
}

export interface PerformOptions {
  attempt?: number | undefined;
  /** What an earlier attempt left. */
  checkpoint?: unknown;
  /** Results of steps that earlier attempts kept. */
  memos?: Readonly<Record<string, unknown>> | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  /** Aborted: the handler hears its reason. */
  signal?: AbortSignal | undefined;
}

const MAX_PIECE_BYTES = 64 << 10;
const MAX_CHECKPOINT_BYTES = 256 << 10;
const MAX_RESULT_BYTES = 1 << 20;

/**
 * Runs a handler here and now, without a server: `perform(job, handler, args)`, or
 * `perform(handle(job, …), args)`. What it throws is thrown. Also throws for what fails on a server:
 * a value that cannot be stored, or a result that breaks its schema. Results go through JSON, as
 * those of a server.
 */
export async function perform<In, Args, R, Out>(
  job: JobDefinition<In, Args, R, Out>,
  handler: Handler<Args, Out>,
  args: NoInfer<In>,
  options?: PerformOptions,
): Promise<Performed<Out>>;
export async function perform<In, Out>(
  handler: JobHandler<In, Out>,
  args: NoInfer<In>,
  options?: PerformOptions,
): Promise<Performed<Out>>;
export async function perform(...given: unknown[]): Promise<Performed<unknown>> {
  const { job, handler, rest } = joined(given);
  const [args, options = {}] = rest as [unknown, PerformOptions?];
  const what = `args of ${job.kind}`;
  const sent = stored(await asSent(job.args, args ?? {}, what), "args", MAX_RESULT_BYTES);
  const checked = await conforming(job.args, sent, what);
  const signal = options.signal ?? new AbortController().signal;
  const done: Performed<unknown> = {
    result: undefined,
    progress: [],
    checkpoint: undefined,
    messages: [],
    memos: { ...options.memos },
    sessionState: undefined,
  };
  const steps = new Set<string>();
  const context: JobContext<never> = {
    args: checked as never,
    job: {
      ...{ id: "1", queue: job.options.queue ?? "default", kind: job.kind },
      ...{ attempt: options.attempt ?? 1, maxAttempts: job.options.maxAttempts ?? 20 },
      ...{ priority: job.options.priority ?? 5, runAt: undefined, headers: options.headers ?? {} },
      ...{ tags: job.options.tags ?? [], correlationId: undefined, replyTo: undefined },
      session: undefined,
    },
    token: BigInt(options.attempt ?? 1),
    signal,
    lastCheckpoint: options.checkpoint,
    sessionState: undefined,
    idempotencyKey: "test",
    log: silent,
    step: async (name, run) => {
      signal.throwIfAborted();
      if (!STEP_NAME.test(name))
        throw new TypeError(`step "${name}": must be 1 to 64 of A-Z a-z 0-9 _ -`);
      if (steps.has(name)) throw new Error(`step ${name}: this attempt has run it before`);
      steps.add(name);
      if (!Object.hasOwn(done.memos, name))
        done.memos[name] = stored(await run(), `result of step ${name}`, MAX_PIECE_BYTES);
      return done.memos[name] as never;
    },
    progress: async (value, text = "") => {
      signal.throwIfAborted();
      done.progress.push({ value, text });
    },
    checkpoint: async (value) => {
      signal.throwIfAborted();
      done.checkpoint = stored(value, "checkpoint", MAX_CHECKPOINT_BYTES);
    },
    message: async (value) => {
      signal.throwIfAborted();
      done.messages.push(stored(value, "message", MAX_PIECE_BYTES));
    },
    results: async function* (of) {
      if (!Array.isArray(of)) throw new TypeError("results: pass a list in tests");
      yield* of;
    },
    setSessionState: (value) =>
      void (done.sessionState = stored(value, "session state", MAX_CHECKPOINT_BYTES)),
  };
  done.result = await handler(context);
  const returned: unknown = done.result;
  if (returned instanceof Outcome && returned.kind !== "complete") return done;
  const result: unknown = returned instanceof Outcome ? returned.result : returned;
  const kept = await keptResult(job, result);
  done.result = returned instanceof Outcome ? complete(kept, { next: returned.next }) : kept;
  return done;
}

// A definition and its handler, given apart or joined by handle().
function joined([first, ...rest]: unknown[]): {
  job: JobDefinition;
  handler: Handler<never, unknown>;
  rest: unknown[];
} {
  if (typeof first === "object" && first !== null && "handler" in first) {
    const { definition: job, handler } = first as JobHandler;
    return { job, handler, rest };
  }
  const [handler, ...more] = rest;
  if (typeof handler !== "function") throw new TypeError("handler: must be a function");
  return { job: first as JobDefinition, handler: handler as Handler<never, unknown>, rest: more };
}

async function conforming<T>(
  schema: StandardSchema<unknown, T>,
  value: unknown,
  what: string,
): Promise<T> {
  const checked = await schema["~standard"].validate(value);
  if (checked.issues === undefined) return checked.value;
  const [{ message = "is refused", path = [] } = {}] = checked.issues;
  const place = path.map((part) => `.${String(typeof part === "object" ? part.key : part)}`);
  throw new TypeError(`${what}${place.join("")}: ${message}`);
}

function hasCodec(schema: object): boolean {
  return "~mainspring" in schema;
}

async function asSent(schema: StandardSchema, value: unknown, what: string): Promise<unknown> {
  if (!hasCodec(schema)) await conforming(schema, value, what);
  return await toJson(schema, value, what);
}

// As `result()` of a server's job would give it. The form before the schema if it has no codec.
async function keptResult({ kind, result: schema }: JobDefinition, result: unknown) {
  const what = `result of ${kind}`;
  const sent = await asSent(schema, result, what);
  if (sent === undefined) return undefined;
  const kept = stored(sent, "result", MAX_RESULT_BYTES);
  return hasCodec(schema) ? await conforming(schema, kept, what) : kept;
}

/** What a server would store. Throws if it would refuse the value. */
function stored(value: unknown, what: string, limit: number): unknown {
  const json = formatJson(value === undefined ? null : value, what);
  const bytes = Buffer.byteLength(json);
  if (bytes > limit) throw new TypeError(`${what} has ${bytes} bytes: must be at most ${limit}`);
  return parseJson(json);
}

/** The effect of a job changed when it ran again. */
export class NotIdempotent extends AssertionError {
  override name = "NotIdempotent";
  constructor(
    kind: string,
    readonly run: string,
    readonly first: unknown,
    readonly then: unknown,
  ) {
    super(
      `${kind} is not idempotent: after one run there was ${JSON.stringify(first)}, ` +
        `after ${run} ${JSON.stringify(then)}`,
    );
  }
}

const RUNS = ["one run", "a second run", "a third run"] as const;

/**
 * Throws if running a job again changes what `observe` returns. One job is enqueued on a test
 * server. The finishes of its first two runs are lost, so its handler runs three times. `observe` is
 * called after each run. Saved step results last from run to run, as they do after a crash.
 */
export async function assertIdempotent<In, Args, R, Out>(
  ms: Mainspring,
  job: JobDefinition<In, Args, R, Out>,
  handler: Handler<Args, Out>,
  args: NoInfer<In>,
  observe: () => unknown,
  options?: { timeout?: Duration },
): Promise<void>;
export async function assertIdempotent<In, Out>(
  ms: Mainspring,
  handler: JobHandler<In, Out>,
  args: NoInfer<In>,
  observe: () => unknown,
  options?: { timeout?: Duration },
): Promise<void>;
export async function assertIdempotent(ms: Mainspring, ...given: unknown[]): Promise<void> {
  const { job, handler, rest } = joined(given);
  type Rest = [unknown, () => unknown, { timeout?: Duration }?];
  const [args, observe, options = {}] = rest as Rest;
  const seen: unknown[] = [];
  let failure: unknown;
  const space = await namespace(ms);
  const queue = space.queue("once");
  // Programs in JavaScript can put these into a definition. They would only delay the runs.
  const atOnce = { delay: undefined, runAt: undefined };
  const own = { ...job.options, ...atOnce, queue, maxAttempts: RUNS.length };
  const definition = { ...job, options: own };
  const faults = { namespace: space.name, lost_finish: 1, lost_finish_of: "request" };
  await ms.request("POST", "/v1/test/faults", faults);
  const worker = ms.worker({ slots: 1 }).on(definition, async (context) => {
    try {
      const result = await handler(context as never);
      seen.push(structuredClone(await observe()));
      return result;
    } catch (error) {
      failure ??= error;
      throw error;
    }
  });
  let ended: JobInfo;
  try {
    const made = await ms.enqueue(definition, args);
    ended = await made.wait({ timeout: options.timeout ?? "30s" });
  } finally {
    await worker.stop({ timeout: "1s" });
    await space.reset();
  }
  if (failure !== undefined)
    throw new Error(`${job.kind} failed in run ${seen.length + 1}`, { cause: failure });
  if (ended.state !== "completed" || seen.length !== RUNS.length)
    throw new AssertionError(`${job.kind} is ${ended.state} after ${seen.length} runs`);
  for (const [i, run] of RUNS.entries()) {
    if (!isDeepStrictEqual(seen[i], seen[0]))
      throw new NotIdempotent(job.kind, run, seen[0], seen[i]);
  }
}
