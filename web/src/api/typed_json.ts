// JSON that the viewer typed into a field.
import { t } from "../texts";
import { ApiError } from "./client";
import { parseExact } from "./json";

// The mistake with its line and column, both from 1; undefined for JSON and for an empty text.
export function jsonProblem(text: string): string | undefined {
  if (text.trim() === "") return undefined;
  try {
    parseExact(text);
    return undefined;
  } catch (problem) {
    const [, reason, position] = /^(.*?)(?: at position (\d+))?$/s.exec(problem instanceof Error ? problem.message : String(problem))!;
    if (position === undefined) return t.badJson(reason!);
    const before = text.slice(0, Number(position)).split("\n");
    return t.badJsonAt(before.length, before.at(-1)!.length + 1, reason!.replace("\n", "\\n"));
  }
}

// undefined for an empty field. Throws ApiError, which names the field and the place of the mistake.
export function typedJson(field: string, text: string): unknown {
  const problem = jsonProblem(text);
  if (problem !== undefined) throw new ApiError(400, "invalid_argument", problem, field);
  return text.trim() === "" ? undefined : parseExact(text);
}
