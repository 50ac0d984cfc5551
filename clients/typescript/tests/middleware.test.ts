// Code around enqueues and attempts, retry policies, and the line of each job in the log.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import {
  dead,
  defineJob,
  InvalidArgument,
  type LogFields,
  Mainspring,
  type Middleware,
  newJob,
  openTelemetry,
  retry,
  sentry,
  snooze,
} from "@mainspring-jobs/client";
import { now, silent, useServer, waitFor } from "@mainspring-jobs/client/testing";

import { eventually } from "./fake.js";
import { delayOf, givesUp } from "../src/policy.js";

const server = useServer({ before, after });
const kind = (queue: string) => defineJob<{ n: number }, number>("k", { queue, maxAttempts: 1 });

test("middleware: the first is outermost, changes jobs, and sees results and errors", async () => {
  const ms = server.client();
  const seen: string[] = [];
  const tenant: Middleware = {
    async enqueue(job, next) {
      const made = await next({ ...job, options: { ...job.options, headers: { tenant: "acme" } } });
      seen.push(`sent ${made.id !== ""}`);
    },
    async attempt({ job }, next) {
      seen.push(`before ${job.headers["tenant"]}`);
      await next();
      seen.push("after");
    },
  };
  const inner: Middleware = {
    async attempt({ args }, next) {
      try {
        await next();
      } catch (error) {
        seen.push(`failed ${(error as Error).message}`);
        if ((args as { n: number }).n === 2) throw dead("refused");
        throw error;
      }
    },
  };
  ms.use(tenant).use(inner);
  const job = kind("around");
  const worker = ms.worker({ slots: 1 }).on(job, ({ args }) => {
    if (args.n > 0) throw new Error("no");
    return 7;
  });
  assert.equal(await (await ms.enqueue(job, { n: 0 })).result({ timeout: "30s" }), 7);
  await eventually(() => seen.length === 3, "all of it ran");
  assert.deepEqual(seen.splice(0).sort(), ["after", "before acme", "sent true"]);
  const [first, second] = await ms.enqueueMany([newJob(job, { n: 1 }), newJob(job, { n: 2 })]);
  const ended = await Promise.all([first, second].map((one) => waitFor(one!, "dead")));
  assert.deepEqual(ended.map(({ reason }) => reason), ["max_attempts", "refused"]);
  assert.equal(seen.filter((one) => one === "sent true").length, 2);
  assert.equal(seen.filter((one) => one === "failed no").length, 2);
  await worker.stop();
});

test("middleware: one that throws before it sends refuses the enqueue, all jobs of it", async () => {
  const ms = server.client();
  const job = kind("refusing");
  ms.use({
    async enqueue({ args }, next) {
      if ((args as { n: number }).n === 1) throw new Error("not this one");
      await next();
    },
  });
  await assert.rejects(ms.enqueue(job, { n: 1 }), /not this one/);
  await assert.rejects(ms.enqueueMany(job, [{ n: 0 }, { n: 1 }]), /not this one/);
  const found = [];
  for await (const one of ms.jobs({ queue: "refusing" })) found.push(one);
  assert.equal(found.length, 0);
  const other = server.client().use({ enqueue: async () => undefined });
  await assert.rejects(other.enqueue(job, { n: 0 }), /enqueue\(\) of a middleware: .*next\(\)/);
  assert.throws(() => other.use({ enqueu: 1 } as never), /must have a function enqueue or attempt/);
});

test("middleware: an attempt cannot hide the handler's error, or lose its result", async () => {
  const ms = server.client();
  ms.use({ attempt: async (_, next) => void next().catch(() => undefined) });
  const job = kind("hidden");
  const worker = ms.worker({ slots: 2 }).on(job, async ({ args }) => {
    await new Promise((resolve) => setImmediate(resolve));
    if (args.n > 0) throw new Error("seen");
    return 3;
  });
  assert.equal(await (await ms.enqueue(job, { n: 0 })).result({ timeout: "30s" }), 3);
  const failed = await waitFor(await ms.enqueue(job, { n: 1 }), "dead");
  assert.match(failed.description ?? "", /seen/);
  await worker.stop();
});

test("a retry policy: delays of attempts", () => {
  const delays = (backoff: Parameters<typeof delayOf>[0]) =>
    [1, 2, 3, 4].map((attempt) => delayOf(backoff, attempt));
  assert.deepEqual(delays("30s"), ["30s", "30s", "30s", "30s"]);
  assert.deepEqual(delays(["10s", 30]), ["10s", "30ms", "30ms", "30ms"]);
  assert.deepEqual(delays((n) => n * 2), ["2ms", "4ms", "6ms", "8ms"]);
  const growing = { first: "1s", factor: 3, most: "20s", jitter: 0 };
  assert.deepEqual(delays(growing), ["1000ms", "3000ms", "9000ms", "20000ms"]);
  assert.equal(delayOf({ first: "1s" }, 100_000)?.length, "3600000ms".length);
  assert.equal(delayOf(undefined, 1), undefined);
  const policy = { retryOn: [TypeError], giveUpOn: [RangeError] };
  const tried = [new TypeError(), new RangeError(), new Error()].map((one) => givesUp(policy, one));
  assert.deepEqual(tried, [false, true, true]);
  assert.equal(givesUp({}, new Error()), false);
  for (const [wrong, text] of [
    [{ backoff: "soon" }, /backoff "soon": must be/],
    [{ backoff: [] }, /backoff: must not be empty/],
    [{ backoff: { first: "1s", factor: 0.5 } }, /backoff.factor 0.5: must be 1 or more/],
    [{ backoff: { jitter: 2 } }, /backoff.jitter 2: must be 0 to 1/],
    [{ backoff: { fist: "1s" } }, /"fist": no such option; did you mean "first"/],
    [{ giveUpOn: ["Error"] }, /giveUpOn: must be classes of errors/],
  ] as const)
    assert.throws(() => defineJob("k", wrong as never), (e) => e instanceof InvalidArgument && text.test(e.message));
});

test("a retry policy: an error is tried again later, or ends the job", async () => {
  const ms = server.client();
  class Refused extends Error {}
  const options = { queue: "policy", backoff: "1h", giveUpOn: [Refused] };
  const job = defineJob<{ n: number }>("k", options);
  const worker = ms.worker().on(job, ({ args }) => {
    if (args.n === 0) throw new Refused("never");
    if (args.n === 1) throw new Error("later");
    return retry({ error: "soon", after: "2h" });
  });
  const [given, later, soon] = await ms.enqueueMany(job, [{ n: 0 }, { n: 1 }, { n: 2 }]);
  const ended = await waitFor(given!, "dead");
  assert.equal(ended.reason, "gave_up");
  assert.match(ended.description ?? "", /never/);
  const wait = async (one: typeof later) => {
    const info = await waitFor(one!, "retryable");
    return (Date.parse(info.runAt ?? "") - (await now(ms)).getTime()) / 60_000;
  };
  for (const [one, least] of [[later, 50], [soon, 110]] as const) {
    const minutes = await wait(one);
    assert.ok(minutes > least && minutes < least + 11, `${minutes} minutes`);
  }
  await worker.stop();
});

test("the log has a line for each attempt, unless it is switched off", async () => {
  const lines: [string, LogFields][] = [];
  const info = (text: string, fields: LogFields = {}) => void lines.push([text, fields]);
  const ms = new Mainspring(server.url, { log: { ...silent, info } });
  const job = kind("logged");
  const worker = ms.worker().on(job, ({ args }) => {
    if (args.n === 2) return retry({ error: "not yet\nat all" });
    return args.n === 0 ? 1 : snooze("1h");
  });
  const made = await ms.enqueue(job, { n: 0 });
  await made.result({ timeout: "30s" });
  await waitFor(await ms.enqueue(job, { n: 1 }), "scheduled");
  await waitFor(await ms.enqueue(job, { n: 2 }), "dead");
  await worker.stop();
  const ours = lines.filter(([text]) => text.startsWith("job "));
  assert.deepEqual(ours.map(([text]) => text), ["job completed", "job snoozed", "job failed"]);
  assert.equal(ours[2]?.[1]["why"], "not yet");
  const { tookMs, ...fields } = ours[0]![1];
  assert.deepEqual(fields, { job: made.id, queue: "logged", kind: "k", attempt: 1 });
  assert.equal(typeof tookMs, "number");
  lines.length = 0;
  const quiet = ms.worker({ logJobs: false }).on(job, () => 1);
  await (await ms.enqueue(job, { n: 0 })).result({ timeout: "30s" });
  await quiet.stop();
  assert.ok(!lines.some(([text]) => text.startsWith("job ")));
  ms.close();
});

test("sentry and openTelemetry: errors and spans with the job", async () => {
  const told: unknown[] = [];
  const scope = {
    setTag: (name: string, value: unknown) => void told.push([name, value]),
    setContext: () => undefined,
  };
  const sdk = {
    withIsolationScope: <T>(run: (one: typeof scope) => T) => run(scope),
    captureException: (error: unknown) => void told.push((error as Error).message),
  };
  const spans: unknown[] = [];
  const span = {
    recordException: (error: unknown) => void spans.push((error as Error).message),
    setStatus: ({ code }: { code: number }) => void spans.push(code),
    end: () => void spans.push("end"),
  };
  const tracer = {
    startActiveSpan: <T>(name: string, _: unknown, run: (one: typeof span) => T) => {
      spans.push(name);
      return run(span);
    },
  };
  const ms = server.client().use(sentry(sdk)).use(openTelemetry(tracer));
  const job = kind("traced");
  const worker = ms.worker().on(job, ({ args }) => {
    if (args.n === 1) throw new Error("broken");
    throw snooze("1h");
  });
  await waitFor(await ms.enqueue(job, { n: 1 }), "dead");
  await waitFor(await ms.enqueue(job, { n: 2 }), "scheduled");
  await worker.stop();
  const tags = [["mainspring.queue", "traced"], ["mainspring.kind", "k"], ["mainspring.attempt", 1]];
  assert.deepEqual(told, [...tags, "broken", ...tags]);
  const sent = ["send traced", "end"];
  assert.deepEqual(spans, [
    ...sent, "process traced", "broken", 2, "end", ...sent, "process traced", "end",
  ]);
});
