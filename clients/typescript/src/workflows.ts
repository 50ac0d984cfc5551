// Workflows: steps that are all done, or undone.
import type { components } from "./api/schema.js";
import { now } from "./clock.js";
import { type Core, need, needInteger, query, randomName } from "./core.js";
import { durationMs, type Id, idText } from "./durations.js";
import { WaitTimeout } from "./errors.js";
import { WAIT_OPTIONS, type WaitOptions } from "./job.js";
import { checkOptions } from "./options.js";
import { type Camel, fromWire, toWire } from "./names.js";

type Schemas = components["schemas"];
export type WorkflowDefinition = Camel<Schemas["WorkflowDefinition"]>;
export type WorkflowInfo = Camel<Schemas["Workflow"]>;
export type WorkflowStepInfo = Camel<Schemas["WorkflowStep"]>;
export type WorkflowState = Schemas["WorkflowState"];

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
  async start(definition: WorkflowDefinition): Promise<{ id: string; duplicate: boolean }> {
    const key = definition.key ?? `auto-${randomName()}`; // without it a repeat would start another one
    const body = toWire({ ...definition, key });
    return started(await this.#core.call({ method: "POST", path: "/v1/workflows", body }));
  }

  async get(id: Id): Promise<WorkflowInfo> {
    return read(await this.#core.call({ method: "GET", path: pathOf(id) }));
  }

  /** Waits until it has ended or is parked. */
  async ended(id: Id, options: WaitOptions = {}): Promise<WorkflowInfo> {
    checkOptions(options, WAIT_OPTIONS);
    const end =
      options.timeout === undefined ? Infinity : now() + durationMs(options.timeout, "timeout");
    const { signal } = options;
    const get = async (waitMs: number) => {
      const path = pathOf(id, `?wait=${waitMs}ms`);
      return read(await this.#core.call({ method: "GET", path, waitMs, signal }));
    };
    const info = await this.#core.ask(end, signal, get, ({ state }) => !OPEN.has(state));
    if (!OPEN.has(info.state)) return info;
    throw new WaitTimeout(`workflow ${idText(id)} is ${info.state} after the wait`);
  }

  async *list(
    filter: { name?: string; state?: WorkflowState } = {},
  ): AsyncGenerator<WorkflowInfo, void, undefined> {
    let before: string | undefined;
    do {
      const page = await this.#core.call({
        method: "GET",
        path: `/v1/workflows${query({ ...filter, before })}`,
      });
      const list = page["workflows"];
      for (const one of need(list as unknown[], Array.isArray(list), "list of workflows"))
        yield read(one);
      const next = page["next"];
      before = next === null || next === undefined ? undefined : String(next);
    } while (before !== undefined);
  }

  async steps(id: Id): Promise<WorkflowStepInfo[]> {
    const out: WorkflowStepInfo[] = [];
    let after: string | undefined;
    do {
      const page = await this.#core.call({
        method: "GET",
        path: pathOf(id, `/steps${query({ after })}`),
      });
      const steps = page["steps"];
      out.push(
        ...fromWire<WorkflowStepInfo[]>(
          need(steps as unknown[], Array.isArray(steps), "list of steps"),
        ),
      );
      const next = page["next"];
      after = next === null || next === undefined ? undefined : String(next);
    } while (after !== undefined);
    return out;
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
