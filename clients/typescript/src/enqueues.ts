// Enqueues: jobs that are enqueued at the same time go in one request.
//
//   enqueue() ──▶ waiting ──▶ POST /v1/jobs with all that waits, up to MAX_REQUESTS under way
//                                │ refused: the server has made none of its jobs
//                                └──▶ each of its jobs alone: its caller gets its own error
//
// One enqueue at a time is sent at once. A request that fails leaves its place to others before it
// is repeated.
import { type Call, type Core, need, randomName } from "./core.js";
import type { MainspringError } from "./errors.js";

const MAX_REQUESTS = 4;
const MAX_JOBS = 1000;
const MAX_BYTES = 512 << 10;

interface Waiting {
  json: string;
  resolve(answer: unknown): void;
  reject(error: unknown): void;
}

export class Enqueues {
  readonly #core: Core;
  private readonly waiting: Waiting[] = [];
  private requests = 0;

  constructor(core: Core) {
    this.#core = core;
  }

  /** Resolves to the answer about this job. */
  add(json: string): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ json, resolve, reject });
      // What is enqueued in this turn of the event loop goes together.
      if (this.waiting.length === 1) queueMicrotask(() => this.flush());
    });
  }

  private flush(): void {
    while (this.waiting.length > 0 && this.requests < MAX_REQUESTS) {
      let count = 0;
      for (let bytes = 0; count < Math.min(this.waiting.length, MAX_JOBS); count += 1) {
        bytes += this.waiting[count]?.json.length ?? 0;
        if (count > 0 && bytes > MAX_BYTES) break;
      }
      void this.send(this.waiting.splice(0, count));
    }
  }

  private async send(batch: Waiting[]): Promise<void> {
    const key = `auto-${randomName()}`;
    const call: Call = { method: "POST", path: "/v1/jobs", idempotencyKey: key };
    const [first] = batch;
    const alone = batch.length === 1;
    const jobs = batch.map(({ json }) => json).join(",");
    const body = alone && first !== undefined ? first.json : `{"jobs":[${jobs}]}`;
    let answer: Record<string, unknown>;
    try {
      answer = await this.first(call, body);
    } catch (thrown) {
      const error = thrown as MainspringError;
      if (!alone && error.status !== undefined && error.again !== "unknown") {
        for (const one of batch) void this.send([one]);
        return;
      }
      try {
        answer = await this.#core.callText(call, body, error);
      } catch (last) {
        for (const one of batch) one.reject(last);
        return;
      }
    }
    const made = alone ? [answer] : answer["jobs"];
    for (const [i, one] of batch.entries()) {
      try {
        const what = `list of jobs: answers to ${batch.length} jobs`;
        const good = Array.isArray(made) && made.length === batch.length;
        one.resolve(need(made as unknown[], good, what)[i]);
      } catch (error) {
        one.reject(error);
      }
    }
  }

  private async first(call: Call, body: string): Promise<Record<string, unknown>> {
    this.requests += 1;
    try {
      return await this.#core.callText({ ...call, repeat: "no" }, body);
    } finally {
      this.requests -= 1;
      this.flush();
    }
  }
}
