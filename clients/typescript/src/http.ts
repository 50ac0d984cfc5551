// HTTP/1.1 over kept connections: TCP, TLS or a unix socket. One request per connection at a time.
import * as http from "node:http";
import * as https from "node:https";
import { isIP } from "node:net";

import { makeError } from "./errors.js";

export interface TlsOptions {
  /** Authorities that may have signed the server's certificate, PEM. Default: those of Node.js. */
  ca?: string | Uint8Array | undefined;
  /** The client's own certificate and key, PEM. */
  cert?: string | Uint8Array | undefined;
  key?: string | Uint8Array | undefined;
}

export interface ServerAddress {
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
}

export interface HttpAnswer {
  status: number;
  retryAfterMs: number | undefined;
  body: string;
}

/** Takes a piece of a stream. Nothing more is read until a promise that it returns is kept. */
export type OnText = (text: string) => Promise<void> | undefined;

const MAX_ANSWER_BYTES = 1 << 30; // 1000 jobs with 1 MiB each
const MAX_FREE_SOCKETS = 64;
const MAX_RETRY_AFTER_MS = 86_400_000;
const FORMS = "http://HOST:PORT, https://HOST:PORT or unix:PATH";

// Thrown by one exchange: `unseen` = the server closed a kept connection before it took the
// request.
class Closed extends Error {}

export class Transport {
  private readonly agent: http.Agent;
  private readonly base: http.RequestOptions;
  private readonly secure: boolean;
  private readonly connectTimeoutMs: number;

  constructor(address: ServerAddress) {
    const parsed = parseUrl(address.url);
    if (address.token !== undefined && !/^[!-~]{1,4096}$/.test(address.token)) {
      const rule = "must be up to 4096 characters, all of them visible ASCII without spaces";
      throw makeError("invalid_argument", `token: ${rule}`, { field: "token" });
    }
    if (address.token !== undefined && !parsed.secure && !parsed.local) {
      const rule = "a token must not go over plain HTTP to another machine: use https://";
      throw makeError("invalid_argument", `url ${address.url}: ${rule}`, { field: "url" });
    }
    this.secure = parsed.secure;
    this.connectTimeoutMs = address.connectTimeoutMs;
    const tls = address.tls ?? {};
    const options = {
      keepAlive: true,
      maxFreeSockets: MAX_FREE_SOCKETS,
      scheduling: "lifo" as const,
      noDelay: true,
    };
    this.agent = parsed.secure
      ? new https.Agent({
          ...options,
          ...present({ ca: tls.ca, cert: tls.cert, key: tls.key }),
        } as https.AgentOptions)
      : new http.Agent(options);
    const headers: Record<string, string> = { host: parsed.authority };
    if (address.token !== undefined) headers["authorization"] = `Bearer ${address.token}`;
    this.base = {
      ...parsed.target,
      headers,
      ...(present({ ca: tls.ca, cert: tls.cert, key: tls.key }) as object),
    };
  }

  /** Sends one request. Errors: unavailable, timeout, aborted (never an answer's status). */
  async request(request: HttpRequest): Promise<HttpAnswer> {
    try {
      return await this.exchange(request, request.fresh === true);
    } catch (error) {
      if (!(error instanceof Closed)) throw error;
      return await this.exchange(request, true);
    }
  }

  /** Opens a stream: calls `onText` with its pieces until the server ends it. */
  async stream(request: HttpRequest, onText: OnText): Promise<HttpAnswer> {
    return await this.exchange(request, true, onText);
  }

  close(): void {
    this.agent.destroy();
  }

  private exchange(request: HttpRequest, fresh: boolean, onText?: OnText): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      if (request.signal?.aborted === true) {
        reject(makeError("aborted", `${request.method} ${request.path}: aborted`));
        return;
      }
      const headers: Record<string, string> = {
        ...(this.base.headers as Record<string, string>),
        ...request.headers,
      };
      if (request.body !== undefined) {
        headers["content-type"] ??= "application/json";
        headers["content-length"] = String(Buffer.byteLength(request.body));
      } else if (request.method !== "GET") {
        headers["content-length"] = "0";
      }
      const options: http.RequestOptions = {
        ...this.base,
        method: request.method,
        path: request.path,
        agent: fresh ? false : this.agent,
        headers,
      };
      const sent = this.secure ? https.request(options) : http.request(options);
      const what = `${request.method} ${request.path}`;
      let answered = false;
      let connected = false;
      let settled = false;
      const settle = (act: () => void) => {
        if (settled) return;
        settled = true;
        clearTimeout(timer);
        request.signal?.removeEventListener("abort", onAbort);
        act();
      };
      const fail = (error: Error) => {
        settle(() => reject(error));
        sent.destroy();
      };
      const onAbort = () => fail(makeError("aborted", `${what}: aborted`));
      const silent = () =>
        fail(
          makeError("timeout", `${what}: no answer within ${request.timeoutMs} ms`, {
            maybeDone: connected,
          }),
        );
      let timer = setTimeout(silent, request.timeoutMs);
      request.signal?.addEventListener("abort", onAbort);
      sent.once("socket", (socket) => {
        connected = !socket.connecting;
        if (connected) return;
        const late = () =>
          fail(
            makeError("unavailable", `${what}: no connection within ${this.connectTimeoutMs} ms`),
          );
        const connecting = setTimeout(late, this.connectTimeoutMs);
        socket.once(this.secure ? "secureConnect" : "connect", () => {
          connected = true;
          clearTimeout(connecting);
        });
        socket.once("close", () => clearTimeout(connecting));
      });
      sent.once("error", (error: NodeJS.ErrnoException) => {
        const closed =
          !answered && sent.reusedSocket && (error.code === "ECONNRESET" || error.code === "EPIPE");
        if (closed) return fail(new Closed());
        const details = { cause: error, maybeDone: connected };
        fail(makeError("unavailable", `${what}: ${error.message || error.code}`, details));
      });
      sent.once("response", (response) => {
        answered = true;
        const pieces: Buffer[] = [];
        let bytes = 0;
        if (onText !== undefined && response.statusCode === 200) {
          response.setEncoding("utf8");
          response.on("data", (text: string) => {
            timer.refresh();
            const room = onText(text);
            if (room === undefined) return;
            response.pause();
            clearTimeout(timer); // the reader is slow, not the server
            void room.then(() => {
              if (settled) return;
              timer = setTimeout(silent, request.timeoutMs);
              response.resume();
            });
          });
        } else {
          response.on("data", (piece: Buffer) => {
            timer.refresh();
            bytes += piece.length;
            if (bytes > MAX_ANSWER_BYTES)
              fail(makeError("bad_answer", `${what}: an answer of more than 1 GiB`));
            pieces.push(piece);
          });
        }
        const cutOff = () =>
          fail(makeError("unavailable", `${what}: the answer was cut off`, { maybeDone: true }));
        response.once("error", cutOff);
        response.once("aborted", cutOff);
        response.once("end", () => {
          if (!response.complete) return cutOff();
          const whole = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
          settle(() =>
            resolve({
              status: response.statusCode ?? 0,
              retryAfterMs: retryAfter(response.headers["retry-after"], response.headers.date),
              body: whole?.toString("utf8") ?? "",
            }),
          );
        });
      });
      sent.end(request.body);
    });
  }
}

// Seconds, or a date, which counts from the answer's own: the clocks of the two machines may
// differ.
function retryAfter(header: string | undefined, date: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const wait = /^\d+$/.test(header)
    ? Number(header) * 1000
    : Date.parse(header) - Date.parse(date ?? "");
  return Number.isNaN(wait) ? undefined : Math.min(Math.max(wait, 0), MAX_RETRY_AFTER_MS);
}

function present(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

function parseUrl(text: string): {
  secure: boolean;
  local: boolean;
  authority: string;
  target: http.RequestOptions;
} {
  if (text.startsWith("unix:") && text.length > 5) {
    return {
      secure: false,
      local: true,
      authority: "localhost",
      target: { socketPath: text.slice(5) },
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
    url.pathname === "/" &&
    url.search === "" &&
    url.hash === "" &&
    url.username === "" &&
    url.password === "";
  if ((!secure && url.protocol !== "http:") || !bare) {
    const shown = `${url.protocol}//${url.host}…`;
    const rule = `must be ${FORMS}, without user, path or query`;
    throw makeError("invalid_argument", `url "${shown}": ${rule}`, { field: "url" });
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const local =
    host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
  const port = url.port === "" ? (secure ? 443 : 80) : Number(url.port);
  return { secure, local, authority: url.host, target: { host, port } };
}
