// Sessions: a worker may hold one, and gets all of its jobs in their order.
import type { components } from "./api/schema.js";
import { now } from "./clock.js";
import { type Core, need, needInteger, randomName } from "./core.js";
import { asyncDispose } from "./dispose.js";
import { type Duration, durationMs, durationText } from "./durations.js";
import { isRecord, LockLost, makeError } from "./errors.js";
import { type Camel, fromWire } from "./names.js";
import { checkOptions, type Names } from "./options.js";
import { Worker } from "./worker.js";
import type { WorkerOptions } from "./worker_options.js";

export type SessionInfo = Camel<components["schemas"]["Session"]>;

export interface AcceptOptions {
  /** This session. Default: the next free one that has a job. */
  key?: string | undefined;
  /** How long to wait for one, up to 60s. Default: not at all. */
  wait?: Duration | undefined;
  /** Default: 30s. */
  lease?: Duration | undefined;
  signal?: AbortSignal | undefined;
}

const OPTIONS: Names<AcceptOptions> = { key: 1, wait: 1, lease: 1, signal: 1 };

/** A session that is held. `await using` releases it. */
export class HeldSession {
  readonly #core: Core;
  private readonly lostSignal = new AbortController();
  private renewal: number | undefined;

  /** @internal */
  constructor(
    core: Core,
    private readonly holder: string,
    readonly queue: string,
    readonly key: string,
    readonly token: bigint,
    /** As the last job or holder left it; undefined: none. */
    readonly state: unknown,
    grantedMs: number,
    sentAt: number,
    private readonly first: readonly unknown[],
  ) {
    this.#core = core;
    const hold = {
      path: this.path("/renew"),
      body: { token },
      expires: "lease_expires_in_ms",
      grantedMs,
      sentAt,
    };
    this.renewal = core.renewals.addHold(hold, (message) => {
      this.renewal = undefined;
      this.lostSignal.abort(makeError("lease_lost", `session ${key}: ${message}`));
    });
  }

  get signal(): AbortSignal {
    return this.lostSignal.signal;
  }

  /**
   * A worker for the jobs of this session alone, one at a time. It takes the job that came with the
   * session.
   */
  worker(options: Omit<WorkerOptions, "slots" | "queues"> = {}): Worker {
    const { queue, key, token } = this;
    const session = { queue, key, token };
    return new Worker(
      this.#core,
      { ...options, slots: 1 },
      { id: this.holder, session, first: this.first },
    );
  }

  async setState(state: unknown): Promise<void> {
    await this.#core.call({
      method: "PUT",
      path: this.path("/state"),
      body: { token: this.token, state },
    });
  }

  async release(): Promise<void> {
    if (this.signal.aborted) throw this.signal.reason;
    if (this.renewal === undefined) return;
    this.#core.renewals.forget(this.renewal);
    this.renewal = undefined;
    const call = {
      method: "POST",
      path: this.path("/release"),
      body: { token: this.token },
    } as const;
    await this.#core.call(call);
  }

  async [asyncDispose](): Promise<void> {
    await this.release().catch((error: unknown) => {
      if (!(error instanceof LockLost)) throw error;
    });
  }

  private path(rest: string): string {
    return pathOf(this.queue, this.key, rest);
  }
}

export class Sessions {
  readonly #core: Core;

  /** @internal */
  constructor(core: Core) {
    this.#core = core;
  }

  /** Undefined: no session was free in time. A named one that is held throws code `lease_held`. */
  async accept(queue: string, options: AcceptOptions = {}): Promise<HeldSession | undefined> {
    checkOptions(options, OPTIONS);
    const worker = randomName(); // the same in repeats: they get the same session
    const lease = options.lease ?? "30s";
    const body = {
      worker,
      session: options.key,
      wait: options.key === undefined ? durationText(options.wait ?? 0, "wait") : undefined,
      lease: durationText(lease, "lease"),
    };
    const path = `/v1/queues/${encodeURIComponent(queue)}/sessions/accept`;
    const waitMs = durationMs(options.wait ?? 0, "wait");
    const answer = await this.#core.call({
      method: "POST",
      path,
      body,
      waitMs,
      signal: options.signal,
    });
    if (answer["session"] === null) return undefined;
    const grant = need(
      isRecord(answer["session"]) ? answer["session"] : undefined,
      true,
      "session",
    );
    const key = need(grant["key"] as string, typeof grant["key"] === "string", "key of a session");
    const left = grant["lease_expires_in_ms"];
    const leftMs = need(left as number, typeof left === "number", "lease of a session");
    const whole = Math.max(leftMs, durationMs(lease));
    const jobs = Array.isArray(answer["jobs"]) ? (answer["jobs"] as unknown[]) : [];
    const token = BigInt(needInteger(grant["token"], "token of a session"));
    return new HeldSession(
      this.#core,
      worker,
      queue,
      key,
      token,
      grant["state"],
      whole,
      now() - (whole - leftMs),
      jobs,
    );
  }

  async get(queue: string, key: string): Promise<SessionInfo> {
    return fromWire<SessionInfo>(await this.#core.call({ method: "GET", path: pathOf(queue, key) }));
  }

  /** Continues although a job of it died. */
  async resume(queue: string, key: string): Promise<void> {
    await this.#core.call({ method: "POST", path: pathOf(queue, key, "/resume") });
  }
}

function pathOf(queue: string, key: string, rest = ""): string {
  return `/v1/queues/${encodeURIComponent(queue)}/sessions/${encodeURIComponent(key)}${rest}`;
}
