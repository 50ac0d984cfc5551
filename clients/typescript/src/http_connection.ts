// One connection to the server: one request at a time.
import { connect as connectPlain, isIP, type Socket } from "node:net";
import { StringDecoder } from "node:string_decoder";
import { connect as connectTls } from "node:tls";

import type { Certificates } from "./certificates.js";
import { MAX_TIMER_MS } from "./clock.js";
import { type ErrorDetails, makeError } from "./errors.js";
import type { HttpAnswer, HttpRequest, OnText } from "./http.js";
import { type AnswerHead, AnswerReader, NotHttp } from "./http_answer.js";

const MAX_ANSWER_BYTES = 1 << 30; // 1000 jobs with 1 MiB each
const MAX_RETRY_AFTER_MS = 86_400_000;

/** The server closed a kept connection before it took the request. */
export class Closed extends Error {}

export interface Target {
  address: { host: string; port: number } | { path: string };
  /** Comes before each path: "/jobs". */
  prefix: string;
  /** Undefined: without TLS. */
  certificates: Certificates | undefined;
  connectTimeoutMs: number;
  /** Header lines of every request. */
  headers: string;
}

export class Connection {
  private readonly socket: Socket;
  private connected = false;
  private used = false;
  private current: Exchange | undefined;

  constructor(
    private readonly target: Target,
    /** The connection is of no use any more. */
    private readonly onClose: (connection: Connection) => void,
  ) {
    const { address } = target;
    const secureContext = target.certificates?.forConnection();
    const named = "host" in address && isIP(address.host) === 0 ? { servername: address.host } : {};
    this.socket =
      secureContext === undefined
        ? connectPlain(address)
        : connectTls({ ...address, ...named, secureContext });
    this.socket.setNoDelay(true);
    this.socket.setKeepAlive(true, 1000);
    const late = setTimeout(() => {
      this.fail("unavailable", `no connection within ${target.connectTimeoutMs} ms`);
    }, Math.min(target.connectTimeoutMs, MAX_TIMER_MS));
    this.socket.once(secureContext === undefined ? "connect" : "secureConnect", () => {
      this.connected = true;
      clearTimeout(late);
    });
    this.socket.on("data", (piece: Buffer) => this.take(piece));
    this.socket.on("error", (error: NodeJS.ErrnoException) => this.broken(error));
    this.socket.once("end", () => this.ended());
    this.socket.once("close", () => {
      clearTimeout(late);
      this.ended();
    });
  }

  /** A free connection does not hold the process. */
  rest(): void {
    this.socket.unref();
  }

  destroy(): void {
    this.socket.destroy();
    this.onClose(this);
  }

  /** Ends its request too. */
  close(): void {
    this.fail("aborted", "the client is closed");
  }

  /** Sends a request. Resolves to its answer and whether the connection may be used again. */
  exchange(
    request: HttpRequest,
    onText?: OnText,
  ): Promise<{ answer: HttpAnswer; reusable: boolean }> {
    return new Promise((resolve, reject) => {
      if (this.used) this.socket.ref();
      const onAbort = () => this.fail("aborted", "aborted");
      const settle = (act: () => void) => {
        if (this.current !== exchange) return;
        this.current = undefined;
        this.used = true;
        exchange.stopTimer();
        request.signal?.removeEventListener("abort", onAbort);
        act();
      };
      const exchange: Exchange = new Exchange(request, this.socket, onText, {
        silent: () => this.fail("timeout", `no answer within ${request.timeoutMs} ms`),
        tooLong: () => this.fail("bad_answer", "an answer of more than 1 GiB"),
        resolve: (answer, reusable) => settle(() => resolve({ answer, reusable })),
        reject: (error) => settle(() => reject(error)),
      });
      this.current = exchange;
      request.signal?.addEventListener("abort", onAbort);
      this.socket.write(...wireText(request, this.target));
    });
  }

  private fail(code: string, text: string, details: ErrorDetails = {}): void {
    const { current } = this;
    const what = current?.what ?? "";
    current?.reject(
      makeError(code, `${what}: ${text}`, { maybeDone: this.connected, ...details }),
    );
    this.destroy();
  }

  private take(piece: Buffer): void {
    if (this.current === undefined) return this.destroy(); // nothing was asked for
    try {
      this.current.push(piece);
    } catch (error) {
      if (!(error instanceof NotHttp)) this.current.reject(error as Error);
      else this.fail("unavailable", `the answer is invalid: ${error.message}`);
      this.destroy();
    }
  }

  private broken(error: NodeJS.ErrnoException): void {
    const { current } = this;
    if (current?.answered === false && this.used && /^(ECONNRESET|EPIPE)$/.test(error.code ?? ""))
      current.reject(new Closed());
    this.fail("unavailable", error.message || String(error.code), { cause: error });
  }

  private ended(): void {
    const { current } = this;
    if (current === undefined || current.end()) return this.destroy();
    if (!current.answered && this.used) current.reject(new Closed());
    const text = current.answered ? "the answer was cut off" : "the server closed the connection";
    this.fail("unavailable", text);
  }
}

interface Outcomes {
  silent(): void;
  tooLong(): void;
  resolve(answer: HttpAnswer, reusable: boolean): void;
  reject(error: Error): void;
}

class Exchange {
  answered = false;
  private head: AnswerHead | undefined;
  private readonly pieces: Buffer[] = [];
  private bytes = 0;
  private timer: NodeJS.Timeout;
  private waiting = false;
  private readonly decoder: StringDecoder | undefined;
  private readonly reader = new AnswerReader(
    (head) => (this.head = head),
    (piece) => this.body(piece),
  );

  constructor(
    private readonly request: HttpRequest,
    private readonly socket: Socket,
    private readonly onText: OnText | undefined,
    private readonly outcomes: Outcomes,
  ) {
    this.timer = this.startTimer();
    if (onText !== undefined) this.decoder = new StringDecoder("utf8");
  }

  get what(): string {
    return `${this.request.method} ${this.request.path}`;
  }

  push(piece: Buffer): void {
    this.answered = true;
    this.reader.push(piece);
    if (this.reader.done) this.finish();
    else if (!this.waiting) this.timer.refresh();
  }

  /** The server has closed its side: true if the answer is complete. */
  end(): boolean {
    if (!this.reader.end()) return false;
    this.finish();
    return true;
  }

  reject(error: Error): void {
    this.outcomes.reject(error);
  }

  stopTimer(): void {
    clearTimeout(this.timer);
  }

  private startTimer(): NodeJS.Timeout {
    return setTimeout(this.outcomes.silent, Math.min(this.request.timeoutMs, MAX_TIMER_MS));
  }

  private body(piece: Buffer): void {
    if (this.onText !== undefined && this.head?.status === 200) {
      const room = this.onText(this.decoder?.write(piece) ?? "");
      if (room !== undefined) this.wait(room);
      return;
    }
    this.bytes += piece.length;
    if (this.bytes > MAX_ANSWER_BYTES) return this.outcomes.tooLong();
    this.pieces.push(piece);
  }

  // The reader of a stream is slow, not the server.
  private wait(room: Promise<void>): void {
    this.socket.pause();
    this.stopTimer();
    this.waiting = true;
    void room.then(() => {
      this.waiting = false;
      if (this.socket.destroyed) return;
      this.timer = this.startTimer();
      this.socket.resume();
    });
  }

  private finish(): void {
    const { status = 0, retryAfter, date } = this.head ?? {};
    const [first = Buffer.alloc(0), ...more] = this.pieces;
    const whole = more.length === 0 ? first : Buffer.concat(this.pieces);
    const answer = {
      status,
      retryAfterMs: waitOf(retryAfter, date),
      body: whole.toString("utf8"),
    };
    this.outcomes.resolve(answer, this.reader.reusable);
  }
}

// A request as it goes over the wire, and its encoding.
function wireText(request: HttpRequest, target: Target): [string, BufferEncoding] {
  const { method, path, body } = request;
  let text = `${method} ${target.prefix}${path} HTTP/1.1\r\n${target.headers}`;
  for (const [name, value] of Object.entries(request.headers ?? {}))
    text += `${name}: ${value}\r\n`;
  if (body === undefined) {
    const length = method === "GET" ? "" : "content-length: 0\r\n";
    return [`${text}${length}\r\n`, "latin1"];
  }
  const bytes = Buffer.byteLength(body);
  text += `content-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n${body}`;
  return [text, bytes === body.length ? "latin1" : "utf8"];
}

// Seconds, or a date, which counts from the answer's own: the clocks of the two machines may
// differ.
function waitOf(header: string | undefined, date: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const wait = /^\d+$/.test(header)
    ? Number(header) * 1000
    : Date.parse(header) - Date.parse(date ?? "");
  return Number.isNaN(wait) ? undefined : Math.min(Math.max(wait, 0), MAX_RETRY_AFTER_MS);
}
