// Definitions of jobs: what producers and workers share, without the handler.
import { type Duration, durationText, instantText } from "./durations.js";
import type { EnqueueCall } from "./client.js";
import { encodeWith } from "./codec.js";
import { asArgument, makeError } from "./errors.js";
import { formatJson } from "./json.js";
import { checkOptions, type Names } from "./options.js";
import { checkPolicy, POLICY_OPTIONS, type RetryPolicy } from "./policy.js";
import type { Outcome } from "./outcomes.js";
import { type StandardSchema, type } from "./schema.js";

/** A job of `kind` in `queue`, created by a job's end, message or progress. */
export interface FollowUp {
  queue: string;
  kind: string;
  on?: ("completed" | "cancelled" | "dead" | "message" | "progress")[];
  session?: string;
  priority?: number;
  data?: unknown;
}

/** Options of a job. Default: those of its definition, else the server's. */
export interface JobOptions {
  queue?: string | undefined;
  /** 0 (first) to 9. */
  priority?: number | undefined;
  /** Time limit of one attempt; "none" = none. */
  timeout?: Duration | "none" | undefined;
  /** 1 to 1000. */
  maxAttempts?: number | undefined;
  /** The job ends if it has not started by then. */
  expiresIn?: Duration | undefined;
  onExpiry?: "cancel" | "dead" | undefined;
  tags?: readonly string[] | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  correlationId?: string | undefined;
  replyTo?: string | undefined;
  replySession?: string | undefined;
  replyProgress?: boolean | undefined;
  /** When jobs for `replyTo` are cancelled that nothing has started. */
  replyExpiresIn?: Duration | undefined;
  /** Jobs of a queue with the same session run one at a time, in order. */
  session?: string | undefined;
  sessionOnDead?: "skip" | "block" | "park" | undefined;
  limitKey?: string | undefined;
  then?: readonly FollowUp[] | undefined;
  callback?: { url: string; on?: ("completed" | "cancelled" | "dead")[] } | undefined;
}

const JOB_OPTIONS: Names<EnqueueOptions> = {
  ...{ queue: 1, priority: 1, timeout: 1, maxAttempts: 1, expiresIn: 1, onExpiry: 1, tags: 1 },
  ...{ headers: 1, correlationId: 1, replyTo: 1, replySession: 1, replyProgress: 1, session: 1 },
  ...{ replyExpiresIn: 1 },
  ...{ sessionOnDead: 1, limitKey: 1, then: 1, callback: 1, key: 1, delay: 1, runAt: 1 },
  ...{ keyFor: 1, onConflict: 1 },
};
// Programs in JavaScript can put those of one enqueue into a definition, too.
const DEFINITION_OPTIONS: Names<DefinitionOptions<unknown, unknown>> = {
  ...JOB_OPTIONS,
  ...POLICY_OPTIONS,
  ...{ args: 1, result: 1, aliases: 1 },
};
/** @internal */
export const ENQUEUE_OPTIONS: Names<EnqueueCall> = {
  ...JOB_OPTIONS,
  ...{ idempotencyKey: 1, fence: 1, signal: 1 },
};

/** Options of one enqueue. */
export interface EnqueueOptions extends JobOptions {
  /** At most one job with this key in its queue that has not ended. */
  key?: string | undefined;
  /** The key counts also for this long after the first job was enqueued. */
  keyFor?: Duration | undefined;
  /**
   * What happens to the job with the key: keep it, replace its arguments, or change its time.
   */
  onConflict?: "keep" | "replace" | "postpone" | undefined;
  /** Delay before the earliest start, by the server's clock. */
  delay?: Duration | undefined;
  /** Earliest start. */
  runAt?: Date | string | undefined;
}

export interface DefinitionOptions<A, R> extends JobOptions, RetryPolicy {
  args?: A | undefined;
  result?: R | undefined;
  /** Earlier names of the kind: workers also claim jobs of these. */
  aliases?: readonly string[] | undefined;
}

/**
 * A kind of job. `In` is what producers pass, `Args` what the handler gets (after the schema), `R`
 * the result that callers get, `Out` what the handler returns (before the schema).
 */
export interface JobDefinition<In = unknown, Args = In, R = unknown, Out = R> {
  readonly kind: string;
  readonly aliases: readonly string[];
  readonly options: JobOptions;
  readonly policy?: RetryPolicy;
  readonly args: StandardSchema<In, Args>;
  readonly result: StandardSchema<Out, R>;
}

type InputOf<S> = S extends StandardSchema<infer I, infer _> ? I : unknown;
type OutputOf<S> = S extends StandardSchema<infer _, infer O> ? O : unknown;

/** Defines a kind of job, by schemas or by plain types: `defineJob<Args, Result>("kind")`. */
export function defineJob<In, R = unknown>(
  kind: string,
  options?: DefinitionOptions<undefined, undefined>,
): JobDefinition<In, In, R>;
export function defineJob<
  A extends StandardSchema = StandardSchema,
  R extends StandardSchema = StandardSchema,
>(
  kind: string,
  options?: DefinitionOptions<A, R>,
): JobDefinition<InputOf<A>, OutputOf<A>, OutputOf<R>, InputOf<R>>;
export function defineJob<In, Args, R, Out>(
  kind: string,
  options: DefinitionOptions<StandardSchema | undefined, StandardSchema | undefined> = {},
): JobDefinition<In, Args, R, Out> {
  if (typeof kind !== "string" || kind === "")
    throw new TypeError("kind: must be a text that is not empty");
  checkOptions(options, DEFINITION_OPTIONS);
  const { args, result, aliases, backoff, retryOn, giveUpOn, ...rest } = options;
  const policy = { backoff, retryOn, giveUpOn };
  checkPolicy(policy);
  for (const [name, schema] of Object.entries({ args, result })) {
    if (schema !== undefined && typeof schema["~standard"]?.validate !== "function") {
      throw new TypeError(`${name} of job ${kind}: must be a Standard Schema, or type<T>()`);
    }
  }
  return {
    kind,
    aliases: aliases ?? [],
    options: rest,
    policy,
    args: (args ?? type()) as StandardSchema<In, Args>,
    result: (result ?? type()) as StandardSchema<Out, R>,
  };
}

/** The arguments, which may be omitted where `{}` fits, and what follows them. */
export type ArgsAnd<In, More> = {} extends In
  ? [args?: NoInfer<In>, options?: More]
  : [args: NoInfer<In>, options?: More];

/** A new job, with its definition or the name of its kind. */
export interface NewJob {
  job: JobDefinition | string;
  args?: unknown;
  options?: EnqueueOptions;
}

/** A new job, with arguments of its definition. */
export function newJob<In>(
  job: JobDefinition<In>,
  ...[args, options = {}]: ArgsAnd<In, EnqueueOptions>
): NewJob {
  return { job, args, options };
}

export type HandlerResult<R> = R | Outcome<R> | Outcome;

/** @internal */
export function definitionOf(job: JobDefinition | string): JobDefinition {
  if (typeof job === "string") return defineJob(job);
  // Not by instanceof: it may be of another copy of this package.
  const given = job as Partial<JobDefinition> | null | undefined;
  if (given?.args !== undefined && given.options !== undefined) return job;
  throw makeError("invalid_argument", "job: must be a definition of defineJob() or a kind", {
    field: "job",
  });
}

const MAX_ARGS_BYTES = 1 << 20;

/** The text of a job as `POST /v1/jobs` takes it. @internal */
export function jobJson(
  definition: JobDefinition,
  args: unknown,
  options: EnqueueOptions,
  where = "args",
): string {
  const what = `${where} of ${definition.kind}`;
  const sent = encodeWith(definition.args, args === undefined ? {} : args, what);
  const json = asArgument(where, () => formatJson(sent, where));
  const bytes = json.length > MAX_ARGS_BYTES / 4 ? Buffer.byteLength(json) : 0;
  if (bytes > MAX_ARGS_BYTES) {
    throw makeError("too_large", `${where}: ${bytes} bytes, must be at most ${MAX_ARGS_BYTES}`, {
      field: where,
    });
  }
  const rest = optionsJson(definition, options);
  return `${asArgument("options", () => formatJson(rest, "options")).slice(0, -1)},"args":${json}}`;
}

/**
 * A job as `POST /v1/jobs` takes it. `args` are what the caller gave: the schema has accepted them.
 * @internal
 */
export function wireJob(
  definition: JobDefinition,
  args: unknown,
  options: EnqueueOptions,
  where = "args",
): Record<string, unknown> {
  const what = `${where} of ${definition.kind}`;
  const sent = encodeWith(definition.args, args === undefined ? {} : args, what);
  return { ...optionsJson(definition, options), args: sent };
}

/** A job without its args. @internal */
export function optionsJson(
  definition: JobDefinition,
  options: EnqueueOptions,
): Record<string, unknown> {
  checkOptions(options, ENQUEUE_OPTIONS);
  const all: EnqueueOptions = { ...definition.options, ...given(options) };
  for (const name of ["keyFor", "onConflict"] as const) {
    if (all.key === undefined && all[name] !== undefined)
      throw makeError("invalid_argument", `${name}: needs key`, { field: name });
  }
  return {
    queue: all.queue,
    kind: definition.kind,
    priority: all.priority,
    timeout: all.timeout === "none" ? "none" : duration("timeout", all.timeout),
    max_attempts: all.maxAttempts,
    expires_in: duration("expiresIn", all.expiresIn),
    on_expiry: all.onExpiry,
    tags: all.tags,
    headers: all.headers,
    correlation_id: all.correlationId,
    reply_to: all.replyTo,
    reply_session: all.replySession,
    reply_progress: all.replyProgress,
    reply_expires_in: duration("replyExpiresIn", all.replyExpiresIn),
    session: all.session,
    session_on_dead: all.sessionOnDead,
    limit_key: all.limitKey,
    then: all.then,
    callback: all.callback,
    delay: duration("delay", all.delay),
    run_at: all.runAt === undefined ? undefined : instantText(all.runAt, "runAt"),
    unique:
      all.key === undefined
        ? undefined
        : { key: all.key, for: duration("keyFor", all.keyFor), on_conflict: all.onConflict },
  };
}

function duration(name: string, value: Duration | undefined): string | undefined {
  return value === undefined ? undefined : durationText(value, name);
}

function given<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as Partial<T>;
}
