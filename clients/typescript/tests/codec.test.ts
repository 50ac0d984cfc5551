// Values that JSON does not have: what codecs and schemas make of them, at both ends.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import {
  codec,
  complete,
  defineJob,
  handle,
  Mainspring,
  newJob,
  ref,
  step,
  ValidationError,
} from "@mainspring-jobs/client";
import { perform, useServer } from "@mainspring-jobs/client/testing";
import { z } from "zod";

const server = useServer({ before, after });

const order = codec.object({
  at: codec.date,
  total: codec.bigint,
  photo: codec.bytes,
  note: z.string().default("none"),
  lines: codec.list(codec.object({ due: codec.optional(codec.date), n: z.number() })),
});
const sold = defineJob("sold", { queue: "codecs", args: order, result: codec.list(codec.date) });
const AT = new Date("2026-11-28T21:30:00.123Z");
const ARGS = {
  at: AT,
  total: 12345678901234567890n,
  photo: Buffer.from([0, 255]),
  lines: [{ n: 1 }, { n: 2, due: AT }],
};
const WIRE = {
  at: "2026-11-28T21:30:00.123Z",
  total: 12345678901234567890n,
  photo: "AP8=",
  lines: [{ n: 1 }, { n: 2, due: "2026-11-28T21:30:00.123Z" }],
};

test("args and results arrive as what they were", async () => {
  const ms = server.client();
  const seen: unknown[] = [];
  await using _ = ms.worker().on(sold, ({ args }) => {
    seen.push(args);
    return complete([args.at, ...args.lines.flatMap(({ due }) => due ?? [])]);
  });
  const job = await ms.enqueue(sold, ARGS);
  assert.deepEqual((await job.get()).args, WIRE);
  const [first, second] = await job.result({ timeout: "30s" });
  assert.deepEqual([first, second], [AT, AT]);
  const photo = new Uint8Array([0, 255]);
  assert.deepEqual(seen, [{ ...ARGS, photo, note: "none" }]);
  const { result } = await perform(sold, ({ args }) => [args.at], ARGS);
  assert.deepEqual(result, [AT]);
});

test("what cannot be converted is refused at the enqueue, with its path", async () => {
  const ms = server.client();
  const wrong = (more: object) => ({ ...ARGS, ...more }) as typeof ARGS;
  const faults: [object, RegExp][] = [
    [{ at: "2026" }, /args of sold: at: must be a Date, not string$/],
    [{ at: new Date(NaN) }, /at: is an invalid Date/],
    [{ total: 1 }, /total: must be a bigint, not number/],
    [{ photo: [1] }, /photo: must be a Uint8Array, not Array/],
    [{ lines: [{ n: "1" }] }, /lines\.0\.n: .*expected number/],
    [{ lines: [{ n: 1, due: 5 }] }, /lines\.0\.due: must be a Date/],
    [{ more: 1 }, /more: is not a field/],
  ];
  for (const [more, message] of faults) {
    const refused = (error: ValidationError) =>
      error instanceof ValidationError && message.test(error.message) && error.issues.length === 1;
    await assert.rejects(ms.enqueue(sold, wrong(more)), refused, String(message));
    await assert.rejects(ms.enqueueMany([newJob(sold, wrong(more))]), message);
    await assert.rejects(ms.schedules.put("s", { job: sold, args: wrong(more) }, { every: "1h" }), message);
  }
  const bare = defineJob<{ at: unknown }>("bare", { queue: "codecs" });
  await assert.rejects(ms.enqueue(bare, { at: AT }), /args\.at: a Date .*codec\.date/);
  await assert.rejects(ms.enqueue(bare, { at: new Uint8Array(1) }), /args\.at: .*codec\.bytes/);
});

test("a result that cannot be converted makes the job dead", async () => {
  const ms = server.client();
  const job = defineJob("late", { queue: "codecs", result: codec.date });
  await using _ = ms.worker().on(job, () => "today" as unknown as Date);
  const made = await ms.enqueue(job);
  await assert.rejects(made.result({ timeout: "30s" }), /dead: bad_result: .*must be a Date/);
});

test("a schema that makes a Date of a text takes a Date at the enqueue", async () => {
  const ms = server.client();
  const when = z.object({ at: z.coerce.date() });
  const job = defineJob("when", { queue: "codecs", args: when, result: when });
  await using _ = ms.worker().on(job, ({ args }) => ({ at: new Date(args.at.getTime() + 1) }));
  const made = await ms.enqueue(job, { at: AT });
  assert.deepEqual((await made.get()).args, { at: AT.toISOString() });
  assert.deepEqual((await made.result({ timeout: "30s" })).at.getTime(), AT.getTime() + 1);
  assert.ok((await ms.find(job, made.id).result()).at instanceof Date);
  await ms.schedules.put("when", { job, args: { at: AT } }, { at: "2099-01-01T00:00:00Z" });
  assert.deepEqual((await ms.schedules.get("when")).job.args, { at: AT.toISOString() });
  const wrong = { job, args: { at: "never" } } as never;
  await assert.rejects(ms.schedules.put("when", wrong, { every: "1h" }), /args of when: at: /);
  const next = defineJob("next", { queue: "codecs", args: z.object({ bad: z.boolean() }) });
  await using other = ms.worker().on(next, ({ args }) => {
    const at = (args.bad ? "never" : AT) as Date;
    return complete(null, { next: [newJob(job, { at })] });
  });
  await (await ms.enqueue(next, { bad: false })).result({ timeout: "30s" });
  const bad = await ms.enqueue(next, { bad: true });
  await assert.rejects(bad.result({ timeout: "30s" }), /dead: bad_next: next\[0\]\.args of when: at/);
  void other;
  const strict = defineJob("strict", { queue: "codecs", args: z.object({ at: z.date() }) });
  await assert.rejects(ms.enqueue(strict, { at: AT }), /args of strict, as JSON: at: .*expected date/);
});

test("a Date that a schema would leave as text is refused", async () => {
  const ms = server.client();
  const loose = defineJob("loose", { queue: "codecs", args: z.object({ at: z.any() }) });
  await assert.rejects(ms.enqueue(loose, { at: AT }), /args\.at: a Date .*codec\.date/);
});

test("a workflow's result has its type", async () => {
  const ms = server.client();
  const double = defineJob<{ n: number }, number>("double", { queue: "codecs" });
  const sums = defineJob<{ all: number[] }, number>("sums", { queue: "codecs" });
  await using _ = ms
    .worker()
    .on(double, ({ args }) => args.n * 2)
    .on(sums, async ({ args, results }) => {
      let sum = 0;
      for await (const one of results(args.all)) sum += one;
      return sum;
    });
  const first = step("first", double, { n: 4 });
  const second = step("second", double, { n: ref(first) });
  const third = step("third", sums, { all: [ref(first), ref(second)] });
  const steps = [first, second, third];
  const result = { first: ref(first), sum: ref(third) };
  const started = await ms.workflows.start({ name: "typed", steps, result });
  const got: { first: number; sum: number } = await started.result({ timeout: "30s" });
  assert.deepEqual(got, { first: 8, sum: 24 });
  const waits = await ms.workflows.start({ name: "w", steps: [{ name: "s", signal: "go" }] });
  await assert.rejects(waits.result({ timeout: "1ms" }), /has not ended in time: it is running/);
  await ms.workflows.cancel(waits.id);
  await assert.rejects(waits.result(), /workflow \d+ is (undone|cancelled)/);
});

test("steps and next jobs are converted, references are not", async () => {
  const ms = server.client();
  const first = step("first", sold, ARGS);
  const day = defineJob("day", { queue: "codecs", args: codec.object({ at: codec.date }) });
  const second = step("second", day, { at: ref(first, 0) });
  const seen: unknown[] = [];
  await using _ = ms
    .worker()
    .on(sold, ({ args }) => [args.at])
    .on(day, ({ args }) => {
      seen.push(args.at);
      return complete(null, { next: seen.length === 1 ? [newJob(day, { at: AT })] : [] });
    });
  const { id } = await ms.workflows.start({ name: "sale", steps: [first, second] });
  assert.equal((await ms.workflows.wait(id, { timeout: "30s" })).state, "completed");
  for await (const job of ms.jobs({ queue: "codecs", kind: "day" }))
    await ms.find(job.id).wait({ timeout: "30s" });
  assert.deepEqual(seen, [AT, AT]);
});

handle(sold, async ({ args }) => [args.at satisfies Date]);
void Mainspring;
