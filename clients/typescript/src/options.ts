// Checks the names of options: TypeScript finds a mistake only in literals, JavaScript none.
import { makeError } from "./errors.js";

/** The names of the options of a type. The compiler reports a missing one. */
export type Names<T> = Record<keyof T, 1>;

export function checkOptions(given: object, known: object): void {
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(known, name)) continue;
    const names = Object.keys(known);
    const near = names.map((one) => [distance(plain(name), plain(one)), one] as const);
    const [[apart, best]] = near.sort(([a], [b]) => a - b) as [readonly [number, string]];
    const hint = apart < 3 ? `did you mean "${best}"?` : `known are ${names.join(", ")}`;
    throw makeError("invalid_argument", `"${name}": no such option; ${hint}`, { field: name });
  }
}

function plain(name: string): string {
  return name.replaceAll("_", "").toLowerCase();
}

// Levenshtein's distance.
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j += 1) {
      const changed = (row[j] ?? 0) + (letter === b[j] ? 0 : 1);
      next.push(Math.min(changed, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
