// The W3C trace context of the caller: passed on with each job that it makes, and from a job to its
// handler.
import { AsyncLocalStorage } from "node:async_hooks";

import { sharedValue } from "./shared.js";

/** The job whose handler runs, or started what runs. */
export interface Scope {
  headers: Readonly<Record<string, string>>;
  /** Takes an error that nothing catches. */
  stray(error: unknown, what: string): void;
}

export const current = sharedValue("scope.1", () => new AsyncLocalStorage<Scope>());

// The API of OpenTelemetry that the program has loaded, if it has. It registers itself under this
// symbol.
interface Telemetry {
  context?: { active(): unknown; with<T>(context: unknown, fn: () => T): T };
  propagation?: {
    inject(context: unknown, carrier: Record<string, string>, setter: Setter): void;
    extract(context: unknown, carrier: Readonly<Record<string, string>>, getter: Getter): unknown;
  };
}
interface Setter {
  set(carrier: Record<string, string>, key: string, value: string): void;
}
interface Getter {
  get(carrier: Readonly<Record<string, string>>, key: string): string | undefined;
  keys(carrier: Readonly<Record<string, string>>): string[];
}

function telemetry(): Telemetry | undefined {
  return (globalThis as Record<symbol, unknown>)[Symbol.for("opentelemetry.js.api.1")] as
    Telemetry | undefined;
}

/** The headers `traceparent` and `tracestate` for a job that is made now. */
export function traceHeaders(): Record<string, string> {
  const carrier: Record<string, string> = {};
  const { propagation, context } = telemetry() ?? {};
  if (propagation && context) {
    propagation.inject(context.active(), carrier, {
      set: (to, key, value) => void (to[key] = value),
    });
  }
  if (carrier["traceparent"] !== undefined) return carrier;
  const { traceparent, tracestate } = current.getStore()?.headers ?? {};
  if (traceparent === undefined) return {};
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate };
}

/** Runs `fn` in the scope of a job, and in the trace context of its headers. */
export function inScopeOf<T>(scope: Scope, fn: () => T): T {
  return current.run(scope, () => {
    const { headers } = scope;
    const { propagation, context } = telemetry() ?? {};
    if (!propagation || !context || headers["traceparent"] === undefined) return fn();
    const getter: Getter = { get: (from, key) => from[key], keys: (from) => Object.keys(from) };
    return context.with(propagation.extract(context.active(), headers, getter), fn);
  });
}
