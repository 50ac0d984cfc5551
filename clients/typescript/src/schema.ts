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
