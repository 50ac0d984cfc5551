import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { after, before, test } from "node:test";

import {
  Unauthenticated,
  defineJob,
  JobFailed,
  Mainspring,
  MainspringError,
  newJob,
  NotFound,
  QueueFull,
  type,
  ValidationError,
  ResultTimeout,
} from "@mainspring-jobs/client";
import { silent, useServer } from "@mainspring-jobs/client/testing";
import { z } from "zod";

import { eventually, fakeServer, json } from "./fake.js";

const server = useServer({ before, after });
const quick = { log: silent, retryFor: "5s" };

test("enqueue: options, unique key, and the job as the server stores it", async () => {
  const ms = server.client();
  const mail = defineJob("mail", {
    queue: "mails",
    timeout: "5m",
    maxAttempts: 7,
    args: type<{ to: string; id: bigint }>(),
  });
  const args = { to: "grüße 🎉", id: 9223372036854775807n };
  const job = await ms.enqueue(mail, args, {
    key: "k1",
    delay: "1h",
    priority: 2,
    tags: ["vip"],
    headers: { a: "b" },
  });
  const again = await ms.enqueue(mail, args, { key: "k1" });
  assert.equal(job.duplicate, false);
  assert.deepEqual([again.id, again.duplicate], [job.id, true]);
  const info = await job.get();
  assert.deepEqual(
    [
      info.queue,
      info.kind,
      info.state,
      info.priority,
      info.timeout,
      info.maxAttempts,
      info.uniqueKey,
      info.tags,
    ],
    ["mails", "mail", "scheduled", 2, "5m", 7, "k1", ["vip"]],
  );
  assert.deepEqual(info.args, args);
  assert.deepEqual(info.headers, { a: "b" });
  assert.equal((await job.why()).gate, "time");
  assert.equal(await job.cancel("enough"), "cancelled");
  await assert.rejects(
    job.result(),
    (error: JobFailed) => error.state === "cancelled" && error.reason === "enough",
  );
  await job.retry();
  assert.equal((await job.get()).state, "available");
});

test("enqueue: arguments that do not fit the schema are refused before they are sent", async () => {
  const ms = server.client();
  const photo = defineJob("photo", {
    args: z.object({ path: z.string(), width: z.number().default(200) }),
  });
  await assert.rejects(
    ms.enqueue(photo, { path: 3 } as unknown as { path: string }),
    (error: ValidationError) => error.issues[0]?.path === "path",
  );
  await assert.rejects(ms.enqueue("x", { at: new Date() }), /Date/);
});

test("enqueue: arguments may be omitted where {} fits the schema", async () => {
  const ms = server.client();
  const all = z.object({ width: z.number().default(200) });
  const optional = defineJob("optional", { queue: "omitted", args: all });
  const bare = defineJob("bare", { queue: "omitted" });
  const jobs = await ms.enqueueMany([newJob(optional), newJob(bare)]);
  jobs.push(await ms.enqueue(optional), await ms.enqueue(bare));
  for (const job of jobs) assert.deepEqual((await job.get()).args, {});
});

test("an empty MAINSPRING_SERVER is the default address", async () => {
  const before = process.env["MAINSPRING_SERVER"];
  process.env["MAINSPRING_SERVER"] = "";
  try {
    new Mainspring().close();
  } finally {
    if (before === undefined) delete process.env["MAINSPRING_SERVER"];
    else process.env["MAINSPRING_SERVER"] = before;
  }
});

test("enqueueMany: takes generators and other iterables", async () => {
  const ms = server.client();
  const job = defineJob("iterated", { queue: "iterated", args: type<{ n: number }>() });
  function* args() {
    for (let n = 0; n < 3; n += 1) yield { n };
  }
  assert.equal((await ms.enqueueMany(job, args())).length, 3);
  assert.equal((await ms.enqueueMany(new Set([newJob(job, { n: 1 })]))).length, 1);
});

test("enqueue: an idempotency key that a header cannot carry is refused by name", async () => {
  for (const idempotencyKey of ["a\nb", "\u65e5", ""]) {
    await assert.rejects(
      server.client().enqueue("x", {}, { idempotencyKey }),
      (error: MainspringError) =>
        error.code === "invalid_argument" && error.field === "idempotencyKey",
    );
  }
});

test("enqueueMany: 10,000 jobs in one request, all or none", async () => {
  const ms = server.client();
  const job = defineJob("many", { queue: "many", args: type<{ n: number }>() });
  const made = await ms.enqueueMany(
    job,
    Array.from({ length: 10_000 }, (_, n) => ({ n })),
  );
  assert.equal(new Set(made.map(({ id }) => id)).size, 10_000);
  await assert.rejects(
    ms.enqueueMany([newJob(job, { n: 1 }), newJob(job, { n: 2 }, { priority: 12 })]),
    (error: MainspringError) =>
      error.code === "invalid_argument" && error.field === "jobs[1].priority",
  );
  const { counts } = await ms.queues.get("many");
  assert.equal((counts as Record<string, number>)["available"], 10_000);
  assert.deepEqual(await ms.enqueueMany([]), []);
  await assert.rejects(ms.enqueueMany(job, [{ n: 1 }, { n: NaN }]), /^.*jobs\[1\]\.args\.n: NaN/);
  let seen = 0;
  for await (const one of ms.jobs({ queue: "many", limit: 1000 })) {
    assert.equal(one.kind, "many");
    seen += 1;
  }
  assert.equal(seen, 10_000);
});

test("enqueue: those of one moment go in one request; each caller gets its own job", async (t) => {
  const fake = await fakeServer(({ body }, response) => {
    const { jobs } = JSON.parse(body) as { jobs?: { args: { n?: number } }[] };
    const answers = jobs?.map(({ args }) => ({ id: 100 + (args.n ?? 0), state: "available" }));
    json(response, 201, answers === undefined ? { id: 7, state: "available" } : { jobs: answers });
  });
  t.after(() => fake.close());
  const ms = new Mainspring(fake.url, quick);
  t.after(() => ms.close());
  const many = Array.from({ length: 300 }, (_, n) => ms.enqueue("k", { n }));
  const made = await Promise.all(many);
  assert.deepEqual(
    made.map(({ id }) => Number(id)),
    made.map((_, n) => 100 + n),
  );
  assert.equal(fake.asked.length, 1);
  assert.equal((await ms.enqueue("k", { n: 0 })).id, "7"); // alone: as ever
  // What another transaction or its caller may hold up goes alone.
  fake.asked.length = 0;
  const session = defineJob("s", { session: "s" });
  await Promise.all([
    ...[ms.enqueue("k", {}, { key: "a" }), ms.enqueue(session), ms.enqueue("k")],
    ...[ms.enqueue("k", {}, { idempotencyKey: "i" }), ms.enqueue("k")],
    ms.enqueue("k", {}, { signal: AbortSignal.timeout(60_000) }),
  ]);
  const batches = fake.asked.filter(({ body }) => body.includes('"jobs"'));
  assert.equal(batches.length, 1);
});

test("enqueue: a job that is refused fails for its caller alone", async () => {
  const ms = server.client();
  const calls = Array.from({ length: 20 }, (_, n) =>
    ms.enqueue("k", { n }, { queue: "refusals", priority: n === 7 ? 12 : 5 }),
  );
  const ended = await Promise.allSettled(calls);
  for (const [n, one] of ended.entries()) {
    if (n !== 7) assert.equal(one.status, "fulfilled");
    else assert.equal(one.status === "rejected" && (one.reason as MainspringError).field, "priority");
  }
  const { counts } = await ms.queues.get("refusals");
  assert.equal((counts as Record<string, number>)["available"], 19);
});

test("enqueue: a lost answer to many repeats them with one key, and holds up no others", async (t) => {
  const fake = await fakeServer(({ body }, response, count) => {
    if (count <= 8) return void response.destroy();
    const { jobs } = JSON.parse(body) as { jobs?: unknown[] };
    const answer = { id: count, state: "available" };
    json(response, 201, jobs === undefined ? answer : { jobs: jobs.map(() => answer) });
  });
  t.after(() => fake.close());
  const ms = new Mainspring(fake.url, { ...quick, retryFor: "60s" });
  t.after(() => ms.close());
  const groups = Array.from({ length: 6 }, async () => {
    const group = await Promise.all([ms.enqueue("k", { n: 1 }), ms.enqueue("k", { n: 2 })]);
    return group.length;
  });
  assert.deepEqual(await Promise.all(groups), [2, 2, 2, 2, 2, 2]);
  const bodies = new Map<unknown, Set<string>>();
  for (const { headers, body } of fake.asked) {
    const key = headers["idempotency-key"];
    bodies.set(key, (bodies.get(key) ?? new Set()).add(body));
  }
  assert.ok(fake.asked.length > 8);
  for (const [key, sent] of bodies) assert.equal(sent.size, 1, String(key));
});

test("10,000 enqueues at once, also with keys, and their results, with 1,024 descriptors", async (t) => {
  const program = `
    import { defineJob, Mainspring } from "@mainspring-jobs/client";
    const ms = new Mainspring(${JSON.stringify(server.url)});
    const job = defineJob("burst", { queue: "burst" });
    const worker = ms.worker({ slots: 50 }).on(job, ({ args }) => args.n);
    const all = Array.from({ length: 10_000 }, async (_, n) => {
      const options = n % 4 === 0 ? { key: "key-" + n } : {};
      const made = await ms.enqueue(job, { n }, options);
      if (n < 2_000) return await made.result();
      return n;
    });
    const results = await Promise.all(all);
    console.log(results.length, results.every((one, n) => one === n));
    await worker.stop();
    ms.close();`;
  const command = 'ulimit -n 1024; exec "$0" --input-type=module -e "$1"';
  const cwd = dirname(dirname(createRequire(import.meta.url).resolve("@mainspring-jobs/client")));
  const env = { ...process.env, MAINSPRING_ACCESS_TOKEN: server.server.token };
  const child = spawn("sh", ["-c", command, process.execPath, program], { cwd, env });
  t.after(() => child.kill("SIGKILL"));
  let output = "";
  for (const pipe of [child.stdout, child.stderr])
    pipe.on("data", (text) => (output += String(text)));
  await new Promise((resolve) => child.once("close", resolve));
  assert.equal(output.trim().split("\n").at(-1), "10000 true", output.slice(-2000));
});

test("result: waits, and reports a timeout", async () => {
  const job = await server.client().enqueue("slow", {}, { queue: "unserved" });
  await assert.rejects(
    job.result({ timeout: "50ms" }),
    (error) =>
      error instanceof ResultTimeout &&
      /^job \d+ has not ended within 50ms: it is available: .*unserved/.test(error.message),
  );
  await assert.rejects(server.client().find(999_999_999).get(), NotFound);
  assert.throws(() => server.client().find("7x"), /whole number/);
});

test("an unavailable server: retries are logged once", async () => {
  const lines: string[] = [];
  const log = { ...silent, warn: (text: string, fields?: object) => void lines.push(`${text} ${JSON.stringify(fields)}`) };
  const ms = new Mainspring("http://127.0.0.1:1", { retryFor: "1s", log });
  await assert.rejects(ms.enqueue("k"), (error: MainspringError) => error.code === "unavailable");
  assert.equal(lines.length, 1, lines.join("\n"));
  assert.match(lines[0] ?? "", /trying again.*POST \/v1\/jobs.*127\.0\.0\.1:1/);
});

test("a lost response: the enqueue is retried with its key, and there is one job", async () => {
  const keys: unknown[] = [];
  const fake = await fakeServer((asked, response, count) => {
    keys.push(asked.headers["idempotency-key"]);
    if (count === 1) return void response.destroy();
    if (count === 2)
      return json(response, 503, { error: { code: "unavailable", message: "starting" } });
    if (count === 3) return json(response, 200, "<html>proxy</html>");
    json(response, 201, { id: 5, state: "available" });
  });
  const ms = new Mainspring(fake.url, quick);
  assert.equal((await ms.enqueue("k")).id, "5");
  assert.equal(keys.length, 4);
  assert.equal(new Set(keys).size, 1);
  ms.close();
  fake.close();
});

test("Retry-After: the client waits as long as the server asks", async () => {
  const times: number[] = [];
  const fake = await fakeServer((_, response, count) => {
    times.push(performance.now());
    if (count > 1) return json(response, 201, { id: 1, state: "available" });
    json(response, 429, { error: { code: "overloaded", message: "full" } }, { "retry-after": "1" });
  });
  const ms = new Mainspring(fake.url, quick);
  await ms.enqueue("k");
  assert.ok((times[1] ?? 0) - (times[0] ?? 0) >= 990);
  const hurried = new Mainspring(fake.url, { ...quick, retryFor: "100ms" });
  fake.asked.length = 0;
  await assert.rejects(
    hurried.enqueue("k"),
    (error: QueueFull) => error instanceof QueueFull && error.retryAfterMs === 1000,
  );
  ms.close();
  hurried.close();
  fake.close();
});

test("errors: typed by code; a response of a proxy is not an outcome", async () => {
  let status = 401;
  let body: unknown = { error: { code: "unauthenticated", message: "a valid token is needed" } };
  const fake = await fakeServer((_, response) => json(response, status, body));
  const ms = new Mainspring(fake.url, { log: silent, retryFor: 0 });
  await assert.rejects(
    ms.enqueue("k"),
    (error: Unauthenticated) => error instanceof Unauthenticated && error.again === "no",
  );
  const codes: [number, unknown, string][] = [
    [404, "<html>no such page</html>", "bad_answer"],
    [404, { error: { code: "brand_new", message: "?" } }, "brand_new"],
    [502, "<html>bad gateway</html>", "unavailable"],
    [200, "not json", "bad_answer"],
    [200, [1], "bad_answer"],
    [201, { id: "7" }, "bad_answer"],
    [201, { id: -1 }, "bad_answer"],
    [302, "", "bad_answer"],
    [504, "", "timeout"],
  ];
  for (const [one, text, code] of codes) {
    [status, body] = [one, text];
    await assert.rejects(
      ms.enqueue("k"),
      (error: MainspringError) => error.code === code,
      `${one} ${String(text)}`,
    );
  }
  [status, body] = [200, { id: 1, state: "finished" }];
  await assert.rejects(ms.find(1).result(), /no good state/);
  ms.close();
  fake.close();
});

test("a connection that the server closes while it is idle costs no error", async () => {
  const fake = await fakeServer((_, response) => {
    response.socket?.once("drain", () => undefined);
    json(response, 201, { id: 1, state: "available" });
    const { socket } = response;
    setTimeout(() => socket?.destroy(), 5);
  });
  const ms = new Mainspring(fake.url, { log: silent, retryFor: 0 });
  for (let i = 0; i < 20; i += 1) {
    await ms.enqueue("k");
    await new Promise((resolve) => setTimeout(resolve, i % 10));
  }
  ms.close();
  fake.close();
});

test("a request ends by its signal, and by the timeout of a silent server", async () => {
  const fake = await fakeServer(() => undefined);
  const ms = new Mainspring(fake.url, { ...quick, requestTimeout: "100ms", retryFor: 0 });
  await assert.rejects(ms.enqueue("k"), (error: MainspringError) => error.code === "timeout");
  const abort = new AbortController();
  setTimeout(() => abort.abort(), 10);
  const slow = new Mainspring(fake.url, quick);
  await assert.rejects(
    slow.enqueue("k", {}, { signal: abort.signal }),
    (error: MainspringError) => error.code === "aborted",
  );
  const gone = new Mainspring("http://127.0.0.1:9", { log: silent, retryFor: 0 });
  await assert.rejects(gone.enqueue("k"), (error: MainspringError) => error.code === "unavailable");
  for (const one of [ms, slow, gone]) one.close();
  fake.close();
});

test("a trigger of a schedule is never retried", async () => {
  const fake = await fakeServer((_, response) => void response.destroy());
  const ms = new Mainspring(fake.url, quick);
  await assert.rejects(ms.schedules.trigger("nightly"));
  assert.equal(fake.asked.length, 1);
  ms.close();
  fake.close();
});

test("a closed client makes no calls", async () => {
  const ms = server.client();
  ms.close();
  await assert.rejects(ms.enqueue("k"), (error: MainspringError) => error.code === "aborted");
});

test("URLs and tokens are checked before anything is sent", () => {
  assert.throws(() => new Mainspring("ftp://x"), /must be http/);
  assert.throws(() => new Mainspring("http://u:p@x/"), /without user/);
  assert.throws(() => new Mainspring("http://example.com", { token: "mst_x" }), /https/);
  assert.throws(() => new Mainspring("http://127.0.0.1:1", { token: "a b" }), /visible ASCII/);
});

test("schedules, limits, queues: definitions in camelCase, read back the same", async () => {
  const ms = server.client();
  const report = defineJob("report", { queue: "reports", args: type<{ snake_case: number }>() });
  const when = { cron: "30 2 * * *", timeZone: "Europe/Berlin", misfireWindow: "2h" };
  const put = () => ms.schedules.put("nightly", { job: report, args: { snake_case: 1 } }, when);
  assert.equal((await put()).outcome, "created");
  assert.equal((await put()).outcome, "unchanged");
  const info = await ms.schedules.get("nightly");
  assert.deepEqual([info.timeZone, info.misfireWindow], ["Europe/Berlin", "2h"]);
  assert.deepEqual(info.job?.args, { snake_case: 1 });
  assert.equal((await ms.schedules.preview("nightly", { count: 2 })).length, 2);
  const job = await ms.schedules.trigger("nightly");
  assert.equal((await ms.get(job)).kind, "report");
  await ms.schedules.pause("nightly", "holiday");
  const names: string[] = [];
  for await (const one of ms.schedules.list()) names.push(one.name);
  assert.deepEqual(names, ["nightly"]);
  await ms.schedules.remove("nightly");

  await ms.queues.setLimits("reports", {
    concurrency: 5,
    perKey: { concurrency: 1, fair: true, weights: { my_key: 3 } },
    costs: { report: 2 },
  });
  const queue = await ms.queues.get("reports");
  assert.deepEqual(queue.limits?.perKey?.weights, { my_key: 3 });
  await ms.queues.pause("reports");
  assert.equal((await ms.queues.get("reports")).paused, true);
  await ms.queues.resume("reports");
});

test("schedules of an owner are those of the code", async () => {
  const ms = server.client();
  const report = defineJob("report", { queue: "reports", args: type<{ full: boolean }>() });
  const job = newJob(report, { full: true });
  const code = {
    nightly: { job, cron: "30 2 * * *" },
    hourly: { job, every: "1h" },
  };
  const created = { nightly: "created", hourly: "created" };
  assert.deepEqual(await ms.schedules.sync("shop", code, { dryRun: true }), created);
  await assert.rejects(ms.schedules.get("nightly"), NotFound);
  assert.deepEqual(await ms.schedules.sync("shop", code), created);
  await ms.schedules.put("other", { job: report, args: { full: false } }, { every: "1h" });
  const same = { nightly: "unchanged", hourly: "unchanged" };
  assert.deepEqual(await ms.schedules.sync("shop", code), same);
  assert.deepEqual(await ms.schedules.sync("shop", code, { dryRun: true }), same);

  const later = { hourly: { job, every: "2h" } };
  const plan = { hourly: "replaced", nightly: "removed" };
  assert.deepEqual(await ms.schedules.sync("shop", later, { dryRun: true }), plan);
  await ms.schedules.get("nightly"); // still there
  await assert.rejects(ms.schedules.sync("mail", later), /hourly: belongs to shop, not to mail/);
  assert.deepEqual(await ms.schedules.sync("shop", later), plan);
  await assert.rejects(ms.schedules.get("nightly"), NotFound);
  assert.equal((await ms.schedules.get("hourly")).every, "2h");
  await ms.schedules.get("other");
  assert.deepEqual(await ms.schedules.sync("shop", {}), { hourly: "removed" });
});

test("locks: one holder, renewed until released, and a fence for enqueues", async () => {
  const ms = server.client();
  const lock = await ms.lock("report/eu", { ttl: "1s" });
  await assert.rejects(
    ms.lock("report/eu"),
    (error: MainspringError) => error.code === "lease_held",
  );
  await new Promise((resolve) => setTimeout(resolve, 1500)); // longer than its time
  await ms.enqueue("k", {}, { fence: lock });
  assert.equal(lock.signal.aborted, false);
  await lock.setValue({ at: 3 });
  await lock.release();
  await assert.rejects(
    ms.enqueue("k", {}, { fence: lock }),
    (error: MainspringError) => error.code === "lease_lost",
  );
  await ms.withLock("report/eu", (next) => {
    assert.ok(next.token > lock.token);
    assert.deepEqual(next.value, { at: 3 });
  });
});

test("events: a filtered stream, continued after an id", async () => {
  const ms = server.client();
  const abort = new AbortController();
  const types: string[] = [];
  let lastId = "";
  let connected = false;
  const reading = (async () => {
    for await (const event of ms.events({ queue: ["watched"], signal: abort.signal })) {
      if (event.type === "gap") continue;
      types.push(event.type);
      lastId = event.id;
    }
  })();
  await eventually(async () => {
    // The stream has started when it shows a job that was enqueued after it.
    if (!connected) await ms.enqueue("k", {}, { queue: "watched" });
    connected = types.length > 0;
    return connected;
  }, "the first event");
  await (await ms.enqueue("k", {}, { queue: "watched" })).cancel();
  await eventually(() => types.includes("cancelled"), "the end of the job");
  abort.abort();
  await reading;
  const seen = lastId;
  const later = await ms.enqueue("k", {}, { queue: "watched" });
  for await (const event of ms.events({ queue: "watched", after: seen })) {
    assert.deepEqual([event.type, event.job], ["enqueued", later.id]);
    break;
  }
});
