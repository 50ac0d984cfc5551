import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";

import { durationMs, formatJson, parseJson } from "@mainspring-jobs/client";

test("JSON: integers beyond 2^53 keep all their digits, both ways", () => {
  const text =
    '{"a":9223372036854775807,"b":[-9007199254740993,1e3,12345678901234567.5],"c":9007199254740991}';
  const value = parseJson(text) as { a: bigint; b: (bigint | number)[]; c: number };
  assert.equal(value.a, 9223372036854775807n);
  assert.deepEqual(value.b, [-9007199254740993n, 1000, 12345678901234567.5]);
  assert.equal(value.c, Number.MAX_SAFE_INTEGER);
  assert.equal(
    formatJson({ a: value.a, c: value.c }),
    '{"a":9223372036854775807,"c":9007199254740991}',
  );
});

test("JSON: the parser for long numbers agrees with JSON.parse", () => {
  const long = "1234567890123456"; // makes the text take the slow way; a safe integer
  for (const text of [
    `{"x":[${long},"\\u00e9\\n\\"\\\\",{},[],true,false,null,-0.5e-3],"__proto__":{"y":1},"":" "}`,
    `  [ ${long} , {"a" : [ ] } ]\n`,
    `"${long} \\\\"`,
  ]) {
    assert.deepEqual(parseJson(text), JSON.parse(text));
  }
  assert.equal(Object.getPrototypeOf(parseJson(`{"__proto__":{"a":${long}}}`)), Object.prototype);
  for (const bad of [
    "",
    "01",
    "[1,]",
    "{'a':1}",
    '{"a" 1}',
    "[1",
    '"a',
    "tru",
    "1 2",
    "[1}",
    "+1",
    '{"a":}',
    '"\n"',
  ]) {
    const text = bad.replace("1", long);
    assert.throws(() => parseJson(text), SyntaxError, text);
  }
});

test("JSON: values that do not survive a round trip are refused by name", () => {
  assert.throws(
    () => formatJson({ at: [new Date()] }, "args"),
    /args\.at\[0\]: a Date .*toISOString/,
  );
  assert.throws(() => formatJson({ n: NaN }, "args"), /args\.n: NaN/);
  assert.throws(() => formatJson(new Map(), "args"), /Map/);
  assert.throws(() => formatJson({ f: () => 1 }, "args"), /args\.f: a function/);
  const holes: unknown[] = [];
  holes[1] = 1;
  assert.throws(() => formatJson({ holes }, "args"), /args\.holes\[0\]: a undefined/);
  assert.throws(() => formatJson({ p: Promise.resolve(1) }, "args"), /args\.p: a Promise .*await/);
  assert.throws(() => formatJson({ e: new Error("x") }, "args"), /args\.e: an Error/);
  for (const value of [/x/, new Number(1), new ArrayBuffer(1), new Uint8Array(1)])
    assert.throws(() => formatJson([value], "args"), /args\[0\]: a \w+ cannot be sent/);
  const buffer = /^args\.b\[0\]: a (Buffer|DataView|Uint8Array) cannot be sent as JSON: .*base64/;
  for (const value of [Buffer.from("x"), new DataView(new ArrayBuffer(1)), new Uint8Array(1)])
    assert.throws(() => formatJson({ b: [value] }, "args"), { message: buffer });
  function* items() {
    yield 1;
  }
  async function* later() {
    yield 1;
  }
  for (const value of [items(), later(), [1].values(), new Map().keys(), new URLSearchParams("a=1")])
    assert.throws(() => formatJson({ g: value }, "args"), /args\.g: a .* would be sent as \{\}: send/);
  class Hidden {
    #n = 1;
    get n() {
      return this.#n;
    }
  }
  for (const value of [new Hidden(), new Blob([]), new AbortController()])
    assert.throws(() => formatJson({ h: value }, "args"), /args\.h: a \w+ would be sent as \{\}: it/);
  const foreign: unknown = runInNewContext("({ a: {}, b: [] })");
  assert.equal(formatJson(foreign), '{"a":{},"b":[]}');
  assert.equal(formatJson(Object.create(null)), "{}");
  class Point {
    x = 1;
  }
  assert.equal(formatJson([new Point(), new URL("http://a/")]), '[{"x":1},"http://a/"]');
  const loop: unknown[] = [];
  loop.push(loop);
  assert.throws(() => formatJson(loop), /nested deeper/);
  assert.equal(formatJson({ a: undefined, b: { toJSON: 1 } }), '{"b":{"toJSON":1}}');
  for (const half of ["\ud83d", "a\ude00", "\ud83d\ud83d\ude00"]) {
    assert.throws(() => formatJson({ t: [half] }, "args"), /args\.t\[0\]: has a lone surrogate/);
    assert.throws(() => formatJson({ t: { [half]: 1 } }, "args"), /args\.t: has a lone surrogate/);
  }
  assert.equal(formatJson("\\ud83d"), '"\\\\ud83d"'); // a text that only looks like it
  assert.equal(formatJson("\ud83d\ude00 \u2028"), JSON.stringify("\ud83d\ude00 \u2028"));
});

test("durations: texts with units and milliseconds", () => {
  assert.equal(durationMs("1h30m"), 5_400_000);
  assert.equal(durationMs("250ms"), 250);
  assert.equal(durationMs(1500), 1500);
  for (const bad of ["", "30", "3 s", "s", "-1s"]) assert.throws(() => durationMs(bad), /must be/);
  assert.throws(() => durationMs(-1), /must be/);
});
