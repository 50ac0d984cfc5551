// What a failed attempt means for its job: when it runs again, and whether.
import { type Duration, durationMs, durationText } from "./durations.js";
import { makeError } from "./errors.js";
import { checkOptions, type Names } from "./options.js";
import { Outcome } from "./outcomes.js";

/** `first` after the first attempt, then `factor` times longer each time, up to `most`. */
export interface Backoff {
  /** Default: 1s. */
  first?: Duration;
  /** Default: 2. */
  factor?: number;
  /** Default: 1h. */
  most?: Duration;
  /** Each delay differs by up to this share, so that jobs do not come back together. [0.1] */
  jitter?: number;
}

type ErrorClass = abstract new (...args: never[]) => unknown;

/** Of a definition. Without it each error is tried again after the server's back-off. */
export interface RetryPolicy {
  /**
   * The same delay each time, a list of delays (the last one repeats), a `Backoff`, or a function of
   * the attempt's number, which counts from 1.
   */
  backoff?: Duration | readonly Duration[] | Backoff | ((attempt: number) => Duration) | undefined;
  /** Errors of other classes make the job dead. */
  retryOn?: readonly ErrorClass[] | undefined;
  /** Errors of these classes make the job dead, also those of `retryOn`. */
  giveUpOn?: readonly ErrorClass[] | undefined;
}

/** @internal */
export const POLICY_OPTIONS: Names<RetryPolicy> = { backoff: 1, retryOn: 1, giveUpOn: 1 };
const BACKOFF_OPTIONS: Names<Backoff> = { first: 1, factor: 1, most: 1, jitter: 1 };

function isBackoff(backoff: RetryPolicy["backoff"]): backoff is Backoff {
  return typeof backoff === "object" && !Array.isArray(backoff);
}

function must(good: boolean, field: string, rule: string): void {
  if (!good) throw makeError("invalid_argument", `${field}: ${rule}`, { field });
}

/** Throws if the policy cannot be. @internal */
export function checkPolicy({ backoff, retryOn, giveUpOn }: RetryPolicy): void {
  if (isBackoff(backoff)) {
    checkOptions(backoff, BACKOFF_OPTIONS);
    const { first, factor = 2, most, jitter = 0 } = backoff;
    for (const [name, one] of Object.entries({ first, most }))
      if (one !== undefined) durationMs(one, `backoff.${name}`);
    must(factor >= 1, `backoff.factor ${factor}`, "must be 1 or more");
    must(jitter >= 0 && jitter <= 1, `backoff.jitter ${jitter}`, "must be 0 to 1");
  } else if (backoff !== undefined && typeof backoff !== "function") {
    const all = [backoff].flat() as Duration[];
    must(all.length > 0, "backoff", "must not be empty");
    for (const one of all) durationMs(one, "backoff");
  }
  for (const [name, classes] of Object.entries({ retryOn, giveUpOn })) {
    const good = Array.isArray(classes) && classes.every((one) => typeof one === "function");
    must(classes === undefined || good, name, "must be classes of errors, in a list");
  }
}

/** How long to wait after a failed attempt; undefined: the server decides. @internal */
export function delayOf(backoff: RetryPolicy["backoff"], attempt: number): string | undefined {
  if (backoff === undefined) return undefined;
  if (isBackoff(backoff)) {
    const { first = "1s", factor = 2, most = "1h", jitter = 0.1 } = backoff;
    const delay = Math.min(durationMs(first) * factor ** (attempt - 1), durationMs(most));
    return durationText(delay * (1 + jitter * (2 * Math.random() - 1)));
  }
  if (typeof backoff === "function") return durationText(backoff(attempt), "backoff");
  const all = [backoff].flat() as Duration[];
  return durationText(all[Math.min(attempt, all.length) - 1] ?? 0, "backoff");
}

/** @internal */
export function givesUp({ retryOn, giveUpOn = [] }: RetryPolicy, error: unknown): boolean {
  const is = (one: ErrorClass) => error instanceof one;
  return giveUpOn.some(is) || (retryOn !== undefined && !retryOn.some(is));
}

/** The outcome with the delay of the definition, unless it has its own. @internal */
export function timed(
  policy: RetryPolicy | undefined,
  outcome: Outcome<unknown>,
  attempt: number,
): Outcome<unknown> {
  if (outcome.kind !== "retry" || "after" in outcome.fields) return outcome;
  const after = delayOf(policy?.backoff, attempt);
  return after === undefined ? outcome : new Outcome("retry", { ...outcome.fields, after });
}
