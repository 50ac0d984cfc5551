// Reads an answer of the API: a JSON object, or an error.
import { errorOfAnswer, isRecord, makeError } from "./errors.js";
import type { HttpAnswer } from "./http.js";
import { parseJson } from "./json.js";

export function readAnswer(answer: HttpAnswer, what: string): Record<string, unknown> {
  const { status, body, retryAfterMs } = answer;
  if (status < 200 || status > 299) throw errorOfAnswer(status, body, retryAfterMs);
  let parsed: unknown;
  try {
    parsed = parseJson(body);
  } catch (cause) {
    throw makeError("bad_answer", `${what}: the answer is not JSON`, { status, cause });
  }
  if (!isRecord(parsed))
    throw makeError("bad_answer", `${what}: the answer is not an object`, { status });
  return parsed;
}
