// Middleware for Sentry and OpenTelemetry. The program passes its SDK: this package depends on none.
import { Cancelled, LeaseLost, ShuttingDown, TimedOut } from "./errors.js";
import { definitionOf } from "./define.js";
import type { Middleware } from "./middleware.js";
import { Outcome } from "./outcomes.js";

const STOPS = [Cancelled, LeaseLost, ShuttingDown, TimedOut, Outcome];

function isFault(thrown: unknown): boolean {
  return !STOPS.some((one) => thrown instanceof one);
}

/** What `sentry` needs of `@sentry/node`. */
export interface SentrySdk {
  withIsolationScope<T>(
    run: (scope: {
      setTag(name: string, value: string | number): unknown;
      setContext(name: string, value: Record<string, unknown>): unknown;
    }) => T,
  ): T;
  captureException(error: unknown): unknown;
}

/**
 * Reports errors of handlers: `ms.use(sentry(Sentry))`. Each attempt has a scope of its own, with
 * queue, kind and attempt as tags. Outcomes that are thrown and requests to stop are not reported.
 */
export function sentry(sdk: SentrySdk): Middleware {
  return {
    attempt: async ({ job }, next) =>
      await sdk.withIsolationScope(async (scope) => {
        const { id, queue, kind, attempt, maxAttempts, correlationId } = job;
        for (const [name, value] of Object.entries({ queue, kind, attempt }))
          scope.setTag(`mainspring.${name}`, value);
        scope.setContext("mainspring.job", { id, maxAttempts, correlationId });
        try {
          await next();
        } catch (error) {
          if (isFault(error)) sdk.captureException(error);
          throw error;
        }
      }),
  };
}

interface Span {
  recordException(error: Error): void;
  setStatus(status: { code: number }): unknown;
  end(): void;
}

/** What `openTelemetry` needs of a tracer of `@opentelemetry/api`. */
export interface Tracer {
  startActiveSpan<T>(
    name: string,
    options: { kind: number; attributes: Record<string, string | number> },
    run: (span: Span) => T,
  ): T;
}

const PRODUCER = 3; // SpanKind
const CONSUMER = 4;
const ERROR = 2; // SpanStatusCode

/**
 * Spans around enqueues and attempts: `ms.use(openTelemetry(trace.getTracer("shop")))`. The server
 * exports spans of its own. These belong to the same trace: what a handler requests is below the
 * span of its attempt.
 */
export function openTelemetry(tracer: Tracer): Middleware {
  const within = async (
    [operation, kind]: [string, number],
    job: { queue: string; kind: string },
    more: Record<string, string | number>,
    run: () => Promise<unknown>,
  ) => {
    const attributes = {
      "messaging.system": "mainspring",
      "messaging.destination.name": job.queue,
      "messaging.operation.type": operation,
      "mainspring.job.kind": job.kind,
      ...more,
    };
    await tracer.startActiveSpan(`${operation} ${job.queue}`, { kind, attributes }, async (span) => {
      try {
        await run();
      } catch (error) {
        if (isFault(error)) {
          span.recordException(error instanceof Error ? error : new Error(String(error)));
          span.setStatus({ code: ERROR });
        }
        throw error;
      } finally {
        span.end();
      }
    });
  };
  return {
    async enqueue(job, next) {
      const { kind, options } = definitionOf(job.job);
      const queue = job.options?.queue ?? options.queue ?? "default";
      await within(["send", PRODUCER], { queue, kind }, {}, next);
    },
    async attempt({ job }, next) {
      const more = { "messaging.message.id": job.id, "mainspring.job.attempt": job.attempt };
      await within(["process", CONSUMER], job, more, next);
    },
  };
}
