// What jobs of a kind carry, learned from recent ones: the server knows no schema of a kind.
import { formatJson, isNumber } from "../api/json";
import { cover, COVER } from "./secrets";

export interface KeyShape {
  type: string; // that all have, or "" if they differ
  jobs: number; // that have the key
  example: unknown; // of the newest job that has it
  values: string[]; // texts and numbers that recur, the most frequent first
}
export interface Shape {
  jobs: number;
  keys: Map<string, KeyShape>;
}

const MAX_VALUES = 12;

export function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (isNumber(value)) return "number";
  if (Array.isArray(value)) return "list";
  return typeof value;
}

// A list of choices helps only if the values repeat.
function recurring(counts: Map<string, number>, jobs: number): string[] {
  if (counts.size > MAX_VALUES || counts.size * 2 > jobs) return [];
  return [...counts].sort((a, b) => b[1] - a[1]).map(([value]) => value);
}

// `all`: args, the newest first. Args that are no object teach nothing.
export function shapeOf(all: unknown[], kind: string): Shape {
  const objects = all.filter((args) => typeOf(args) === "object").map((args) => cover(args, kind).shown as Record<string, unknown>);
  const keys = new Map<string, KeyShape & { counts: Map<string, number> }>();
  for (const args of objects) {
    for (const [name, value] of Object.entries(args)) {
      const type = value === COVER ? "" : typeOf(value);
      const key = keys.get(name) ?? { type, jobs: 0, example: value === COVER ? "" : value, values: [], counts: new Map<string, number>() };
      ++key.jobs;
      if (key.type !== type) key.type = "";
      const text = type === "string" ? (value as string) : type === "number" ? formatJson(value, 0) : undefined;
      if (text !== undefined && value !== COVER) key.counts.set(text, (key.counts.get(text) ?? 0) + 1);
      keys.set(name, key);
    }
  }
  for (const key of keys.values()) key.values = recurring(key.counts, key.jobs);
  return { jobs: objects.length, keys };
}

const EMPTY: Record<string, unknown> = { string: "", number: 0, boolean: false, list: [], object: {} };
// What a field that is added holds at first.
export const emptyOf = (key: KeyShape): unknown => (key.values.length === 1 ? key.example : (EMPTY[key.type] ?? key.example));
