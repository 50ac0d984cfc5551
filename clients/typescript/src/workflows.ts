// Workflows: steps that are all done, or undone.
import type { components } from "./api/schema.js";
import { now } from "./clock.js";
import { type Core, need, needInteger, randomName } from "./core.js";
import {
  type ArgsAnd,
  definitionOf,
  type EnqueueOptions,
  type JobDefinition,
  type NewJob,
  optionsJson,
  wireJob,
} from "./define.js";
import { type Duration, durationMs, durationText, type Id, idText } from "./durations.js";
import { JobFailed, makeError, ResultTimeout } from "./errors.js";
import { WAIT_OPTIONS, type WaitOptions } from "./job.js";
import { checkOptions } from "./options.js";
import { type Camel, fromWire, toWire } from "./names.js";
import { pages } from "./pages.js";

type Schemas = components["schemas"];
/** A job of a step: a definition, a job of `newJob()`, or fields as in `POST /v1/jobs`. */
export type StepJob = AnyDefinition | NewJob | (Camel<Schemas["NewJob"]> & { options?: never });

type AnyDefinition = JobDefinition<unknown, unknown, unknown, unknown>;
type StepWire = Camel<Schemas["WorkflowStepDefinition"]>;

/** Options of a step beside what it does. */
export type StepOptions = Omit<StepWire, "name" | "job" | "undo" | "workflow" | "sleep" | "signal"> & {
  /** The job that reverses the effect. Without args it gets those of the step, and its result. */
  undo?: StepJob | null;
};

/** What a step does: exactly one of these. */
type Action =
  | { job: StepJob; workflow?: never; sleep?: never; signal?: never }
  | { workflow: Omit<WorkflowDefinition, "key">; job?: never; sleep?: never; signal?: never }
  | { sleep: Duration; job?: never; workflow?: never; signal?: never }
  | { signal: string; job?: never; workflow?: never; sleep?: never };

export type StepDefinition = StepOptions & { name: string } & Action;

/** `result`: what the workflow returns, with `ref`s. */
export type WorkflowDefinition<R = unknown> = Omit<
  Camel<Schemas["WorkflowDefinition"]>,
  "steps" | "result"
> & { steps: readonly StepDefinition[]; result?: R };
export interface StartedWorkflow<R> {
  readonly id: string;
  /** The name and the key found an existing workflow. */
  readonly duplicate: boolean;
  /**
   * Waits for the workflow's result. Throws JobFailed if it ends without one or is parked,
   * ResultTimeout after `timeout`.
   */
  result(options?: WaitOptions): Promise<R>;
}
export type WorkflowInfo = Camel<Schemas["Workflow"]>;
export type WorkflowStepInfo = Camel<Schemas["WorkflowStep"]>;
export type WorkflowState = Schemas["WorkflowState"];

/** A step that runs a job with a result of type `R`. */
export type JobStep<R> = StepOptions & { name: string; job: NewJob } & {
  /** Only there for the type of the result. */
  readonly _result?: R;
};

/** A step of a workflow: `step("charge", charge, { order: ref("input.order") })`. */
export function step<In, R>(
  name: string,
  job: JobDefinition<In, unknown, R, unknown>,
  ...[args, options]: ArgsAnd<In, StepOptions>
): JobStep<R> {
  return { name, job: { job: definitionOf(job as AnyDefinition), args }, ...options };
}

/**
 * The result of a step, or a field of it, in the args of a later one: `ref(charge, "id")`. A text
 * refers to anything: `ref("input.order")`.
 */
export function ref<R>(step: JobStep<R>): R;
export function ref<R, K extends keyof R & string>(step: JobStep<R>, field: K): R[K];
export function ref<R>(step: JobStep<readonly R[]>, index: number): R;
export function ref(reference: string): never;
export function ref(to: string | JobStep<unknown>, field?: string | number): unknown {
  const name = typeof to === "string" ? to : to.name;
  return { $ref: field === undefined ? name : `${name}.${field}` };
}

const ACTIONS = ["job", "workflow", "sleep", "signal"] as const;

function workflowWire(
  { steps, ...rest }: WorkflowDefinition,
  path: string,
): Record<string, unknown> {
  const wire = toWire(rest) as Record<string, unknown>;
  return { ...wire, steps: steps.map((one, i) => stepWire(one, `${path}steps[${i}]`)) };
}

function stepWire(definition: StepDefinition, path: string): Record<string, unknown> {
  const { job, undo, workflow, sleep, ...rest } = definition;
  const does = ACTIONS.filter((name) => (definition[name] ?? undefined) !== undefined);
  if (does.length !== 1) {
    const found = does.length === 0 ? "none" : does.join(" and ");
    const text = `${path}: must have exactly one of ${ACTIONS.join(", ")}: it has ${found}`;
    throw makeError("invalid_argument", text, { field: path });
  }
  return {
    ...(toWire(rest) as object),
    ...(job ? { job: jobWire(job, `${path}.job`) } : {}),
    ...(undo ? { undo: jobWire(undo, `${path}.undo`) } : {}),
    ...(workflow ? { workflow: workflowWire(workflow, `${path}.workflow.`) } : {}),
    ...(sleep === undefined ? {} : { sleep: durationText(sleep, `${path}.sleep`) }),
  };
}

// Schemas cannot check args that have references: the worker does, with their values.
function jobWire(job: StepJob, path: string): unknown {
  const given: { job?: unknown; definition?: unknown; args?: unknown; options?: unknown } = job;
  const ofNewJob = "job" in given;
  const named = ofNewJob ? given.job : "definition" in given ? given.definition : given;
  if (!ofNewJob && named === given && !("aliases" in given)) {
    if (typeof (given as { kind?: unknown }).kind === "string") return toWire(given);
    const rule = "must be a definition of defineJob(), a job of newJob() or { kind, queue, args }";
    const text = `${path}: ${rule}`;
    throw makeError("invalid_argument", text, { field: path });
  }
  const options = ofNewJob ? ((given.options ?? {}) as EnqueueOptions) : {};
  const args = ofNewJob ? given.args : undefined;
  const definition = definitionOf(named as JobDefinition);
  if (args !== undefined) return wireJob(definition, args, options, `${path}.args`);
  return optionsJson(definition, options);
}

const STATES = new Set([
  "running",
  "undoing",
  "parked",
  "completed",
  "failed",
  "undone",
  "cancelled",
]);
const OPEN = new Set(["running", "undoing"]);

export class Workflows {
  readonly #core: Core;

  /** @internal */
  constructor(core: Core) {
    this.#core = core;
  }

  /** Starts a workflow. With a `key`, starting it again answers the first one. */
  async start<R = unknown>(definition: WorkflowDefinition<R>): Promise<StartedWorkflow<R>> {
    const key = definition.key ?? `auto-${randomName()}`; // without it a repeat would start another one
    const body = workflowWire({ ...definition, key }, "");
    const made = started(await this.#core.call({ method: "POST", path: "/v1/workflows", body }));
    return { ...made, result: async (options) => (await this.result(made.id, options)) as R };
  }

  async get(id: Id): Promise<WorkflowInfo> {
    return read(await this.#core.call({ method: "GET", path: pathOf(id) }));
  }

  /** Waits until the workflow ends or is parked, or until `timeout`. Returns its record then. */
  async wait(id: Id, options: WaitOptions = {}): Promise<WorkflowInfo> {
    checkOptions(options, WAIT_OPTIONS);
    const end =
      options.timeout === undefined ? Infinity : now() + durationMs(options.timeout, "timeout");
    const { signal } = options;
    const get = async (waitMs: number) => {
      const path = pathOf(id, `?wait=${waitMs}ms`);
      return read(await this.#core.call({ method: "GET", path, waitMs, signal }));
    };
    return await this.#core.ask(end, signal, get, ({ state }) => !OPEN.has(state));
  }

  /** Waits for the result. Throws JobFailed without one, ResultTimeout after `timeout`. */
  async result(id: Id, options: WaitOptions = {}): Promise<unknown> {
    const { state, result, reason } = await this.wait(id, options);
    if (state === "completed") return result;
    if (OPEN.has(state))
      throw new ResultTimeout(`workflow ${idText(id)} has not ended in time: it is ${state}`);
    throw new JobFailed(idText(id), state, reason, undefined, "workflow");
  }

  async *list(
    filter: { name?: string; state?: WorkflowState } = {},
  ): AsyncGenerator<WorkflowInfo, void, undefined> {
    const cursor = ["before", "next"] as const;
    const found = pages(this.#core, "/v1/workflows", "workflows", cursor, filter);
    for await (const one of found) yield read(one);
  }

  async steps(id: Id): Promise<WorkflowStepInfo[]> {
    const out: WorkflowStepInfo[] = [];
    for await (const one of stepPages(this.#core, id)) out.push(fromWire<WorkflowStepInfo>(one));
    return out;
  }

  /**
   * The results of a step that args refer to with `by_reference`, in pages: of each element of a
   * list in order, or of the step itself. A list that is no reference gives its elements.
   */
  async *results<R>(of: StepResults | readonly R[]): AsyncGenerator<R, void, undefined> {
    yield* resultsOf<R>(this.#core, of);
  }

  /** The same `id` of a signal again changes nothing. */
  async signal(id: Id, name: string, payload?: unknown, signalId?: string): Promise<void> {
    const body = { name, id: signalId ?? `auto-${randomName()}`, payload };
    await this.#core.call({ method: "POST", path: pathOf(id, "/signal"), body });
  }

  async cancel(id: Id, reason?: string): Promise<WorkflowInfo> {
    return await this.post(id, "/cancel", { reason });
  }
  async pause(id: Id): Promise<WorkflowInfo> {
    return await this.post(id, "/pause", {});
  }
  async resume(id: Id): Promise<WorkflowInfo> {
    return await this.post(id, "/resume", {});
  }
  async retry(
    id: Id,
    options: { step?: string; byHand?: boolean; result?: unknown } = {},
  ): Promise<WorkflowInfo> {
    return await this.post(id, "/retry", toWire(options));
  }
  async fork(
    id: Id,
    step: string,
    options: { input?: unknown; key?: string } = {},
  ): Promise<{ id: string; duplicate: boolean }> {
    const body = { step, ...options, key: options.key ?? `auto-${randomName()}` };
    return started(await this.#core.call({ method: "POST", path: pathOf(id, "/fork"), body }));
  }

  private async post(id: Id, rest: string, body: unknown): Promise<WorkflowInfo> {
    return read(await this.#core.call({ method: "POST", path: pathOf(id, rest), body }));
  }
}

/** What `{ $ref: "pack", by_reference: true }` in the args of a step becomes. */
export interface StepResults {
  readonly $result: { readonly workflow: string | number | bigint; readonly step: string };
}

/** @internal */
export async function* resultsOf<R>(
  core: Core,
  of: StepResults | readonly R[],
): AsyncGenerator<R, void, undefined> {
  if (Array.isArray(of)) return yield* of as readonly R[];
  const { workflow, step } = (of as Partial<StepResults> | null)?.$result ?? {};
  if (workflow === undefined || typeof step !== "string") {
    const text = "results: must be a list, or a reference to the results of a step";
    throw makeError("invalid_argument", text, { field: "results" });
  }
  let [own, elements]: [Record<string, unknown> | undefined, number] = [undefined, 0];
  for await (const one of stepPages(core, workflow)) {
    if (own === undefined && one["of"] === undefined && one["name"] === step) own = one;
    if (own === undefined || one["of"] !== own["number"]) continue;
    elements += 1;
    yield (one["result"] ?? null) as R;
  }
  if (own === undefined)
    throw makeError("not_found", `workflow ${String(workflow)} has no step ${step}`);
  const single = ["result", "job", "workflow"].some((name) => own[name] !== undefined);
  if (elements === 0 && single) yield (own["result"] ?? null) as R;
}

function stepPages(core: Core, id: Id) {
  return pages(core, pathOf(id, "/steps"), "steps", ["after", "next"]);
}

function pathOf(id: Id, rest = ""): string {
  return `/v1/workflows/${idText(id)}${rest}`;
}

function read(wire: unknown): WorkflowInfo {
  const info = fromWire<WorkflowInfo>(wire);
  return need(info, typeof info === "object" && STATES.has(info.state), "state of a workflow");
}

function started(answer: Record<string, unknown>): { id: string; duplicate: boolean } {
  return {
    id: String(needInteger(answer["id"], "workflow id")),
    duplicate: answer["duplicate"] === true,
  };
}
