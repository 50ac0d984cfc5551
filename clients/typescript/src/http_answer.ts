// Reads the bytes of an HTTP/1.1 answer.

const MAX_HEAD_BYTES = 64 << 10;
const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: [^\r\n]*)?\r\n/;
const NOTHING = Buffer.alloc(0);

export interface AnswerHead {
  status: number;
  retryAfter: string | undefined;
  date: string | undefined;
}

/** The bytes are no answer of HTTP/1.1. */
export class NotHttp extends Error {}

type Part = "head" | "length" | "size" | "chunk" | "chunkEnd" | "trailer" | "untilEnd" | "done";

/** Reads one answer. `push` takes the bytes as they come; `done` is true after the last one. */
export class AnswerReader {
  /** The connection may carry another request. */
  reusable = false;
  private part: Part = "head";
  private rest: Buffer = NOTHING; // of a line that is not complete
  private left = 0; // bytes of the body or of its chunk

  constructor(
    private readonly onHead: (head: AnswerHead) => void,
    private readonly onBody: (piece: Buffer) => void,
  ) {}

  get done(): boolean {
    return this.part === "done";
  }

  /** Throws NotHttp. */
  push(piece: Buffer): void {
    let bytes = this.rest.length === 0 ? piece : Buffer.concat([this.rest, piece]);
    this.rest = NOTHING;
    while (bytes.length > 0) {
      if (this.part === "done") {
        this.reusable = false; // nothing was asked for
        return;
      }
      const next = this.take(bytes);
      if (next === undefined) {
        if (bytes.length > MAX_HEAD_BYTES) throw new NotHttp("its header is too long");
        this.rest = Buffer.from(bytes);
        return;
      }
      bytes = next;
    }
  }

  /** The server has closed its side: true if the answer is complete. */
  end(): boolean {
    if (this.part === "untilEnd") this.part = "done";
    return this.done;
  }

  // Takes one part from the front. Undefined: more bytes are needed.
  private take(bytes: Buffer): Buffer | undefined {
    switch (this.part) {
      case "head":
        return this.head(bytes);
      case "untilEnd":
        this.onBody(bytes);
        return NOTHING;
      case "length":
      case "chunk": {
        const piece = bytes.length <= this.left ? bytes : bytes.subarray(0, this.left);
        this.left -= piece.length;
        this.onBody(piece);
        if (this.left === 0) this.part = this.part === "chunk" ? "chunkEnd" : "done";
        return bytes.subarray(piece.length);
      }
      default:
        return this.line(bytes);
    }
  }

  private line(bytes: Buffer): Buffer | undefined {
    const end = bytes.indexOf("\r\n");
    if (end < 0) return undefined;
    const line = bytes.toString("latin1", 0, end);
    if (this.part === "size") {
      const [, size] = /^([0-9a-fA-F]{1,8})[ \t]*(?:;|$)/.exec(line) ?? [];
      if (size === undefined) throw new NotHttp("a chunk without its size");
      this.left = parseInt(size, 16);
      this.part = this.left === 0 ? "trailer" : "chunk";
    } else if (this.part === "chunkEnd") {
      if (line !== "") throw new NotHttp("a chunk is longer than its size");
      this.part = "size";
    } else if (line === "") {
      this.part = "done";
    }
    return bytes.subarray(end + 2);
  }

  private head(bytes: Buffer): Buffer | undefined {
    const end = bytes.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    const text = bytes.toString("latin1", 0, end + 2);
    const [start, minor, code] = STATUS_LINE.exec(text) ?? [];
    if (start === undefined) throw new NotHttp("it is not HTTP/1.1");
    const status = Number(code);
    const body = bytes.subarray(end + 4);
    if (status < 200) return body; // interim: the answer follows
    const headers = readHeaders(text.slice(start.length));
    const { connection = "", "content-length": length, "transfer-encoding": coding } = headers;
    if (coding !== undefined && coding.toLowerCase() !== "chunked")
      throw new NotHttp(`its transfer encoding is ${coding}`);
    if (length !== undefined && !/^\d{1,15}$/.test(length))
      throw new NotHttp(`its length is ${length}`);
    this.left = Number(length ?? 0);
    const none = status === 204 || status === 304;
    if (coding !== undefined && !none) this.part = "size";
    else if (none || length !== undefined) this.part = none || this.left === 0 ? "done" : "length";
    else this.part = "untilEnd";
    this.reusable =
      this.part !== "untilEnd" &&
      (minor === "1" ? !/\bclose\b/i.test(connection) : /\bkeep-alive\b/i.test(connection));
    this.onHead({ status, retryAfter: headers["retry-after"], date: headers["date"] });
    return body;
  }
}

function readHeaders(text: string): Record<string, string> {
  const out: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const line of text.split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    const before = out[name];
    if (before !== undefined && name === "content-length" && before !== value)
      throw new NotHttp("it has two lengths");
    out[name] = before === undefined || name === "content-length" ? value : `${before}, ${value}`;
  }
  return out;
}
