// Codecs: schemas for values that JSON does not have, such as Date, bigint and Uint8Array.
import { ValidationError } from "./errors.js";
import { accepted, type SchemaResult, type StandardSchema } from "./schema.js";

/** A Standard Schema of the form in JSON that can also write this form. */
export interface Codec<In, Out = In> extends StandardSchema<In, Out> {
  /** @internal */
  readonly "~mainspring": { readonly encode: (value: unknown, path: string) => unknown };
}

/** A codec, or a Standard Schema (zod, valibot, …) of a value that JSON has. */
type Member = StandardSchema;
type InOf<M> = M extends StandardSchema<infer I, infer _> ? I : never;
type OutOf<M> = M extends StandardSchema<infer _, infer O> ? O : never;
type Fields<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: T[K];
};

/** Thrown inside of codecs: what is wrong, and where. */
class Fault extends Error {
  constructor(
    readonly path: string,
    message: string,
  ) {
    super(message);
  }
}

function make<In, Out = In>(
  encode: (value: unknown, path: string) => unknown,
  decode: (value: unknown, path: string) => unknown,
): Codec<In, Out> {
  const validate = (value: unknown): SchemaResult<Out> => {
    try {
      return { value: decode(value, "") as Out };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      return { issues: [{ message: error.message, path: error.path.split(".").filter(Boolean) }] };
    }
  };
  const standard = { version: 1, vendor: "mainspring", validate } as const;
  return { "~standard": standard, "~mainspring": { encode } };
}

/** Whether a caller's value is not yet of the schema's JSON. @internal */
export function isCodec(schema: object): schema is Codec<unknown> {
  return "~mainspring" in schema;
}

/** What a value becomes in JSON. Throws ValidationError, which names the place. @internal */
export function encodeWith(schema: object, value: unknown, what: string): unknown {
  if (!isCodec(schema)) return value;
  try {
    return schema["~mainspring"].encode(value, "");
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const path = error.path.replace(/^\./, "");
    const text = `${what}: ${path === "" ? "" : `${path}: `}${error.message}`;
    throw new ValidationError(text, [{ message: error.message, path }]);
  }
}

/**
 * What is sent for a value: `await toJson(sold.args, { at: new Date() })`. Throws ValidationError.
 */
export async function toJson(
  schema: StandardSchema,
  value: unknown,
  what = "value",
): Promise<unknown> {
  return isCodec(schema) ? encodeWith(schema, value, what) : await accepted(schema, value, what);
}

/** The output of a schema. */
function checked(schema: Member, value: unknown, path: string): unknown {
  const result = schema["~standard"].validate(value);
  if (result instanceof Promise)
    throw new Fault(path, "an asynchronous schema cannot be part of a codec");
  if (result.issues === undefined) return result.value;
  const [issue] = result.issues;
  const inner = (issue?.path ?? []).map((one) => String(typeof one === "object" ? one.key : one));
  throw new Fault([path, ...inner].join("."), issue?.message ?? "is refused");
}

function isReference(value: unknown): boolean {
  return typeof value === "object" && value !== null && ("$ref" in value || "$result" in value);
}

function encodeMember(schema: Member, value: unknown, path: string): unknown {
  if (isReference(value)) return value;
  if (isCodec(schema)) return schema["~mainspring"].encode(value, path);
  checked(schema, value, path);
  return value;
}

function mustBe(good: boolean, value: unknown, path: string, what: string): void {
  const kind = typeof value === "object" && value !== null ? value.constructor?.name : typeof value;
  if (!good) throw new Fault(path, `must be ${what}, not ${kind}`);
}

/** A Date, as ISO 8601 text. */
const date: Codec<Date> = make(
  (value, path) => {
    mustBe(value instanceof Date, value, path, "a Date");
    if (Number.isNaN((value as Date).getTime())) throw new Fault(path, "is an invalid Date");
    return (value as Date).toISOString();
  },
  (value, path) => {
    mustBe(typeof value === "string", value, path, "a text with a time");
    const time = new Date(value as string);
    if (Number.isNaN(time.getTime())) throw new Fault(path, `"${String(value)}" is not a time`);
    return time;
  },
);

/** A bigint, as an integer of any size. */
const bigint: Codec<bigint> = make(
  (value, path) => {
    mustBe(typeof value === "bigint", value, path, "a bigint");
    return value;
  },
  (value, path) => {
    const whole = typeof value === "bigint" || Number.isInteger(value);
    mustBe(whole, value, path, "an integer");
    return BigInt(value as number);
  },
);

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** A Uint8Array or Buffer, as base64. It comes back as a Uint8Array. */
const bytes: Codec<Uint8Array> = make(
  (value, path) => {
    mustBe(value instanceof Uint8Array, value, path, "a Uint8Array");
    const { buffer, byteOffset, byteLength } = value as Uint8Array;
    return Buffer.from(buffer, byteOffset, byteLength).toString("base64");
  },
  (value, path) => {
    mustBe(typeof value === "string" && BASE64.test(value), value, path, "base64");
    return new Uint8Array(Buffer.from(value as string, "base64"));
  },
);

/** A list of values of one schema. */
function list<M extends Member>(item: M): Codec<readonly InOf<M>[], OutOf<M>[]> {
  const each = (one: typeof encodeMember) => (value: unknown, path: string) => {
    mustBe(Array.isArray(value), value, path, "a list");
    return Array.from(value as unknown[], (inner, i) => one(item, inner, `${path}.${i}`));
  };
  return make(each(encodeMember), each(checked));
}

/** A value that may be undefined, or null in JSON. */
function optional<M extends Member>(inner: M): Codec<InOf<M> | undefined, OutOf<M> | undefined> {
  return make(
    (value, path) => (value === undefined ? null : encodeMember(inner, value, path)),
    (value, path) =>
      value === undefined || value === null ? undefined : checked(inner, value, path),
  );
}

/** An object: each field is a codec or a Standard Schema. */
function object<F extends Record<string, Member>>(
  fields: F,
): Codec<Fields<{ [K in keyof F]: InOf<F[K]> }>, Fields<{ [K in keyof F]: OutOf<F[K]> }>> {
  const each = (one: typeof encodeMember) => (value: unknown, path: string) => {
    const good = typeof value === "object" && value !== null && !Array.isArray(value);
    mustBe(good, value, path, "an object");
    const given = value as Record<string, unknown>;
    const out: Record<string, unknown> = {};
    for (const [name, schema] of Object.entries(fields)) {
      const there = Object.hasOwn(given, name) && given[name] !== undefined;
      const made = one(schema, there ? given[name] : undefined, `${path}.${name}`);
      if (there || (made !== undefined && made !== null)) out[name] = made;
    }
    return out;
  };
  const encode = each(encodeMember);
  return make((value, path) => {
    for (const name of Object.keys((value as object | null) ?? {}))
      if (!Object.hasOwn(fields, name)) throw new Fault(`${path}.${name}`, "is not a field");
    return encode(value, path);
  }, each(checked));
}

/**
 * Schemas for values that JSON does not have. Their fields may be of any Standard Schema:
 * `codec.object({ at: codec.date, path: z.string() })`.
 */
export const codec = { date, bigint, bytes, list, optional, object } as const;
