// JSON in which no integer loses digits: an integer that a double cannot hold is a bigint.

// An integer of 16 digits or more may need a bigint. Most texts have none and take the fast way.
const LONG_NUMBER = /\d{16}/;
const MAX_DEPTH = 512;
export const LONE_SURROGATE =
  /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const NOT_JSON = [Map, Set, WeakMap, WeakSet, ArrayBuffer, RegExp, Number, String, Boolean];

/** Parses JSON. Integers beyond 2^53 become `bigint`. Throws `SyntaxError`. */
export function parseJson(text: string): unknown {
  return LONG_NUMBER.test(text) ? new Reader(text).document() : JSON.parse(text);
}

/** Formats a value as JSON. Refuses what JSON cannot carry, and names where it is. */
export function formatJson(value: unknown, what = "value"): string {
  return write(value, what, 0);
}

function nameOf(value: object): string {
  const { constructor, [Symbol.toStringTag as never]: tag } = value as { constructor?: unknown };
  if (typeof constructor === "function" && constructor.name !== "") return constructor.name;
  return typeof tag === "string" ? tag : "value of a class";
}

function refuse(what: string, problem: string): never {
  throw new TypeError(`${what}: ${problem}`);
}

// JSON.stringify escapes lone surrogates: \ud800 to \udfff.
function text(value: string, path: string): string {
  const json = JSON.stringify(value);
  if (json.includes("\\ud") && LONE_SURROGATE.test(value))
    refuse(path, "has a lone surrogate: the text was cut inside a character such as an emoji");
  return json;
}

function write(value: unknown, path: string, depth: number): string {
  switch (typeof value) {
    case "string":
      return text(value, path);
    case "number":
      if (!Number.isFinite(value)) refuse(path, `${value} is not a JSON number`);
      return Object.is(value, -0) ? "0" : String(value);
    case "bigint":
      return String(value);
    case "boolean":
      return value ? "true" : "false";
    case "object":
      return value === null ? "null" : writeObject(value, path, depth);
    default:
      return refuse(path, `a ${typeof value} cannot be sent as JSON`);
  }
}

function writeObject(value: object, path: string, depth: number): string {
  if (depth >= MAX_DEPTH) refuse(`${path.slice(0, 80)}…`, `nested deeper than ${MAX_DEPTH}`);
  if (Array.isArray(value)) {
    // Array.from: map() leaves out holes.
    const items = Array.from(value, (item, i) => write(item, `${path}[${i}]`, depth + 1));
    return `[${items.join(",")}]`;
  }
  const proto: unknown = Object.getPrototypeOf(value);
  if (value instanceof Date) {
    refuse(path, "a Date would come back as text: use codec.date, or send date.toISOString()");
  }
  if (proto !== Object.prototype && proto !== null) {
    // Before toJSON: that of a Buffer makes {"type":"Buffer",…} of it.
    if (ArrayBuffer.isView(value))
      refuse(path, `a ${nameOf(value)} cannot be sent as JSON: use codec.bytes, or send base64`);
    const { toJSON } = value as { toJSON?: unknown };
    if (typeof toJSON === "function") return write(toJSON.call(value), path, depth + 1);
    if (value instanceof Promise) refuse(path, "a Promise cannot be sent as JSON: await it");
    if (value instanceof Error) refuse(path, "an Error cannot be sent as JSON: send its message");
    if (NOT_JSON.some((one) => value instanceof one))
      refuse(path, `a ${nameOf(value)} cannot be sent as JSON`);
    if (Symbol.iterator in value || Symbol.asyncIterator in value)
      refuse(path, `a ${nameOf(value)} would be sent as {}: send an array of its items`);
    // A plain object of another realm has such a prototype, too.
    if (Object.getPrototypeOf(proto) !== null && Object.keys(value).length === 0)
      refuse(path, `a ${nameOf(value)} would be sent as {}: it has no fields of its own`);
  }
  let out = "";
  for (const key of Object.keys(value)) {
    const item = (value as Record<string, unknown>)[key];
    if (item === undefined) continue;
    out +=
      (out === "" ? "" : ",") +
      text(key, path) +
      ":" +
      write(item, `${path}.${key}`, depth + 1);
  }
  return "{" + out + "}";
}

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;

class Reader {
  private at = 0;
  constructor(private readonly text: string) {}

  document(): unknown {
    const value = this.value(0);
    this.space();
    if (this.at !== this.text.length) this.fail();
    return value;
  }

  private fail(): never {
    throw new SyntaxError(`unexpected character in JSON at position ${this.at}`);
  }

  private space(): void {
    SPACE.lastIndex = this.at;
    SPACE.test(this.text);
    this.at = SPACE.lastIndex;
  }

  private value(depth: number): unknown {
    if (depth > MAX_DEPTH) this.fail();
    this.space();
    switch (this.text[this.at]) {
      case "{":
        return this.object(depth);
      case "[":
        return this.array(depth);
      case '"':
        return this.string();
      case "t":
        return this.word("true", true);
      case "f":
        return this.word("false", false);
      case "n":
        return this.word("null", null);
      default:
        return this.number();
    }
  }

  private word<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) this.fail();
    this.at += word.length;
    return value;
  }

  private number(): number | bigint {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (match === null) this.fail();
    this.at = NUMBER.lastIndex;
    const value = Number(match[0]);
    const whole = match[1] === undefined && match[2] === undefined;
    return whole && !Number.isSafeInteger(value) ? BigInt(match[0]) : value;
  }

  private string(): string {
    let end = this.at;
    do {
      end = this.text.indexOf('"', end + 1);
      if (end < 0) this.fail();
    } while (this.escaped(end));
    const literal = this.text.slice(this.at, end + 1);
    this.at = end + 1;
    return JSON.parse(literal) as string;
  }

  private escaped(quote: number): boolean {
    let slashes = 0;
    while (this.text[quote - 1 - slashes] === "\\") slashes += 1;
    return slashes % 2 === 1;
  }

  private array(depth: number): unknown[] {
    const out: unknown[] = [];
    this.at += 1;
    this.space();
    if (this.text[this.at] === "]") {
      this.at += 1;
      return out;
    }
    for (;;) {
      out.push(this.value(depth + 1));
      if (this.next("]")) return out;
    }
  }

  private object(depth: number): Record<string, unknown> {
    const out: Record<string, unknown> = {};
    this.at += 1;
    this.space();
    if (this.text[this.at] === "}") {
      this.at += 1;
      return out;
    }
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') this.fail();
      const key = this.string();
      this.space();
      if (this.text[this.at] !== ":") this.fail();
      this.at += 1;
      const value = this.value(depth + 1);
      if (key === "__proto__") {
        Object.defineProperty(out, key, {
          value,
          enumerable: true,
          configurable: true,
          writable: true,
        });
      } else {
        out[key] = value;
      }
      if (this.next("}")) return out;
    }
  }

  // After an element: true at the closing character, false at a comma.
  private next(close: string): boolean {
    this.space();
    const found = this.text[this.at];
    if (found !== close && found !== ",") this.fail();
    this.at += 1;
    return found === close;
  }
}
