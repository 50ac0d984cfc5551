// How an attempt ends, as values that a handler returns. Anything else that it returns completes
// the job.
import { type Duration, durationText } from "./durations.js";
import type { NewJob } from "./define.js";
import { sharedClass } from "./shared.js";

type Fields = Record<string, unknown>;

/** An outcome. Created by `retry`, `snooze`, `defer`, `cancel`, `dead` and `complete`. */
export class Outcome<R = never> {
  /** Only there for the type of the result. */
  declare readonly _result: R;
  /** @internal */
  constructor(
    readonly kind: "complete" | "retry" | "snooze" | "defer" | "cancel" | "dead",
    /** As in the request. @internal */
    readonly fields: Fields,
    /** @internal */
    readonly result: unknown = undefined,
    /** @internal */
    readonly next: readonly NewJob[] = [],
  ) {}
}

sharedClass("Outcome", Outcome);

/** The job is completed. `next` jobs are created in the same transaction. */
export function complete<R>(result: R, options: { next?: readonly NewJob[] } = {}): Outcome<R> {
  return new Outcome<R>("complete", {}, result, options.next ?? []);
}

/**
 * The attempt failed: try again, after the server's back-off or after `after`. `error` is a text, or
 * an error with its causes.
 */
export function retry(
  options: { error?: unknown; after?: Duration; openBreakerFor?: Duration } = {},
): Outcome {
  return new Outcome("retry", {
    error: options.error ?? "the handler asked for a retry",
    ...text("after", options.after),
    ...text("open_breaker_for", options.openBreakerFor),
  });
}

/** Not now: the job is available again after this time. It loses no attempt. */
export function snooze(after: Duration, options: { openBreakerFor?: Duration } = {}): Outcome {
  const fields = {
    after: durationText(after, "after"),
    ...text("open_breaker_for", options.openBreakerFor),
  };
  return new Outcome("snooze", fields);
}

/** Not until a claim names the job. It loses no attempt. */
export function defer(reason?: string): Outcome {
  return new Outcome("defer", given({ reason }));
}

/** The job is cancelled. */
export function cancel(reason?: string): Outcome {
  return new Outcome("cancel", given({ reason }));
}

/** The job will never succeed: it goes to the dead letter. */
export function dead(reason?: string, description?: string): Outcome {
  return new Outcome("dead", given({ reason, description }));
}

function text(name: string, value: Duration | undefined): Fields {
  return value === undefined ? {} : { [name]: durationText(value, name) };
}

function given(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
