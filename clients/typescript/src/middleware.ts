// Code around each enqueue and each attempt.
import type { JobContext } from "./attempt.js";
import type { NewJob } from "./define.js";
import { makeError } from "./errors.js";
import type { JobHandle } from "./job.js";

/** Code of `ms.use(…)`. The first one is outermost. Both functions must call `next`, once. */
export interface Middleware {
  /**
   * Around `enqueue` and each job of `enqueueMany`. `next` sends the job, or another one in its
   * place. Jobs of completions, schedules and workflows do not pass here.
   */
  enqueue?(
    job: NewJob,
    next: (job?: NewJob) => Promise<JobHandle<unknown>>,
  ): void | Promise<unknown>;
  /**
   * Around a handler. `next` runs it and throws what it throws, outcomes included. What `attempt`
   * throws is the handler's error. It may throw an outcome, too.
   */
  attempt?(context: JobContext<unknown>, next: () => Promise<void>): void | Promise<unknown>;
}

/** @internal */
export function checkMiddleware(one: Middleware): void {
  const given = one as Partial<Middleware> | undefined;
  const functions = [given?.enqueue, given?.attempt].filter((part) => part !== undefined);
  if (functions.length > 0 && functions.every((part) => typeof part === "function")) return;
  throw new TypeError("middleware: must have a function enqueue or attempt");
}

type Layer<T, R> = (value: T, next: (value?: T) => Promise<R>) => void | Promise<unknown>;

// Calls the layers around `inmost`. Its result counts, and its error unless a layer threw another.
async function through<T, R>(
  layers: readonly Layer<T, R>[],
  name: string,
  first: T,
  inmost: (value: T) => Promise<R>,
): Promise<R> {
  let ended: Promise<R> | undefined;
  const from = async (at: number, value: T): Promise<R> => {
    const layer = layers[at];
    if (layer === undefined) {
      if (ended !== undefined)
        throw makeError("invalid_argument", `${name}() of a middleware: has called next() twice`);
      ended = inmost(value);
      ended.catch(() => undefined);
      return await ended;
    }
    await layer(value, (changed = value) => from(at + 1, changed));
    if (ended === undefined)
      throw makeError("invalid_argument", `${name}() of a middleware: must call next()`);
    return await ended;
  };
  return await from(0, first);
}

/**
 * Around an enqueue. `prepare` is called for each job as the middleware leaves it, `send` with all of
 * them. @internal
 */
export async function sending<T>(
  used: readonly Middleware[],
  jobs: readonly NewJob[],
  prepare: (job: NewJob, index: number) => Promise<T>,
  send: (jobs: T[]) => Promise<JobHandle<never>[]>,
): Promise<JobHandle<never>[]> {
  const layers = used.flatMap((one) => (one.enqueue ? [one.enqueue.bind(one)] : []));
  const prepared: T[] = [];
  if (layers.length === 0) {
    for (const [i, job] of jobs.entries()) prepared.push(await prepare(job, i));
    return await send(prepared);
  }
  let left = jobs.length;
  let settle!: (made: Promise<JobHandle<never>[]>) => void;
  let refuse!: (error: unknown) => void;
  const sent = new Promise<JobHandle<never>[]>((resolve, reject) => {
    settle = resolve;
    refuse = reject;
  });
  sent.catch(() => undefined);
  const one = async (job: NewJob, i: number) => {
    prepared[i] = await prepare(job, i);
    left -= 1;
    if (left === 0) settle(send(prepared));
    return (await sent)[i] as JobHandle<never>; // `send` returns one for each job
  };
  return await Promise.all(
    jobs.map(async (job, i) => {
      try {
        return await through<NewJob, JobHandle<never>>(layers, "enqueue", job, (last) => one(last, i));
      } catch (error) {
        refuse(error); // the others are not sent
        throw error;
      }
    }),
  );
}

/** Around a handler. @internal */
export async function attempting<R>(
  used: readonly Middleware[],
  context: JobContext<unknown>,
  run: () => R | Promise<R>,
): Promise<R> {
  type Around = Layer<undefined, R>;
  const layers = used.flatMap((one): Around[] =>
    one.attempt ? [(_, next) => one.attempt?.(context, async () => void (await next()))] : [],
  );
  return await through(layers, "attempt", undefined, async () => await run());
}
