// Outcomes as they go into a finish.
import type { Attempt } from "./attempt.js";
import { definitionOf, jobJson } from "./define.js";
import { MainspringError } from "./errors.js";
import { formatJson, LONE_SURROGATE } from "./json.js";
import type { Outcome } from "./outcomes.js";
import { textOf } from "./reasons.js";

const MAX_RESULT_BYTES = 1 << 20;

export interface Done {
  id: string;
  token: bigint;
  outcome: Outcome["kind"];
  /** As it goes into the request. */
  json: string;
}

// Texts for people never make an outcome fail: the server takes no half of a surrogate pair.
const TEXTS = new Set(["error", "reason", "description"]);
const MAX_TEXT = 16_000;
const LONE_SURROGATES = new RegExp(LONE_SURROGATE, "g");

/** A text for people that the server accepts. */
export function people(value: unknown): string {
  const text = typeof value === "string" ? value : textOf(value);
  return text.slice(0, MAX_TEXT).replace(LONE_SURROGATES, "\ufffd");
}

function encode(id: string, token: bigint, fields: Record<string, unknown>, more = ""): string {
  const sent = Object.entries(fields).map(([name, value]) => [
    name,
    TEXTS.has(name) ? people(value) : value,
  ]);
  const rest = formatJson(Object.fromEntries(sent)).slice(1, -1);
  return `{"id":${id},"token":${token},${rest}${more}}`;
}

function messageOf(error: unknown): string {
  return error instanceof MainspringError || error instanceof TypeError
    ? error.message
    : textOf(error);
}

export function encodeDead(id: string, token: bigint, reason: string, description: string): Done {
  const fields = { outcome: "dead", reason, description };
  return { id, token, outcome: "dead", json: encode(id, token, fields) };
}

export function encodeOutcome(attempt: Attempt, outcome: Outcome<unknown>): Done {
  const { token } = attempt.claimed;
  const { id } = attempt;
  const dead = (reason: string, description: string) => encodeDead(id, token, reason, description);
  let more = "";
  if (outcome.kind === "complete") {
    try {
      const result = outcome.result === undefined ? "" : formatJson(outcome.result, "result");
      const bytes = result.length > MAX_RESULT_BYTES / 4 ? Buffer.byteLength(result) : 0;
      if (bytes > MAX_RESULT_BYTES) {
        return dead(
          "result_too_large",
          `the result has ${bytes} bytes: must be at most ${MAX_RESULT_BYTES}`,
        );
      }
      if (result !== "") more += `,"result":${result}`;
    } catch (error) {
      return dead("bad_result", messageOf(error));
    }
    try {
      const next = outcome.next.map(({ job, args, options }) =>
        jobJson(definitionOf(job), args, options ?? {}),
      );
      if (next.length > 0) more += `,"next":[${next.join(",")}]`;
    } catch (error) {
      return dead("bad_next", messageOf(error));
    }
  }
  if (outcome.kind === "defer" && attempt.claimed.job.session !== undefined) {
    const error = "a job of a session cannot be deferred";
    return { id, token, outcome: "retry", json: encode(id, token, { outcome: "retry", error }) };
  }
  // A failed attempt leaves the session's state as it was.
  if (attempt.newSessionState !== undefined && outcome.kind !== "retry") {
    more += `,"session_state":${attempt.newSessionState.json}`;
  }
  return {
    id,
    token,
    outcome: outcome.kind,
    json: encode(id, token, { outcome: outcome.kind, ...outcome.fields }, more),
  };
}
