// Types of arguments and results: a Standard Schema (zod, valibot, arktype, …), or a plain type.
import { ValidationError } from "./errors.js";

/** https://standardschema.dev, version 1. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** A plain type, without a check at run time: `args: type<{ path: string }>()`. */
export function type<T>(): StandardSchema<T, T> {
  const validate = (value: unknown): SchemaResult<T> => ({ value: value as T });
  return { "~standard": { version: 1, vendor: "mainspring", validate } };
}

/**
 * What to send of a value that a producer or a handler gave. A Date goes as text where the schema
 * at the other end makes a value of it. Throws ValidationError. @internal
 */
export async function accepted(
  schema: StandardSchema,
  value: unknown,
  what: string,
): Promise<unknown> {
  await check(schema, value, what);
  if (schema["~standard"].vendor === "mainspring" || !hasDate(value, 0)) return value;
  const sent = withoutDates(value);
  const made = await check(schema, sent, `${what}, as JSON`);
  return keepsText(value, made) ? value : sent;
}

// Whether a Date of the value would arrive as text.
function keepsText(value: unknown, made: unknown): boolean {
  if (value instanceof Date) return made === value.toISOString();
  if (typeof value !== "object" || value === null) return false;
  if (typeof made !== "object" || made === null) return false;
  return Object.entries(value).some(([key, one]) => keepsText(one, made[key as never]));
}

const MAX_DEPTH = 100;

function hasDate(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return false;
  if (value instanceof Date) return !Number.isNaN(value.getTime());
  return Object.values(value).some((one) => hasDate(one, depth + 1));
}

function withoutDates(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map(withoutDates);
  if (typeof value !== "object" || value === null) return value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withoutDates(one)]));
}

/** The checked value. Throws ValidationError, which names each place and its problem. */
export async function check<T>(
  schema: StandardSchema<unknown, T>,
  value: unknown,
  what: string,
): Promise<T> {
  let result = schema["~standard"].validate(value);
  if (result instanceof Promise) result = await result;
  if (result.issues === undefined) return result.value;
  const issues = result.issues.map(({ message, path }) => ({
    message,
    path: (path ?? []).map((part) => String(typeof part === "object" ? part.key : part)).join("."),
  }));
  const text = issues
    .map(({ message, path }) => (path === "" ? message : `${path}: ${message}`))
    .join("; ");
  throw new ValidationError(`${what}: ${text}`, issues);
}
