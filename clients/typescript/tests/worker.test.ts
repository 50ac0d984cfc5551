import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { after, before, test, type TestContext } from "node:test";

import {
  AttemptEnded,
  cancel,
  Cancelled,
  complete,
  dead,
  defineJob,
  type JobContext,
  type JobFailed,
  LeaseLost,
  type LogFields,
  MainspringError,
  newJob,
  ref,
  retry,
  ShuttingDown,
  snooze,
  step as stepOf,
  type StepDefinition,
  TimedOut,
  type,
} from "@mainspring-jobs/client";
import { silent, useServer, waitFor } from "@mainspring-jobs/client/testing";
import { z } from "zod";

import { eventually } from "./fake.js";

const server = useServer({ before, after });

test("a job: schema with defaults, steps, progress, checkpoint, and a typed result", async () => {
  const ms = server.client();
  const thumbnail = defineJob("thumbnail", {
    queue: "photos",
    args: z.object({ path: z.string(), width: z.number().default(200) }),
    result: type<{ width: number; of: number; big: bigint }>(),
  });
  const worker = ms
    .worker({ slots: 2 })
    .on(thumbnail, async ({ args, step, progress, checkpoint, job, token }) => {
      const size = await step("measure", () => 42);
      await progress(0.5, "resizing");
      await checkpoint({ at: 7 });
      assert.equal(typeof job.id, "string");
      assert.equal(typeof token, "bigint");
      return { width: args.width, of: size, big: 9007199254740993n };
    });
  const job = await ms.enqueue(thumbnail, { path: "a.jpg" });
  const result = await job.result({ timeout: "10s" });
  assert.deepEqual(result, { width: 200, of: 42, big: 9007199254740993n });
  assert.deepEqual((await job.get()).checkpoint, { at: 7 });
  await worker.stop();
});

test("outcomes: retry, snooze, cancel, dead, and complete with the next jobs", async () => {
  const ms = server.client();
  const ends = defineJob("ends", {
    queue: "ends",
    args: type<{ how: string }>(),
    result: type<{ n: number }>(),
  });
  const next = defineJob("next", { queue: "nexts", args: type<{ from: string }>() });
  let snoozed = 0;
  const worker = ms.worker().on(ends, ({ args, job }) => {
    switch (args.how) {
      case "retry":
        return job.attempt === 1 ? retry({ error: "not yet", after: 0 }) : { n: job.attempt };
      case "snooze":
        return snoozed++ === 0 ? snooze("10ms") : { n: job.attempt };
      case "cancel":
        return cancel("not needed");
      case "dead":
        return dead("bad_file", "it is empty");
      case "throw dead":
        throw dead("thrown");
      case "throw":
        throw new Error("boom");
      default:
        return complete({ n: 1 }, { next: [newJob(next, { from: job.id })] });
    }
  });
  const run = async (how: string, maxAttempts = 20) =>
    await ms.enqueue(ends, { how }, { maxAttempts });
  assert.deepEqual(await (await run("retry")).result(), { n: 2 });
  assert.deepEqual(await (await run("snooze")).result(), { n: 1 });
  const failed = async (how: string) => {
    const job = await run(how, 1);
    let caught: JobFailed | undefined;
    await assert.rejects(job.result(), (error: JobFailed) => (caught = error) === error);
    return [caught?.state, caught?.reason, caught?.description];
  };
  assert.deepEqual(await failed("cancel"), ["cancelled", "not needed", undefined]);
  assert.deepEqual(await failed("dead"), ["dead", "bad_file", "it is empty"]);
  assert.deepEqual((await failed("throw dead")).slice(0, 2), ["dead", "thrown"]);
  const [state, reason] = await failed("throw");
  assert.deepEqual([state, reason], ["dead", "max_attempts"]);
  const parent = await run("complete");
  await parent.result();
  for await (const job of ms.jobs({ queue: "nexts" }))
    assert.deepEqual(job.args, { from: parent.id });
  await worker.stop();
  assert.deepEqual([worker.stats.stale, worker.stats.refused, worker.stats.running], [0, 0, 0]);
});

test("args and results that do not match: dead, with the error", async () => {
  const ms = server.client();
  const strict = defineJob("strict", {
    queue: "strict",
    args: z.object({ n: z.number() }),
    result: z.object({ m: z.number() }),
  });
  const worker = ms
    .worker()
    .on(strict, ({ args }) => (args.n === 1 ? ({ m: "x" } as unknown as { m: number }) : { m: 1 }));
  const wrong = await ms.enqueue("strict", { n: "one" }, { queue: "strict" });
  await assert.rejects(wrong.result(), /bad_args: args of job \d+: n:/);
  await assert.rejects((await ms.enqueue(strict, { n: 1 })).result(), /bad_result/);
  const big = defineJob("big", { queue: "strict", result: type<string>() });
  worker.on(big, () => "x".repeat((1 << 20) + 1));
  await assert.rejects((await ms.enqueue(big, {})).result(), /result_too_large/);
  await worker.stop();
});

test("a step whose result cannot be stored runs once: the job is dead, with the place", async () => {
  const ms = server.client();
  const runs: string[] = [];
  const bad = defineJob("bad_step", { queue: "bad_steps", args: type<{ how: string }>() });
  const values: Record<string, unknown> = {
    surrogate: { title: "\ud83d" },
    date: { at: [new Date(0)] },
    large: "x".repeat(65_536),
  };
  const worker = ms.worker().on(bad, async ({ args, step }) => {
    await step("charge", () => runs.push(args.how) && values[args.how]);
  });
  const dead = async (how: string) =>
    await (await ms.enqueue(bad, { how }))
      .result({ timeout: "20s" })
      .catch((error: JobFailed) => `${error.reason}: ${error.description}`);
  assert.match(
    String(await dead("surrogate")),
    /^bad_result: result of step charge\.title: has a lone surrogate/,
  );
  assert.match(String(await dead("date")), /^bad_result: result of step charge\.at\[0\]: a Date/);
  assert.match(String(await dead("large")), /^result_too_large: memo charge has 65538 bytes/);
  assert.deepEqual(runs, ["surrogate", "date", "large"]);
  await worker.stop();
});

test("texts cut inside an emoji: args are refused, a result makes the job dead", async () => {
  const ms = server.client();
  const cut = defineJob("cut", { queue: "cuts", args: type<{ title: string }>() });
  await assert.rejects(ms.enqueue(cut, { title: "a\ud83d" }), (error: MainspringError) => {
    assert.deepEqual([error.code, error.field], ["invalid_argument", "args"]);
    assert.match(error.message, /^args\.title: has a lone surrogate/);
    return true;
  });
  const worker = ms.worker().on(cut, async ({ progress }) => {
    await progress(0.5, "half \ud83d"); // a text for people
    return { title: "a\ud83d" };
  });
  const job = await ms.enqueue(cut, { title: "a" });
  await assert.rejects(job.result({ timeout: "20s" }), /bad_result: result\.title: has a lone sur/);
  await worker.stop();
});

test("a handler that throws: its exception is logged, with its job", async () => {
  const lines: [string, LogFields | undefined][] = [];
  const ignore = () => undefined;
  const error = (message: string, fields?: LogFields) => void lines.push([message, fields]);
  const log = { debug: ignore, info: ignore, warn: ignore, error };
  const ms = server.client({ log });
  const broken = defineJob("broken", { queue: "broken", maxAttempts: 1 });
  const worker = ms.worker().on(broken, () => {
    throw new Error("no disk");
  });
  const job = await ms.enqueue(broken, {});
  await assert.rejects(job.result({ timeout: "10s" }), /no disk/);
  await worker.stop();
  const line = lines.find(([message]) => message.startsWith("a handler threw"));
  assert.match(String(line?.[1]?.["error"]), /Error: no disk/);
  const { job: id, queue, kind, attempt } = line?.[1] ?? {};
  assert.deepEqual([id, queue, kind, attempt], [job.id, "broken", "broken", 1]);
});

test("a failed attempt keeps the whole error, in the job and in the log", async (t) => {
  const lines: string[] = [];
  const error = (_: string, fields?: LogFields) => void lines.push(String(fields?.["error"]));
  const ms = server.client({ log: { ...silent, error } });
  const kind = defineJob("reasons", { queue: "reasons", maxAttempts: 1, args: type<{ n: number }>() });
  class Refused extends Error {
    code = "E_REFUSED";
  }
  const loop = new Error("loop");
  loop.cause = loop;
  const deep = Array.from({ length: 30 }).reduce<Error>(
    (cause, _, i) => new Error(`level ${i} ${"x".repeat(5000)}`, { cause }),
    new Error("bottom"),
  );
  const thrown: [unknown, RegExp][] = [
    [
      new Error("outer", { cause: new Refused("inner", { cause: "a text" }) }),
      /^Error: outer\n +at [\s\S]*caused by: Refused: inner \[E_REFUSED\]\n +at [\s\S]*caused by: a text$/,
    ],
    [
      new AggregateError([new Error("one"), new Refused("two")], "all failed"),
      /^AggregateError: all failed[\s\S]*error 1 of 2: Error: one\n[\s\S]*error 2 of 2: Refused: two \[E_R/,
    ],
    [{ status: 503, body: { retry: true } }, /^\{ status: 503, body: \{ retry: true \} \}$/],
    ["only a text", /^only a text$/],
    [loop, /^Error: loop\n[\s\S]*caused by: …$/],
    [deep, /^Error: level 29 x+…\n[\s\S]*caused by: Error: level 28 x/],
  ];
  const worker = ms.worker().on(kind, ({ args }) => {
    throw thrown[args.n]?.[0];
  });
  t.after(() => worker.stop());
  for (const [n, [, text]] of thrown.entries()) {
    const job = await ms.enqueue(kind, { n });
    const [failed] = (await job.wait({ timeout: "20s" })).errors ?? [];
    assert.match(failed?.message ?? "", text);
    assert.ok(Buffer.byteLength(failed?.message ?? "") <= 16_384);
    assert.ok(lines.some((line) => text.test(line)), lines.at(-1));
    lines.length = 0;
  }
});

/** A program of its own: node:test fails a test whose errors nothing catches. */
function program(t: TestContext, text: string, flags: readonly string[] = []) {
  const cwd = dirname(dirname(createRequire(import.meta.url).resolve("@mainspring-jobs/client")));
  const { url, server: running } = server;
  const env = { ...process.env, MAINSPRING_SERVER: url, MAINSPRING_ACCESS_TOKEN: running.token };
  const child = spawn(process.execPath, [...flags, "--input-type=module", "-e", text], { cwd, env });
  t.after(() => child.kill("SIGKILL"));
  let output = "";
  child.stderr.on("data", (piece) => (output += String(piece)));
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return { child, ended, output: () => output };
}

test("an error that nothing catches fails the attempt of its job alone", async (t) => {
  const ms = server.client();
  const kind = defineJob("strays", { queue: "strays", args: type<{ how: string }>() });
  const worker = program(
    t,
    `import { defineJob, Mainspring } from "@mainspring-jobs/client";
    const ms = new Mainspring();
    await ms.worker().on(defineJob("strays", { queue: "strays" }), async ({ args, job, signal }) => {
      if (job.attempt > 1) return "second";
      const late = async () => { await new Promise(setImmediate); throw new Error("not awaited"); };
      if (args.how === "at once") return void Promise.reject(new Error("not awaited"));
      if (args.how === "rejection") void late();
      if (args.how === "exception") setTimeout(() => { throw new Error("in a timer"); }, 1);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return "first: " + signal.reason.message;
    }).run();`,
  );
  const innocent = await ms.enqueue(kind, { how: "innocent" });
  for (const [how, text] of [
    ["at once", /^a promise was rejected and nothing caught it: Error: not awaited\n +at /],
    ["rejection", /^a promise was rejected and nothing caught it: Error: not awaited\n +at /],
    ["exception", /^nothing caught an exception: Error: in a timer\n +at /],
  ] as const) {
    const job = await ms.enqueue(kind, { how });
    const info = await waitFor(job, "retryable", { timeout: "60s" });
    assert.match((await job.get()).errors?.[0]?.message ?? "", text);
    assert.equal(info.attempt, 1);
    const lines = worker.output().trim().split("\n");
    const logged = lines.map((line) => JSON.parse(line) as LogFields);
    const line = logged.find((one) => one["job"] === job.id && one["level"] === "error");
    assert.equal(line?.["message"], "an error of a handler was not caught");
    await job.retry();
    assert.equal(await job.result({ timeout: "60s" }), "second");
  }
  const running = await innocent.get();
  assert.deepEqual([running.state, running.attempt], ["running", 1]);
  await innocent.cancel();
  assert.equal((await innocent.wait({ timeout: "60s" })).state, "completed");
  worker.child.kill("SIGTERM");
  assert.equal(await worker.ended, 0);
});

test("an error of other code ends the process as it does without a worker", async (t) => {
  const text = `
    import { defineJob, Mainspring } from "@mainspring-jobs/client";
    const ms = new Mainspring();
    ms.worker().on(defineJob("k", { queue: "other_code" }), () => 1);
    setImmediate(() => `;
  const reject = 'Promise.reject(new Error("mine"))';
  for (const [act, flags, code] of [
    [reject, [], 1],
    ['{ throw new Error("mine"); }', [], 1],
    [`{ process.on("unhandledRejection", () => process.exit(9)); ${reject}; }`, [], 9],
    [`{ ${reject}; setTimeout(() => process.exit(9), 50); }`, ["--unhandled-rejections=warn"], 9],
  ] as const) {
    const { ended, output } = program(t, `${text}${act});`, flags);
    assert.equal(await ended, code, output());
    if (code === 1) assert.match(output(), /Error: mine/);
  }
});

test("cancel: the signal is aborted with Cancelled, progress() throws it, the job is cancelled", async () => {
  const ms = server.client();
  const long = defineJob("long", { queue: "cancelled" });
  let reason: unknown;
  let started = false;
  const worker = ms.worker({ lease: "1s" }).on(long, async ({ signal, progress }) => {
    started = true;
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    reason = signal.reason;
    await progress(0.1);
    return "not reached";
  });
  const job = await ms.enqueue(long, {});
  await eventually(() => started, "the handler");
  assert.equal(await job.cancel("changed my mind"), "running");
  await assert.rejects(
    job.result(),
    (error: JobFailed) => error.state === "cancelled" && error.reason === "changed my mind",
  );
  assert.ok(reason instanceof Cancelled);
  await worker.stop();
});

test("a time limit: the signal is aborted, and the attempt fails", async () => {
  const ms = server.client();
  const slow = defineJob("slow", { queue: "limits", timeout: "1s", maxAttempts: 1 });
  let reason: unknown;
  const worker = ms.worker().on(
    slow,
    async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      reason = signal.reason;
      throw new Error("stopped");
    },
    { timeout: "50ms" },
  );
  await assert.rejects(
    (await ms.enqueue(slow, {})).result(),
    /over its time limit of 50 ms: Error: stopped/,
  );
  assert.ok(reason instanceof TimedOut);
  await worker.stop();
});

test("a blocked event loop loses no lease", async () => {
  const ms = server.client();
  const busy = defineJob("busy", { queue: "busy", result: type<number>() });
  const worker = ms.worker({ lease: "1s", slots: 1 }).on(busy, ({ job }) => {
    const end = performance.now() + 2500;
    while (performance.now() < end);
    return job.attempt;
  });
  const job = await ms.enqueue(busy, {});
  assert.equal(await job.result({ timeout: "20s" }), 1);
  assert.deepEqual([worker.stats.leaseLost, worker.stats.stale], [0, 0]);
  await worker.stop();
});

test("a lost lease aborts the signal, and the outcome is ignored", async () => {
  const ms = server.client();
  const lost = defineJob("lost", { queue: "lost", result: type<string>() });
  let reason: unknown;
  const worker = ms
    .worker({ lease: "1s", slots: 1 })
    .on(lost, async ({ signal, job, checkpoint }) => {
      if (job.attempt > 1) return "second";
      // Another program ends the attempt with this worker's token.
      const { token, worker: name } = await ms.find(job.id).get();
      const results = [
        {
          id: Number(job.id),
          token: Number(token),
          outcome: "retry",
          error: "taken away",
          after: "0s",
        },
      ];
      await ms.request("POST", "/v1/finish", { worker: name, results });
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      reason = signal.reason;
      await assert.rejects(checkpoint({}), LeaseLost);
      return "first";
    });
  assert.equal(await (await ms.enqueue(lost, {})).result({ timeout: "20s" }), "second");
  await eventually(() => reason instanceof LeaseLost, "the handler receives LeaseLost");
  await eventually(() => worker.stats.stale === 1, "the first outcome is dropped");
  await worker.stop();
});

test("stop: running handlers finish; jobs that have not started are released at once without an attempt", async () => {
  const ms = server.client();
  const gentle = defineJob("gentle", { queue: "gentle" });
  let release: (() => void) | undefined;
  const worker = ms
    .worker({ slots: 1, lease: "60s" })
    .on(gentle, async () => await new Promise<void>((done) => (release = done)));
  const first = await ms.enqueue(gentle, {});
  await eventually(() => release !== undefined, "the handler");
  const second = await ms.enqueue(gentle, {});
  const stopping = worker.stop();
  release?.();
  assert.deepEqual(await stopping, { abandoned: 0 });
  assert.equal((await first.get()).state, "completed");
  const info = await second.get();
  assert.deepEqual([info.state, info.attempt], ["available", 0]);
});

test("the server lists what a worker reports about its process", async () => {
  const ms = server.client();
  const idle = defineJob("listed", { queue: "listed" });
  const worker = ms.worker({ slots: 3, version: "v1.4" }).on(idle, () => 1);
  let found: Record<string, unknown> | undefined;
  await eventually(async () => {
    const { workers } = await ms.request("GET", "/v1/workers");
    found = (workers as Record<string, unknown>[]).find((one) => one["id"] === worker.id);
    return found !== undefined;
  }, "the worker is listed");
  assert.equal(Number(found?.["pid"]), process.pid);
  assert.equal(found?.["version"], "v1.4");
  assert.equal(found?.["language"], `Node.js ${process.versions.node}`);
  assert.equal(Number(found?.["slots"]), 3);
  assert.ok(found?.["host"]);
  await worker.stop();
  assert.throws(() => ms.worker({ version: "v".repeat(101) }), /version/);
});

test("stop: a parked claim is ended at the server", async () => {
  const ms = server.client();
  const idle = defineJob("idle", { queue: "idle" });
  const worker = ms.worker().on(idle, () => 1);
  const parked = async () => {
    const { workers } = await ms.request("GET", "/v1/workers");
    return (workers as { id: string; parked: boolean }[]).find(({ id }) => id === worker.id)
      ?.parked;
  };
  await eventually(async () => (await parked()) === true, "the claim waits");
  const begin = performance.now();
  await worker.stop();
  assert.ok(performance.now() - begin < 1000);
  assert.notEqual(await parked(), true);
  const job = await ms.enqueue(idle, {});
  assert.equal((await job.get()).state, "available");
});

test("stop: handlers are aborted after four fifths of the grace, and their jobs are released without an attempt", async () => {
  const ms = server.client();
  const stubborn = defineJob("stubborn", { queue: "stubborn" });
  const worker = ms.worker().on(stubborn, async ({ signal, checkpoint }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    assert.ok(signal.reason instanceof ShuttingDown);
    await checkpoint({ page: 3 });
    throw signal.reason;
  });
  const job = await ms.enqueue(stubborn, {});
  await eventually(() => worker.stats.running === 1, "the handler runs");
  assert.deepEqual(await worker.stop({ timeout: "5s" }), { abandoned: 0 });
  const info = await job.get();
  assert.deepEqual([info.state, info.attempt, info.checkpoint], ["available", 0, { page: 3 }]);
});

test("steps: a saved step does not run again, a checkpoint is returned", async () => {
  const ms = server.client();
  const steps = defineJob("steps", { queue: "steps", result: type<unknown>() });
  let charged = 0;
  const worker = ms.worker().on(steps, async ({ step, checkpoint, lastCheckpoint, job }) => {
    const charge = await step("charge", () => ({ id: `c${++charged}` }));
    await assert.rejects(
      step("charge", () => 1),
      (error: MainspringError) => error.code === "conflict",
    );
    if (job.attempt === 1) {
      await checkpoint([1, 2]);
      return retry({ after: 0 });
    }
    return { charge, lastCheckpoint };
  });
  const result = await (await ms.enqueue(steps, {})).result();
  assert.deepEqual(result, { charge: { id: "c1" }, lastCheckpoint: [1, 2] });
  assert.equal(charged, 1);
  await worker.stop();
});

test("steps: every attempt gets the result as it is after JSON", async (t) => {
  const ms = server.client();
  class Price {
    constructor(readonly cents: number) {}
    text() {
      return `${this.cents} cents`;
    }
  }
  const kind = defineJob("json_steps", { queue: "json_steps" });
  const seen: unknown[] = [];
  const worker = ms.worker().on(kind, async ({ step, job }) => {
    seen.push(await step("map", () => ({ 7: "seven", price: new Price(5), none: undefined })));
    seen.push(await step("void", () => undefined));
    return job.attempt === 1 ? retry({ after: 0 }) : "done";
  });
  t.after(() => worker.stop());
  await (await ms.enqueue(kind)).result({ timeout: "20s" });
  const plain = { 7: "seven", price: { cents: 5 } };
  assert.deepStrictEqual(seen, [plain, null, plain, null]);
});

test("a context is dead when its handler has ended: late calls throw and send nothing", async (t) => {
  const ms = server.client();
  const kind = defineJob("late", { queue: "late", args: type<{ how: string }>() });
  let old: JobContext | undefined;
  const worker = ms.worker({ slots: 1 }).on(kind, async (context) => {
    if (context.args.how === "leave") return void (old = context);
    return await context.step("charge", () => context.args.how);
  });
  t.after(() => worker.stop());
  const first = await ms.enqueue(kind, { how: "leave" });
  await first.result({ timeout: "20s" });
  let ran = false;
  const calls: (() => unknown)[] = [
    () => old?.step("charge", () => (ran = true)),
    () => old?.checkpoint({ page: 1 }),
    () => old?.progress(0.5),
    () => old?.message({}),
    () => old?.setSessionState({}),
    () => old?.results([1]).next(),
  ];
  for (const call of calls)
    await assert.rejects(async () => await call(), (error) => {
      assert.ok(error instanceof AttemptEnded);
      assert.match(error.message, /^job \d+: attempt 1 has ended; nothing was sent: await /);
      return true;
    });
  assert.equal(ran, false);
  const next = await ms.enqueue(kind, { how: "charged" });
  assert.equal(await next.result({ timeout: "20s" }), "charged");
  const { checkpoint, progress } = await first.get();
  assert.deepEqual([checkpoint, progress], [undefined, undefined]);
});

test("results: the handler returns what the schema takes, the caller gets what it gives", async (t) => {
  const ms = server.client();
  const at = z.iso.datetime().transform((text) => new Date(text));
  const kind = defineJob("transformed", { queue: "transformed", result: z.object({ at }) });
  const worker = ms.worker().on(kind, () => ({ at: "2026-11-28T12:00:00Z" }));
  t.after(() => worker.stop());
  const result = await (await ms.enqueue(kind)).result({ timeout: "20s" });
  const year: number = result.at.getUTCFullYear();
  assert.equal(year, 2026);
  const [many] = await ms.enqueueMany(kind, [{}]);
  assert.ok((await many?.result({ timeout: "20s" }))?.at instanceof Date);
  const other = defineJob("other_shape", { queue: "transformed", result: z.object({ at }) });
  worker.on(defineJob("other_shape", { queue: "transformed" }), () => ({ at: 7 }));
  const wrong = await ms.enqueue(other);
  await assert.rejects(wrong.result({ timeout: "20s" }), /result of job \d+: at: /);
});

test("results that JSON would change are refused with their path", async (t) => {
  const ms = server.client();
  const kind = defineJob("changed", { queue: "changed", args: type<{ n: number }>() });
  function* items() {
    yield 1;
  }
  const values: [() => unknown, RegExp][] = [
    [() => ({ a: [NaN] }), /bad_result: result\.a\[0\]: NaN/],
    [() => complete({ a: Infinity }), /bad_result: result\.a: Infinity/],
    [() => ({ t: "\ud800" }), /bad_result: result\.t: has a lone surrogate/],
    [() => ({ b: Buffer.from("x") }), /bad_result: result\.b: a Buffer/],
    [() => ({ g: items() }), /bad_result: result\.g: a .*would be sent as \{\}/],
  ];
  const worker = ms.worker().on(kind, ({ args }) => values[args.n]?.[0]());
  t.after(() => worker.stop());
  for (const [n, [, text]] of values.entries())
    await assert.rejects((await ms.enqueue(kind, { n })).result({ timeout: "20s" }), text);
});

test("reports over a limit are refused alone, and an unawaited one does not end the process", async () => {
  const ms = server.client();
  const wide = defineJob("wide", { queue: "wide" });
  const worker = ms.worker().on(wide, async ({ checkpoint, message, step }) => {
    void checkpoint("x".repeat(300_000));
    await assert.rejects(
      message("x".repeat(70_000)),
      (error: MainspringError) => error.code === "too_large",
    );
    await assert.rejects(
      step("bad name", () => 1),
      (error: MainspringError) => error.field === "step",
    );
    for (let i = 0; i < 40; i += 1) void message({ i });
    return "done";
  });
  const job = await ms.enqueue(
    wide,
    {},
    { then: [{ queue: "news", kind: "news", on: ["message"] }] },
  );
  assert.equal(await job.result(), "done");
  const got: number[] = [];
  for await (const one of ms.jobs({ queue: "news" }))
    got.push((one.args as { message: { i: number } }).message.i);
  assert.deepEqual(
    got.reverse(),
    Array.from({ length: 40 }, (_, i) => i),
  );
  await worker.stop();
});

test("sessions: jobs in order, with their state", async () => {
  const ms = server.client();
  const turn = defineJob("turn", { queue: "turns", args: type<{ n: number }>() });
  const order: number[] = [];
  for (let n = 0; n < 5; n += 1) await ms.enqueue(turn, { n }, { session: "player/1" });
  const held = await ms.sessions.accept("turns", { wait: "5s" });
  assert.equal(held?.key, "player/1");
  const worker = held?.worker().on(turn, ({ args, sessionState, setSessionState }) => {
    order.push(args.n);
    setSessionState({ sum: ((sessionState as { sum: number } | undefined)?.sum ?? 0) + args.n });
  });
  await eventually(() => order.length === 5, "all five turns");
  await worker?.stop();
  assert.deepEqual(order, [0, 1, 2, 3, 4]);
  await held?.release();
  assert.deepEqual((await ms.sessions.get("turns", "player/1")).state, { sum: 10 });
  assert.equal(await ms.sessions.accept("turns"), undefined);
});

test("workflows: steps in order, a signal, and the result", async () => {
  const ms = server.client();
  const charge = defineJob("charge", { queue: "pay", result: type<{ id: string }>() });
  const worker = ms.worker().on(charge, () => ({ id: "c1" }));
  const definition = {
    name: "order",
    key: "order-7",
    input: { order_id: 7 },
    steps: [
      {
        name: "charge",
        job: {
          queue: "pay",
          kind: "charge",
          maxAttempts: 3,
          args: { order: { $ref: "input.order_id" } },
        },
      },
      { name: "approved", signal: "approved", after: ["charge"] },
    ],
    result: { payment: { $ref: "charge.id" } },
  };
  const { id } = await ms.workflows.start(definition);
  const again = await ms.workflows.start(definition);
  assert.deepEqual([again.id, again.duplicate], [id, true]);
  await ms.workflows.signal(id, "approved", { ok: true }, "s1");
  const info = await ms.workflows.wait(id, { timeout: "10s" });
  assert.deepEqual([info.state, info.result], ["completed", { payment: "c1" }]);
  const steps = await ms.workflows.steps(id);
  assert.deepEqual(
    steps.map(({ state }) => state),
    ["completed", "completed"],
  );
  assert.equal(typeof steps[0]?.job, "string");
  await worker.stop();
});

test("workflows: steps of definitions, and what cannot run is refused before it is sent", async (t) => {
  const ms = server.client();
  const args = type<{ order: number }>();
  const charge = defineJob("charge", { queue: "typed", args, result: type<{ id: string }>() });
  const ship = defineJob("ship", { queue: "typed", args: type<{ payment: string }>() });
  const refund = defineJob("refund", { queue: "typed", maxAttempts: 2 });
  const seen: unknown[] = [];
  const worker = ms
    .worker()
    .on(charge, ({ args: { order } }) => ({ id: `c${order}` }))
    .on(ship, ({ args }) => (seen.push(args), dead("lost")))
    .on(refund, ({ args, job }) => void seen.push(args, job.maxAttempts));
  t.after(() => worker.stop());
  const charged = stepOf("charge", charge, { order: ref("input.order") }, { undo: refund });
  const steps = [
    charged,
    { name: "nap", sleep: 1, after: ["charge"] },
    stepOf("ship", ship, { payment: ref(charged, "id") }, { after: ["nap"] }),
  ];
  const { id } = await ms.workflows.start({ name: "typed", input: { order: 7 }, steps });
  assert.equal((await ms.workflows.wait(id, { timeout: "20s" })).state, "undone");
  const undone = { step: "charge", args: { order: 7 }, result: { id: "c7" } };
  assert.deepEqual(seen, [{ payment: "c7" }, undone, 2]);
  const both = { name: "s", sleep: "1s", signal: "x" };
  const cases: [unknown, string, RegExp][] = [
    [{ name: "s" }, "steps[0]", /^steps\[0\]: must have exactly one of .*: it has none$/],
    [both, "steps[0]", /^steps\[0\]: must have exactly one of .*: it has sleep and signal$/],
    [{ name: "s", job: { queue: "q" } }, "steps[0].job", /must be a definition of defineJob/],
    [{ name: "s", job: charge, undo: {} }, "steps[0].undo", /must be a definition of defineJob/],
    [
      { name: "s", workflow: { name: "w", steps: [both] } },
      "steps[0].workflow.steps[0]",
      /it has sleep and signal/,
    ],
    [{ name: "s", sleep: "soon" }, "steps[0].sleep", /must be a text with a unit/],
  ];
  for (const [wrong, field, text] of cases) {
    const start = ms.workflows.start({ name: "w", steps: [wrong as StepDefinition] });
    await assert.rejects(start, (error: MainspringError) => {
      assert.deepEqual([error.code, error.field, error.status], ["invalid_argument", field, undefined]);
      assert.match(error.message, text);
      return true;
    });
  }
});

test("traceparent: passed from the job to the jobs that its handler enqueues", async () => {
  const ms = server.client();
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const outer = defineJob("outer", { queue: "traced" });
  const worker = ms.worker().on(outer, async () => {
    await new Promise((resolve) => setImmediate(resolve));
    return (await ms.enqueue("inner", {}, { queue: "traces" })).id;
  });
  const id = (await (await ms.enqueue(outer, {}, { headers: { traceparent } })).result()) as string;
  assert.deepEqual((await ms.find(id).get()).headers, { traceparent });
  await worker.stop();
});

test("kinds: aliases, their own concurrency, costs in slots", async () => {
  const ms = server.client();
  let running = 0;
  let most = 0;
  const count = async () => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 20));
    running -= 1;
  };
  const narrow = defineJob("narrow", { queue: "kinds", aliases: ["old-narrow"] });
  const heavy = defineJob("heavy", { queue: "heavies" });
  await ms.queues.setLimits("heavies", { costs: { heavy: 3 } });
  const worker = ms.worker({ slots: 4 }).on(narrow, count, { concurrency: 2 });
  const jobs = await ms.enqueueMany([
    ...Array.from({ length: 4 }, () => newJob(narrow, {})),
    ...Array.from({ length: 4 }, () => ({ job: "old-narrow", options: { queue: "kinds" } })),
  ]);
  for (const job of jobs) await job.result({ timeout: "10s" });
  assert.equal(most, 2);
  await worker.stop();
  most = 0;
  const strong = ms.worker({ slots: 4 }).on(heavy, count);
  for (const job of await ms.enqueueMany(heavy, [{}, {}, {}])) await job.result({ timeout: "10s" });
  assert.equal(most, 1);
  await strong.stop();
});
