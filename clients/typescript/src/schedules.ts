// Schedules: jobs that the clock makes.
import type { components } from "./api/schema.js";
import { type Core, need, needInteger, query } from "./core.js";
import { definitionOf, type JobDefinition, type JobOptions, wireJob } from "./define.js";
import { instantText } from "./durations.js";
import { type Camel, fromWire, toWire } from "./names.js";

type Schemas = components["schemas"];
export type ScheduleInfo = Camel<Schemas["Schedule"]>;
export type ScheduleOptions = Omit<Camel<Schemas["ScheduleRequest"]>, "job" | "name">;
export type Tick = Camel<Schemas["Preview"]>["ticks"][number];

export type ScheduleJob<In> = {
  job: JobDefinition<In, unknown, unknown>;
  options?: JobOptions;
} & ({} extends In ? { args?: In } : { args: In });

export class Schedules {
  readonly #core: Core;

  /** @internal */
  constructor(core: Core) {
    this.#core = core;
  }

  /** Defines a schedule. The same definition again changes nothing. */
  async put<In>(
    name: string,
    when: ScheduleOptions,
    job: ScheduleJob<In> | { job: string; args?: unknown; options?: JobOptions },
  ): Promise<ScheduleInfo & { outcome: "created" | "replaced" | "unchanged" }> {
    const definition = definitionOf(job.job as JobDefinition | string);
    const body = {
      ...(toWire(when) as object),
      job: wireJob(definition, job.args, job.options ?? {}),
    };
    return fromWire(await this.#core.call({ method: "PUT", path: pathOf(name), body }));
  }

  async get(name: string): Promise<ScheduleInfo> {
    return fromWire<ScheduleInfo>(await this.#core.call({ method: "GET", path: pathOf(name) }));
  }

  async *list(): AsyncGenerator<ScheduleInfo, void, undefined> {
    let after: string | undefined;
    do {
      const page = await this.#core.call({
        method: "GET",
        path: `/v1/schedules${query({ after })}`,
      });
      const schedules = page["schedules"];
      for (const one of need(
        schedules as unknown[],
        Array.isArray(schedules),
        "list of schedules",
      )) {
        yield fromWire<ScheduleInfo>(one);
      }
      after = typeof page["next"] === "string" ? page["next"] : undefined;
    } while (after !== undefined);
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

  /** Makes a job of it now. Never repeated: after a lost answer, look into the ledger. */
  async trigger(name: string): Promise<{ job: string }> {
    const call = {
      method: "POST",
      path: pathOf(name, "/trigger"),
      body: {},
      repeat: "once",
    } as const;
    return { job: String(needInteger((await this.#core.call(call))["job"], "job id")) };
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
}

function pathOf(name: string, rest = ""): string {
  return `/v1/schedules/${encodeURIComponent(name)}${rest}`;
}
