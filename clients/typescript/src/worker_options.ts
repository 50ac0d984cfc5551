// Handlers, options and counts of a worker, and the facts that its claims report.
import { hostname } from "node:os";
import type { JobContext } from "./attempt.js";
import type { HandlerResult, JobDefinition } from "./define.js";
import { type Duration, shortText } from "./durations.js";
import { checkOptions, type Names } from "./options.js";

const MAX_HOST_BYTES = 255;
const MAX_VERSION_BYTES = 100;

export type Handler<Args, R> = (
  context: JobContext<Args>,
) => HandlerResult<R> | Promise<HandlerResult<R>>;

/** A definition with its handler. `npx mainspring work FILE` runs those that FILE exports. */
export interface JobHandler<In = unknown, Out = unknown> {
  readonly definition: JobDefinition<In, unknown, unknown, Out>;
  readonly handler: Handler<never, unknown>;
  readonly options: HandlerOptions;
}

export interface HandlerOptions {
  /** Jobs of this kind at once in this worker. Default: the slots. */
  concurrency?: number;
  /** Time limit of an attempt; the shorter of this and the job's own counts. */
  timeout?: Duration;
}

/** Joins a definition and its handler. */
export function handle<In, Args, R, Out = R>(
  definition: JobDefinition<In, Args, R, Out>,
  handler: Handler<NoInfer<Args>, NoInfer<Out>>,
  options: HandlerOptions = {},
): JobHandler<In, Out> {
  checkOptions(options, HANDLER_OPTIONS);
  return {
    definition,
    handler: handler as Handler<never, unknown>,
    options,
  };
}

export interface WorkerOptions {
  /** Queues beside those of the definitions. */
  queues?: readonly string[];
  /** Handlers that run at once. Default: 10. */
  slots?: number;
  /**
   * Time without a renewal after which the server gives the jobs to other workers. Default: 30s.
   */
  lease?: Duration;
  /** How long a claim waits at the server. Default: 20s. */
  claimWait?: Duration;
  /**
   * Jobs claimed beyond the slots while handlers take less than 2 ms, up to 1000; 0 = none.
   * Default: by their time.
   */
  claimAhead?: number;
  /** Time limit of `stop()`. Handlers are asked to stop after four fifths of it. Default: 25s. */
  gracefulStop?: Duration;
  /**
   * `run()` stops and exits the process with 75 if a handler has not ended this long after it was
   * asked to. Default: never.
   */
  exitWhenStuck?: Duration;
  /** One line for each attempt, of level info. Default: true. */
  logJobs?: boolean;
  /** Version of your program, up to 100 bytes. `mainspring workers` shows it. */
  version?: string;
}

/** @internal */
export const WORKER_OPTIONS: Names<WorkerOptions> = {
  ...{ queues: 1, slots: 1, lease: 1, claimWait: 1, claimAhead: 1, gracefulStop: 1, version: 1 },
  ...{ exitWhenStuck: 1, logJobs: 1 },
};

/** @internal */
export const HANDLER_OPTIONS: Names<HandlerOptions> = { concurrency: 1, timeout: 1 };

export interface WorkerStats {
  claimed: number;
  completed: number;
  failed: number;
  snoozed: number;
  deferred: number;
  cancelled: number;
  dead: number;
  /** Outcomes that came too late: another worker had the job. */
  stale: number;
  /** Outcomes that the server did not take for another reason. */
  refused: number;
  leaseLost: number;
  claims: number;
  finishes: number;
  running: number;
  waiting: number;
}

export function noStats(): WorkerStats {
  return {
    ...{ claimed: 0, completed: 0, failed: 0, snoozed: 0, deferred: 0, cancelled: 0, dead: 0 },
    ...{ stale: 0, refused: 0, leaseLost: 0, claims: 0, finishes: 0, running: 0, waiting: 0 },
  };
}

export function stoppingText(signal: string, running: number, leftMs: number): string {
  if (running === 0) return "stopping";
  const [jobs, them] = running === 1 ? ["job", "it"] : ["jobs", "them"];
  const again = signal === "SIGINT" ? "Ctrl-C again" : "a second signal";
  const left = shortText(leftMs);
  return `stopping: ${running} ${jobs} may run for another ${left}; ${again} ends ${them} now`;
}

// Whether the server takes the text for a worker's host or version.
function fits(text: string, bytes: number): boolean {
  return Buffer.byteLength(text) <= bytes && !/[\u0000-\u001f\u007f]/.test(text);
}

// Fields of a claim that describe this process.
export function factsOf(slots: number, version: string | undefined): Record<string, unknown> {
  if (version !== undefined && !fits(version, MAX_VERSION_BYTES)) {
    throw new TypeError(
      `version: must have at most ${MAX_VERSION_BYTES} bytes, without control characters`,
    );
  }
  const host = hostname();
  return {
    pid: process.pid,
    language: `Node.js ${process.versions.node}`,
    slots,
    ...(fits(host, MAX_HOST_BYTES) && host !== "" ? { host } : {}),
    ...(version === undefined || version === "" ? {} : { version }),
  };
}

/** npm, npx or a script of package.json has started this process. @internal */
export function startedByNpm(): boolean {
  return ["npm_command", "npm_execpath", "npm_lifecycle_event"].some(
    (name) => process.env[name] !== undefined,
  );
}
