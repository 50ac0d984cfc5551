// Compares the server's version with this client's.
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { isRecord, type MainspringError } from "./errors.js";
import { parseJson } from "./json.js";
import type { LogFields } from "./log.js";

/** As in package.json. */
export const VERSION = "0.2.0";
const API = "v1";
const ANSWER_MS = 5000;
const EVERY_MS = 60_000;

/** Both versions as a text, "" if the server's is unknown, and whether they fit. */
export async function versions(core: Core): Promise<{ text: string; fit: boolean }> {
  const mine = `this client is ${VERSION}`;
  const path = "/v1/version";
  const request = { method: "GET", path, timeoutMs: ANSWER_MS, lane: "worker" } as const;
  const got = await core.transport.request(request).catch(() => undefined);
  if (got === undefined) return { text: "", fit: true };
  const { status, body } = got;
  // These say nothing of the version.
  if ([401, 403, 408, 429].includes(status) || status >= 500) return { text: "", fit: true };
  const { name, version, api } = parsed(body);
  if (status !== 200 || name !== "mainspring") {
    const what = "has no answer to GET /v1/version: it is no Mainspring server or far too old";
    return { text: `${core.url} ${what}; ${mine}`, fit: false };
  }
  const theirs = String(version);
  const server = `the server is ${theirs}`;
  if (api !== API)
    return { text: `${server} with API ${String(api)}; ${mine} with ${API}`, fit: false };
  if (older(theirs, VERSION))
    return { text: `${server}, which is older: upgrade it first; ${mine}`, fit: false };
  return { text: `${server}; ${mine}`, fit: true };
}

function parsed(body: string): Record<string, unknown> {
  try {
    const answer = parseJson(body);
    return isRecord(answer) ? answer : {};
  } catch {
    return {};
  }
}

/** Logs that a worker cannot do something, again each minute, with both versions. */
export class Complaints {
  private readonly next = new Map<string, number>();

  constructor(private readonly core: Core) {}

  async say(what: string, error: MainspringError, fields: LogFields = {}): Promise<void> {
    if (now() < (this.next.get(what) ?? 0)) return;
    this.next.set(what, now() + EVERY_MS);
    const text = error.status === undefined ? "" : (await versions(this.core)).text;
    const more = text === "" ? {} : { versions: text };
    const { code, message } = error;
    this.core.log.warn(`cannot ${what}`, { ...fields, code, error: message, ...more });
  }

  /** It can again. */
  over(what: string): void {
    this.next.delete(what);
  }
}

// By major and minor version. An unusual version is new enough.
function older(theirs: string, mine: string): boolean {
  const [a, b] = [theirs, mine].map((text) => /^(\d+)\.(\d+)/.exec(text)?.slice(1).map(Number));
  const [major = 0, minor = 0] = b ?? [];
  return a?.[0] !== undefined && (a[0] < major || (a[0] === major && (a[1] ?? 0) < minor));
}
