// The testing helpers for users, against the real program.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { complete, defineJob, handle, type Handler, Mainspring, Outcome, snooze, type, ResultTimeout } from "@mainspring-jobs/client";
import { z } from "zod";
import {
  advance,
  allEnqueued,
  assertEnqueued,
  assertIdempotent,
  AssertionError,
  chaos,
  drain,
  namespace,
  NotIdempotent,
  now,
  perform,
  refuteEnqueued,
  silent,
  startServer,
  useServer,
  waitFor,
} from "@mainspring-jobs/client/testing";

import { fakeServer, json } from "./fake.js";

const root = dirname(dirname(createRequire(import.meta.url).resolve("@mainspring-jobs/client")));
const server = useServer({ before, after });

const mail = defineJob("mail", { args: type<{ to: string }>(), result: type<number>() });

test("enqueued jobs can be asserted, refuted and listed", async () => {
  const ms = server.client();
  const space = await namespace(ms);
  const queue = space.queue("mail");
  await refuteEnqueued(ms, mail, { queue });
  const job = await ms.enqueue(mail, { to: "anna" }, { queue });
  await ms.enqueue(mail, { to: "bob" }, { queue, delay: "1h" });
  assert.equal(String((await assertEnqueued(ms, mail, { queue, args: { to: "anna" } })).id), job.id);
  assert.equal((await allEnqueued(ms, mail, { queue })).length, 2);
  await refuteEnqueued(ms, "mail", { queue, args: { to: "carol" } });
  await assert.rejects(assertEnqueued(ms, mail, { queue, args: { to: "carol" } }), (error) => {
    assert.ok(error instanceof AssertionError);
    assert.match(error.message, /anna/);
    return true;
  });
  await assert.rejects(refuteEnqueued(ms, mail, { queue }), /anna/);
  await space.reset();
  assert.deepEqual(await allEnqueued(ms, mail, { queue }), []);
});

test("a wait for a state ends at once when the job has ended in another one", async () => {
  const ms = server.client();
  const space = await namespace(ms);
  const job = await ms.enqueue(mail, { to: "anna" }, { queue: space.queue("mail") });
  await job.cancel();
  await assert.rejects(waitFor(job, "completed", { timeout: "10m" }), /is cancelled.* not be completed/);
});

test("a wait for a state asks once, and again only while the server is away", async () => {
  const error = { code: "request_timeout", message: "job 7 is available after 1s, not running" };
  const fake = await fakeServer((_, response, count) => {
    if (count === 1) return json(response, 200, { id: 7, state: "running" });
    json(response, 408, { error });
  });
  const away = await fakeServer(({ path }, response) => {
    if (away.asked.length === 1) return void response.destroy();
    assert.match(path, /job=7&state=running&timeout=\d+ms/);
    json(response, 200, { id: 7, state: "running" });
  });
  try {
    const job = new Mainspring(fake.url, { log: silent }).find(7);
    assert.equal((await waitFor(job, "running", { timeout: "0s" })).state, "running");
    await assert.rejects(waitFor(job, "running", { timeout: "0s" }), ResultTimeout);
    assert.equal(fake.asked.length, 2);
    const other = new Mainspring(away.url, { log: silent }).find(7);
    assert.equal((await waitFor(other, "running", { timeout: "60s" })).state, "running");
    assert.equal(away.asked.length, 2);
  } finally {
    fake.close();
    away.close();
  }
});

test("perform refuses what a server would refuse", async () => {
  const run = (handler: Handler<{ to: string }, number>) =>
    perform(mail, handler, { to: "anna" });
  await assert.rejects(
    run(({ step }) => step("charge card", () => 1)),
    /step "charge card": must be/,
  );
  await assert.rejects(
    run(async ({ step }) => (await step("one", () => 1)) + (await step("one", () => 2))),
    /this attempt has run it before/,
  );
  await assert.rejects(
    run(({ step }) => step("one", () => Number.NaN)),
    /one: NaN is not a JSON number/,
  );
  await assert.rejects(run(() => Number.POSITIVE_INFINITY), /result: Infinity/);
  await assert.rejects(
    run(({ step }) => step("one", () => "x".repeat(65_536) as unknown as number)),
    /result of step one has 65538 bytes/,
  );
  const strict = defineJob("strict", { result: z.object({ n: z.number() }) });
  for (const result of [{ n: "x" }, complete({ n: "x" })])
    await assert.rejects(perform(strict, () => result as never, {}), /result of strict\.n: /);
  const loose = defineJob("loose");
  for (const result of [{ at: new Date(0) }, complete({ at: new Date(0) })])
    await assert.rejects(perform(loose, () => result, {}), /result\.at: a Date/);
  assert.ok((await perform(strict, () => snooze("1s"), {})).result instanceof Outcome);
  const inherited = await perform(loose, ({ step }) => step("toString", () => 1), {});
  assert.equal(inherited.result, 1);
  const map = await perform(
    handle(loose, async ({ args, step }) => [args, await step("one", () => new Map([[7, 1]]).size)]),
    { 7: { none: undefined } },
  );
  assert.deepStrictEqual(map.result, [{ 7: {} }, 1]);
  class Price {
    readonly cents = 5;
    double = () => this.cents * 2;
  }
  await assert.rejects(perform(loose, () => new Price(), {}), /result\.double: a function/);
  const stepped = await perform(loose, ({ step }) => step("p", () => ({ a: undefined, b: 2 })), {});
  assert.deepStrictEqual(stepped.result, { b: 2 });
  const big = await run(async ({ step }) => Number(await step("one", () => 2n ** 60n)));
  assert.equal(big.memos["one"], 2n ** 60n);
});

test("perform runs a handler without a server", async () => {
  const done = await perform(
    mail,
    async ({ args, step, progress, message, checkpoint, job, lastCheckpoint }) => {
      await progress(0.5, "half");
      await message({ to: args.to });
      await checkpoint([1]);
      assert.equal(lastCheckpoint, "before");
      return (await step("charge", () => 3)) + job.attempt;
    },
    { to: "anna" },
    { attempt: 2, checkpoint: "before", memos: { charge: 7 } },
  );
  assert.equal(done.result, 9);
  assert.deepEqual(done.progress, [{ value: 0.5, text: "half" }]);
  assert.deepEqual([done.messages, done.checkpoint], [[{ to: "anna" }], [1]]);
  const stopped = perform(mail, ({ progress }) => progress(1).then(() => 1), { to: "x" }, {
    signal: AbortSignal.abort(new Error("enough")),
  });
  await assert.rejects(stopped, /enough/);
});

test("an advance fires due jobs, and the workers have run them after a drain", async () => {
  const ms = server.client();
  const space = await namespace(ms);
  const queue = space.queue("mail");
  const sent: string[] = [];
  await using _worker = ms
    .worker({ queues: [queue] })
    .on(mail, ({ args }) => sent.push(args.to));
  const job = await ms.enqueue(mail, { to: "anna" }, { queue, delay: "24h" });
  const start = await now(ms);
  const fired = (await advance(ms, "25h")).filter((one) => one.job === job.id);
  assert.equal(fired[0]?.what, "scheduled");
  assert.ok((await now(ms)).getTime() - start.getTime() >= 25 * 3600 * 1000);
  await drain(ms, { namespace: space });
  assert.deepEqual(sent, ["anna"]);
  assert.equal((await waitFor(job, "completed")).result, 1);
  await advance(ms, new Date((await now(ms)).getTime() + 1000), { leases: "keep" });
  await assert.rejects(advance(ms, "999999h"), /advance/);
  await ms.enqueue(mail, { to: "bob" }, { queue: space.queue("unserved") });
  await assert.rejects(drain(ms, { namespace: space, timeout: "0s" }), ResultTimeout);
});

test("under chaos every job completes, and runs more than once", async () => {
  const ms = server.client();
  const space = await namespace(ms);
  const queue = space.queue("numbers");
  let runs = 0;
  await using _worker = ms.worker({ queues: [queue], slots: 4 }).on(mail, () => (runs += 1));
  {
    await using faults = await chaos(ms, {
      ...{ seed: 7, namespace: space, duplicateDelivery: 0.3, lostLease: 0.3, lostFinish: 0.3 },
    });
    assert.equal(faults.seed, 7);
    const jobs = await ms.enqueueMany(
      Array.from({ length: 40 }, (_, n) => ({ job: mail, args: { to: String(n) }, options: { queue } })),
    );
    for (const job of jobs) await waitFor(job, "completed", { timeout: "30s" });
  }
  assert.ok(runs > 40, `${runs} runs`);
});

test("assertIdempotent catches a handler that adds, and passes one with a saved step", async () => {
  const ms = server.client();
  const seen: string[] = [];
  const observe = () => seen;
  const add = assertIdempotent(ms, mail, ({ args }) => seen.push(args.to), { to: "a" }, observe);
  await assert.rejects(add, (error) => {
    assert.ok(error instanceof NotIdempotent);
    assert.equal(error.run, "a second run");
    assert.match(error.message, /after one run there was \["a"\]/);
    return true;
  });
  seen.length = 0;
  await assertIdempotent(
    ms,
    mail,
    ({ step, args }) => step("add", () => seen.push(args.to)),
    { to: "b" },
    observe,
  );
  assert.deepEqual(seen, ["b"]);
  const later = defineJob("later", { delay: "1h" } as object); // as JavaScript may
  await assertIdempotent(ms, later, () => 1, {}, observe);
  const failing = () => {
    throw new Error("no stamp");
  };
  await assert.rejects(assertIdempotent(ms, mail, failing, { to: "c" }, observe), /failed in run 1/);
});

test("a server has its seed, and restarts after a crash", async () => {
  await using own = await startServer({ seed: 3 });
  assert.equal(own.seed, 3);
  const ms = own.client();
  const job = await ms.enqueue("later", {});
  await ms.request("POST", "/v1/test/faults", { crash: true });
  await waitFor(job, "available");
  const end = performance.now() + 10_000;
  let before = 0;
  while (before < 20 && performance.now() < end) before += (await job.get()).state === "available" ? 1 : 0;
  assert.equal(before, 20);
});

test("a server ends with the process that started it", () => {
  const program = `
    const { startServer } = await import(${JSON.stringify(join(root, "dist", "testing.js"))});
    const server = await startServer();
    console.log(server.pid);
    process.kill(process.pid, "SIGKILL");`;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
    encoding: "utf8",
  });
  assert.equal(run.signal, "SIGKILL", run.stderr);
  const end = performance.now() + 10_000;
  while (existsSync(`/proc/${run.stdout.trim()}`) && performance.now() < end);
  assert.ok(!existsSync(`/proc/${run.stdout.trim()}`));
});
