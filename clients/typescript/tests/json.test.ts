import assert from "node:assert/strict";
import { test } from "node:test";

import { durationMs, formatJson, parseJson } from "mainspring";

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
