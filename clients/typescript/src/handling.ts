// Calls the handler of a claimed job, and turns what it returns or throws into an outcome.
import { type Attempt, Context } from "./attempt.js";
import { isCodec, toJson } from "./codec.js";
import type { Core } from "./core.js";
import { definitionOf, type JobDefinition, type NewJob } from "./define.js";
import {
  Cancelled,
  LeaseLost,
  type MainspringError,
  ShuttingDown,
  TimedOut,
  ValidationError,
} from "./errors.js";
import type { LogFields, Logger } from "./log.js";
import { people } from "./outcome_json.js";
import { attempting } from "./middleware.js";
import { Outcome } from "./outcomes.js";
import { givesUp, type RetryPolicy } from "./policy.js";
import { textOf } from "./reasons.js";
import { accepted, check } from "./schema.js";
import { inScopeOf, type Scope } from "./trace.js";
import type { Handler } from "./worker_options.js";

export interface Handled {
  definition: JobDefinition;
  handler: Handler<never, unknown>;
}

/** A kind of job in one worker. */
export interface Kind extends Handled {
  concurrency: number | undefined;
  timeoutMs: number | undefined;
  /** Jobs of it that are ready or run. */
  taken: number;
  running: number;
}

export async function callHandler(
  attempt: Attempt,
  { definition, handler }: Handled,
  core: Core,
  stray: Scope["stray"],
): Promise<Outcome<unknown>> {
  const { job, args: raw } = attempt.claimed;
  let args: unknown;
  try {
    args = await check(definition.args, raw, `args of job ${attempt.id}`);
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    return new Outcome("dead", { reason: "bad_args", description: error.message });
  }
  const context = new Context(attempt, args as never, core.log);
  const scope = { headers: job.headers, stray };
  const returned = await inScopeOf(scope, () =>
    attempting(core.middleware, context, () => handler(context)),
  );
  if (returned instanceof Outcome && returned.kind !== "complete") return returned;
  const result: unknown = returned instanceof Outcome ? returned.result : returned;
  const next = returned instanceof Outcome ? returned.next : [];
  const what = `result of job ${attempt.id}`;
  let sent: unknown;
  try {
    sent = await toJson(definition.result, result, what);
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    return new Outcome("dead", { reason: "bad_result", description: error.message });
  }
  try {
    return new Outcome<unknown>("complete", {}, sent, await Promise.all(next.map(acceptedNext)));
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    return new Outcome("dead", { reason: "bad_next", description: error.message });
  }
}

async function acceptedNext(made: NewJob, index: number): Promise<NewJob> {
  const { kind, args: schema } = definitionOf(made.job);
  if (isCodec(schema)) return made; // converts when it is written
  const args = await accepted(schema, made.args ?? {}, `next[${index}].args of ${kind}`);
  return { ...made, args };
}

/** The outcome of an attempt whose handler threw. */
export function failureOf(
  attempt: Attempt,
  thrown: unknown,
  log: Logger,
  policy: RetryPolicy = {},
): Outcome {
  const told = attempt.stopReason;
  if (told instanceof Cancelled) return new Outcome("cancel", {}); // for the canceller's reason
  if (told instanceof ShuttingDown || told instanceof LeaseLost) return givenBack(attempt);
  if (thrown !== undefined && thrown === attempt.unusableStep) return unusable(thrown);
  if (attempt.stray !== undefined) return attempt.stray;
  const text = textOf(thrown);
  const error = told instanceof TimedOut ? `${told.message}: ${text}` : text;
  log.error("a handler threw an exception; the attempt failed", { ...placeOf(attempt), error });
  return told === undefined && givesUp(policy, thrown)
    ? new Outcome("dead", { reason: "gave_up", description: error })
    : new Outcome("retry", { error });
}

/** The job of an attempt, for a line of a log. */
export function placeOf(attempt: Attempt): LogFields {
  const { id, queue, kind, attempt: number } = attempt.claimed.job;
  return { job: id, queue, kind, attempt: number };
}

const MAX_WHY = 200;
const ENDED = {
  ...{ complete: "completed", retry: "failed", snooze: "snoozed", defer: "deferred" },
  ...{ cancel: "cancelled", dead: "dead" },
};

/** One line for each attempt. */
export function logAttempt(
  log: Logger,
  attempt: Attempt,
  { kind, fields }: Outcome<unknown>,
  took: number,
): void {
  const ended = attempt.lost ? "lost" : ENDED[kind];
  const why = fields["error"] ?? fields["reason"];
  log.info(`job ${ended}`, {
    ...placeOf(attempt),
    tookMs: Math.round(took * 10) / 10,
    ...(why === undefined ? {} : { why: people(why).split("\n", 1)[0]?.slice(0, MAX_WHY) }),
  });
}

// A step's result cannot be stored: the step would run again in every attempt.
function unusable(thrown: unknown): Outcome {
  const { code, message } = thrown as MainspringError;
  const reason = code === "too_large" ? "result_too_large" : "bad_result";
  return new Outcome("dead", { reason, description: message });
}

/**
 * Without counting the attempt; one that waited for a claim of its id waits for one again.
 */
export function givenBack(attempt: Attempt): Outcome {
  return attempt.claimed.deferred
    ? new Outcome("defer", {})
    : new Outcome("snooze", { after: "0s" });
}
