// The HTTP transport: streams to slow readers, and the bounds of Retry-After.
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import { Pauses } from "../src/core.js";
import { makeError } from "../src/errors.js";
import { Transport } from "../src/http.js";
import { eventually, fakeServer, json } from "./fake.js";

const transportTo = (url: string) =>
  new Transport({ url, token: undefined, tls: undefined, connectTimeoutMs: 20_000 });
const request = { method: "GET", path: "/x", headers: {}, timeoutMs: 20_000 };

test("a stream waits for its reader", async () => {
  let response: ServerResponse | undefined;
  const fake = await fakeServer((_asked, opened) => {
    response = opened;
    opened.writeHead(200);
    opened.write("one");
  });
  const transport = transportTo(fake.url);
  const pieces: string[] = [];
  let goOn: () => void = () => undefined;
  const stream = transport.stream(request, (text) => {
    pieces.push(text);
    return pieces.length > 1 ? undefined : new Promise((resolve) => (goOn = resolve));
  });
  await eventually(() => pieces.length === 1, "the first piece");
  // More than the buffers of two sockets hold: the server gets a sign to wait.
  const more = Buffer.alloc(1 << 20, "x");
  let taken = 0;
  while (taken < 64 && response?.write(more) === true) taken += 1;
  assert.ok(taken < 64, "the stream was read on");
  assert.equal(pieces.length, 1);
  goOn();
  response?.end("last");
  assert.equal((await stream).status, 200);
  assert.ok(pieces.join("").endsWith("xlast"));
  fake.close();
  transport.close();
});

test("Retry-After counts for a day at most, and a pause for a minute", async () => {
  const waits: Record<string, number | undefined> = {
    "7": 7000,
    "86400": 86_400_000,
    "2592000": 86_400_000,
    "99999999999999999999": 86_400_000,
    "Wed, 01 Jan 2200 00:00:00 GMT": 86_400_000,
    soon: undefined,
  };
  for (const [header, wait] of Object.entries(waits)) {
    const fake = await fakeServer((_asked, response) =>
      json(response, 429, {}, { "retry-after": header }),
    );
    const transport = transportTo(fake.url);
    const { retryAfterMs } = await transport.request(request);
    assert.equal(retryAfterMs, wait, header);
    const error = makeError("overloaded", "busy", { retryAfterMs });
    assert.ok(new Pauses().next(error) <= 60_000, header);
    fake.close();
    transport.close();
  }
});
