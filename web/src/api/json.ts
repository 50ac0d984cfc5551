// JSON in which no number loses digits. A number whose text is not that of a double stays as text in a LosslessNumber:
// 0.12345678901234567890 and 1.10; an integer that a double cannot hold becomes a bigint.
import { isInteger, isLosslessNumber, LosslessNumber, parse, stringify } from "lossless-json";

// What jobs carry. All other numbers of an answer are the server's own, which the pages calculate with.
const PAYLOADS = new Set(["args", "result", "checkpoint", "input", "data"]);

const exact = (digits: string): unknown =>
  String(Number(digits)) === digits ? Number(digits) : isInteger(digits) && String(BigInt(digits)) === digits ? BigInt(digits) : new LosslessNumber(digits);

export function parseExact(text: string): unknown {
  return parse(text, undefined, exact);
}

// An answer of the server: payloads as parseExact returns them, decimals elsewhere as numbers. Payloads may repeat a key:
// as in JSON.parse, the last one counts.
export function parseJson(text: string): unknown {
  let kept = false;
  const parseNumber = (digits: string) => {
    const number = exact(digits);
    kept ||= isLosslessNumber(number);
    return number;
  };
  const value = parse(text, undefined, { parseNumber, onDuplicateKey: ({ newValue }) => newValue });
  return kept ? withNumbers(value) : value;
}

function withNumbers(value: unknown): unknown {
  if (isLosslessNumber(value)) return Number(value.value);
  if (Array.isArray(value)) return value.map(withNumbers);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, PAYLOADS.has(key) ? item : withNumbers(item)]));
}

export const isNumber = (value: unknown): boolean => typeof value === "number" || typeof value === "bigint" || isLosslessNumber(value);

export function formatJson(value: unknown, indent = 2): string {
  return stringify(value, undefined, indent) ?? "null";
}
