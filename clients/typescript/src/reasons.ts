// Errors as texts: with their stacks, codes, causes and the errors that they join.
import { inspect } from "node:util";

const MAX_MESSAGE = 4000;
const MAX_FRAMES = 15;
const MAX_FRAME = 300;
const MAX_DEPTH = 8;
const MAX_JOINED = 8;
/** The server cuts longer texts. */
const MAX_TEXT = 16_000;

/** The text of anything that was thrown. Never throws. @internal */
export function textOf(thrown: unknown): string {
  const lines: string[] = [];
  try {
    write(lines, thrown, "", 0, new Set());
  } catch {
    lines.push(`the thrown ${typeof thrown} has no text`);
  }
  return cut(lines.join("\n"), MAX_TEXT);
}

interface ErrorLike {
  name?: unknown;
  message: unknown;
  stack?: unknown;
  code?: unknown;
  cause?: unknown;
  errors?: unknown;
}

// Not by instanceof alone: errors of other realms (vm, jest) are errors too.
function isError(value: unknown): value is ErrorLike {
  if (value instanceof Error) return true;
  return typeof value === "object" && value !== null && "message" in value && "stack" in value;
}

function write(
  lines: string[],
  thrown: unknown,
  before: string,
  depth: number,
  seen: Set<unknown>,
): void {
  if (!isError(thrown)) {
    lines.push(before + cut(shown(thrown), MAX_MESSAGE));
    return;
  }
  if (seen.has(thrown) || depth > MAX_DEPTH) {
    lines.push(`${before}…`);
    return;
  }
  seen.add(thrown);
  lines.push(before + cut(headOf(thrown), MAX_MESSAGE), ...framesOf(thrown));
  const { cause, errors } = thrown;
  if (Array.isArray(errors)) {
    for (const [i, one] of errors.slice(0, MAX_JOINED).entries())
      write(lines, one, `error ${i + 1} of ${errors.length}: `, depth + 1, seen);
  }
  if (cause !== undefined) write(lines, cause, "caused by: ", depth + 1, seen);
}

// The stack begins with the name and message that the error was made with.
function headOf(error: ErrorLike): string {
  const name = error.name === "Error" ? (error.constructor?.name ?? "Error") : error.name;
  const message = error.message === "" ? "" : `: ${String(error.message)}`;
  const { code } = error;
  const known = typeof code === "string" || typeof code === "number";
  return `${String(name)}${message}${known ? ` [${code}]` : ""}`;
}

function framesOf({ stack }: ErrorLike): string[] {
  if (typeof stack !== "string") return [];
  const frames = stack.split("\n").filter((line) => /^\s+at /.test(line));
  return frames.slice(0, MAX_FRAMES).map((line) => cut(line, MAX_FRAME));
}

function shown(value: unknown): string {
  if (typeof value === "string") return value;
  const limits = { depth: 3, maxArrayLength: 20, maxStringLength: 1000, breakLength: 100 };
  return inspect(value, { ...limits, customInspect: false });
}

function cut(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}
