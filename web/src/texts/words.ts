// Parts of sentences.
export const list = (parts: string[]): string => (parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`);

// "1m" and "15m" as words.
export function stepText(step: string): string {
  const [, n, unit] = /^(\d+)([mh])$/.exec(step) ?? [];
  if (n === undefined) return step;
  const word = unit === "h" ? "hour" : "minute";
  return n === "1" ? word : `${n} ${word}s`;
}
