// Names of fields: camelCase here, snake_case on the wire. What belongs to the caller (args,
// results, headers, …) is passed on as it is.

/** Fields whose content is the caller's, or whose names are. */
const OPAQUE = new Set([
  ...[
    "args",
    "result",
    "checkpoint",
    "input",
    "data",
    "payload",
    "headers",
    "weights",
    "costs",
    "value",
  ],
  ...[
    "sessionState",
    "session_state",
    "state",
    "equals",
    "default",
    "each",
    "body",
    "query",
    "counts",
  ],
]);

const IDS = new Set([
  "id",
  "job",
  "head",
  "stopped_by",
  "last_job",
  "undo_job",
  "workflow",
  "live",
]);
const TOKENS = new Set(["token"]);

type IdKey = "id" | "job" | "head" | "stopped_by" | "last_job" | "undo_job" | "workflow" | "live";
type OpaqueKey =
  "args" | "result" | "checkpoint" | "input" | "data" | "payload" | "value" | "equals" | "each";

type CamelKey<S extends string> = S extends `${infer A}_${infer B}`
  ? `${A}${Capitalize<CamelKey<B>>}`
  : S;
type As<T, To> = T extends number ? To : T extends readonly number[] ? To[] : Camel<T>;

/** A type of the API with camelCase fields, ids as text and tokens as bigint. */
export type Camel<T> = T extends readonly (infer E)[]
  ? Camel<E>[]
  : T extends object
    ? {
        [K in keyof T as K extends string ? CamelKey<K> : K]: K extends IdKey
          ? As<T[K], string>
          : K extends "token"
            ? As<T[K], bigint>
            : K extends OpaqueKey
              ? T[K]
              : Camel<T[K]>;
      }
    : T;

export function toWire(value: unknown): unknown {
  return convert(
    value,
    (key) => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    false,
  );
}

export function fromWire<T>(value: unknown): T {
  return convert(
    value,
    (key) => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    true,
  ) as T;
}

function convert(value: unknown, rename: (key: string) => string, answer: boolean): unknown {
  if (Array.isArray(value)) return value.map((item) => convert(item, rename, answer));
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  const out: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    if (OPAQUE.has(key)) out[rename(key)] = item;
    else if (answer && IDS.has(key)) out[rename(key)] = idsOf(item, rename);
    else if (answer && TOKENS.has(key) && typeof item === "number") out[rename(key)] = BigInt(item);
    else out[rename(key)] = convert(item, rename, answer);
  }
  return out;
}

function idsOf(value: unknown, rename: (key: string) => string): unknown {
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return value.map((item) => idsOf(item, rename));
  return convert(value, rename, true);
}
