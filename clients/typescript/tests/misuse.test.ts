// Mistakes of a program: what it logs, and how invalid arguments are refused.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import {
  defineJob,
  handle,
  type JobContext,
  Mainspring,
  type MainspringError,
  newJob,
  type WorkerOptions,
} from "@mainspring-jobs/client";
import { useServer } from "@mainspring-jobs/client/testing";

const server = useServer({ before, after });

test("public objects never show the access token", async (t) => {
  const { token = "" } = server.server;
  assert.match(token, /^mst_/);
  const ms = server.client();
  const kind = defineJob("shown", { queue: "shown" });
  const job = await ms.enqueue(kind);
  await ms.enqueue(kind, {}, { queue: "held", session: "s" });
  const lock = await ms.lock("shown");
  const session = await ms.sessions.accept("held", { wait: "5s" });
  let context: JobContext | undefined;
  const worker = ms.worker().on(kind, (given) => void (context = given));
  t.after(() => worker.stop());
  await job.result({ timeout: "20s" });
  const objects = [
    ...[ms, ms.queues, ms.schedules, ms.workflows, ms.sessions, ms.jobs(), ms.events()],
    ...[job, ms.find(1), lock, session, session?.worker(), worker, context],
    ...[await job.get(), await ms.find(999).get().catch((error: unknown) => error)],
  ];
  for (const [i, one] of objects.entries()) {
    assert.notEqual(one, undefined, `object ${i}`);
    const shown = inspect(one, { depth: 10, showHidden: false });
    assert.ok(!shown.includes(token), `object ${i}: ${shown.slice(0, 200)}`);
    let json: string;
    try {
      json = JSON.stringify(one);
    } catch {
      continue; // it has a bigint
    }
    assert.ok(!json.includes(token), `object ${i}: ${json.slice(0, 200)}`);
  }
  assert.equal(inspect(job), `Job ${job.id} (available)`);
  assert.equal(inspect({ job: ms.find(22) }), "{ job: Job 22 }");
  assert.equal(
    JSON.stringify(job),
    `{"id":"${job.id}","state":"available","duplicate":false}`,
  );
});

function refusal(good: (error: MainspringError) => boolean, message: RegExp) {
  return (error: MainspringError) => {
    assert.equal(error.code, "invalid_argument", String(error));
    assert.match(error.message, message);
    assert.ok(good(error), `field ${error.field}`);
    return true;
  };
}

test("unknown options are refused by name", async () => {
  const ms = server.client();
  const kind = defineJob("k", { queue: "unknown" });
  const given = (options: Record<string, unknown>) => options as object;
  const calls: [string, string, () => unknown][] = [
    ["dely", "delay", () => ms.enqueue(kind, { n: 1 }, given({ dely: "5s" }))],
    ["max_attempts", "maxAttempts", () => ms.enqueue("k", {}, given({ max_attempts: 1 }))],
    ["dely", "delay", () => ms.enqueueMany(kind, [{}], given({ dely: "5s" }))],
    ["dely", "delay", () => ms.enqueueMany([newJob(kind, {}, given({ dely: 1 }))])],
    ["fense", "fence", () => ms.enqueueMany([newJob(kind)], given({ fense: {} }))],
    ["onconflict", "onConflict", () => ms.enqueue(kind, {}, given({ key: "k", onconflict: "keep" }))],
    ["tiemout", "timeout", () => defineJob("zz", given({ tiemout: "5s" }))],
    ["slot", "slots", () => ms.worker(given({ slot: 3 }) as WorkerOptions)],
    ["retryfor", "retryFor", () => new Mainspring(undefined, given({ retryfor: 3 }))],
    ["concurency", "concurrency", () => handle(kind, () => 1, given({ concurency: 3 }))],
    ["concurency", "concurrency", () => ms.worker().on(kind, () => 1, given({ concurency: 3 }))],
    ["tll", "ttl", () => ms.lock("l", given({ tll: "1s" }))],
    ["leese", "lease", () => ms.sessions.accept("q", given({ leese: "1s" }))],
    ["timout", "timeout", () => ms.find(1).result(given({ timout: "1s" }))],
    ["timout", "timeout", () => ms.workflows.wait(1, given({ timout: "1s" }))],
  ];
  for (const [wrong, right, call] of calls) {
    const hint = new RegExp(`"${wrong}": no such option; did you mean "${right}"`);
    await assert.rejects(async () => call(), refusal(({ field }) => field === wrong, hint), wrong);
  }
  const far = async () => ms.worker(given({ colour: 1 }) as WorkerOptions);
  const known = /"colour": no such option; known are queues, slots/;
  await assert.rejects(far, refusal(({ field }) => field === "colour", known));
});

test("what is not a job is refused", async () => {
  const ms = server.client();
  for (const job of [{ kind: "a", queue: "b" }, undefined, null, 7]) {
    const wrong = job as unknown as string;
    for (const call of [
      () => ms.enqueue(wrong, {}),
      () => ms.enqueueMany(wrong as never, [{}]),
      () => ms.enqueueMany([{ job: wrong }]),
      () => ms.worker().on(wrong as never, () => 1),
    ]) {
      const rule = /^job: must be a definition of defineJob\(\) or a kind$/;
      await assert.rejects(async () => call(), refusal(({ field }) => field === "job", rule));
    }
  }
});
