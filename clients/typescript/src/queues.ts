// Queues: counters and limits.
import type { components } from "./api/schema.js";
import { type Core, need } from "./core.js";
import { type Camel, fromWire, toWire } from "./names.js";

type Schemas = components["schemas"];
export type QueueInfo = Camel<Schemas["Queue"]>;
export type QueueLimits = Camel<Schemas["QueueLimits"]>;
export type Retention = Camel<Schemas["Retention"]>;

export class Queues {
  readonly #core: Core;

  /** @internal */
  constructor(core: Core) {
    this.#core = core;
  }

  async list(): Promise<QueueInfo[]> {
    const queues = (await this.#core.call({ method: "GET", path: "/v1/queues" }))["queues"];
    return need(queues as unknown[], Array.isArray(queues), "list of queues").map((one) =>
      fromWire<QueueInfo>(one),
    );
  }

  async get(queue: string): Promise<QueueInfo> {
    return fromWire<QueueInfo>(await this.#core.call({ method: "GET", path: pathOf(queue) }));
  }

  async pause(queue: string): Promise<void> {
    await this.#core.call({ method: "POST", path: pathOf(queue, "/pause") });
  }

  async resume(queue: string): Promise<void> {
    await this.#core.call({ method: "POST", path: pathOf(queue, "/resume") });
  }

  /** Replaces all limits; an omitted one is no limit. */
  async setLimits(queue: string, limits: QueueLimits): Promise<void> {
    await this.#core.call({ method: "PUT", path: pathOf(queue, "/limits"), body: toWire(limits) });
  }

  async setRetention(queue: string, retention: Retention): Promise<void> {
    await this.#core.call({
      method: "PUT",
      path: pathOf(queue),
      body: { retention: toWire(retention) },
    });
  }
}

function pathOf(queue: string, rest = ""): string {
  return `/v1/queues/${encodeURIComponent(queue)}${rest}`;
}
