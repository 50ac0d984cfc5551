// Error classes. Distinguish them with instanceof.
import { parseJson } from "./json.js";
import { sharedClass } from "./shared.js";

/**
 * The server's error codes, and three of the client: no answer in time, invalid
 * answer, stopped.
 */
export type ErrorCode =
  | "invalid_argument"
  | "unauthenticated"
  | "forbidden"
  | "not_found"
  | "method_not_allowed"
  | "request_timeout"
  | "conflict"
  | "lease_held"
  | "lease_lost"
  | "expired"
  | "too_large"
  | "overloaded"
  | "headers_too_large"
  | "internal"
  | "io_error"
  | "unavailable"
  | "timeout"
  | "storage_full"
  | "bad_answer"
  | "aborted";

/** Whether the call may be repeated: `unknown` = it may have been executed. */
export type Again = "no" | "yes" | "unknown";

const AGAIN: Record<ErrorCode, Again> = {
  invalid_argument: "no",
  unauthenticated: "no",
  forbidden: "no",
  not_found: "no",
  method_not_allowed: "no",
  request_timeout: "yes",
  conflict: "no",
  lease_held: "yes",
  lease_lost: "no",
  expired: "no",
  too_large: "no",
  overloaded: "yes",
  headers_too_large: "no",
  internal: "unknown",
  io_error: "unknown",
  unavailable: "yes",
  timeout: "unknown",
  storage_full: "yes",
  bad_answer: "unknown",
  aborted: "no",
};

export interface ErrorDetails {
  status?: number | undefined;
  field?: string | undefined;
  retryAfterMs?: number | undefined;
  maybeDone?: boolean | undefined;
  again?: Again | undefined;
  cause?: unknown;
}

/** Every error of a call to the server. */
export class MainspringError extends Error {
  /** The server's code, or the client's. Act on this; show `message` to a person. */
  readonly code: ErrorCode | (string & {});
  /** The HTTP status; undefined: there was no answer. */
  readonly status: number | undefined;
  /** The field of the request that breaks a rule. */
  readonly field: string | undefined;
  /** How long the server asks the caller to wait. */
  readonly retryAfterMs: number | undefined;
  /** Whether the call may have been executed: check before you repeat it. */
  readonly maybeDone: boolean;
  /** Whether the call may be repeated. */
  readonly again: Again;

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = details.status;
    this.field = details.field;
    this.retryAfterMs = details.retryAfterMs;
    this.again = details.again ?? (isKnown(code) ? AGAIN[code] : "unknown");
    this.maybeDone = details.maybeDone ?? this.again === "unknown";
  }
}

/**
 * The server accepts no more work now: a limit is reached or the disk is full. See `retryAfterMs`.
 */
export class QueueFull extends MainspringError {}
/** The worker no longer has the job: the reason of its `AbortSignal`. Another one may run it. */
export class LeaseLost extends MainspringError {
  constructor(message: string, details: ErrorDetails = {}) {
    super("lease_lost", message, details);
  }
}
/** The caller no longer holds the lock or the session: stop the protected work. */
export class LockLost extends MainspringError {}
/** The server is not reachable, starts or stops. */
export class Unavailable extends MainspringError {}
/** The access token is missing, wrong, revoked or expired. */
export class Unauthenticated extends MainspringError {}
/** The access token lacks a scope. The message names it. */
export class Forbidden extends MainspringError {}
export class NotFound extends MainspringError {}
/** The record existed and its retention has ended. */
export class Expired extends NotFound {}
/** A field breaks a rule. `field` names it. */
export class InvalidArgument extends MainspringError {}
/** More bytes or items than the limit in the message. */
export class TooLarge extends InvalidArgument {}
/** The current state of the job, schedule or workflow does not allow the call. */
export class Conflict extends MainspringError {}
/** Another holder has the lock or the session. */
export class LeaseHeld extends Conflict {}
/** No answer in time. The server may have executed the request. */
export class AnswerTimeout extends MainspringError {}
/** The server failed, or the answer is not from a Mainspring server. */
export class ServerError extends MainspringError {}

/** A caller asked for the job to be cancelled: the reason of its `AbortSignal`. */
export class Cancelled extends Error {}
/** The attempt exceeded its time limit: the reason of its `AbortSignal`. */
export class TimedOut extends Error {}
/** The worker stops: the reason of a job's `AbortSignal`. */
export class ShuttingDown extends Error {}

/** A call of a handler's context after the handler has ended. Nothing was sent. */
export class AttemptEnded extends Error {}

/** A job or workflow that was waited for did not complete. */
export class JobFailed extends Error {
  constructor(
    readonly id: string,
    /** Of a job "cancelled" or "dead"; the state of a workflow. */
    readonly state: string,
    readonly reason: string | undefined,
    readonly description: string | undefined,
    what = "job",
  ) {
    const why = [reason, description]
      .filter((text) => text !== undefined && text !== "")
      .join(": ");
    super(`${what} ${id} is ${state}${why === "" ? "" : `: ${why}`}`);
  }
}
/** The job or workflow has not ended in time. It continues to run. */
export class ResultTimeout extends Error {}
/** Arguments or a result do not fit the schema of their job. */
export class ValidationError extends Error {
  constructor(
    message: string,
    readonly issues: readonly { message: string; path: string }[],
  ) {
    super(message);
  }
}

const ALL = {
  ...{ MainspringError, QueueFull, LeaseLost, Unavailable, LockLost, Unauthenticated },
  ...{ Forbidden, NotFound, Expired, InvalidArgument, TooLarge, Conflict },
  ...{ LeaseHeld, AnswerTimeout, ServerError, Cancelled, TimedOut, ShuttingDown },
  ...{ AttemptEnded, JobFailed, ResultTimeout, ValidationError },
};
for (const [name, made] of Object.entries(ALL)) {
  sharedClass(name, made);
  const value = { value: name, writable: true, configurable: true };
  Object.defineProperty(made.prototype, "name", value);
}

const CLASSES: Partial<Record<ErrorCode, typeof MainspringError>> = {
  overloaded: QueueFull,
  storage_full: QueueFull,
  unavailable: Unavailable,
  unauthenticated: Unauthenticated,
  forbidden: Forbidden,
  not_found: NotFound,
  expired: Expired,
  invalid_argument: InvalidArgument,
  method_not_allowed: InvalidArgument,
  headers_too_large: InvalidArgument,
  too_large: TooLarge,
  conflict: Conflict,
  lease_held: LeaseHeld,
  lease_lost: LockLost,
  request_timeout: AnswerTimeout,
  timeout: AnswerTimeout,
  internal: ServerError,
  io_error: ServerError,
  bad_answer: ServerError,
};

function isKnown(code: string): code is ErrorCode {
  return Object.hasOwn(AGAIN, code);
}

/** @internal */
export function makeError(
  code: string,
  message: string,
  details: ErrorDetails = {},
): MainspringError {
  const known = isKnown(code) ? CLASSES[code] : undefined;
  return new (known ?? MainspringError)(code, message, details);
}

// Answers of others, such as a proxy, are never treated as answers of the server.
function codeOfForeign(status: number): ErrorCode {
  if (status === 429) return "overloaded";
  if (status === 502 || status === 503) return "unavailable";
  if (status === 504) return "timeout";
  return "bad_answer";
}

// Of a code that is newer than this client.
function againOf(status: number): Again {
  if (status === 429 || status === 503 || status === 507) return "yes";
  return status >= 400 && status < 500 ? "no" : "unknown";
}

/** The error in an answer that is not 2xx. @internal */
export function errorOfAnswer(
  status: number,
  body: string,
  retryAfterMs: number | undefined,
): MainspringError {
  let parsed: unknown;
  try {
    parsed = parseJson(body);
  } catch {
    parsed = undefined;
  }
  const error = isRecord(parsed) && isRecord(parsed["error"]) ? parsed["error"] : undefined;
  const code = error?.["code"];
  const text = error?.["message"];
  if (typeof code !== "string" || code === "") {
    const shown = body.slice(0, 200).replace(/\s+/g, " ");
    const message = `status ${status} without an error of Mainspring: ${shown}`;
    return makeError(codeOfForeign(status), message, { status, retryAfterMs });
  }
  const own = error?.["retry_after_ms"];
  return makeError(code, typeof text === "string" ? text : code, {
    status,
    again: isKnown(code) ? undefined : againOf(status),
    field: typeof error?.["field"] === "string" ? error["field"] : undefined,
    retryAfterMs: typeof own === "number" ? own : retryAfterMs,
  });
}

/** @internal */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Runs `fn`; a TypeError of it is a bad argument of the caller. @internal */
export function asArgument<T>(field: string, fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    if (error instanceof TypeError) throw makeError("invalid_argument", error.message, { field });
    throw error;
  }
}
