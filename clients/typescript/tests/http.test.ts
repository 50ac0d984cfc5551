// The HTTP transport: streams to slow readers, and the bounds of Retry-After.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { createServer as createTlsServer } from "node:tls";

import { type LogFields, Mainspring } from "@mainspring-jobs/client";
import { silent } from "@mainspring-jobs/client/testing";

import { callAfter } from "../src/clock.js";
import { Pauses } from "../src/core.js";
import { type MainspringError, makeError } from "../src/errors.js";
import { type HttpRequest, Transport } from "../src/http.js";
import { eventually, fakeServer, json } from "./fake.js";

const transportTo = (url: string) =>
  new Transport({ url, token: undefined, tls: undefined, connectTimeoutMs: 20_000 });
const request = { method: "GET", path: "/x", headers: {}, timeoutMs: 20_000 };

/** A server that answers each request by `answer(socket, number of the request)`. */
async function rawServer(t: TestContext, answer: (socket: Socket, count: number) => void) {
  const sockets = new Set<Socket>();
  let count = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    let text = "";
    socket.on("error", () => undefined);
    socket.on("data", (piece) => {
      text += piece.toString();
      for (let end = text.indexOf("\r\n\r\n"); end >= 0; end = text.indexOf("\r\n\r\n")) {
        text = text.slice(end + 4);
        answer(socket, ++count);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  t.after(close);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, sockets };
}

async function writeSlowly(socket: Socket, text: string): Promise<void> {
  for (const byte of Buffer.from(text)) {
    await new Promise((resolve) => socket.write(Buffer.from([byte]), resolve));
    await new Promise(setImmediate);
  }
}

test("a URL may have a path, and may be a list of which all must be good", async (t) => {
  const fake = await fakeServer((_, response) => json(response, 200, {}));
  t.after(() => fake.close());
  const transport = transportTo(`${fake.url}/jobs/`);
  await transport.request(request);
  transport.close();
  assert.equal(fake.asked[0]?.path, "/jobs/x");
  for (const bad of ["http://a,", "http://a,b", "http://a?b", "http://u@a"])
    assert.throws(() => transportTo(bad), { code: "invalid_argument" }, bad);
  const token = { url: "http://127.0.0.1:1,http://example.org", token: "t", tls: undefined };
  assert.throws(() => new Transport({ ...token, connectTimeoutMs: 1 }), /https/);
});

test("a stream continues at the next server of the list", async (t) => {
  const dead = await rawServer(t, (socket) => socket.destroy());
  const fake = await fakeServer((_, response) => json(response, 200, "data"));
  t.after(() => fake.close());
  const transport = transportTo(`${dead.url},${fake.url}`);
  let text = "";
  await transport.stream(request, (piece) => void (text += piece));
  transport.close();
  assert.equal(text, "data");
});

const HEAD = "HTTP/1.1 200 OK\r\n";
const CHUNKS = "4;x=1\r\n{\"a\"\r\n5 \r\n:\"ü\"\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n";

test("answers are read in every framing, whole or byte by byte", async (t) => {
  const answers: [string, boolean][] = [
    [`${HEAD}Content-Length: 11\r\n\r\n{"a":"ü"} `, true],
    [`${HEAD}content-length:11\r\nConnection: close\r\n\r\n{"a":"ü"} `, false],
    [`HTTP/1.1 100 Continue\r\n\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n${CHUNKS}`, true],
    [`HTTP/1.0 200 OK\r\nContent-Length: 11\r\n\r\n{"a":"ü"} `, false],
    [`${HEAD}\r\n{"a":"ü"}`, false], // until the end of the connection
  ];
  for (const slowly of [false, true]) {
    for (const [text, kept] of answers) {
      const untilEnd = text.endsWith("}");
      const server = await rawServer(t, (socket) => {
        const written = slowly ? writeSlowly(socket, text) : socket.write(text);
        if (untilEnd) void Promise.resolve(written).then(() => socket.end());
      });
      const transport = transportTo(server.url);
      for (const _ of [1, 2]) {
        const { status, body } = await transport.request(request);
        assert.deepEqual([status, body.trim()], [200, '{"a":"ü"}'], text);
      }
      assert.equal(server.sockets.size, kept ? 1 : 2, text);
      transport.close();
    }
  }
});

test("what is not an answer fails the call as unavailable", async (t) => {
  for (const text of [
    "SSH-2.0-OpenSSH\r\n\r\n",
    `${HEAD}Content-Length: 5x\r\n\r\n`,
    `${HEAD}Content-Length: 5\r\nContent-Length: 6\r\n\r\n123456`,
    `${HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n`,
    `${HEAD}Transfer-Encoding: chunked\r\n\r\nx\r\n`,
    `${HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n`,
    `${HEAD}X: ${"y".repeat(70_000)}`,
  ]) {
    const server = await rawServer(t, (socket) => void socket.write(text));
    const transport = transportTo(server.url);
    await assert.rejects(
      transport.request(request),
      ({ code, maybeDone }: MainspringError) => code === "unavailable" && maybeDone,
      text.slice(0, 60),
    );
    transport.close();
  }
});

test("bytes that no call asked for end a free connection, not the next call", async (t) => {
  const answer = `${HEAD}Content-Length: 2\r\n\r\n{}`;
  const server = await rawServer(t, (socket, count) => {
    socket.write(count === 1 ? answer + answer : answer);
  });
  const transport = transportTo(server.url);
  for (const _ of [1, 2, 3]) assert.equal((await transport.request(request)).body, "{}");
  assert.equal(server.sockets.size, 2);
  transport.close();
});

test("a request cannot carry a line of its caller", async () => {
  const transport = transportTo("http://127.0.0.1:1");
  const bad: Partial<HttpRequest>[] = [
    { path: "/x HTTP/1.1\r\nX: y" },
    { path: "x" },
    { path: "/ü" },
    { method: "GET /y" },
    { headers: { "last-event-id": "1\r\nX: y" } },
  ];
  for (const one of bad)
    await assert.rejects(
      transport.request({ ...request, ...one }),
      ({ code }: MainspringError) => code === "invalid_argument",
      JSON.stringify(one),
    );
});

test("connections are capped: other requests wait for one, and may be aborted there", async (t) => {
  const held: Socket[] = [];
  const server = await rawServer(t, (socket) => void held.push(socket));
  const transport = transportTo(server.url);
  const stop = new AbortController();
  const calls = Array.from({ length: 100 }, async () => await transport.request(request));
  const aborted = transport.request({ ...request, signal: stop.signal });
  await eventually(() => held.length === 64, "64 requests");
  // A worker's requests do not wait for those of others, nor do waits.
  const others = (["worker", "waits"] as const).map(
    async (lane) => await transport.request({ ...request, lane }),
  );
  await eventually(() => held.length === 66, "the two others");
  stop.abort();
  await assert.rejects(aborted, ({ code }: MainspringError) => code === "aborted");
  const answer = `${HEAD}Content-Length: 2\r\n\r\n{}`;
  for (let answered = 0; answered < 102; answered += 1) {
    await eventually(() => held.length > answered, "the next request");
    held[answered]?.write(answer);
  }
  for (const { status } of await Promise.all([...calls, ...others])) assert.equal(status, 200);
  assert.ok(server.sockets.size <= 66, `${server.sockets.size} sockets`);
  transport.close();
});

test("a closed client ends the requests that run or wait", async (t) => {
  const held: Socket[] = [];
  const server = await rawServer(t, (socket) => void held.push(socket));
  const transport = transportTo(server.url);
  const calls = Array.from({ length: 70 }, () => transport.request(request));
  const ended = Promise.allSettled(calls);
  await eventually(() => held.length === 64, "64 requests");
  transport.close();
  for (const one of await ended)
    assert.equal(one.status === "rejected" && (one.reason as MainspringError).code, "aborted");
  assert.equal(held.length, 64);
});

test("times of more than 24.8 days do not end at once", async () => {
  const month = 30 * 86_400_000;
  const fake = await fakeServer((_asked, response) => json(response, 200, {}));
  const transport = new Transport({
    ...{ url: fake.url, token: undefined, tls: undefined, connectTimeoutMs: month },
  });
  assert.equal((await transport.request({ ...request, timeoutMs: month })).status, 200);
  let over = false;
  const stop = callAfter(month, () => (over = true));
  await transport.request({ ...request, timeoutMs: month }); // more than a turn of the event loop
  assert.equal(over, false);
  stop();
  transport.close();
  fake.close();
});

test("certificate files are read at each new connection; a warning comes 7 days before the end", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "mainspring-tls-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const binary = process.env["MAINSPRING_BINARY"] ?? "mainspring";
  const issue = (...args: string[]) =>
    execFileSync(binary, ["tls", ...args, "--dir", directory], { stdio: "pipe" });
  issue("init", "--host", "127.0.0.1", "--host", "localhost");
  issue("issue", "first", "--client", "--days", "8");
  issue("issue", "second", "--client", "--days", "6");
  const file = (name: string) => join(directory, name);
  const use = (name: string, end: string) => copyFileSync(file(`${name}.${end}`), file(`my.${end}`));
  use("first", "pem");
  use("first", "key");
  const [ca, cert, key] = ["ca.pem", "server.pem", "server.key"].map((name) => readFileSync(file(name)));
  const server = createTlsServer({ ca, cert, key, requestCert: true }, (socket) => {
    socket.on("error", () => undefined);
    socket.on("data", () => {
      const body = String(socket.getPeerCertificate().subject.CN);
      socket.write(`${HEAD}Content-Length: ${body.length}\r\n\r\n${body}`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const tls = { caFile: file("ca.pem"), certificateFile: file("my.pem"), keyFile: file("my.key") };
  const lines: [string, LogFields | undefined][] = [];
  const warn = (message: string, fields?: LogFields) => void lines.push([message, fields]);
  const to = (host: string, more: object) =>
    new Transport(
      { url: `https://${host}:${port}`, token: undefined, connectTimeoutMs: 20_000, tls: more },
      { ...silent, warn },
    );
  const transport = to("localhost", tls);
  t.after(() => transport.close());
  const who = async (fresh: boolean) => (await transport.request({ ...request, fresh })).body;
  assert.equal(await who(false), "first");
  use("second", "key"); // half of a renewal: the key does not fit
  assert.equal(await who(true), "first");
  assert.equal(await who(true), "first");
  const [[refused, { files } = {}] = [], ...again] = lines.splice(0);
  assert.deepEqual(
    [refused, files, again],
    [
      "cannot use new certificates; those that were read before are used",
      [tls.caFile, tls.certificateFile, tls.keyFile].join(),
      [],
    ],
  );
  use("second", "pem");
  assert.equal(await who(true), "second");
  const [[message, fields] = [], ...more] = lines;
  assert.deepEqual([message, more], ["the client certificate ends soon: renew it", []]);
  assert.equal(fields?.["file"], file("my.pem"));
  assert.match(String(fields?.["at"]), /^\d{4}-\d\d-\d\dT/);
  transport.close();
  // The server's certificate is checked: by its authority, and by its name or address.
  const byAddress = to("127.0.0.1", { ...tls, caFile: undefined, ca });
  assert.equal((await byAddress.request(request)).body, "second");
  const unknown = to("localhost", {});
  await assert.rejects(unknown.request(request), ({ code }: MainspringError) => code === "unavailable");
  byAddress.close();
  for (const wrong of [{ caFile: file("none.pem") }, { ca, caFile: file("ca.pem") }, { ca: "x", cert: "y" }])
    assert.throws(
      () => new Mainspring(`https://localhost:${port}`, { tls: wrong }),
      ({ code, field }: MainspringError) => code === "invalid_argument" && field === "tls",
    );
});

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
