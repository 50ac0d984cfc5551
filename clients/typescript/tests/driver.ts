// The TypeScript driver of the conformance cases: operations in, answers out. See
// clients/conformance/README.md.
import { createInterface } from "node:readline";

import {
  cancel,
  complete,
  dead,
  defer,
  type EnqueueCall,
  formatJson,
  type HeldLock,
  type HeldSession,
  type JobContext,
  JobFailed,
  Mainspring,
  MainspringError,
  type NewJob,
  parseJson,
  retry,
  snooze,
  ResultTimeout,
  type Worker,
} from "@mainspring-jobs/client";
import { readFileSync } from "node:fs";

type Fields = Record<string, unknown>;
const SAFE = BigInt(Number.MAX_SAFE_INTEGER);
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Integers that not every language can read, marked. */
function encode(value: unknown): unknown {
  if (typeof value === "bigint")
    return value > SAFE || value < -SAFE ? { $int: String(value) } : Number(value);
  if (Array.isArray(value)) return value.map(encode);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, encode(one)]));
}

function decode(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(decode);
  if (typeof value !== "object" || value === null) return value;
  const fields = value as Fields;
  if (typeof fields["$int"] === "string") return BigInt(fields["$int"]);
  if (typeof fields["$text"] === "string") return fields["$text"].repeat(Number(fields["times"]));
  return Object.fromEntries(Object.entries(fields).map(([name, one]) => [name, decode(one)]));
}

const camel = (name: string) =>
  name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const OPAQUE = new Set([
  "args",
  "result",
  "checkpoint",
  "headers",
  "weights",
  "costs",
  "input",
  "payload",
  "state",
  "data",
]);

function renamed(value: unknown, rename: (name: string) => string): unknown {
  if (Array.isArray(value)) return value.map((one) => renamed(one, rename));
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      rename(name),
      OPAQUE.has(name) ? one : renamed(one, rename),
    ]),
  );
}
const toCamel = <T>(value: unknown) => renamed(value, camel) as T;
const toSnake = (value: unknown) => renamed(value, snake) as Fields;

function newJob(fields: Fields): NewJob & { options: EnqueueCall } {
  const { kind, args, unique, fence, ...rest } = fields;
  const options = toCamel<Record<string, unknown>>(rest);
  if (unique !== undefined) {
    const { key, for: keyFor, on_conflict: onConflict } = unique as Fields;
    Object.assign(options, { key, keyFor, onConflict });
  }
  if (fence !== undefined) {
    const { lease, token } = fence as { lease: string; token: string };
    options["fence"] = { name: lease, token: BigInt(token) };
  }
  return { job: String(kind), args, options: options as EnqueueCall };
}

interface Run {
  id: string;
  kind: string;
  attempt: number;
  notes: Fields[];
  ended: string;
  stop_reason: string;
}

const REASONS: Record<string, string> = {
  Cancelled: "cancelled",
  LeaseLost: "lease_lost",
  TimedOut: "timeout",
  ShuttingDown: "shutdown",
};
const reasonOf = (signal: AbortSignal) =>
  signal.aborted ? (REASONS[(signal.reason as Error).name] ?? "") : "";

/** Runs the actions of a case. */
class Actions {
  private flushed: Promise<void>[] = [];
  constructor(
    private readonly driver: Driver,
    private readonly runs: Run[],
    private readonly actions: Fields[],
  ) {}

  async run(context: JobContext): Promise<unknown> {
    const { id, kind, attempt } = context.job;
    const run: Run = { id, kind, attempt, notes: [], ended: "", stop_reason: "" };
    this.runs.push(run);
    const { signal } = context;
    try {
      for (const action of this.actions) {
        if (action["attempt"] !== undefined && action["attempt"] !== attempt) continue;
        const [name, value] = Object.entries(action).find(
          ([one]) => one !== "attempt" && one !== "repeat",
        ) ?? ["", undefined];
        for (let times = Number(action["repeat"] ?? 1); times > 0; times -= 1) {
          const ended = await this.act(context, run, name, value);
          if (ended === undefined) continue;
          run.ended = "returned";
          return ended.value;
        }
      }
      run.ended = "returned";
      return null;
    } catch (error) {
      run.ended = "raised";
      throw error;
    } finally {
      run.stop_reason = reasonOf(signal);
    }
  }

  private async act(
    context: JobContext,
    run: Run,
    name: string,
    value: unknown,
  ): Promise<{ value: unknown } | undefined> {
    const fields = value as Fields;
    switch (name) {
      case "return":
        return { value };
      case "complete": {
        const next = ((fields["next"] ?? []) as Fields[]).map(newJob);
        return { value: complete(fields["result"], { next }) };
      }
      case "retry":
        return { value: retry(fields as { error?: string; after?: string }) };
      case "snooze":
        return { value: snooze(String(fields["after"])) };
      case "defer":
        return { value: defer(fields["reason"] as string | undefined) };
      case "cancel":
        return { value: cancel(fields["reason"] as string | undefined) };
      case "dead":
        return {
          value: dead(fields["reason"] as string, fields["description"] as string | undefined),
        };
      case "return_odd":
        return { value: ODD[String(value)]?.() };
      case "throw_chain":
        throw chain(value as string[]);
      case "leave":
        this.driver.left.push(context);
        return undefined;
      case "late":
        await this.driver.left
          .pop()
          ?.progress(Number(value))
          .catch((error: Error) => run.notes.push({ late: error.name }));
        return undefined;
      case "results": {
        const of = (context.args as Record<string, never>)[String(value)] as never;
        const results: unknown[] = [];
        for await (const one of context.results(of)) results.push(one);
        run.notes.push({ results });
        return undefined;
      }
      case "return_bad":
        return { value: new Map() };
      case "throw":
        throw new Error(String(value));
      case "gate":
        while (!this.driver.gates.has(String(value))) {
          context.signal.throwIfAborted();
          await sleep(5);
        }
        return undefined;
      case "hang":
        while (!this.driver.gates.has(String(value))) await sleep(5);
        return undefined;
      case "wait_stop": {
        const end = performance.now() + parseFloat(String(value)) * 1000;
        while (!context.signal.aborted && performance.now() < end) await sleep(5);
        run.notes.push({ stop: reasonOf(context.signal) });
        return undefined;
      }
      case "block_ms": {
        const end = performance.now() + Number(value);
        while (performance.now() < end);
        return undefined;
      }
      case "check":
        context.signal.throwIfAborted();
        return undefined;
      case "progress": {
        const [how, text] = value as [number, string | undefined];
        await context.progress(how, text);
        return undefined;
      }
      case "checkpoint":
        this.flushed.push(context.checkpoint(value));
        return undefined;
      case "message":
        this.flushed.push(context.message(value));
        return undefined;
      case "flush":
        await Promise.all(this.flushed.splice(0));
        return undefined;
      case "session_state":
        context.setSessionState(value);
        return undefined;
      case "step": {
        const [step, result] = value as [string, unknown];
        let ran = false;
        const got = await context.step(step, () => {
          ran = true;
          return result;
        });
        run.notes.push({ step, result: got, ran });
        return undefined;
      }
      case "step_fails": {
        const [step, text] = value as [string, string];
        await context.step(step, () => {
          throw new Error(text);
        });
        return undefined;
      }
      case "note":
        run.notes.push({ [String(value)]: noted(context, String(value)) });
        return undefined;
      case "enqueue": {
        const { job, args, options } = newJob(fields);
        await this.driver.ms.enqueue(String(job), args, options);
        return undefined;
      }
      default:
        throw new Error(`no such action: ${name}`);
    }
  }
}

// What JSON does not have, as handlers return it.
const ODD: Record<string, () => unknown> = {
  generator: () => [1].values(),
  buffer: () => ({ b: [Buffer.from("x")] }),
  date: () => ({ at: new Date() }),
  infinity: () => ({ n: [Infinity] }),
  surrogate: () => ({ t: "\ud83d" }),
};

function chain([first, ...causes]: string[]): Error {
  return new Error(first, causes.length === 0 ? undefined : { cause: chain(causes) });
}

function noted(context: JobContext, name: string): unknown {
  switch (name) {
    case "args":
      return context.args;
    case "token":
      return String(context.token);
    case "checkpoint":
      return context.lastCheckpoint ?? null;
    case "session_state":
      return context.sessionState ?? null;
    case "idempotency_key":
      return context.idempotencyKey;
    default:
      return (context.job as unknown as Fields)[camel(name)];
  }
}

/** The jobs of a held session, one after the other, for `next` and `finish`. */
class SessionJobs {
  private readonly waiting: { context: JobContext; end: (value: unknown) => void }[] = [];
  private current: { context: JobContext; end: (value: unknown) => void } | undefined;
  private worker: Worker | undefined;

  constructor(readonly held: HeldSession) {}

  async next(wait: string, kinds: readonly string[]): Promise<unknown> {
    this.worker ??= kinds.reduce(
      (worker, kind) =>
        worker.on(
          { kind, aliases: [], options: {}, args: any, result: any },
          (context) => new Promise((end) => this.waiting.push({ context, end })),
        ),
      this.held.worker(),
    );
    const end = performance.now() + parseFloat(wait) * 1000 + 500;
    while (this.waiting.length === 0 && performance.now() < end) await sleep(5);
    this.current = this.waiting.shift();
    const { context } = this.current ?? {};
    return context === undefined
      ? null
      : toSnake({ ...context.job, args: context.args, sessionState: context.sessionState });
  }

  async finish(fields: Fields): Promise<void> {
    const { current } = this;
    if ("session_state" in fields) current?.context.setSessionState(fields["session_state"]);
    const before = this.worker?.stats.completed ?? 0;
    current?.end(fields["result"] ?? null);
    while (this.worker?.stats.completed === before) await sleep(2);
  }

  async release(): Promise<void> {
    await this.worker?.stop({ timeout: 0, giveBack: true });
    await this.held.release();
  }
}

const any = {
  "~standard": { version: 1 as const, vendor: "driver", validate: (value: unknown) => ({ value }) },
};

class Driver {
  ms = new Mainspring({ log: silent() });
  gates = new Set<string>();
  left: JobContext[] = [];
  private workers = new Map<string, Worker>();
  private runs = new Map<string, Run[]>();
  private locks = new Map<string, HeldLock>();
  private streams = new Map<string, { events: unknown[]; abort: AbortController }>();
  private session: SessionJobs | undefined;
  private readonly tickets = new Map<number, Promise<string>>();

  private async open(url: string, options: Fields): Promise<unknown> {
    await Promise.all(
      [...this.workers.values()].map((worker) => worker.stop({ timeout: "200ms" })),
    );
    for (const { abort } of this.streams.values()) abort.abort();
    this.ms.close();
    this.workers = new Map();
    this.runs = new Map();
    this.locks = new Map();
    this.streams = new Map();
    this.session = undefined;
    this.gates = new Set();
    const ca = (options["ca_file"] as string | undefined) || undefined;
    this.ms = new Mainspring(url, {
      log: silent(),
      token: options["token"] as string | undefined,
      tls: ca === undefined ? undefined : { ca: readFileSync(ca) },
      requestTimeout: Number(options["timeout_ms"] ?? 30_000),
      retryFor: Number(options["retry_for_ms"] ?? 15_000),
    });
    return {};
  }

  private work(fields: Fields): unknown {
    const name = String(fields["worker"]);
    const runs: Run[] = [];
    this.runs.set(name, runs);
    const { handlers, worker: _, ...options } = fields;
    const worker = this.ms.worker(toCamel(options));
    const queue = (fields["queues"] as string[])[0];
    for (const [kind, what] of Object.entries(handlers as Record<string, Fields>)) {
      const actions = (what["do"] ?? []) as Fields[];
      const concurrency = what["concurrency"] as number | undefined;
      const definition = { kind, aliases: [], options: { queue }, args: any, result: any };
      worker.on(
        definition,
        (context) => new Actions(this, runs, actions).run(context),
        concurrency ? { concurrency } : {},
      );
    }
    this.workers.set(name, worker);
    return {};
  }

  private follow(name: string, filter: Fields): unknown {
    const abort = new AbortController();
    const events: unknown[] = [];
    this.streams.set(name, { events, abort });
    void (async () => {
      for await (const event of this.ms.events({
        ...toCamel<Fields>(filter),
        signal: abort.signal,
      }))
        events.push(toSnake(event));
    })().catch(() => undefined);
    return {};
  }

  private async run(op: string, f: Fields): Promise<unknown> {
    const { ms } = this;
    const text = (name: string) => f[name] as string;
    switch (op) {
      case "hello":
        return { language: "typescript", has: ["wide_args", "handlers", "classes", "sync"] };
      case "open":
        return await this.open(text("url"), (f["options"] ?? {}) as Fields);
      case "enqueue": {
        const { job, args, options } = newJob(f["job"] as Fields);
        const { id, state, duplicate } = await ms.enqueue(String(job), args, options);
        return { id, state, duplicate };
      }
      case "enqueue_many": {
        const jobs =
          (f["jobs"] as Fields[] | undefined) ??
          Array.from({ length: Number(f["times"]) }, () => f["job"] as Fields);
        const made = await ms.enqueueMany(jobs.map(newJob));
        return {
          count: made.length,
          jobs: made.slice(0, 100).map(({ id, state, duplicate }) => ({ id, state, duplicate })),
        };
      }
      case "get":
        return toSnake(await ms.find(text("id")).get());
      case "result":
        return { result: await ms.find(text("id")).result({ timeout: text("timeout") }) };
      case "cancel":
        return { state: await ms.find(text("id")).cancel(f["reason"] as string | undefined) };
      case "retry":
        return { state: await ms.find(text("id")).retry() };
      case "why":
        return toSnake(await ms.why(text("id")));
      case "work":
        return this.work(f);
      case "stop":
        return { clean: (await this.workers.get(text("worker"))?.stop())?.abandoned === 0 };
      case "runs":
        return { runs: this.runs.get(text("worker")) };
      case "open_gate":
        this.gates.add(text("gate"));
        return {};
      case "lock": {
        const lock = await ms.lock(text("name"), {
          ttl: f["ttl"] as string,
          wait: f["wait"] as string,
        });
        this.locks.set(text("name"), lock);
        return { token: String(lock.token) };
      }
      case "unlock":
        await this.locks.get(text("name"))?.release();
        return {};
      case "lock_state":
        return { lost: this.locks.get(text("name"))?.signal.aborted };
      case "hold": {
        const { queue, key, wait, lease } = f as Record<string, string>;
        const held = await ms.sessions.accept(String(queue), { key, wait, lease });
        if (held === undefined) return { key: null };
        this.session = new SessionJobs(held);
        return { key: held.key, token: String(held.token), state: held.state ?? null };
      }
      case "next":
        return { job: await this.session?.next(text("wait") ?? "0s", ["k", "a", "b", "c"]) };
      case "finish":
        await this.session?.finish(f);
        return {};
      case "release":
        await this.session?.release();
        return {};
      case "schedule_set": {
        const { job, ...when } = f["schedule"] as Fields;
        return toSnake(
          await ms.schedules.put(
            text("name"),
            newJob(job as Fields) as { job: string },
            toCamel(when),
          ),
        );
      }
      case "schedule_sync": {
        const planned = Object.entries(f["schedules"] as Record<string, Fields>).map(
          ([name, { job, ...when }]) => [name, { ...toCamel<object>(when), job: newJob(job as Fields) }],
        );
        const dryRun = f["dry_run"] === true;
        return await ms.schedules.sync(text("owner"), Object.fromEntries(planned), { dryRun });
      }
      case "schedule_get":
        return toSnake(await ms.schedules.get(text("name")));
      case "schedule_remove":
        await ms.schedules.remove(text("name"));
        return {};
      case "schedule_trigger":
        return { job: await ms.schedules.trigger(text("name")) };
      case "limit":
        await ms.queues.setLimits(text("queue"), toCamel(f["limits"]));
        return {};
      case "pause":
        await ms.queues.pause(text("queue"));
        return {};
      case "resume":
        await ms.queues.resume(text("queue"));
        return {};
      case "workflow_start":
        return await ms.workflows
          .start(toCamel(f["workflow"]))
          .then(({ id, duplicate }) => ({ id, duplicate }));
      case "workflow_wait":
        return toSnake(await ms.workflows.wait(text("id"), { timeout: text("timeout") }));
      case "workflow_signal":
        await ms.workflows.signal(
          text("id"),
          text("name"),
          f["payload"],
          f["signal_id"] as string | undefined,
        );
        return {};
      case "workflow_cancel":
        return toSnake(await ms.workflows.cancel(text("id")));
      case "follow":
        return this.follow(text("name"), f["filter"] as Fields);
      case "followed":
        return { events: this.streams.get(text("name"))?.events };
      default:
        throw new Error(`no such operation: ${op}`);
    }
  }

  private async answer(op: string, fields: Fields): Promise<string> {
    try {
      return formatJson({ ok: encode(await this.run(op, decode(fields) as Fields)) ?? {} });
    } catch (error) {
      return formatJson({ error: describe(error) });
    }
  }

  async handle(line: string): Promise<string> {
    const { op, ticket, ...fields } = parseJson(line) as { op: string; ticket?: number } & Fields;
    if (op === "join")
      return (
        (await this.tickets.get(ticket ?? 0)) ?? '{"error":{"code":"driver","message":"no ticket"}}'
      );
    const answer = this.answer(op, fields);
    if (ticket === undefined) return await answer;
    this.tickets.set(ticket, answer);
    return '{"ok":{}}';
  }
}

function describe(error: unknown): Fields {
  if (error instanceof JobFailed) {
    const { name } = error;
    return { code: "job_failed", class: name, message: error.message, state: error.state, reason: error.reason };
  }
  if (error instanceof ResultTimeout) {
    return { code: "result_timeout", class: error.name, message: error.message };
  }
  if (!(error instanceof MainspringError)) return { code: "driver", message: String(error) };
  const { code, message, field, retryAfterMs, maybeDone } = error;
  return { code, class: error.name, message, field, retry_after_ms: retryAfterMs, maybe_done: maybeDone || undefined };
}

function silent() {
  const nothing = () => undefined;
  return { debug: nothing, info: nothing, warn: nothing, error: nothing };
}

const driver = new Driver();
let last: Promise<void> = Promise.resolve();
createInterface({ input: process.stdin }).on("line", (line) => {
  last = last.then(async () => void process.stdout.write(`${await driver.handle(line)}\n`));
});
