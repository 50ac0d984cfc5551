// Schedules: jobs that the clock makes.
import { createHash } from "node:crypto";

import type { components } from "./api/schema.js";
import { toJson } from "./codec.js";
import { type Core, needInteger, query } from "./core.js";
import {
  definitionOf,
  type JobDefinition,
  type JobOptions,
  type NewJob,
  optionsJson,
} from "./define.js";
import { instantText } from "./durations.js";
import { makeError, NotFound } from "./errors.js";
import { formatJson } from "./json.js";
import { type Camel, fromWire, toWire } from "./names.js";
import { checkOptions } from "./options.js";
import { pages } from "./pages.js";

type Schemas = components["schemas"];
export type ScheduleInfo = Camel<Schemas["Schedule"]>;
export type ScheduleOptions = Omit<Camel<Schemas["ScheduleRequest"]>, "job" | "name">;
export type LedgerRow = Camel<Schemas["LedgerRow"]>;
export type Tick = Camel<Schemas["Preview"]>["ticks"][number];

export type ScheduleJob<In> = {
  job: JobDefinition<In, unknown, unknown>;
  options?: JobOptions;
} & ({} extends In ? { args?: In } : { args: In });

/** A schedule for `sync`: its job, and when it fires. */
export type PlannedSchedule = ScheduleOptions & { job: NewJob };
export type SyncOutcome = "created" | "replaced" | "unchanged" | "removed";
type Defined = ScheduleInfo & { outcome: Exclude<SyncOutcome, "removed"> };
type Headers = Readonly<Record<string, string>>;

const OWNER = "schedule-owner";
const DIGEST = "schedule-digest";

/** A job of a schedule, after its schema. */
async function made({ job, args, options }: NewJob, where: string) {
  const definition = definitionOf(job);
  const sent = await toJson(definition.args, args ?? {}, `${where} of ${definition.kind}`);
  return { ...optionsJson(definition, options ?? {}), args: sent };
}

async function planned(owner: string, name: string, { job, ...when }: PlannedSchedule) {
  if (job === undefined) throw makeError("invalid_argument", "job: is missing", { field: "job" });
  if (typeof owner !== "string" || owner === "")
    throw makeError("invalid_argument", "owner: must be a text", { field: "owner" });
  const own: Record<string, unknown> = await made(job, "job.args");
  const headers: Record<string, string> = { ...(own["headers"] as Headers), [OWNER]: owner };
  const body = { ...(toWire(when) as object), job: { ...own, headers } };
  const digest = createHash("sha256").update(formatJson(body, name)).digest("hex");
  headers[DIGEST] = digest.slice(0, 16);
  return { name, body, digest: headers[DIGEST] };
}

/** An error says which schedule of many it is about. */
async function naming<T>(schedule: string, work: Promise<T>): Promise<T> {
  return await work.catch((error: unknown) => {
    if (!(error instanceof Error)) throw error;
    const { message } = error;
    error.message = `schedule ${schedule}: ${message}`;
    if (error.stack !== undefined) error.stack = error.stack.replace(message, error.message);
    throw error;
  });
}

export class Schedules {
  readonly #core: Core;

  /** @internal */
  constructor(core: Core) {
    this.#core = core;
  }

  /** Defines a schedule. The same definition again changes nothing. */
  async put<In>(
    name: string,
    job: ScheduleJob<In> | { job: string; args?: unknown; options?: JobOptions },
    when: ScheduleOptions,
  ): Promise<Defined> {
    const body = { ...(toWire(when) as object), job: await made(job as NewJob, "args") };
    return await this.define(name, body);
  }

  /**
   * Makes `schedules` the only ones of `owner`: defines them, and removes those that earlier calls
   * for `owner` defined and that are no longer in it. Returns what happens to each; with `dryRun`
   * nothing is changed. A schedule of another owner is refused with Conflict, before anything is
   * changed; one without an owner becomes the owner's. The jobs have the headers `schedule-owner`
   * and `schedule-digest`. An error in between leaves a part of the changes: call again.
   */
  async sync(
    owner: string,
    schedules: Readonly<Record<string, PlannedSchedule>>,
    options: { dryRun?: boolean } = {},
  ): Promise<Record<string, SyncOutcome>> {
    checkOptions(options, { dryRun: 1 });
    const all = Object.entries(schedules);
    const bodies = await Promise.all(all.map(([name, one]) => naming(name, planned(owner, name, one))));
    const there = new Map<string, Headers>();
    for await (const { name, job } of this.list()) there.set(name, job?.headers ?? {});
    for (const { name } of bodies) {
      const other = there.get(name)?.[OWNER] ?? owner;
      if (other === owner) continue;
      const text = `schedule ${name}: belongs to ${other}, not to ${owner}`;
      throw makeError("conflict", text, { field: name });
    }
    const outcomes: Record<string, SyncOutcome> = {};
    for (const { name, body, digest } of bodies) {
      const before = there.get(name);
      if (!options.dryRun) outcomes[name] = (await naming(name, this.define(name, body))).outcome;
      else if (before === undefined) outcomes[name] = "created";
      else outcomes[name] = before[DIGEST] === digest ? "unchanged" : "replaced";
    }
    for (const [name, headers] of there) {
      if (headers[OWNER] !== owner || Object.hasOwn(schedules, name)) continue;
      outcomes[name] = "removed";
      if (options.dryRun) continue;
      await this.remove(name).catch((error: unknown) => {
        // Another process of the owner does the same.
        if (!(error instanceof NotFound)) throw error;
      });
    }
    return outcomes;
  }

  private async define(name: string, body: unknown): Promise<Defined> {
    return fromWire(await this.#core.call({ method: "PUT", path: pathOf(name), body }));
  }

  async get(name: string): Promise<ScheduleInfo> {
    return fromWire<ScheduleInfo>(await this.#core.call({ method: "GET", path: pathOf(name) }));
  }

  async *list(): AsyncGenerator<ScheduleInfo, void, undefined> {
    const found = pages(this.#core, "/v1/schedules", "schedules", ["after", "next"]);
    for await (const one of found) yield fromWire<ScheduleInfo>(one);
  }

  async remove(name: string): Promise<void> {
    await this.#core.call({ method: "DELETE", path: pathOf(name) });
  }

  async pause(name: string, reason?: string): Promise<void> {
    await this.#core.call({ method: "POST", path: pathOf(name, "/pause"), body: { reason } });
  }

  async resume(name: string): Promise<void> {
    await this.#core.call({ method: "POST", path: pathOf(name, "/resume") });
  }

  /** Runs the job now and returns its id. Not repeated: after a lost answer, check the ledger. */
  async trigger(name: string): Promise<string> {
    const call = {
      method: "POST",
      path: pathOf(name, "/trigger"),
      body: {},
      repeat: "once",
    } as const;
    return String(needInteger((await this.#core.call(call))["job"], "job id"));
  }

  /** The next times. */
  async preview(
    name: string,
    options: { from?: Date | string; count?: number } = {},
  ): Promise<Tick[]> {
    const from = options.from === undefined ? undefined : instantText(options.from, "from");
    const path = pathOf(name, `/preview${query({ from, count: options.count })}`);
    return fromWire<Tick[]>((await this.#core.call({ method: "GET", path }))["ticks"]);
  }

  /** The outcomes of the newest ticks. */
  async ledger(name: string, limit = 50): Promise<LedgerRow[]> {
    const path = pathOf(name, `/ledger${query({ limit })}`);
    return fromWire<LedgerRow[]>((await this.#core.call({ method: "GET", path }))["ticks"]);
  }
}

function pathOf(name: string, rest = ""): string {
  return `/v1/schedules/${encodeURIComponent(name)}${rest}`;
}
