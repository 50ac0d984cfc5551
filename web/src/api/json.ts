// JSON in which no integer loses digits: a number that a double cannot hold becomes a bigint.
import { isInteger, isSafeNumber, parse, stringify } from "lossless-json";

export function parseJson(text: string): unknown {
  return parse(text, undefined, (digits) =>
    isSafeNumber(digits) ? Number(digits) : isInteger(digits) ? BigInt(digits) : Number(digits),
  );
}

export function formatJson(value: unknown, indent = 2): string {
  return stringify(value, undefined, indent) ?? "null";
}
