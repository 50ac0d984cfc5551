// JSON that the viewer typed into a field.
import { t } from "../texts";
import { ApiError } from "./client";
import { parseJson } from "./json";

// undefined for an empty field. Throws ApiError, which names the field and the place of the mistake.
export function typedJson(field: string, text: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    return parseJson(text);
  } catch (problem) {
    throw new ApiError(400, "invalid_argument", t.badJson(problem instanceof Error ? problem.message : String(problem)), field);
  }
}
