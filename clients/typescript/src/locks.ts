// Locks: leases by name, renewed until they are released or lost.
import { now } from "./clock.js";
import { type Core, need, needInteger, randomName } from "./core.js";
import { asyncDispose } from "./dispose.js";
import { type Duration, durationMs, durationText } from "./durations.js";
import { LockLost, makeError } from "./errors.js";
import { checkOptions, type Names } from "./options.js";

export interface LockOptions {
  /** How long the lock stays held after its holder died: 1s to 12h. Default: 15s. */
  ttl?: Duration | undefined;
  /** How long to wait while another holder has it, up to 60s. Default: not at all. */
  wait?: Duration | undefined;
  signal?: AbortSignal | undefined;
}

const OPTIONS: Names<LockOptions> = { ttl: 1, wait: 1, signal: 1 };

/** A lock that is held. `await using` releases it. */
export class HeldLock {
  readonly #core: Core;
  private readonly lostSignal = new AbortController();
  private renewal: number | undefined;

  /** @internal */
  constructor(
    core: Core,
    readonly name: string,
    private readonly holder: string,
    /** Fencing token: grows with every holder. Pass it to the systems that you write to. */
    readonly token: bigint,
    /** Value that the previous holder left. */
    readonly value: unknown,
    grantedMs: number,
    sentAt: number,
  ) {
    this.#core = core;
    const body = { holder, token };
    const hold = { path: this.path("renew"), body, expires: "expires_in_ms", grantedMs, sentAt };
    this.renewal = core.renewals.addHold(hold, (message) => {
      this.renewal = undefined;
      this.lostSignal.abort(makeError("lease_lost", `lock ${name}: ${message}`));
    });
  }

  /** Aborted when the lock is lost: stop the protected work at once. */
  get signal(): AbortSignal {
    return this.lostSignal.signal;
  }

  /** Stores a JSON value for the next holder. */
  async setValue(value: unknown): Promise<void> {
    const body = { holder: this.holder, token: this.token, value };
    await this.#core.call({ method: "POST", path: this.path("renew"), body });
  }

  /** Throws LockLost if the lock is lost; the end of an `await using` does not. */
  async release(): Promise<void> {
    if (this.signal.aborted) throw this.signal.reason;
    if (this.renewal === undefined) return;
    this.#core.renewals.forget(this.renewal);
    this.renewal = undefined;
    const body = { holder: this.holder, token: this.token };
    await this.#core.call({ method: "POST", path: this.path("release"), body });
  }

  async [asyncDispose](): Promise<void> {
    await this.release().catch((error: unknown) => {
      if (!(error instanceof LockLost)) throw error;
    });
  }

  private path(what: string): string {
    return `/v1/leases/${encodeURIComponent(this.name)}/${what}`;
  }
}

export class Locks {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  async acquire(name: string, options: LockOptions): Promise<HeldLock> {
    checkOptions(options, OPTIONS);
    const holder = randomName(); // the same in repeats: they get the same lock
    const wait = options.wait ?? 0;
    const body = {
      holder,
      ttl: durationText(options.ttl ?? "15s", "ttl"),
      wait: durationText(wait, "wait"),
    };
    const path = `/v1/leases/${encodeURIComponent(name)}/acquire`;
    const waitMs = durationMs(wait, "wait");
    const answer = await this.#core.call({
      method: "POST",
      path,
      body,
      waitMs,
      signal: options.signal,
    });
    const granted = answer["expires_in_ms"];
    const grantedMs = need(granted as number, typeof granted === "number", "time of a lock");
    const ttlMs = durationMs(options.ttl ?? "15s");
    const token = BigInt(needInteger(answer["token"], "token of a lock"));
    // The lock may have been granted any time before the answer: as old as the answer says.
    const sentAt = now() - Math.max(0, ttlMs - grantedMs);
    return new HeldLock(
      this.#core,
      name,
      holder,
      token,
      answer["value"],
      Math.max(ttlMs, grantedMs),
      sentAt,
    );
  }
}
