// Durations and ids as callers write them.
import { makeError } from "./errors.js";

/** A text with a unit (`"250ms"`, `"30s"`, `"1h30m"`, `"7d"`), or a number of milliseconds. */
export type Duration = string | number;

/** The id of a job or workflow. Ids are 64-bit integers: the client returns them as text. */
export type Id = string | bigint | number;

const UNITS: Record<string, number> = {
  us: 0.001,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const PART = /(\d+(?:\.\d+)?)(us|ms|s|m|h|d)/g;
const WHOLE = /^(?:\d+(?:\.\d+)?(?:us|ms|s|m|h|d))+$/;

function refuse(what: string, value: unknown): never {
  const shown = JSON.stringify(value) ?? String(value);
  const rule = 'must be a text with a unit such as "30s", or milliseconds';
  throw makeError("invalid_argument", `${what} ${shown}: ${rule}`, { field: what });
}

/** Milliseconds of a duration. */
export function durationMs(value: Duration, what = "duration"): number {
  if (typeof value === "number") {
    if (!Number.isFinite(value) || value < 0) refuse(what, value);
    return value;
  }
  if (typeof value !== "string" || !WHOLE.test(value)) refuse(what, value);
  let sum = 0;
  for (const [, digits, unit] of value.matchAll(PART))
    sum += Number(digits) * (UNITS[unit ?? ""] ?? 0);
  return sum;
}

/** The text that the server takes. */
export function durationText(value: Duration, what = "duration"): string {
  if (typeof value === "number") return `${Math.round(durationMs(value, what))}ms`;
  durationMs(value, what);
  return value;
}

/** For people: whole seconds as "20s", else milliseconds. */
export function shortText(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000}s` : durationText(ms);
}

/** The decimal text of an id. */
export function idText(value: Id, what = "id"): string {
  const text = String(value);
  const exact = typeof value !== "number" || Number.isSafeInteger(value);
  if (!exact || !/^\d{1,19}$/.test(text)) {
    const rule = "must be a whole number from 0, as text or bigint";
    throw makeError("invalid_argument", `${what} ${text}: ${rule}`, { field: what });
  }
  return text;
}

/** A time as the server takes it. */
export function instantText(value: Date | string, what: string): string {
  if (typeof value === "string") return value;
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) {
    throw makeError("invalid_argument", `${what}: must be a valid Date or a text`, { field: what });
  }
  return value.toISOString();
}
