// Values under keys that sound secret are hidden on the screen until the viewer asks for them. This protects against
// glances and screenshots. Who may read payloads at all is decided by the server.
import { isNumber } from "../api/json";

const SECRET = /passw(or)?d|passphrase|secret|api[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token|^token$|authorization|credential|private[_-]?key|^cookie$/i;
export const COVER = "••••";

// The value with covered texts, and how many there are.
export function cover(value: unknown): { shown: unknown; covered: number } {
  let covered = 0;
  const walk = (one: unknown, secret: boolean): unknown => {
    if (typeof one === "string") return secret && one !== "" ? (++covered, COVER) : one;
    if (Array.isArray(one)) return one.map((item) => walk(item, secret));
    if (typeof one !== "object" || one === null || isNumber(one)) return one;
    return Object.fromEntries(Object.entries(one).map(([key, item]) => [key, walk(item, secret || SECRET.test(key))]));
  };
  const shown = walk(value, false);
  return { shown: covered === 0 ? value : shown, covered };
}
