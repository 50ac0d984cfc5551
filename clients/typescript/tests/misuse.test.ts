// Mistakes of a program: what it logs, and how invalid arguments are refused.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import { defineJob, type JobContext } from "mainspring";
import { useServer } from "mainspring/testing";

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
    ...[job, ms.job(1), lock, session, session?.worker(), worker, context],
    ...[await job.get(), await ms.job(999).get().catch((error: unknown) => error)],
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
  assert.equal(inspect({ job: ms.job(22) }), "{ job: Job 22 }");
  assert.equal(
    JSON.stringify(job),
    `{"id":"${job.id}","state":"available","duplicate":false}`,
  );
});
