// HTTP/1.1 over kept connections: TCP, TLS or a unix socket. One request per connection at a time.
import { isIP } from "node:net";

import { Certificates, type TlsOptions } from "./certificates.js";
import { MAX_TIMER_MS, now } from "./clock.js";
import { type MainspringError, makeError } from "./errors.js";
import { Closed, Connection, type Target } from "./http_connection.js";
import type { Logger } from "./log.js";

export interface ServerAddress {
  /** Of one server, or of several servers of one store, separated by commas. */
  url: string;
  token: string | undefined;
  tls: TlsOptions | undefined;
  connectTimeoutMs: number;
}

export interface HttpRequest {
  method: string;
  path: string;
  body?: string | undefined;
  headers?: Record<string, string> | undefined;
  /** How long the server may be silent, in ms. */
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  /** Over a fresh connection: the request must not be made twice. */
  fresh?: boolean | undefined;
  /** Making the request twice is safe. */
  repeatable?: boolean | undefined;
  lane?: Lane | undefined;
}

export interface HttpAnswer {
  status: number;
  retryAfterMs: number | undefined;
  body: string;
}

/** Takes a piece of a stream. Nothing more is read until a promise that it returns is kept. */
export type OnText = (text: string) => Promise<void> | undefined;

/** Which connections a request may use: a request that waits must not keep others waiting. */
export type Lane = "calls" | "waits" | "worker";

const MAX_FREE_SOCKETS = 64;
const MAX_URLS = 16;
// With several servers: a machine that is off does not refuse connections, so this bounds the time
// until the next server is tried.
const CONNECT_TO_ONE_OF_MS = 1000;
// A worker has few requests under way: claims, finishes and renewals never wait for a connection.
const MAX_SOCKETS: Record<Lane, number> = { calls: 64, waits: 512, worker: Infinity };
const FORMS = "http://HOST:PORT, https://HOST:PORT or unix:PATH";
const PATH = /^\/[!-~]*$/;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;

interface Waiter {
  go(): void;
  stop(error: Error): void;
}

class LaneState {
  open = 0;
  answeredAt = 0;
  readonly waiting = new Set<Waiter>();
}

export class Transport {
  /** Undefined: without TLS. @internal */
  readonly certificates: Certificates | undefined;
  private readonly targets: Target[];
  private current = 0; // the server that requests go to
  private readonly free: Connection[] = [];
  private readonly all = new Set<Connection>();
  private readonly lanes = {
    calls: new LaneState(),
    waits: new LaneState(),
    worker: new LaneState(),
  };
  private closed = false;

  /** `log` takes warnings about certificates. */
  constructor(address: ServerAddress, log?: Logger) {
    const urls = address.url.split(",");
    if (urls.length > MAX_URLS) {
      const rule = `must list at most ${MAX_URLS} URLs`;
      throw makeError("invalid_argument", `url: ${rule}`, { field: "url" });
    }
    const parsed = urls.map(parseUrl);
    if (address.token !== undefined && !/^[!-~]{1,4096}$/.test(address.token)) {
      const rule = "must be up to 4096 characters, all of them visible ASCII without spaces";
      throw makeError("invalid_argument", `token: ${rule}`, { field: "token" });
    }
    if (address.token !== undefined && parsed.some((one) => !one.secure && !one.local)) {
      const rule = "a token must not go over plain HTTP to another machine: use https://";
      throw makeError("invalid_argument", `url ${address.url}: ${rule}`, { field: "url" });
    }
    if (parsed.some((one) => one.secure)) this.certificates = new Certificates(address.tls ?? {}, log);
    const token = address.token === undefined ? "" : `authorization: Bearer ${address.token}\r\n`;
    const { connectTimeoutMs: wait } = address;
    this.targets = parsed.map((one) => ({
      address: one.address,
      prefix: one.prefix,
      certificates: one.secure ? this.certificates : undefined,
      connectTimeoutMs: urls.length > 1 ? Math.min(wait, CONNECT_TO_ONE_OF_MS) : wait,
      headers: `host: ${one.authority}\r\n${token}`,
    }));
  }

  /** Half of the connections of the lane are in use. */
  crowded(lane: Lane): boolean {
    return this.lanes[lane].open >= MAX_SOCKETS[lane] / 2;
  }

  /** Sends one request. Errors: unavailable, timeout, aborted (never an answer's status). */
  async request(request: HttpRequest): Promise<HttpAnswer> {
    check(request);
    const lane = request.lane ?? "calls";
    const state = this.lanes[lane];
    if (state.open >= MAX_SOCKETS[lane]) await this.turn(state, request);
    else state.open += 1;
    try {
      const answer = await this.exchange(request);
      state.answeredAt = now();
      return answer;
    } finally {
      const [next] = state.waiting; // takes over the place
      if (next === undefined) state.open -= 1;
      else next.go();
    }
  }

  /** Opens a stream: calls `onText` with its pieces until the server ends it. */
  async stream(request: HttpRequest, onText: OnText): Promise<HttpAnswer> {
    check(request);
    let started = false; // a piece was given to the caller
    const take = (text: string) => {
      started = true;
      return onText(text);
    };
    return await this.failover(request, () => !started, async (target) => {
      const connection = this.connect(request, target);
      try {
        return (await connection.exchange(request, take)).answer;
      } finally {
        connection.destroy();
      }
    });
  }

  close(): void {
    this.closed = true;
    for (const { waiting } of Object.values(this.lanes))
      for (const one of waiting) one.stop(makeError("aborted", "the client is closed"));
    for (const connection of this.all) connection.close();
  }

  // Waits for a connection as long as the server answers others.
  private turn(state: LaneState, request: HttpRequest): Promise<void> {
    return new Promise((resolve, reject) => {
      const what = `${request.method} ${request.path}`;
      const end = () => {
        state.waiting.delete(waiter);
        clearTimeout(timer);
        request.signal?.removeEventListener("abort", onAbort);
      };
      const waiter: Waiter = {
        go: () => void (end(), resolve()),
        stop: (error) => void (end(), reject(error)),
      };
      const onAbort = () => waiter.stop(makeError("aborted", `${what}: aborted`));
      const look = () => {
        const left = state.answeredAt + request.timeoutMs - now();
        if (left > 0) timer = setTimeout(look, Math.min(left, MAX_TIMER_MS));
        else waiter.stop(makeError("unavailable", `${what}: the server answers no request`));
      };
      let timer = setTimeout(look, Math.min(request.timeoutMs, MAX_TIMER_MS));
      request.signal?.addEventListener("abort", onAbort);
      state.waiting.add(waiter);
    });
  }

  /**
   * Sends one request to the current server. If that server is unreachable or refuses for now, the
   * next one of the list becomes the current one. The request is sent to it at once if the first
   * server has not executed it, or if repeating is safe. A wrong token is an answer like any other.
   */
  private async failover(
    request: HttpRequest,
    repeatable: () => boolean,
    send: (target: Target) => Promise<HttpAnswer>,
  ): Promise<HttpAnswer> {
    for (let tried = 1; ; tried += 1) {
      const at = this.current;
      const last = tried >= this.targets.length;
      try {
        const answer = await send(this.targets[at] as Target);
        const undone = answer.status === 503 && answer.retryAfterMs !== undefined;
        if (!undone && answer.status !== 502 && answer.status !== 504) return answer;
        this.leave(at);
        if (last || !(undone || repeatable())) return answer;
      } catch (error) {
        if (request.signal?.aborted === true || this.closed) throw error;
        this.leave(at);
        if (last || !((error as MainspringError).maybeDone === false || repeatable())) throw error;
      }
    }
  }

  private leave(failed: number): void {
    if (this.current !== failed || this.targets.length === 1) return;
    this.current = (failed + 1) % this.targets.length;
    for (const connection of [...this.free]) connection.destroy();
  }

  private exchange(request: HttpRequest): Promise<HttpAnswer> {
    const repeatable = () => request.repeatable === true;
    return this.failover(request, repeatable, (target) => this.exchangeWith(target, request));
  }

  private async exchangeWith(target: Target, request: HttpRequest): Promise<HttpAnswer> {
    const kept = request.fresh === true ? undefined : this.free.pop();
    const connection = kept ?? this.connect(request, target);
    try {
      const { answer, reusable } = await connection.exchange(request);
      const useful = reusable && !this.closed && target === this.targets[this.current];
      if (useful && this.free.length < MAX_FREE_SOCKETS) this.keep(connection);
      else connection.destroy();
      return answer;
    } catch (error) {
      if (!(error instanceof Closed)) throw error;
      return await this.exchangeWith(target, { ...request, fresh: true });
    }
  }

  private keep(connection: Connection): void {
    connection.rest();
    this.free.push(connection);
  }

  private connect(request: HttpRequest, target: Target): Connection {
    if (this.closed || request.signal?.aborted === true) {
      const why = this.closed ? "the client is closed" : "aborted";
      throw makeError("aborted", `${request.method} ${request.path}: ${why}`);
    }
    const connection = new Connection(target, (closed) => {
      this.all.delete(closed);
      const at = this.free.indexOf(closed);
      if (at >= 0) this.free.splice(at, 1);
    });
    this.all.add(connection);
    return connection;
  }
}

// Nothing that a caller gives may end a line of the request.
function check({ method, path, headers = {}, signal }: HttpRequest): void {
  if (!/^[A-Z]+$/.test(method) || !PATH.test(path))
    throw makeError("invalid_argument", `${method} ${path}: must be a method and a path`, {
      field: "path",
    });
  for (const [name, value] of Object.entries(headers))
    if (!HEADER_VALUE.test(value))
      throw makeError("invalid_argument", `${name}: must be visible ASCII`, { field: name });
  if (signal?.aborted === true) throw makeError("aborted", `${method} ${path}: aborted`);
}

function parseUrl(text: string): {
  secure: boolean;
  local: boolean;
  authority: string;
  prefix: string;
  address: Target["address"];
} {
  if (text.startsWith("unix:") && text.length > 5) {
    return {
      secure: false,
      local: true,
      authority: "localhost",
      prefix: "",
      address: { path: text.slice(5) },
    };
  }
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw makeError("invalid_argument", `url "${text}": must be ${FORMS}`, { field: "url" });
  }
  const secure = url.protocol === "https:";
  const bare =
    url.search === "" &&
    url.hash === "" &&
    url.username === "" &&
    url.password === "";
  if ((!secure && url.protocol !== "http:") || !bare) {
    const shown = `${url.protocol}//${url.host}…`;
    const rule = `must be ${FORMS}, without user or query`;
    throw makeError("invalid_argument", `url "${shown}": ${rule}`, { field: "url" });
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const local =
    host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
  const port = url.port === "" ? (secure ? 443 : 80) : Number(url.port);
  const prefix = url.pathname.replace(/\/+$/, "");
  return { secure, local, authority: url.host, prefix, address: { host, port } };
}
