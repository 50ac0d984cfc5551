// Values under keys that sound secret, and under keys that an administrator chose for a kind, are hidden on the screen until
// the viewer asks for them. This protects against glances and screenshots. Who may read payloads at all is decided by the
// server.
import { getIfThere, put, remove, segment } from "../api/client";
import { isNumber } from "../api/json";
import type { View } from "../api/shapes";

const SECRET = /passw(or)?d|passphrase|secret|api[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token|^token$|authorization|credential|private[_-]?key|^cookie$/i;
export const COVER = "••••";

// The chosen keys are kept as a saved view, which all viewers read: KIND=KEY,KEY&KIND=KEY.
export const HIDDEN_KEYS_VIEW = "hidden-keys";
export const EVERY_KIND = "*";
export type HiddenKeys = Map<string, string[]>; // by kind
let chosen: HiddenKeys = new Map();
export const hiddenKeys = (): HiddenKeys => chosen;

async function readHiddenKeys(): Promise<HiddenKeys> {
  const answer = await getIfThere<{ views: View[] }>("/v1/views");
  const query = answer?.views.find((view) => view.name === HIDDEN_KEYS_VIEW)?.query;
  return new Map([...new URLSearchParams(query ?? "")].map(([kind, keys]) => [kind, keys.split(",")]));
}

// Without an answer the chosen keys are not known; those that sound secret are.
export async function loadHiddenKeys(): Promise<void> {
  chosen = await readHiddenKeys().catch(() => new Map());
}

// Throws without an answer: the view holds the keys of all kinds, and those that were not read would be deleted.
export async function saveHiddenKeys(kind: string, keys: string[]): Promise<void> {
  const next = (await readHiddenKeys()).set(kind, keys); // another viewer may have changed them
  if (keys.length === 0) next.delete(kind);
  const path = `/v1/views/${segment(HIDDEN_KEYS_VIEW)}`;
  const query = new URLSearchParams([...next].map(([name, list]) => [name, list.join(",")])).toString();
  await (next.size === 0 ? remove(path) : put(path, { page: "system", query }));
  chosen = next;
}

type Hides = "nothing" | "texts" | "all";

// The value with covered texts, and how many there are. Of a chosen key numbers are covered too.
export function cover(value: unknown, kind = ""): { shown: unknown; covered: number } {
  const keys = new Set([...(chosen.get(EVERY_KIND) ?? []), ...(chosen.get(kind) ?? [])]);
  let covered = 0;
  const walk = (one: unknown, hides: Hides): unknown => {
    if (typeof one === "string") return hides !== "nothing" && one !== "" ? (++covered, COVER) : one;
    if (isNumber(one)) return hides === "all" ? (++covered, COVER) : one;
    if (Array.isArray(one)) return one.map((item) => walk(item, hides));
    if (typeof one !== "object" || one === null) return one;
    return Object.fromEntries(Object.entries(one).map(([key, item]) => [key, walk(item, keys.has(key) ? "all" : hides === "nothing" && SECRET.test(key) ? "texts" : hides)]));
  };
  const shown = walk(value, "nothing");
  return { shown: covered === 0 ? value : shown, covered };
}
